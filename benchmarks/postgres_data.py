"""The rows and tables of the PostgreSQL benchmarks, said once for the database, for Spark and for this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ematix_flow import BigInt, Boolean, Date, Double, Integer, Text, TimestampTZ, ematix, pk

WARM_ROWS = 50_000
"""What a contender on Java loads before it is measured."""
BATCH = "9d1c1b66-0f5e-4c8e-9d7f-0d2c1c9a0f11"
STAMP = f"TIMESTAMPTZ '2026-06-01 00:00:00+00' AS _loaded_at, UUID '{BATCH}' AS _batch_id"
"""What this package adds to a row, for those who write the same rows by hand."""


@dataclass(frozen=True)
class Column:
    """A column: its type in PostgreSQL and here, and its value from `id` in PostgreSQL's and in Spark's words."""

    name: str
    declared: str
    type: Any
    postgres: str
    spark: str


def columns(wide: bool = False) -> list[Column]:
    """Six mixed columns, or thirty."""
    found = [Column("id", "BIGINT", Annotated[BigInt, pk()], "id", "id"), *_block("", 0)[:5]]
    return found + [column for n in range(1, 5) for column in _block(f"_{n}", n)] if wide else found


def _block(suffix: str, n: int) -> list[Column]:
    number = f"(id + {n})"
    return [
        Column(
            f"name{suffix}", "TEXT", Text, f"'customer ' || ({number} % 100000)",
            f"concat('customer ', {number} % 100000)",
        ),
        Column(
            f"grp{suffix}", "INTEGER", Integer, f"CAST({number} * 7 % 1000 AS INTEGER)",
            f"cast({number} * 7 % 1000 AS int)",
        ),
        Column(
            f"amount{suffix}", "DOUBLE PRECISION", Double, f"CAST({number} * 0.25 AS DOUBLE PRECISION)",
            f"{number} * 0.25D",
        ),
        Column(
            f"ts{suffix}", "TIMESTAMPTZ", TimestampTZ, f"to_timestamp(1767225600 + {number} % 2000000)",
            f"timestamp_seconds(1767225600 + {number} % 2000000)",
        ),
        Column(f"flag{suffix}", "BOOLEAN", Boolean, f"{number} % 2 = 0", f"{number} % 2 = 0"),
        Column(
            f"day{suffix}", "DATE", Date, f"DATE '2026-01-01' + CAST({number} % 1000 AS INTEGER)",
            f"date_add(DATE '2026-01-01', cast({number} % 1000 AS int))",
        ),
    ]  # fmt: skip


def orders_sql(rows: int, wide: bool = False) -> str:
    """A query of PostgreSQL for that many orders."""
    shown = ", ".join(f"{column.postgres} AS {column.name}" for column in columns(wide))
    return f"SELECT {shown} FROM generate_series(CAST(0 AS BIGINT), {rows - 1}) AS made(id)"


def changes_sql(changes: int, held: int) -> str:
    """Changed orders in the order of their keys: of ten, eight hold a new amount, one is as it was, one is new."""
    key = f"CASE WHEN n % 10 = 9 THEN {held} + n ELSE n * {held // changes} END"
    shown = [column.postgres for column in columns()]
    shown[3] += " + CASE WHEN n % 10 < 8 THEN 1 ELSE 0 END"
    named = ", ".join(f"{value} AS {column.name}" for value, column in zip(shown, columns(), strict=True))
    keyed = f"SELECT n, {key} AS id FROM generate_series(CAST(0 AS BIGINT), {changes - 1}) AS made(n)"
    return f"SELECT {named} FROM ({keyed}) AS keyed ORDER BY id"


def orders_frame(spark: Any, rows: int, wide: bool = False) -> Any:
    """The same orders as a Spark frame, computed when it is read."""
    return spark.range(0, rows, 1, 2).selectExpr(*(f"{column.spark} AS {column.name}" for column in columns(wide)))


def stamped(frame: Any) -> Any:
    """The frame with what this package adds to a row."""
    from pyspark.sql import functions as f

    return frame.withColumns({"_loaded_at": f.expr("TIMESTAMP '2026-06-01 00:00:00'"), "_batch_id": f.lit(BATCH)})


def names(wide: bool = False) -> str:
    """The columns, with commas."""
    return ", ".join(column.name for column in columns(wide))


def table_sql(name: str, wide: bool = False) -> str:
    """The statement that makes the target, for every contender."""
    declared = ", ".join(f"{column.name} {column.declared} NOT NULL" for column in columns(wide))
    return (
        f"CREATE TABLE {name} ({declared}, _loaded_at TIMESTAMPTZ NOT NULL, _batch_id UUID NOT NULL, PRIMARY KEY (id))"
    )


def declared_table(name: str, wide: bool = False) -> Any:
    """The target as a user of this package declares it."""
    declared = type("Orders", (), {"__annotations__": {column.name: column.type for column in columns(wide)}})
    return ematix.table(schema="mart", name=name)(declared)
