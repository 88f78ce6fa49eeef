"""What people write without this package: the database's own SQL, and PySpark that collects and inserts."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

NOW = {"orders": "2026-06-01 00:00:00.000000", "changes": "2026-06-02 00:00:00.000000"}
"""The instant of each load."""
RUN = "9d1c1b66-0f5e-4c8e-9d7f-0d2c1c9a0f11"
PLAIN = ("name", "grp", "amount", "ts", "flag")
VALUES = ", ".join(f"s.{name}" for name in ("id", *PLAIN))


def differs(left: str, right: str) -> str:
    """Whether two rows differ in some column, NULL being a value."""
    return " OR ".join(f"{left}.{name} IS DISTINCT FROM {right}.{name}" for name in PLAIN)


def create(mode: str, system: str) -> str:
    """The target table as a careful person would declare it: with its primary key."""
    is_duckdb = system == "duckdb"
    instant, flag, run = ("TIMESTAMPTZ", "BOOLEAN", "UUID") if is_duckdb else ("TEXT", "INTEGER", "TEXT")
    columns = [f"id BIGINT NOT NULL, name TEXT, grp INTEGER, amount DOUBLE, ts {instant}, flag {flag}"]
    if mode == "scd2":
        columns.append(f"valid_from {instant} NOT NULL, valid_to {instant}, is_current {flag}, row_hash BLOB")
    columns.append(f"_loaded_at {instant}, _batch_id {run}")
    columns.append(f"PRIMARY KEY ({'id, valid_from' if mode == 'scd2' else 'id'})")
    return f"CREATE TABLE {table(mode, system)} ({', '.join(columns)})"


def table(mode: str, system: str) -> str:
    """The target's name in that system."""
    return f"hand.orders_{mode}" if system == "duckdb" else f'"hand.orders_{mode}"'


def source(rows: str, system: str) -> str:
    """The source's name in that system."""
    return f"raw.{rows}" if system == "duckdb" else f'"raw.{rows}"'


def statements(mode: str, system: str, rows: str) -> list[str]:
    """The load in the database's own words, from a table of the same database."""
    target, incoming = table(mode, system), source(rows, system)
    stamp = f"'{NOW[rows]}', '{RUN}'"
    match mode:
        case "append":
            return [f"INSERT INTO {target} SELECT {VALUES}, {stamp} FROM {incoming} AS s"]
        case "truncate":
            return [f"DELETE FROM {target}", f"INSERT INTO {target} SELECT {VALUES}, {stamp} FROM {incoming} AS s"]
        case "merge":
            updates = ", ".join(f"{name} = excluded.{name}" for name in (*PLAIN, "_loaded_at"))
            insert = f"INSERT INTO {target} AS t SELECT {VALUES}, {stamp} FROM {incoming} AS s WHERE true"
            return [f"{insert} ON CONFLICT (id) DO UPDATE SET {updates} WHERE {differs('excluded', 't')}"]
        case _:
            return _scd2(target, incoming, system, NOW[rows])


def _scd2(target: str, incoming: str, system: str, now: str) -> list[str]:
    """Close what changed, open the new version; the hash is over the plain texts."""
    yes, no = ("TRUE", "FALSE") if system == "duckdb" else ("1", "0")
    text = " || '|' || ".join(f"s.{name}" for name in PLAIN)
    hashed = f"unhex(sha256({text}))" if system == "duckdb" else f"hand_sha256({text})"
    known = f"(SELECT * FROM {target} WHERE is_current = {yes}) AS t ON t.id = s.id"
    moved = f"SELECT {VALUES}, {hashed} AS h FROM {incoming} AS s LEFT JOIN {known}"
    ended = f"UPDATE {target} SET valid_to = '{now}', is_current = {no}"
    opened = f"SELECT id, name, grp, amount, ts, flag, '{now}', NULL, {yes}, h, '{now}', '{RUN}' FROM moved"
    return [
        f"CREATE TEMP TABLE moved AS {moved} WHERE t.id IS NULL OR {differs('s', 't')}",
        f"{ended} WHERE is_current = {yes} AND id IN (SELECT id FROM moved)",
        f"INSERT INTO {target} {opened}",
        "DROP TABLE moved",
    ]


def run_sql(connection: Any, mode: str, system: str, rows: str) -> None:
    """All statements in one transaction."""
    connection.execute("BEGIN")
    for statement in statements(mode, system, rows):
        connection.execute(statement)
    connection.execute("COMMIT")


def connect(folder: Path, system: str) -> Any:
    """The database, opened the way its own users do."""
    if system == "duckdb":
        import duckdb

        connection = duckdb.connect(str(folder / "bench.duckdb"))
        connection.execute("SET TimeZone = 'UTC'")
        return connection
    import hashlib

    opened = sqlite3.connect(folder / "bench.sqlite", isolation_level=None)
    opened.create_function(
        "hand_sha256", 1, lambda text: hashlib.sha256(str(text).encode()).digest(), deterministic=True
    )
    return opened


def stage_by_spark(spark: Any, folder: Path, system: str, rows: str) -> None:
    """The obvious PySpark: read the files, collect to pandas, insert into a staging table of the database."""
    frame = spark.read.parquet(str(folder / "files" / "raw" / rows)).toPandas()
    connection = connect(folder, system)
    if system == "duckdb":
        connection.execute("CREATE SCHEMA IF NOT EXISTS raw")
        connection.register("frame", frame)
        connection.execute(f"CREATE OR REPLACE TABLE raw.{rows} AS SELECT * FROM frame")
    else:
        connection.execute(f'DROP TABLE IF EXISTS "raw.{rows}"')
        connection.execute(
            f'CREATE TABLE "raw.{rows}" (id INTEGER, name TEXT, grp INTEGER, amount REAL, ts TEXT, flag INTEGER)'
        )
        frame["ts"] = frame["ts"].dt.strftime("%Y-%m-%d %H:%M:%S.%f")
        connection.execute("BEGIN")
        connection.executemany(
            f'INSERT INTO "raw.{rows}" VALUES (?, ?, ?, ?, ?, ?)', frame.itertuples(index=False, name=None)
        )
        connection.execute("COMMIT")
    connection.close()
