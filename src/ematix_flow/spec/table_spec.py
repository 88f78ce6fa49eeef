"""Tables from plain data: the dictionary that `Table.to_spec` gives, or its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ..errors import SpecError, SpecTypeError, nearest
from ..types import Column, type_from_spec
from .table import ManagedTable, Table

__all__ = ["table_from_spec"]

_KEYS = ("schema", "name", "columns", "unique_constraints", "fingerprint")
_COLUMN_KEYS = ("name", "type", "nullable", "primary_key")


def table_from_spec(spec: object) -> Table:
    """The table that `spec` is or describes: a `Table`, a table class, a dictionary or JSON text."""
    if isinstance(spec, Table):
        return spec
    if isinstance(spec, type) and issubclass(spec, ManagedTable):
        return spec._table()
    if isinstance(spec, str | bytes):
        try:
            spec = json.loads(spec)
        except ValueError as error:
            raise SpecError(f"the spec of a table is not valid JSON: {error}") from None
    values = _mapping("the spec of a table", spec, _KEYS)
    columns = _list("columns", values.get("columns", ()))
    unique = _list("unique_constraints", values.get("unique_constraints", ()))
    table = Table(
        str(values.get("schema", "")),
        str(values.get("name", "")),
        tuple(_column(each) for each in columns),
        tuple(tuple(str(name) for name in _list("a unique constraint", group)) for group in unique),
    )
    if values.get("fingerprint") not in (None, table.fingerprint):
        problem = f"table {table.qualified_name!r}: the fingerprint in its spec is not its own"
        raise SpecError(problem, hint="leave it out, or make the spec anew")
    return table


def _column(spec: object) -> Column:
    values = _mapping("the spec of a column", spec, _COLUMN_KEYS)
    kind = _mapping(f"the type of column {values.get('name')!r}", values.get("type"))
    key = bool(values.get("primary_key", False))
    try:
        type = type_from_spec(dict(kind))  # type: ignore[arg-type]  # noqa: A001
    except SpecError:
        raise
    except (TypeError, ValueError):  # parameters that the type does not have, or that are no numbers
        raise SpecError(f"column {values.get('name')!r} has a type that cannot be right: {dict(kind)}") from None
    return Column(
        type,
        nullable=bool(values.get("nullable", not key)),
        primary_key=key,
        name=str(values.get("name", "")),
    )


def _mapping(what: str, value: object, known: Sequence[str] = ()) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        hint = "pass a Table, a table class, a dictionary with schema, name and columns, or its JSON"
        raise SpecTypeError(f"{what} is a dictionary, not {type(value).__name__}", hint=hint)
    for key in value:
        if known and key not in known:
            raise SpecError(f"{what} has an unknown key {key!r}", hint=nearest("key", str(key), known))
    return value


def _list(what: str, value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise SpecTypeError(f"{what} of a table is a list, not {type(value).__name__}")
    return value
