"""Tables that nobody declared: made from the columns of a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import UnknownNameError
from ..types import ColumnType
from .origin import Origin
from .place import TableRef
from .table import Column, Table

__all__ = ["infer_table"]


def infer_table(
    ref: TableRef, types: Mapping[str, ColumnType], keys: Sequence[str] = (), *, declared_at: Origin | None = None
) -> Table:
    """The table that keeps columns of these types; `keys` are its primary key, all other columns may be NULL."""
    for name in keys:
        if name not in types:
            raise UnknownNameError("column", name, known=types, where="keys=: the frame", declared_at=declared_at)
    columns = tuple(Column(kind, primary_key=name in keys, name=name) for name, kind in types.items())
    return Table(ref.schema, ref.name, columns, keyless=True, declared_at=declared_at)
