"""Connections to tables of a lake, whose every load is one commit of the table: `LakeBackend`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import BackendError, UnknownNameError, UnsupportedError
from ..spec.place import Place, Prefix, Query, TableRef
from ..spec.run import Commit
from ..spec.table import Table
from ..strategies.base import Change, Upsert
from .base import Actual, Frame, Load, Relation
from .file_ledger import FileLedger
from .folder import FolderBackend
from .frames import query_frame
from .lake_load import LakeLoad, merge_sql
from .lake_log import LakeLog, LakeState
from .spark_dialect import SparkDialect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["LakeBackend"]


class LakeBackend(FolderBackend):
    """Tables that Spark reads and writes in a format with commits of its own; run documents are files beside them."""

    dialect = SparkDialect()
    loads: ClassVar[type[LakeLoad]]
    """How a load of this format is made."""

    # Each format narrows both types: its log has its own states.
    @abstractmethod
    def log(self, table: TableRef) -> Any:
        """The log of `table`."""

    @abstractmethod
    def frame_at(self, table: TableRef, state: Any) -> DataFrame:
        """The rows of one version, whatever is committed later."""

    @abstractmethod
    def sql_name(self, table: TableRef) -> str:
        """The table as Spark's SQL names it."""

    @property
    def ledger(self) -> FileLedger:
        """Run documents in the connection's folder."""
        return FileLedger(self.root, self.log)

    def read(self, place: Place) -> DataFrame:
        """The rows at `place`, at the version of this moment."""
        match place:
            case TableRef():
                return self._table_frame(place)
            case Query(sql):
                return query_frame(self.workshop.spark(), sql, self._table_frame)
            case Prefix():
                raise UnsupportedError(
                    f"connection {self.connection.name!r} ({self.connection.kind}) holds tables, not files: {place}",
                    hint="read the table, or declare an object_store_local connection for the files",
                )

    def columns(self, table: TableRef) -> Actual | None:
        """The table as its format says, with what a load has declared of it; None where there is none."""
        found = self._state(table).actual()
        if found is None:
            self._refuse_strangers(table)
        return found

    def _refuse_strangers(self, table: TableRef) -> None:
        """Files that are there already would become part of the table's folder, and go when it is swept."""
        folder = self.folder(table)
        strangers = sorted(path.name for path in folder.glob("[!_.]*")) if folder.is_dir() else []
        if strangers:
            raise BackendError(
                f"connection {self.connection.name!r} ({self.connection.kind}): {folder} is no table, and holds files: "
                f"{', '.join(strangers[:3])}{', …' if len(strangers) > 3 else ''}",
                hint="load into a table of another name, or move the files away",
                declared_at=self.connection.declared_at,
            )

    @contextmanager
    def load(self, incoming: Relation, table: Table, commit: Commit) -> Iterator[Load]:
        """Rows evaluated first, then one commit of the table with token, bookmark and run record."""
        if not isinstance(incoming, Frame):
            raise UnsupportedError(f"connection {self.connection.name!r} runs no queries of its own")
        load = self.loads(self, incoming.frame, table, commit)
        yield load
        load.close()

    def explain(self, table: Table, change: Change) -> Sequence[str]:
        """The query of the change, and the statement that brings its rows into the table."""
        shown = super().explain(table, change)
        if not isinstance(change, Upsert):
            return shown
        return *shown, merge_sql(self.sql_name(TableRef(table.schema, table.name)), change, table.column_names)

    def _state(self, table: TableRef) -> LakeState:
        log: LakeLog = self.log(table)
        return log.state()

    def _table_frame(self, table: TableRef) -> DataFrame:
        state = self._state(table)
        if state.table is None:
            where = f"connection {self.connection.name!r}"
            raise UnknownNameError("table", str(table), known=self.known_tables(), where=where)
        return self.frame_at(table, state)
