"""The rows that benchmarks move: six mixed columns, made the same way each time."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import duckdb

COLUMNS = "id, name, grp, amount, ts, flag"


def orders_sql(rows: int, *, changed: bool = False) -> str:
    """A DuckDB query for `rows` orders; `changed` moves a tenth of the keys on and alters a tenth of the amounts."""
    shift = rows // 10 if changed else 0
    amount = "i * 0.25 + CASE WHEN i % 10 = 0 THEN 1 ELSE 0 END" if changed else "i * 0.25"
    return f"""
        SELECT i::BIGINT AS id, 'customer ' || (i % 100000) AS name, (i * 7 % 1000)::INTEGER AS grp,
               ({amount})::DOUBLE AS amount,
               TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_seconds(i % 2000000) AS ts, i % 2 = 0 AS flag
        FROM range({shift}, {shift + rows}) AS t(i)"""


def make_duckdb(path: Path, rows: int) -> None:
    """`raw.orders` and `raw.changes` in a DuckDB file."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("CREATE SCHEMA raw")
        connection.execute(f"CREATE TABLE raw.orders AS {orders_sql(rows)}")
        connection.execute(f"CREATE TABLE raw.changes AS {orders_sql(rows, changed=True)}")


def make_parquet(folder: Path, rows: int) -> None:
    """The same rows as Parquet: `raw/orders` and `raw/changes`."""
    for name, changed in (("orders", False), ("changes", True)):
        target = folder / "raw" / name
        target.mkdir(parents=True)
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(
                f"COPY ({orders_sql(rows, changed=changed)}) TO '{target}/rows.parquet' (FORMAT parquet)"
            )


def make_sqlite(path: Path, rows: int) -> None:
    """The same tables in a SQLite file, instants as the text that this package keeps."""
    with duckdb.connect() as source, sqlite3.connect(path) as target:
        source.execute("SET TimeZone = 'UTC'")
        for name, changed in (("orders", False), ("changes", True)):
            target.execute(
                f'CREATE TABLE "raw.{name}" (id INTEGER, name TEXT, grp INTEGER, amount REAL, ts TEXT, flag INTEGER)'
            )
            source.execute(
                "SELECT id, name, grp, amount, strftime(ts, '%Y-%m-%d %H:%M:%S.%f'), flag::INTEGER "
                f"FROM ({orders_sql(rows, changed=changed)})"
            )
            while batch := source.fetchmany(50_000):
                target.executemany(f'INSERT INTO "raw.{name}" VALUES (?, ?, ?, ?, ?, ?)', batch)
        target.commit()
