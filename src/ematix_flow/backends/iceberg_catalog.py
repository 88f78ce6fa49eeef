"""How Spark is told of the catalog of an Iceberg connection, under a name of the connection's own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BackendError, ConfigError, UnsupportedError
from ..spec.place import TableRef
from .frames import SPARK
from .iceberg_log import Metadata, read_metadata
from .lake_connection import IcebergConnection
from .spark_errors import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["IcebergCatalog", "local_folder"]


@dataclass(frozen=True)
class IcebergCatalog:
    """The catalog of one connection."""

    connection: IcebergConnection
    warehouse: Path

    @property
    def is_files(self) -> bool:
        """Whether files alone are the catalog."""
        return self.connection.catalog == "hadoop"

    @cached_property
    def name(self) -> str:
        """What Spark calls the catalog."""
        if self.connection.catalog == "jdbc":
            # A catalog in a database writes its name beside every table, so that others must know it.
            return re.sub(r"\W", "_", self.connection.name)
        # The name is shown in plans and messages, so no secret is part of it, not even of its digest.
        shown = {**self.connection.redacted(), "warehouse": str(self.warehouse)}
        facts = json.dumps(shown, sort_keys=True, default=str)
        return f"ematix_{hashlib.sha256(facts.encode()).hexdigest()[:16]}"

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """What Iceberg is told; the connection's own options win."""
        given = self.connection
        known = {
            "type": given.catalog,
            "warehouse": str(self.warehouse),
            "uri": self._uri(),
            "credential": given.credential,
            "token": given.token,
            "jdbc.schema-version": "V1" if given.catalog == "jdbc" else None,
            # Others change tables too, and a load must see it.
            "cache-enabled": "false",
        }
        options = {
            key: str(value).lower() if isinstance(value, bool) else value for key, value in given.options.items()
        }
        return {key: str(value) for key, value in {**known, **options}.items() if value is not None}

    def register(self, spark: SparkSession) -> None:
        """Let the session know the catalog; Spark loads it when its name is first used."""
        prefix = f"spark.sql.catalog.{self.name}"
        wanted = {prefix: _CLASS, **{f"{prefix}.{key}": value for key, value in self.properties.items()}}
        if spark.conf.get(prefix, None) is None:
            for key, value in wanted.items():
                spark.conf.set(key, value)
        elif any(spark.conf.get(key, None) != value for key, value in wanted.items()):
            raise ConfigError(
                f"Spark's session has another catalog called {self.name!r} than connection {self.connection.name!r}",
                hint="give the connection another name",
            )

    def table(self, ref: TableRef, branch: str | None = None) -> str:
        """A table, or a branch of it, as Spark's SQL names it."""
        parts = [self.name, ref.schema, ref.name, *([f"branch_{branch}"] if branch else [])]
        return ".".join(map(SPARK.quote, parts))

    def metadata(self, spark: SparkSession, ref: TableRef) -> Metadata | None:
        """The newest metadata of a table, which the catalog knows the place of; None where there is no table."""
        self.register(spark)
        with spark_errors():
            if not spark.catalog.tableExists(self.table(ref)):
                return None
            # The catalog writes down every version; the last line is the one of now.
            found = spark.sql(f"SELECT file FROM {self.table(ref)}.metadata_log_entries").collect()[-1]["file"]
        return read_metadata(local_folder(self.connection, found, "the metadata of a table"))

    def _uri(self) -> str | None:
        uri = self.connection.uri
        if self.connection.catalog == "jdbc" and uri and not uri.startswith("jdbc:"):
            raise self.connection.error(
                "the 'uri' of a jdbc catalog begins with jdbc:",
                hint="write jdbc:sqlite:/path/to/catalog.db or jdbc:postgresql://host/database",
            )
        return uri


_CLASS = "org.apache.iceberg.spark.SparkCatalog"


def local_folder(connection: IcebergConnection, place: str, what: str) -> Path:
    """A place as a path of this machine, or UnsupportedError."""
    plain = re.sub(r"^file:(//)?(?=/)", "", place)
    if re.match(r"[a-z][a-z0-9+.-]+:", plain):
        raise UnsupportedError(
            f"connection {connection.name!r} (iceberg): {what} is at {place}, and this version works on local disks",
            hint="name a folder as 'warehouse'",
        )
    if not plain:
        raise BackendError(f"connection {connection.name!r} (iceberg): {what} has no place")
    return Path(plain).expanduser().absolute()
