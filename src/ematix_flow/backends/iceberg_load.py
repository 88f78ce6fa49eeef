"""One load into an Iceberg table: one snapshot, made on a branch of its own, to which the main branch moves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from ..errors import DriftError, FlowError
from ..strategies.base import Replace, Upsert
from ..types import Numeric
from .base import SchemaChange
from .file_commits import Entry
from .frames import SPARK
from .iceberg_catalog import IcebergCatalog
from .iceberg_log import IcebergState
from .lake_load import Home, LakeLoad, merge_sql
from .lake_log import APP, LakeState, commit_text
from .owner import current_owner, is_alive, owner_from_name, owner_name
from .spark_errors import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["IcebergHome", "IcebergLoad"]


class IcebergHome(Home, Protocol):
    """What a load needs of its backend."""

    @property
    def catalog(self) -> IcebergCatalog:
        """Where the tables are."""


class IcebergLoad(LakeLoad):
    """One move of the main branch of one Iceberg table."""

    backend: IcebergHome

    def evolve(self, change: SchemaChange) -> None:
        """Take the new columns into the layout; the table gets them right before the rows."""
        kept = self.layout.types
        for name in change.widen:
            old, new = kept[name], change.table.column(name).type
            if isinstance(old, Numeric) and isinstance(new, Numeric) and old.scale != new.scale:
                raise DriftError(
                    f"table {self.declared.qualified_name!r} cannot be changed as declared",
                    [f"column {name!r} is {old}, and in Iceberg its scale stays: it cannot become {new}"],
                    hint="declare the same scale, or load into a new table",
                    declared_at=self.declared.declared_at,
                )
        super().evolve(change)

    def _write(self, entry: Entry, now: LakeState) -> None:
        spark, catalog = self._queries.spark, self.backend.catalog
        catalog.register(spark)
        if now.table is None:
            self._create(spark, entry)
            return
        assert isinstance(now, IcebergState)
        self._drop_leftovers(spark, now)
        self._evolve_table(spark)
        with self._branch(spark, now) as branch:
            if self._merged:
                self._merge(entry, branch)
            else:
                self._put(spark, entry, branch)
            table = f"{SPARK.quote(self._ref.schema)}.{SPARK.quote(self._ref.name)}"
            # The one decisive step: it fails unless all that the main branch has is part of ours.
            move = f"table => {_text(table)}, branch => 'main', to => {_text(branch)}"
            spark.sql(f"CALL {SPARK.quote(catalog.name)}.system.fast_forward({move})").collect()

    def _create(self, spark: SparkSession, entry: Entry) -> None:
        """The table and its first rows, in one commit."""
        from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

        assert self._rows is not None
        catalog = self.backend.catalog
        if not catalog.is_files:
            schema = f"{SPARK.quote(catalog.name)}.{SPARK.quote(self._ref.schema)}"
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {schema}")
        writer = self._rows.writeTo(catalog.table(self._ref)).using("iceberg").option(*_said(entry))
        for key, value in _PROPERTIES.items():
            writer = writer.tableProperty(key, value)
        if self.layout.partitions:
            writer = writer.partitionedBy(*(F.col(SPARK.quote(name)) for name in self.layout.partitions))
        writer.create()

    def _evolve_table(self, spark: SparkSession) -> None:
        """Add and widen columns, in commits of their own: they change no row, and a load that dies may leave them."""
        table = self.backend.catalog.table(self._ref)
        types = {name: SPARK.type_name(self._state.kept_type(kind)) for name, kind in self.layout.types.items()}
        if self._added:
            added = ", ".join(f"{SPARK.quote(name)} {types[name]}" for name in self._added)
            spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({added})")
        for name in self._widened:
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN {SPARK.quote(name)} TYPE {types[name]}")

    def _put(self, spark: SparkSession, entry: Entry, branch: str) -> None:
        from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

        assert self._rows is not None
        catalog = self.backend.catalog
        rows = _padded(self._rows, spark.table(catalog.table(self._ref)))
        writer = rows.writeTo(catalog.table(self._ref, branch)).option(*_said(entry))
        if isinstance(self._change, Replace):
            writer.overwrite(F.lit(True))
        else:
            writer.append()

    def _merge(self, entry: Entry, branch: str) -> None:
        assert isinstance(self._change, Upsert)
        spark = self._own_session()
        self.backend.catalog.register(spark)
        spark.conf.set(f"spark.sql.iceberg.{_said(entry)[0]}", _said(entry)[1])
        columns = self._merged_rows(spark)
        spark.sql(merge_sql(self.backend.catalog.table(self._ref, branch), self._change, columns)).collect()

    @contextmanager
    def _branch(self, spark: SparkSession, now: IcebergState) -> Iterator[str]:
        """A branch at the snapshot that is there now, gone when the block ends."""
        branch = f"{APP}~{owner_name(current_owner())}~{self.commit.run.run_id}"
        table = self.backend.catalog.table(self._ref)
        start = f" AS OF VERSION {now.version}" if now.version != -1 else ""
        spark.sql(f"ALTER TABLE {table} CREATE BRANCH {SPARK.quote(branch)}{start}")
        try:
            yield branch
        finally:
            # Whoever loads next removes it, once this process is gone.
            with suppress(FlowError), spark_errors():
                spark.sql(f"ALTER TABLE {table} DROP BRANCH IF EXISTS {SPARK.quote(branch)}")

    def _drop_leftovers(self, spark: SparkSession, now: IcebergState) -> None:
        """Remove the branches of processes that died."""
        for branch in now.branches:
            mark, _, rest = branch.partition("~")
            if mark == APP and not is_alive(owner_from_name(rest.rpartition("~")[0])):
                table = self.backend.catalog.table(self._ref)
                spark.sql(f"ALTER TABLE {table} DROP BRANCH IF EXISTS {SPARK.quote(branch)}")

    def _conflicts(self, said: str) -> bool:
        return _CONFLICT.search(said) is not None


# Every load changes the metadata a few times, and old versions of it are of no use to anybody.
_PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true"}
_CONFLICT = re.compile(
    r"Cannot fast-forward|[Cc]annot commit|stale table metadata|already exists|ALREADY_EXISTS"
    r"|metadata refresh is required|CommitFailed"
)


def _said(entry: Entry) -> tuple[str, str]:
    """The option by which a snapshot carries our commit."""
    return f"snapshot-property.{APP}", commit_text(entry)


def _padded(rows: DataFrame, table: DataFrame) -> DataFrame:
    """The rows with NULL in the columns that the table has and nobody declared."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    known = set(rows.columns)
    rest = {each.name: F.lit(None).cast(each.dataType) for each in table.schema.fields if each.name not in known}
    return rows.withColumns(rest) if rest else rows


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
