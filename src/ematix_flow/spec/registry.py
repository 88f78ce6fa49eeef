"""Names → declared records, scoped by a context variable: what `@ematix…` declares lands in the active registry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from os.path import realpath
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from ..errors import DuplicateNameError, UnknownNameError
from .connection import Connection
from .origin import Origin

if TYPE_CHECKING:
    from .fan_out import FanOut
    from .pipeline import Pipeline
    from .registered import RegisteredTransform, ScheduledPipeline
    from .table import Table

__all__ = ["RecordKind", "Registry", "active", "scope"]

RecordKind = Literal["connection", "table", "pipeline", "transform"]

Record = TypeVar("Record")


class Registry:
    """Everything that one project declares, by kind and name."""

    def __init__(self) -> None:
        self.connections: dict[str, Connection] = {}
        self.tables: dict[str, Table] = {}
        self.pipelines: dict[str, Pipeline | FanOut | ScheduledPipeline] = {}
        self.transforms: dict[str, RegisteredTransform] = {}
        self._records: Mapping[RecordKind, dict[str, Any]] = {
            "connection": self.connections,
            "table": self.tables,
            "pipeline": self.pipelines,
            "transform": self.transforms,
        }
        self._origins: dict[tuple[RecordKind, str], tuple[Origin | None, str]] = {}

    def add(
        self, kind: RecordKind, name: str, record: Record, origin: Origin | None, *, qualname: str | None = None
    ) -> Record:
        """Store `record` under `name` and return it.

        A second declaration from the same file with the same `qualname` (the function's or class's) replaces the first,
        so that modules can be loaded and cells be run again. From anywhere else, and from another line of the same
        module or cell, the name is taken: DuplicateNameError.
        """
        new = (origin, qualname or name)
        if name in self._records[kind]:
            old = self._origins[kind, name]
            if not _is_same_declaration(old, new):
                place = f" at {old[0]}" if old[0] else ""
                message = f"{kind} {name!r} is declared already{place}"
                raise DuplicateNameError(message, hint=f"give one {kind} another name", declared_at=origin)
        self._records[kind][name] = record
        self._origins[kind, name] = new
        return record

    def add_connection(self, connection: Connection, origin: Origin | None = None) -> Connection:
        """Store a connection under its own name and return it; the last one of a name wins."""
        self.connections[connection.name] = connection
        self._origins["connection", connection.name] = (origin or connection.declared_at, connection.name)
        return connection

    @overload
    def get(self, kind: Literal["connection"], name: str) -> Connection: ...
    @overload
    def get(self, kind: Literal["table"], name: str) -> Table: ...
    @overload
    def get(self, kind: Literal["pipeline"], name: str) -> Pipeline | FanOut | ScheduledPipeline: ...
    @overload
    def get(self, kind: Literal["transform"], name: str) -> RegisteredTransform: ...
    @overload
    def get(self, kind: RecordKind, name: str) -> object: ...
    def get(self, kind: RecordKind, name: str) -> object:
        """The record of that name; UnknownNameError with the nearest one otherwise."""
        records = self._records[kind]
        if name not in records:
            raise UnknownNameError(kind, name, known=records)
        return records[name]

    def origin(self, kind: RecordKind, name: str) -> Origin | None:
        """Where a record was declared, if that is known."""
        return self._origins.get((kind, name), (None, ""))[0]

    def clear(self, kind: RecordKind | None = None) -> None:
        """Forget the records of one kind, or all."""
        for each, records in self._records.items():
            if kind in (None, each):
                records.clear()
                self._origins = {key: value for key, value in self._origins.items() if key[0] != each}


def active() -> Registry:
    """The registry that declarations land in: the innermost `scope`, or the one of the process."""
    return _active.get() or _process


@contextmanager
def scope(registry: Registry | None = None) -> Iterator[Registry]:
    """Make `registry`, or a fresh one, the active registry inside the block."""
    inner = Registry() if registry is None else registry
    token = _active.set(inner)
    try:
        yield inner
    finally:
        _active.reset(token)


_process = Registry()
_active: ContextVar[Registry | None] = ContextVar("ematix_flow_registry", default=None)


def _is_same_declaration(old: tuple[Origin | None, str], new: tuple[Origin | None, str]) -> bool:
    """Whether the second is the first once more: its module loaded again, its cell run again, perhaps after an edit."""
    (before, old_name), (now, new_name) = old, new
    if before is None or now is None or (_file(before), old_name) != (_file(now), new_name):
        return False
    return before.line == now.line or not _is_one_text(before, now)


def _is_one_text(before: Origin, now: Origin) -> bool:
    """Whether both lines stand in the same version of a module or a cell."""
    # A notebook compiles each statement by itself, but names the cell's file after the text of the cell.
    is_one_cell = before.file == now.file and _CELL.search(now.file) is not None
    return is_one_cell or before.unit == now.unit != 0


def _file(origin: Origin) -> str:
    """The file as one name; all cells of a notebook and all lines of a prompt count as one file."""
    if origin.file.startswith("<") or _CELL.search(origin.file):
        return "<interactive>"
    return realpath(origin.file)


_CELL = re.compile(r"[/\\]ipykernel_\d+[/\\]|^<ipython-input-")
