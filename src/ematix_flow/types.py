"""Column types a table may declare, such as ``BigInt``, ``Text``, ``String[256]``, ``Numeric[12, 2]``, ``TimestampTZ``.

A type is a small frozen record. Types without parameters may be written bare (``BigInt``) or called (``BigInt()``).
`Column` is a type with its place in a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import ClassVar

from .errors import SpecError, SpecTypeError

__all__ = [
    "JSON",
    "JSONB",
    "UUID",
    "BigInt",
    "Boolean",
    "Bytes",
    "Column",
    "ColumnType",
    "Date",
    "Double",
    "Float",
    "Integer",
    "NullableType",
    "Numeric",
    "SmallInt",
    "String",
    "Text",
    "Timestamp",
    "TimestampTZ",
    "TypeLike",
    "resolve_type",
    "type_from_spec",
]


@dataclass(frozen=True)
class ColumnType:
    """What every column type shares: its ``kind`` and its form as a dictionary."""

    kind: ClassVar[str] = ""

    def to_spec(self) -> dict[str, str | int]:
        """The type as plain data, for example ``{"kind": "string", "length": 5}``."""
        return {"kind": self.kind, **{field.name: getattr(self, field.name) for field in fields(self)}}

    def __or__(self, other: None) -> NullableType:
        if other is not None:
            return NotImplemented
        return NullableType(self)

    __ror__ = __or__

    def __str__(self) -> str:
        parameters = ", ".join(str(getattr(self, field.name)) for field in fields(self))
        return f"{type(self).__name__}[{parameters}]" if parameters else type(self).__name__


@dataclass(frozen=True)
class NullableType:
    """What ``String[5] | None`` means: the type inside, NULL allowed."""

    inner: ColumnType


@dataclass(frozen=True)
class SmallInt(ColumnType):
    """A 16-bit integer."""

    kind = "small_int"


@dataclass(frozen=True)
class Integer(ColumnType):
    """A 32-bit integer."""

    kind = "integer"


@dataclass(frozen=True)
class BigInt(ColumnType):
    """A 64-bit integer."""

    kind = "big_int"


@dataclass(frozen=True)
class Float(ColumnType):
    """A single-precision number."""

    kind = "float"


@dataclass(frozen=True)
class Double(ColumnType):
    """A double-precision number."""

    kind = "double"


@dataclass(frozen=True)
class Boolean(ColumnType):
    """True or false."""

    kind = "boolean"


@dataclass(frozen=True)
class Text(ColumnType):
    """Text of any length."""

    kind = "text"


@dataclass(frozen=True)
class Date(ColumnType):
    """A calendar day."""

    kind = "date"


@dataclass(frozen=True)
class Timestamp(ColumnType):
    """A date and time of day without a zone, to the microsecond."""

    kind = "timestamp"


@dataclass(frozen=True)
class TimestampTZ(ColumnType):
    """An instant, to the microsecond; kept in UTC."""

    kind = "timestamp_tz"


@dataclass(frozen=True)
class JSON(ColumnType):
    """A JSON document, as written."""

    kind = "json"


@dataclass(frozen=True)
class JSONB(ColumnType):
    """A JSON document, as written; databases with a binary form of their own use it."""

    kind = "jsonb"


@dataclass(frozen=True)
class UUID(ColumnType):
    """A universally unique identifier."""

    kind = "uuid"


@dataclass(frozen=True)
class Bytes(ColumnType):
    """Raw bytes."""

    kind = "bytes"


@dataclass(frozen=True)
class String(ColumnType):
    """Text of at most ``length`` characters: ``String[256]``."""

    length: int
    kind = "string"

    def __post_init__(self) -> None:
        if isinstance(self.length, bool) or not isinstance(self.length, int):
            raise SpecTypeError(f"String takes a whole number, not {self.length!r}", hint="write String[256]")
        if self.length <= 0:
            raise SpecError(f"String needs a length above 0, not {self.length}")

    def __class_getitem__(cls, length: int) -> String:
        return cls(length)


@dataclass(frozen=True)
class Numeric(ColumnType):
    """An exact decimal of ``precision`` digits, ``scale`` of them behind the point: ``Numeric[12, 2]``."""

    precision: int
    scale: int
    kind = "numeric"

    def __post_init__(self) -> None:
        for number in (self.precision, self.scale):
            if isinstance(number, bool) or not isinstance(number, int):
                raise SpecTypeError(f"Numeric takes whole numbers, not {number!r}", hint="write Numeric[12, 2]")
        if not 0 < self.precision <= _MAX_PRECISION or not 0 <= self.scale <= self.precision:
            raise SpecError(
                f"Numeric[{self.precision}, {self.scale}] is not possible",
                hint=f"the precision is from 1 to {_MAX_PRECISION} and the scale from 0 to the precision",
            )

    def __class_getitem__(cls, parameters: object) -> Numeric:
        if not isinstance(parameters, tuple) or len(parameters) != 2:
            raise SpecTypeError("Numeric takes a precision and a scale", hint="write Numeric[12, 2]")
        return cls(*parameters)


TypeLike = ColumnType | type[ColumnType]
"""A type as users may write it: ``String[5]``, ``BigInt()`` or the bare ``BigInt``."""


@dataclass(frozen=True, init=False)
class Column:
    """One column: its type, whether it may be NULL and whether it is part of the primary key.

    A column may be NULL unless told otherwise or part of the primary key, which never is. The class that declares the
    column fills in ``name``. ``normalizers`` are applied to incoming values, the left-most first.
    """

    type: ColumnType
    nullable: bool = True
    primary_key: bool = False
    name: str = ""
    normalizers: tuple[object, ...] = field(default=(), hash=False)

    def __init__(
        self,
        type: TypeLike,
        nullable: bool | None = None,
        primary_key: bool = False,
        name: str = "",
        normalizers: Iterable[object] = (),
    ) -> None:
        if primary_key and nullable:
            raise SpecError(
                f"the primary key column {name!r} cannot be nullable" if name else "a primary key cannot be nullable",
                hint="leave out `nullable` (or `| None`), or take the column out of the primary key",
            )
        if not isinstance(normalizers, list | tuple):
            raise SpecTypeError(f"normalizers is a tuple of markers, not {normalizers!r}", hint="write (trim(),)")
        set_field = object.__setattr__
        set_field(self, "type", resolve_type(type))
        set_field(self, "nullable", not primary_key if nullable is None else nullable)
        set_field(self, "primary_key", primary_key)
        set_field(self, "name", name)
        set_field(self, "normalizers", tuple(normalizers))

    @property
    def is_derived(self) -> bool:
        """Whether its value comes from an expression over other columns, so that the source need not have it."""
        return bool(self.normalizers) and bool(getattr(self.normalizers[0], "derives", False))

    def to_spec(self) -> dict[str, object]:
        """The column as plain data; normalizers are not part of the stored table."""
        return {
            "name": self.name,
            "type": self.type.to_spec(),
            "nullable": self.nullable,
            "primary_key": self.primary_key,
        }


def resolve_type(value: object) -> ColumnType:
    """The type that ``value`` stands for; a bare class such as ``BigInt`` means ``BigInt()``."""
    if isinstance(value, ColumnType):
        return value
    if not isinstance(value, type) or not issubclass(value, ColumnType) or value is ColumnType:
        raise SpecTypeError(f"{_shown(value)} is not a column type", hint=_suggested(value))
    if fields(value):
        example = "Numeric[12, 2]" if issubclass(value, Numeric) else f"{value.__name__}[256]"
        raise SpecTypeError(f"{value.__name__} needs its parameters", hint=f"write {example}")
    return value()


def _shown(value: object) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)


_MAX_PRECISION = 255

_FOR_PYTHON = {
    "bool": "Boolean",
    "bytes": "Bytes",
    "date": "Date",
    "datetime": "TimestampTZ",
    "Decimal": "Numeric[12, 2]",
    "dict": "JSONB",
    "float": "Double",
    "int": "BigInt",
    "list": "JSONB",
    "str": "Text",
    "UUID": "UUID",
}


def _suggested(value: object) -> str:
    match = _FOR_PYTHON.get(_shown(value))
    known = "use a type of ematix_flow.types, for example BigInt, Text, String[256] or TimestampTZ"
    return f"write {match} of ematix_flow.types" if match else known


_BY_KIND: dict[str, type[ColumnType]] = {
    cls.kind: cls
    for cls in (
        SmallInt, Integer, BigInt, Float, Double, Boolean, Text, String, Numeric, Date,
        Timestamp, TimestampTZ, JSON, JSONB, UUID, Bytes,
    )
}  # fmt: skip


def type_from_spec(spec: dict[str, str | int]) -> ColumnType:
    """The type that ``to_spec`` described."""
    parameters = dict(spec)
    cls = _BY_KIND.get(str(parameters.pop("kind", "")))
    if cls is None:
        raise SpecError(f"unknown type kind {spec.get('kind')!r}", hint=f"Known: {', '.join(sorted(_BY_KIND))}.")
    return cls(**{name: int(value) for name, value in parameters.items()})
