"""Delta Lake tables in a folder: read, append, replace, upsert; every load is one commit of the table.

The commit carries the rows together with token, bookmark and run record, see `delta_log`. Readers of any kind see
whole loads only. What Delta does not enforce by itself, such as keys, the load checks before it commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ..spec.place import TableRef
from .base import Capabilities
from .delta_load import DeltaLoad, delta_name
from .delta_log import DeltaLog, DeltaState
from .file_commits import FOLDER
from .lake import LakeBackend
from .lake_connection import DeltaLocalConnection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["DeltaBackend", "DeltaLocalConnection"]


class DeltaBackend(LakeBackend):
    """Delta tables on a local disk."""

    can = Capabilities(
        guarantee=(
            "all of a load or none of it, exactly once for one token, for every reader of Delta; another program that "
            "writes to the table at the same moment may be overlooked"
        ),
    )
    jars = ("delta",)
    loads = DeltaLoad
    connection: DeltaLocalConnection

    def log(self, table: TableRef) -> DeltaLog:
        """The log of `table`."""
        lock = self.root / FOLDER / "locks" / f"{quote(table.schema, safe='')}.{quote(table.name, safe='')}"
        return DeltaLog(self.folder(table), lock, published=self.ledger.restore)

    def frame_at(self, table: TableRef, state: DeltaState) -> DataFrame:
        """The rows of one version, whatever is committed later."""
        reader = self.workshop.spark().read.format("delta").option("versionAsOf", state.version)
        return reader.load(str(self.folder(table)))

    def sql_name(self, table: TableRef) -> str:
        """The table as Spark's SQL names it."""
        return delta_name(self.folder(table))

    def known_tables(self) -> list[str]:
        """The Delta tables that are there."""
        found = self.root.glob("[!_.]*/[!_.]*/_delta_log")
        return sorted(f"{path.parent.parent.name}.{path.parent.name}" for path in found)
