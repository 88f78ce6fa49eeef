"""Tables as users declare them: the `Table` record, the `ManagedTable` class form, and the choice of a load's keys."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol

from ..errors import DuplicateNameError, SpecError, SpecTypeError, UnknownNameError
from ..normalize import check_chain
from ..types import Column
from .annotation import Declaration, Marked, find_declaration, read_columns
from .origin import Origin, declared_at

__all__ = [
    "DELETED",
    "METADATA_NAMES",
    "Column",
    "Ensures",
    "Keys",
    "ManagedTable",
    "Table",
    "build_table_class",
    "key_ladder",
]

DELETED = "_is_deleted"
"""The column by which a merge marks rows whose key has vanished from the source."""

METADATA_NAMES = ("valid_from", "valid_to", "is_current", "row_hash", "_loaded_at", "_batch_id", DELETED)
"""Columns that loads add to tables; a table may declare them itself, with the same type."""


@dataclass(frozen=True)
class Table:
    """A declared table: where it lives, its columns in order, its keys. A record that exists is valid."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    unique: tuple[tuple[str, ...], ...] = ()
    merge_keys: tuple[str, ...] | None = None
    partition_columns: tuple[str, ...] = ()
    keyless: bool = field(default=False, compare=False)
    """May be without a primary key, as a table that a frame describes."""
    declared_at: Origin | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for word, value in (("schema", self.schema), ("name", self.name)):
            if not isinstance(value, str):
                raise self._error(f"{word} is text, not {value!r}", kind=SpecTypeError)
            if not value.strip():
                raise self._error(f"{word} is empty", hint=f"give the table a {word}")
        self._check_columns()
        for constraint in self.unique:
            self._check_names("unique constraint", constraint)
        if self.merge_keys is not None:
            self._check_names("__merge_keys__", self.merge_keys)
        if self.partition_columns:
            self._check_names("__partition_columns__", self.partition_columns)

    @property
    def qualified_name(self) -> str:
        """The schema and the name, with a point between them."""
        return f"{self.schema}.{self.name}"

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The names of the primary key's columns, in order."""
        return tuple(column.name for column in self.columns if column.primary_key)

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that are equal for equal specs and depend on the order of the columns."""
        text = json.dumps(self.to_spec(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def column(self, name: str) -> Column:
        """The column called ``name``."""
        for column in self.columns:
            if column.name == name:
                return column
        raise self.unknown_column(name)

    def to_spec(self) -> dict[str, object]:
        """The stored table as plain data."""
        return {
            "schema": self.schema,
            "name": self.name,
            "columns": [column.to_spec() for column in self.columns],
            "unique_constraints": [list(names) for names in self.unique],
        }

    def with_columns(self, added: Iterable[Column]) -> Table:
        """The table with ``added`` behind its own columns.

        A column it declares itself keeps its place and joins the primary key where the added one is part of it. It must
        have the added column's exact name, type and nullability.
        """
        columns = {column.name.casefold(): column for column in self.columns}
        for extra in added:
            own = columns.setdefault(extra.name.casefold(), extra)
            if (own.name, own.type, own.nullable) != (extra.name, extra.type, extra.nullable):
                raise self._error(
                    f"column {own.name!r} ({_shown(own)}) takes the place of {extra.name!r} ({_shown(extra)}), "
                    "which the load adds",
                    hint="rename the column, leave it out, or declare it exactly so",
                )
            if extra.primary_key and not own.primary_key:
                columns[extra.name.casefold()] = replace(own, primary_key=True)
        return replace(self, columns=tuple(columns.values()))

    def _check_columns(self) -> None:
        names = self.column_names
        for position, column in enumerate(self.columns):
            self._check_column_name(column.name)
            twin = next((name for name in names[:position] if name.casefold() == column.name.casefold()), None)
            if twin is not None:
                raise self._error(
                    f"columns {twin!r} and {column.name!r} have one name",
                    kind=DuplicateNameError,
                    hint="names that differ only in case are one column on most systems: rename one",
                )
            try:
                check_chain(column.normalizers, column.type)
            except SpecError as error:
                kind = SpecTypeError if isinstance(error, TypeError) else SpecError
                raise self._error(f"column {column.name!r}: {error.message}", kind=kind, hint=error.hint) from error
        if not self.columns:
            raise self._error("there are no columns", kind=SpecTypeError, hint="declare at least one, with pk()")
        if not self.primary_key and not self.keyless:
            raise self._error("there is no primary key", kind=SpecTypeError, hint="mark a column with pk()")

    def _check_column_name(self, name: object) -> None:
        if not isinstance(name, str):
            raise self._error(f"a column's name is text, not {name!r}", kind=SpecTypeError)
        if not name.strip():
            raise self._error("a column's name is empty", hint="give the column a name")
        if name != name.strip() or not name.isprintable():
            raise self._error(f"column {name!r} has spaces at its ends or characters that cannot be seen")
        if name.startswith("_") and name not in METADATA_NAMES:
            raise self._error(
                f"column {name!r} starts with an underscore, as the names that loads use themselves do",
                hint="rename the column, or annotate it as ClassVar if it is not one",
            )

    def _check_names(self, what: str, names: Sequence[str]) -> None:
        if not names:
            raise self._error(f"{what} names no column", hint="name the columns, or leave it out")
        for name in names:
            if name not in self.column_names:
                raise self.unknown_column(name, what)
        if len(set(names)) < len(names):
            raise self._error(f"{what} {tuple(names)!r} repeats a column", hint="name each column once")

    def unknown_column(self, name: str, what: str = "") -> UnknownNameError:
        """The error for a column ``name`` that ``what`` refers to and the table does not have."""
        where = f"table {self.qualified_name!r}"
        return UnknownNameError(
            "column",
            name,
            known=self.column_names,
            where=f"{what} of {where}: it" if what else where,
            declared_at=self.declared_at,
        )

    def _error(self, problem: str, *, kind: type[SpecError] = SpecError, hint: str | None = None) -> SpecError:
        return kind(f"table {self.qualified_name!r}: {problem}", hint=hint, declared_at=self.declared_at)


@dataclass(frozen=True)
class Keys:
    """The columns that identify a row in a load, why they were chosen, and what to warn the user about."""

    names: tuple[str, ...]
    reason: str
    warning: str | None = None


def key_ladder(table: Table, explicit: Sequence[str] | None, *, pipeline: str) -> Keys:
    """The keys of a load into the declared ``table``: the first of four places that names some.

    They are the explicit ones, ``__merge_keys__``, the first unique constraint and the primary key. The second and the
    third come with a warning when they differ from the primary key.
    """
    if explicit is not None:
        return _explicit_keys(table, explicit, pipeline)
    if table.merge_keys is not None:
        return _other_keys(table, table.merge_keys, "__merge_keys__", pipeline)
    if table.unique:
        return _other_keys(table, table.unique[0], "the first unique constraint", pipeline)
    return Keys(table.primary_key, "the primary key")


class Ensures(Protocol):
    """What can make sure of a table: a handle of a connection."""

    def ensure_table(self, table: Any, on_drift: Any, **options: Any) -> dict[str, object]:
        """Create the table where it is missing, compare it where it is not."""


class _Derived(tuple[tuple[str, ...], ...]):
    """Unique constraints that natural keys gave, which a subclass derives anew."""

    __slots__ = ()


class ManagedTable:
    """The base of declared tables.

    A subclass names its columns by annotations (``email: Annotated[Text, lower()]``) or by `Column` values, and has
    ``__schema__`` and ``__tablename__``. Inherited columns come first. ``__abstract__ = True`` in the body of a class
    makes it a base that is no table itself.
    """

    __schema__: ClassVar[str]
    __tablename__: ClassVar[str]
    __columns__: ClassVar[tuple[tuple[str, Column], ...]] = ()
    __unique_constraints__: ClassVar[Sequence[Sequence[str]]] = _Derived()
    __merge_keys__: ClassVar[Sequence[str] | None] = None
    __partition_columns__: ClassVar[Sequence[str]] = ()
    __abstract__: ClassVar[bool] = True
    __table__: ClassVar[Table | None] = None

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        cls.__table__ = None if vars(cls).get("__abstract__") else _declare(cls)

    @classmethod
    def _table(cls) -> Table:
        if cls.__table__ is None:
            raise SpecTypeError(f"class {cls.__qualname__!r} is abstract", hint="declare a subclass of it as the table")
        return cls.__table__

    @classmethod
    def _columns(cls) -> list[Column]:
        return list(cls._table().columns)

    @classmethod
    def _primary_keys(cls) -> list[str]:
        return list(cls._table().primary_key)

    @classmethod
    def _unique_constraints(cls) -> list[list[str]]:
        return [list(names) for names in cls._table().unique]

    @classmethod
    def _to_spec(cls) -> dict[str, object]:
        return cls._table().to_spec()

    @classmethod
    def _to_normalized_spec(cls) -> dict[str, object]:
        return {**cls._table().to_spec(), "fingerprint": cls._table().fingerprint}

    @classmethod
    def ensure(cls, conn: Ensures, on_drift: str = "error", **options: object) -> dict[str, object]:
        """Create the table where it is missing, compare it where it is not; gives `action` and `differences`.

        With ``mode=`` the table has the columns that loads of that mode add.
        """
        return conn.ensure_table(cls._table(), on_drift, **options)


def build_table_class(cls: type, *, schema: str, name: str | None = None) -> type[ManagedTable]:
    """The table that a plain annotated class describes, as a subclass of it; ``name`` is the class's in snake case."""
    if not isinstance(cls, type):
        raise SpecTypeError(f"a table is declared by a class, not {cls!r}", declared_at=declared_at())
    rival = next((tool for attribute, tool in _RIVALS if hasattr(cls, attribute)), None)
    if rival is not None or "__tablename__" in vars(cls):
        raise SpecTypeError(
            f"class {cls.__qualname__!r} is already a {rival or 'table'}",
            hint="keep one of the two declarations: a table is a plain class with annotations",
            declared_at=declared_at(),
        )
    body = {
        "__schema__": schema,
        "__tablename__": _snake_case(cls.__name__) if name is None else name,
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    bases = (cls,) if issubclass(cls, ManagedTable) else (cls, ManagedTable)
    # A subclass, and not a copy: methods that call super() keep working.
    built: type[ManagedTable] = type(cls)(cls.__name__, bases, body)
    return built


def _snake_case(name: str) -> str:
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", words).lower()


_RIVALS = (
    ("__dataclass_fields__", "dataclass"),
    ("__attrs_attrs__", "attrs class"),
    ("__pydantic_fields__", "pydantic model"),
    ("model_fields", "pydantic model"),
    ("__fields__", "pydantic model"),
)


_ATTRIBUTES = (
    "__schema__", "__tablename__", "__unique_constraints__", "__merge_keys__", "__partition_columns__", "__abstract__",
)  # fmt: skip


def _refuse_misspelt(cls: type, declared_at: Origin | None) -> None:
    """An attribute that is almost one of ours would be passed over in silence."""
    own = {name for each in cls.__mro__ if each not in (object, ManagedTable) for name in vars(each)}
    for name in sorted(own - set(vars(ManagedTable)) - set(_ATTRIBUTES)):
        if re.fullmatch(r"__\w+__", name) and (meant := get_close_matches(name, _ATTRIBUTES, 1, 0.85)):
            raise SpecError(
                f"class {cls.__qualname__!r} has the attribute {name!r}",
                hint=f"did you mean {meant[0]!r}?",
                declared_at=declared_at,
            )


def _declare(cls: type[ManagedTable]) -> Table:
    declaration = find_declaration(cls)
    _refuse_misspelt(cls, declaration.origin)
    schema, name = declaration.required("__schema__"), declaration.required("__tablename__")
    marked = read_columns(declaration)
    unique = _unique(declaration, cls.__unique_constraints__, marked)
    merge_keys, partition_columns = cls.__merge_keys__, cls.__partition_columns__
    table = Table(
        schema,
        name,
        tuple(each.column for each in marked),
        tuple(unique),
        None if merge_keys is None else declaration.columns_named("__merge_keys__", merge_keys),
        declaration.columns_named("__partition_columns__", partition_columns),
        declared_at=declaration.origin,
    )
    cls.__columns__ = tuple((column.name, column) for column in table.columns)
    cls.__unique_constraints__ = unique
    for column in table.columns:
        if isinstance(getattr(cls, column.name, None), Column):
            setattr(cls, column.name, column)
    return table


def _unique(declaration: Declaration, written: object, marked: Iterable[Marked]) -> tuple[tuple[str, ...], ...]:
    """The constraints that the class or a base spells out, or else one for each group of natural keys."""
    if isinstance(written, _Derived):
        groups: dict[str, list[str]] = {}
        for each in marked:
            for group in each.groups:
                groups.setdefault(group, []).append(each.column.name)
        return _Derived(tuple(groups[label]) for label in sorted(groups))
    if not isinstance(written, list | tuple):
        raise declaration.error(f"__unique_constraints__ is a tuple of tuples, not {written!r}")
    return tuple(declaration.columns_named("an entry of __unique_constraints__", names) for names in written)


def _shown(column: Column) -> str:
    return f"{column.type} {'NULL' if column.nullable else 'NOT NULL'}"


def _explicit_keys(table: Table, explicit: Sequence[str], pipeline: str) -> Keys:
    if isinstance(explicit, str):
        raise SpecTypeError(f"pipeline {pipeline!r}: keys is a list of column names, not {explicit!r}")
    if not explicit:
        raise SpecError(
            f"pipeline {pipeline!r}: there is no key for table {table.qualified_name!r}",
            hint="give keys=[…], or leave it out and declare __merge_keys__, a natural_key() or a pk()",
            declared_at=table.declared_at,
        )
    for name in explicit:
        if name not in table.column_names:
            raise table.unknown_column(name, f"keys of pipeline {pipeline!r}")
    if len(set(explicit)) < len(explicit):
        raise SpecError(f"pipeline {pipeline!r}: keys {list(explicit)!r} repeats a column")
    return Keys(tuple(explicit), "keys=")


def _other_keys(table: Table, names: tuple[str, ...], reason: str, pipeline: str) -> Keys:
    if names == table.primary_key:
        return Keys(names, reason)
    warning = (
        f"pipeline {pipeline!r} matches rows of {table.qualified_name} by ({', '.join(names)}) from {reason}, "
        f"which is not its primary key ({', '.join(table.primary_key)}); name them in keys= to confirm"
    )
    return Keys(names, reason, warning)
