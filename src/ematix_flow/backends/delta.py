"""Delta Lake tables in a folder: read, append, replace, upsert; every load is one commit of the table.

The commit carries the rows together with token, bookmark and run record, see `delta_log`. Readers of any kind see
whole loads only. What Delta does not enforce by itself, such as keys, the load checks before it commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..errors import UnknownNameError, UnsupportedError
from ..spec.place import Place, Prefix, Query, TableRef
from ..spec.run import Commit
from ..spec.table import Table
from ..strategies.base import Change, Upsert
from .base import Actual, ActualColumn, Capabilities, Frame, Load, Relation
from .delta_load import DeltaLoad, merge_sql
from .delta_log import DeltaLog, DeltaState
from .file_commits import FOLDER
from .file_ledger import FileLedger
from .folder import FolderBackend
from .frames import query_frame
from .lake_connection import DeltaLocalConnection
from .spark_dialect import SparkDialect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["DeltaBackend", "DeltaLocalConnection"]


class DeltaBackend(FolderBackend):
    """Delta tables on a local disk."""

    can = Capabilities(
        guarantee=(
            "all of a load or none of it, exactly once for one token, for every reader of Delta; another program that "
            "writes to the table at the same moment may be overlooked"
        ),
    )
    jars = ("delta",)
    dialect = SparkDialect()
    connection: DeltaLocalConnection

    @property
    def ledger(self) -> FileLedger:
        """Run documents in the connection's folder."""
        return FileLedger(self.root, self.log)

    def log(self, table: TableRef) -> DeltaLog:
        """The log of `table`."""
        folder = self.folder(table)
        lock = self.root / FOLDER / "locks" / f"{quote(table.schema, safe='')}.{quote(table.name, safe='')}"
        ledger = FileLedger(self.root, self.log)
        return DeltaLog(folder, lock, published=ledger.restore)

    def read(self, place: Place) -> DataFrame:
        """The rows at `place`, at the version of this moment."""
        match place:
            case TableRef():
                return self._table_frame(place)
            case Query(sql):
                return query_frame(self.workshop.spark(), sql, self._table_frame)
            case Prefix():
                raise UnsupportedError(
                    f"connection {self.connection.name!r} (delta_local) holds tables, not files: {place}",
                    hint="read the table, or declare an object_store_local connection for the files",
                )

    def columns(self, table: TableRef) -> Actual | None:
        """The table as Delta's log says, with what a load has declared of it; None where there is none."""
        state = self.log(table).state()
        layout = state.layout()
        if layout is None or state.table is None:
            return None
        known = {column.name: column for column in layout.columns}
        columns = tuple(
            ActualColumn(own.name, own.type, str(own.type), own.nullable, own.primary_key)
            if (own := known.get(each.name)) is not None
            else ActualColumn(each.name, None, each.kind, each.nullable)
            for each in state.table.columns
        )
        return Actual(columns, layout.unique, keyed=any(column.primary_key for column in columns))

    @contextmanager
    def load(self, incoming: Relation, table: Table, commit: Commit) -> Iterator[Load]:
        """Rows evaluated first, then one commit of the table with token, bookmark and run record."""
        if not isinstance(incoming, Frame):
            raise UnsupportedError(f"connection {self.connection.name!r} runs no queries of its own")
        load = DeltaLoad(self, incoming.frame, table, commit)
        yield load
        load.close()

    def explain(self, table: Table, change: Change) -> Sequence[str]:
        """The query of the change, and the statement that brings its rows into the table."""
        shown = super().explain(table, change)
        if not isinstance(change, Upsert):
            return shown
        place = str(self.folder(TableRef(table.schema, table.name)))
        return *shown, merge_sql(place, change, table.column_names)

    def frame_at(self, table: TableRef, state: DeltaState) -> DataFrame:
        """The rows of one version, whatever is committed later."""
        reader = self.workshop.spark().read.format("delta").option("versionAsOf", state.version)
        return reader.load(str(self.folder(table)))

    def known_tables(self) -> list[str]:
        """The Delta tables that are there."""
        found = self.root.glob("[!_.]*/[!_.]*/_delta_log")
        return sorted(f"{path.parent.parent.name}.{path.parent.name}" for path in found)

    def _table_frame(self, table: TableRef) -> DataFrame:
        state = self.log(table).state()
        if state.table is None:
            where = f"connection {self.connection.name!r}"
            raise UnknownNameError("table", str(table), known=self.known_tables(), where=where)
        return self.frame_at(table, state)
