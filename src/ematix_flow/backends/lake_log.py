"""What the logs of lake tables have in common: the columns that a format knows, the state that commits add up to."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from ..errors import BackendError
from ..spec.table import Column
from ..types import ColumnType
from .base import Actual, ActualColumn
from .file_commits import Entry, LogState, entry_from_json, entry_to_json
from .file_table import Layout
from .spark_dialect import SparkDialect

__all__ = ["APP", "LakeField", "LakeLog", "LakeState", "LakeTable", "commit_text", "read_commit", "turn"]

APP = "ematix_flow"
"""Whose commits they are; a commit of ours has this key in what the format lets writers say."""

_SPARK = SparkDialect()


@dataclass(frozen=True)
class LakeField:
    """A column as the format describes it; `kind` is its type in Spark's words."""

    name: str
    kind: str
    nullable: bool = True

    @property
    def type(self) -> ColumnType | None:
        """The type; None where it is outside the catalogue."""
        return _SPARK.column_type(self.kind)


@dataclass(frozen=True)
class LakeTable:
    """What the format knows of a table, its rows apart."""

    columns: tuple[LakeField, ...]
    partitions: tuple[str, ...] = ()


@dataclass
class LakeState(LogState):
    """What our loads and the format's own metadata add up to; `seq` is the number of our last load."""

    version: int = -1
    """The version of the table in the format's own count; -1 where there are no rows yet."""
    table: LakeTable | None = None

    @classmethod
    def kept_type(cls, type: ColumnType) -> ColumnType:
        """The type that the format keeps a declared one as."""
        return _SPARK.stored_type(type)

    def layout(self) -> Layout | None:
        """The columns that loads can fill: as they were declared, where what was declared is what is there."""
        if self.table is None:
            return None
        remembered = Layout.from_spec(self.schemas[-1]) if self.schemas else None
        declared = {column.name: column for column in remembered.columns} if remembered else {}
        columns = tuple(
            self._as_declared(each, each.type, declared.get(each.name)) for each in self.table.columns if each.type
        )
        return Layout(columns, self.table.partitions, remembered.unique if remembered else None)

    def actual(self) -> Actual | None:
        """The table as the format says, with what a load has declared of it; None where there is none."""
        layout = self.layout()
        if layout is None or self.table is None:
            return None
        known = {column.name: column for column in layout.columns}
        columns = tuple(
            ActualColumn(own.name, own.type, str(own.type), own.nullable, own.primary_key)
            if (own := known.get(each.name)) is not None
            else ActualColumn(each.name, None, each.kind, each.nullable)
            for each in self.table.columns
        )
        keyed = any(column.primary_key for column in columns)
        return Actual(columns, layout.unique, keyed, layout.partitions)

    def take(self, entry: Entry) -> Self:
        """Go one commit further; only the newest declaration matters here."""
        self.add(entry)
        del self.schemas[:-1]
        return self

    def _as_declared(self, field: LakeField, type: ColumnType, declared: Column | None) -> Column:
        if declared is None:
            return Column(type, field.nullable, name=field.name)
        kept = declared.type if self.kept_type(declared.type) == type else type
        return Column(kept, field.nullable and declared.nullable, declared.primary_key, field.name)


class LakeLog(Protocol):
    """The commits of one table of a lake, as far as a load asks for them."""

    def state(self) -> LakeState:
        """What is committed at this moment."""

    def roll_forward(self) -> None:
        """See that every commit has its run document."""

    def holds(self, entry: Entry, since: int) -> bool:
        """Whether this very commit is there behind a version."""

    def turn(self) -> AbstractContextManager[None]:
        """The turn of one load among those of this machine."""


@contextmanager
def turn(lock: Path) -> Iterator[None]:
    """Loads of this machine commit one after the other: on a disk, lake formats look first and then rename."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def commit_text(entry: Entry) -> str:
    """A commit of ours as a format keeps it in its own."""
    return json.dumps({APP: entry_to_json(entry)})


def read_commit(text: object) -> Entry | None:
    """The commit that `commit_text` wrote; None where somebody else wrote the text."""
    if not isinstance(text, str) or not text.startswith(f'{{"{APP}"'):
        return None
    data: Mapping[str, object] = json.loads(text)[APP]
    if data["version"] != 1:
        raise BackendError("the table was loaded by a newer version", hint="upgrade ematix-flow-spark")
    return entry_from_json(data)
