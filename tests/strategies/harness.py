"""The least that runs a strategy on an engine: tables, guards, the change in a temporary table, delete and upsert."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from ematix_flow.backends import sqlite_functions
from ematix_flow.backends.dialect import Dialect
from ematix_flow.backends.duckdb_dialect import DuckDBDialect
from ematix_flow.backends.spark_dialect import SparkDialect
from ematix_flow.backends.sqlite_dialect import SqliteDialect
from ematix_flow.strategies.base import CHANGE_LABEL, EVENT_TIME, Append, Counts, Intent, Replace, Upsert, strategy_for
from ematix_flow.types import BigInt, Boolean, Bytes, ColumnType, TimestampTZ
from tests.oracle import Moment, Offence, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def intent_for(mode: str, types: dict[str, ColumnType], **options: object) -> Intent:
    """An intent over declared columns, with the types of the added ones."""
    added = {column.name: column.type for column in strategy_for(mode, deletes=options.get("deletes")).adds}
    return Intent(columns=tuple(types), types={**types, **added}, **options)  # type: ignore[arg-type]


class Bench(ABC):
    """A table on one engine, and loads into it."""

    dialect: Dialect

    def __init__(self, mode: str, intent: Intent) -> None:
        self.strategy = strategy_for(mode, deletes=intent.deletes)
        self.strategy.check(intent)
        self.names = self.strategy.columns(intent)
        self.types = dict(intent.types)
        self.create("target", self.names)

    def load(self, incoming: Sequence[Row], intent: Intent, moment: Moment) -> Counts:
        """One load, as an engine does it: guards, change, counts. Raises `Offence` where a guard fires."""
        names = (*self.strategy.user_columns(intent), *((EVENT_TIME,) if intent.event_time else ()))
        self.create("incoming", names)
        self.insert("incoming", names, incoming)
        self.values = {
            "now": moment.now,
            "run_id": moment.run_id,
            "expired_before": moment.now - intent.ttl if intent.ttl else None,
        }
        for guard in self.strategy.guards(intent):
            if offences := self.rows(self.render(guard.query)):
                assert guard.message(offences)
                assert guard.hint
                assert len(offences) <= 6
                raise Offence(guard.code)
        query = self.strategy.late(intent)
        late = 0 if query is None else int(self.rows(self.render(query))[0][0])
        return self.strategy.counts(self.apply(intent), read=len(incoming), late=late)

    def apply(self, intent: Intent) -> dict[str, int]:
        change = self.strategy.change(intent)
        match change:
            case Append(rows):
                self.execute(f"INSERT INTO target {self.render(rows)}")
                return {}
            case Replace(rows):
                self.execute("DELETE FROM target")
                self.execute(f"INSERT INTO target {self.render(rows)}")
                return {}
            case Upsert(rows, keys, columns, removes):
                assert tuple(rows.named_selects) == (*columns, CHANGE_LABEL)
                assert columns == self.names
                self.execute("DROP TABLE IF EXISTS change")
                self.execute(f"CREATE TEMPORARY TABLE change AS {self.render(rows)}")
                labels = {str(label): int(count) for label, count in self.rows(_COUNT)}
                assert removes or "remove" not in labels
                same = " AND ".join(f'c."{key}" = target."{key}"' for key in keys)
                self.execute(f"DELETE FROM target WHERE EXISTS (SELECT 1 FROM change c WHERE {same})")
                listed = ", ".join(f'"{name}"' for name in columns)
                self.execute(f"INSERT INTO target ({listed}) SELECT {listed} FROM change WHERE _change <> 'remove'")
                return labels

    def render(self, query: exp.Expr) -> str:
        return self.dialect.render(query, self.values, self.types)

    def type_of(self, name: str) -> ColumnType:
        return TimestampTZ() if name == EVENT_TIME else self.types[name]

    def table(self) -> list[Row]:
        """The target's rows as the oracle writes them."""
        shown = ", ".join(
            self.dialect.text(exp.column(name, quoted=True), self.types[name])
            .as_(f"_{name}", quoted=True)
            .sql(self.dialect.name)
            if not isinstance(self.types[name], Boolean | BigInt)
            else self.dialect.quote(name)
            for name in self.names
        )
        rows = self.rows(f"SELECT {shown} FROM target")
        return [
            {name: _read(value, self.types[name]) for name, value in zip(self.names, row, strict=True)} for row in rows
        ]

    @abstractmethod
    def create(self, table: str, names: Sequence[str]) -> None: ...

    @abstractmethod
    def insert(self, table: str, names: Sequence[str], rows: Sequence[Row]) -> None: ...

    @abstractmethod
    def execute(self, sql: str) -> None: ...

    @abstractmethod
    def rows(self, sql: str) -> list[tuple[object, ...]]: ...

    def _ddl(self, table: str, names: Sequence[str]) -> str:
        columns = ", ".join(
            f"{self.dialect.quote(name)} {self.dialect.type_name(self.type_of(name))}" for name in names
        )
        return f"CREATE TEMPORARY TABLE {table} ({columns})"


class _DatabaseBench(Bench):
    def create(self, table: str, names: Sequence[str]) -> None:
        self.execute(f"DROP TABLE IF EXISTS {table}")
        self.execute(self._ddl(table, names))

    def insert(self, table: str, names: Sequence[str], rows: Sequence[Row]) -> None:
        if rows:
            values = ", ".join(f"({', '.join(self.literal(row[name], name) for name in names)})" for row in rows)
            self.execute(f"INSERT INTO {table} VALUES {values}")

    def literal(self, value: object, name: str) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, datetime):
            return self.dialect.instant(value).sql(self.dialect.name)
        return exp.convert(value).sql(self.dialect.name)


class DuckDBBench(_DatabaseBench):
    dialect = DuckDBDialect()

    def __init__(self, mode: str, intent: Intent) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
        super().__init__(mode, intent)

    def execute(self, sql: str) -> None:
        self.connection.execute(sql)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return self.connection.execute(sql).fetchall()


class SqliteBench(_DatabaseBench):
    dialect = SqliteDialect()

    def __init__(self, mode: str, intent: Intent) -> None:
        self.connection = sqlite3.connect(":memory:")
        sqlite_functions.register(self.connection)
        super().__init__(mode, intent)

    def execute(self, sql: str) -> None:
        self.connection.execute(sql)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return self.connection.execute(sql).fetchall()


class SparkBench(Bench):
    """Temporary views; the target is replaced by what remains of it and the change."""

    dialect = SparkDialect()

    def __init__(self, mode: str, intent: Intent, spark: SparkSession) -> None:
        self.spark = spark
        super().__init__(mode, intent)

    def create(self, table: str, names: Sequence[str]) -> None:
        self.insert(table, names, [])

    def insert(self, table: str, names: Sequence[str], rows: Sequence[Row]) -> None:
        schema = ", ".join(f"`{name}` {self.dialect.type_name(self.type_of(name))}" for name in names)
        frame = self.spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)
        frame.createOrReplaceTempView(table)

    def apply(self, intent: Intent) -> dict[str, int]:
        change = self.strategy.change(intent)
        frame = self.spark.sql(self.render(change.rows)).localCheckpoint()
        if not isinstance(change, Upsert):
            target = frame if isinstance(change, Replace) else self.spark.table("target").unionByName(frame)
            target.localCheckpoint().createOrReplaceTempView("target")
            return {}
        labels = {row[0]: row[1] for row in frame.groupBy(CHANGE_LABEL).count().collect()}
        kept = self.spark.table("target").join(frame, list(change.keys), "left_anti")
        news = frame.where(f"{CHANGE_LABEL} <> 'remove'").drop(CHANGE_LABEL)
        kept.unionByName(news).localCheckpoint().createOrReplaceTempView("target")
        return labels

    def execute(self, sql: str) -> None:
        self.spark.sql(sql)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.spark.sql(sql).collect()]


_COUNT = "SELECT _change, COUNT(*) FROM change GROUP BY _change"


def _read(value: object, type: ColumnType) -> object:
    if value is None:
        return None
    match type:
        case TimestampTZ():
            return datetime.strptime(str(value), "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
        case Boolean():
            return bool(value)
        case Bytes():
            return bytes.fromhex(str(value))
        case _:
            return value


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Rows in an order that depends on their values alone."""
    return sorted(rows, key=lambda row: [(value is not None, str(value)) for value in row.values()])


def with_options(intent: Intent, **options: object) -> Intent:
    """The intent with other options."""
    return replace(intent, **options)  # type: ignore[arg-type]
