"""Iceberg tables on a local disk: read, append, replace, upsert; every load is one snapshot of the main branch.

The snapshot carries the rows together with token, bookmark and run record, see `iceberg_log`. What Iceberg does not
enforce by itself, such as keys, the load checks before it commits.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..errors import BackendError, ConnectError
from ..spec.place import TableRef
from .base import Capabilities
from .file_commits import FOLDER
from .frames import SPARK
from .iceberg_catalog import IcebergCatalog, local_folder
from .iceberg_load import IcebergLoad
from .iceberg_log import IcebergLog, IcebergState, Metadata, folder_metadata
from .lake import LakeBackend
from .lake_connection import IcebergConnection
from .spark_errors import spark_errors
from .workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["IcebergBackend", "IcebergConnection"]


class IcebergBackend(LakeBackend):
    """Iceberg tables of one catalog, with their files on a local disk."""

    can = Capabilities(
        guarantee=(
            "all of a load or none of it, exactly once for one token, for every reader of Iceberg; where files alone "
            "are the catalog, another program that commits at the same moment may be overlooked"
        ),
    )
    loads = IcebergLoad
    connection: IcebergConnection  # type: ignore[assignment]

    def __init__(self, connection: IcebergConnection, workshop: Workshop) -> None:
        super().__init__(connection, workshop)
        # A catalog in a server needs the server's driver.
        is_server = connection.catalog == "jdbc" and not str(connection.uri).startswith("jdbc:sqlite:")
        self.jars = ("iceberg", "jdbc") if is_server else ("iceberg",)

    @cached_property
    def root(self) -> Path:
        """The folder of the connection."""
        return local_folder(self.connection, self.connection.warehouse, "the warehouse")

    @cached_property
    def catalog(self) -> IcebergCatalog:
        """Where the tables are."""
        return IcebergCatalog(self.connection, self.root)

    def log(self, table: TableRef) -> IcebergLog:
        """The log of `table`."""
        home, name = self.root / FOLDER, f"{quote(table.schema, safe='')}.{quote(table.name, safe='')}"
        folder = self.folder(table)  # names that no folder can have are refused whatever the catalog

        def metadata() -> Metadata | None:
            if self.catalog.is_files:
                return folder_metadata(folder)
            return self.catalog.metadata(self.workshop.spark(), table)

        return IcebergLog(metadata, home / "sums" / name, home / "locks" / name, published=self.ledger.restore)

    def frame_at(self, table: TableRef, state: IcebergState) -> DataFrame:
        """The rows of one snapshot in the columns that the table has, whatever is committed later."""
        assert state.table is not None
        spark = self.workshop.spark()
        self.catalog.register(spark)
        name = self.catalog.table(table)
        with spark_errors():
            if state.version == -1:
                found = spark.table(name).where("false")
            else:
                found = spark.read.option("versionAsOf", str(state.version)).table(name)
            given = {each.name: each.dataType.simpleString() for each in found.schema.fields}
            # A snapshot is read in the columns of its own time.
            shown = []
            for each in state.table.columns:
                quoted = SPARK.quote(each.name)
                if each.type is not None and given.get(each.name) != each.kind:
                    shown.append(f"CAST({quoted if each.name in given else 'NULL'} AS {each.kind}) AS {quoted}")
                elif each.name in given:
                    shown.append(quoted)
            return found.selectExpr(*shown)

    def sql_name(self, table: TableRef) -> str:
        """The table as Spark's SQL names it."""
        return self.catalog.table(table)

    def ping(self) -> str:
        """The warehouse and how many tables it holds; a catalog that is more than files is asked."""
        if self.catalog.is_files:
            return super().ping()
        try:
            return self.described(len(self.known_tables()))
        except BackendError as error:
            raise ConnectError(
                f"connection {self.connection.name!r}: the {self.connection.catalog} catalog does not answer: "
                f"{error.message}",
                hint="look at its 'uri' and what it needs to let you in",
            ) from error

    def known_tables(self) -> list[str]:
        """The tables that are there."""
        if self.catalog.is_files:
            found = self.root.glob("[!_.]*/[!_.]*/metadata")
            return sorted(f"{path.parent.parent.name}.{path.parent.name}" for path in found)
        spark = self.workshop.spark()
        self.catalog.register(spark)
        catalog = SPARK.quote(self.catalog.name)
        with spark_errors():
            schemas = [row[0] for row in spark.sql(f"SHOW NAMESPACES IN {catalog}").collect()]
            return sorted(
                f"{schema}.{row['tableName']}"
                for schema in schemas
                for row in spark.sql(f"SHOW TABLES IN {catalog}.{SPARK.quote(schema)}").collect()
            )
