"""Column normalizers: markers inside ``Annotated[T, …]`` that clean each incoming value, the left-most first.

Each marker defines its meaning once, as Postgres SQL text over an SQL expression; other systems run a translation of
that text. What plain SQL cannot say is a call of a hook (``PARSE_TIMESTAMP``, ``PARSE_DATE``, their ``_STRICT`` forms)
that each system replaces. Any object with a ``to_sql(col)`` method is a normalizer.
"""
# ruff: noqa: N801 - markers are written in lower case, as the functions they read like

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, date, datetime, time
from typing import ClassVar, Literal, Protocol, TypeGuard

from .errors import SpecError, SpecTypeError

__all__ = [
    "DATE_FORMATS",
    "TIMESTAMP_FORMATS",
    "Normalizer",
    "OnFailure",
    "check_chain",
    "compose_chain",
    "default",
    "derive",
    "empty_to_null",
    "is_normalizer",
    "literal",
    "lower",
    "not_null_or",
    "nullif",
    "parse_date",
    "parse_timestamp",
    "trim",
    "upper",
    "whitespace_to_null",
]

OnFailure = Literal["null", "default", "error"]
"""What becomes of a value that cannot be parsed: NULL, a given value, or an error that ends the load."""

TIMESTAMP_FORMATS = (
    "YYYY-MM-DD HH24:MI:SS.MS",
    "YYYY-MM-DDTHH24:MI:SSOF",
    "YYYY-MM-DDTHH24:MI:SS",
    "YYYY-MM-DD HH24:MI:SS",
    "YYYY-MM-DD",
    "MM/DD/YYYY",
    "YYYY-MM-DDTHH24:MI:SS.MSOF",
    "YYYY-MM-DDTHH24:MI:SS.MS",
    "YYYY-MM-DD HH24:MI:SS.MSOF",
    "YYYY-MM-DD HH24:MI:SSOF",
)
"""The formats that `parse_timestamp` tries in order when none is named."""

DATE_FORMATS = ("YYYY-MM-DD", "YYYYMMDD", "MM/DD/YYYY")
"""The formats that `parse_date` tries in order when none is named."""


class Normalizer(Protocol):
    """Turns one SQL expression into another."""

    def to_sql(self, col: str, /) -> str:
        """Postgres SQL text for the normalized value of the expression ``col``."""


@dataclass(frozen=True)
class trim:
    """The text without the spaces at both ends; other white space stays."""

    def to_sql(self, col: str) -> str:
        # The characters are named because a bare TRIM takes away more than spaces on some systems.
        return f"TRIM(BOTH ' ' FROM {col})"


@dataclass(frozen=True)
class lower:
    """The text in lower case."""

    def to_sql(self, col: str) -> str:
        return f"LOWER({col})"


@dataclass(frozen=True)
class upper:
    """The text in upper case."""

    def to_sql(self, col: str) -> str:
        return f"UPPER({col})"


@dataclass(frozen=True)
class empty_to_null:
    """NULL in place of the empty text."""

    def to_sql(self, col: str) -> str:
        return f"NULLIF({col}, '')"


@dataclass(frozen=True)
class whitespace_to_null:
    """The trimmed text, and NULL where nothing is left of it."""

    def to_sql(self, col: str) -> str:
        return empty_to_null().to_sql(trim().to_sql(col))


@dataclass(frozen=True)
class default:
    """``value`` in place of NULL."""

    value: object

    def __post_init__(self) -> None:
        literal(self.value)

    def to_sql(self, col: str) -> str:
        return f"COALESCE({col}, {literal(self.value)})"


@dataclass(frozen=True)
class not_null_or(default):
    """``value`` in place of NULL: another word for `default`."""


@dataclass(frozen=True)
class nullif:
    """NULL in place of ``value``."""

    value: object

    def __post_init__(self) -> None:
        literal(self.value)

    def to_sql(self, col: str) -> str:
        return f"NULLIF({col}, {literal(self.value)})"


@dataclass(frozen=True)
class derive:
    """The value of an SQL expression over the source's columns, in place of a column; always the first marker."""

    expression: str
    derives: ClassVar[bool] = True

    def __post_init__(self) -> None:
        expression: object = self.expression
        if not isinstance(expression, str) or not expression.strip():
            raise SpecError("derive needs an SQL expression", hint="write derive(\"first_name || ' ' || last_name\")")

    def to_sql(self, col: str) -> str:
        return f"({self.expression})"


@dataclass(frozen=True)
class _Parse:
    """What `parse_timestamp` and `parse_date` share; a NULL counts as a value that cannot be parsed."""

    format: str | None = None
    _: KW_ONLY
    formats: Sequence[str] | None = None
    on_failure: OnFailure = "null"
    default: object = None

    hook: ClassVar[str]
    usual_formats: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "formats", self._chosen_formats())
        name = type(self).__name__
        if self.on_failure not in ("null", "default", "error"):
            raise SpecError(f"{name}: on_failure cannot be {self.on_failure!r}", hint="use null, default or error")
        if (self.default is not None) != (self.on_failure == "default"):
            raise SpecError(
                f'{name}: on_failure="default" and a default belong together',
                hint='give both, for example on_failure="default", default=date(1970, 1, 1)',
            )
        if self.on_failure == "error" and len(self._templates) != 1:
            raise SpecError(f'{name}: on_failure="error" needs exactly one format', hint='name it: format="YYYY-MM-DD"')
        if self.default is not None:
            self._default_sql()

    def to_sql(self, col: str) -> str:
        arguments = ", ".join((col, *map(literal, self._templates)))
        if self.on_failure == "error":
            return f"{self.hook}_STRICT({arguments})"
        parsed = f"{self.hook}({arguments})"
        return parsed if self.on_failure == "null" else f"COALESCE({parsed}, {self._default_sql()})"

    @property
    def _templates(self) -> tuple[str, ...]:
        if self.format is not None:
            return (self.format,)
        return self.usual_formats if self.formats is None else tuple(self.formats)

    def _chosen_formats(self) -> tuple[str, ...] | None:
        name = type(self).__name__
        if self.format is not None and self.formats is not None:
            raise SpecError(f"{name} takes format or formats, not both")
        if self.formats is not None and (isinstance(self.formats, str) or not self.formats):
            raise SpecError(f"{name}: formats is a list of at least one format, not {self.formats!r}")
        for template in self._templates:
            _check_template(name, template)
        return None if self.formats is None else tuple(self.formats)

    def _default_sql(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class parse_timestamp(_Parse):
    """The instant that the text names, read with ``format``, the first of ``formats`` that fits, or the usual ones.

    A format is made of YYYY, MM, DD, HH24, MI, SS, MS (the digits of a fraction), OF (an offset or ``Z``) and the
    characters between them; a text without an offset is in UTC. Impossible dates do not parse. Instants pass through.
    """

    hook: ClassVar[str] = "PARSE_TIMESTAMP"
    usual_formats: ClassVar[tuple[str, ...]] = TIMESTAMP_FORMATS

    def _default_sql(self) -> str:
        return literal(_instant(type(self).__name__, self.default))


@dataclass(frozen=True)
class parse_date(_Parse):
    """The day that the text names, read as `parse_timestamp` reads an instant."""

    hook: ClassVar[str] = "PARSE_DATE"
    usual_formats: ClassVar[tuple[str, ...]] = DATE_FORMATS

    def _default_sql(self) -> str:
        return literal(_instant(type(self).__name__, self.default).date())


def is_normalizer(value: object) -> TypeGuard[Normalizer]:
    """Whether ``value`` can normalize a column: it has a ``to_sql`` method and is not a class that was not called."""
    return not isinstance(value, type) and callable(getattr(value, "to_sql", None))


def check_chain(markers: Iterable[object]) -> None:
    """Refuse a chain that holds something else than normalizers, or a `derive` that is not the first."""
    for position, marker in enumerate(markers):
        if not is_normalizer(marker):
            raise SpecTypeError(f"{marker!r} is not a normalizer", hint="call the marker, for example trim()")
        if position > 0 and getattr(marker, "derives", False):
            raise SpecError(
                f"{marker!r} must be the first normalizer: it would discard what the ones before it did",
                hint="move it to the front",
            )


def compose_chain(markers: Iterable[object], col: str) -> str:
    """SQL text that applies ``markers`` to the expression ``col``, the left-most first."""
    chain = tuple(markers)
    check_chain(chain)
    for marker in chain:
        if is_normalizer(marker):
            col = _applied(marker, col)
    return col


def literal(value: object) -> str:
    """``value`` as Postgres SQL text; times without a zone are in UTC."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return int.__repr__(value)
        case float() if math.isfinite(value):
            return float.__repr__(value)
        case str() if "\0" not in value:
            return "'" + value.replace("'", "''") + "'"
        case datetime():
            return f"CAST('{_in_utc(value).isoformat(sep=' ')}' AS TIMESTAMPTZ)"
        case date():
            return f"CAST('{value.isoformat()}' AS DATE)"
    raise SpecError(
        f"{value!r} cannot be written as an SQL value",
        hint="use text, a finite number, True, False, a date or a datetime",
    )


def _applied(marker: Normalizer, col: str) -> str:
    sql: object = marker.to_sql(col)
    if not isinstance(sql, str) or not sql.strip():
        raise SpecTypeError(f"{marker!r}.to_sql() gave {sql!r}", hint="return an SQL expression as text")
    return sql


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _instant(marker: str, value: object) -> datetime:
    """The moment that a parser's default means; a day means its midnight in UTC."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if isinstance(moment, datetime):
        return _in_utc(moment)
    if isinstance(moment, date):
        return datetime.combine(moment, time(), UTC)
    raise SpecError(f"{marker}: the default {value!r} is not a date or time", hint="use a date, a datetime or ISO text")


_TEMPLATE_PART = re.compile(r'(?P<field>YYYY|HH24|MM|DD|MI|SS|MS|OF)|"[^"]*"|[TZ]|[^A-Za-z"]')


def _check_template(marker: str, template: object) -> None:
    if not isinstance(template, str):
        raise SpecTypeError(f"{marker}: a format is text, not {template!r}", hint='write "YYYY-MM-DD"')
    fields, position = list[str](), 0
    while position < len(template):
        part = _TEMPLATE_PART.match(template, position)
        if part is None:
            raise SpecError(
                f"{marker}: the format {template!r} has an unknown part at {template[position:]!r}",
                hint="use YYYY MM DD HH24 MI SS MS OF, and put other letters in double quotes",
            )
        if field := part["field"]:
            fields.append(field)
        position = part.end()
    if len(set(fields)) < len(fields):
        raise SpecError(f"{marker}: the format {template!r} repeats a part", hint="name each part once")
    if not {"YYYY", "MM", "DD"} <= set(fields):
        raise SpecError(f"{marker}: the format {template!r} does not name a day", hint="name YYYY, MM and DD")
