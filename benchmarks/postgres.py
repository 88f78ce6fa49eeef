"""PostgreSQL: this package beside Spark's own JDBC, the server's own programs and SQL by hand, on one server."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg

from ematix_flow.config import Settings
from ematix_flow.engine.jars import JarStore
from tests.servers import Postgres

from .postgres_data import WARM_ROWS, changes_sql, orders_sql, table_sql

ROOT = Path(__file__).resolve().parent.parent
FRAME = {
    "frame_ours": "ours: a pipeline that returns the frame",
    "frame_jdbc_tuned": "Spark JDBC, rewritten batches of 10,000",
    "frame_jdbc": "Spark JDBC, defaults",
}
COPY = {
    "copy_ours": "ours: a pipeline between two connections",
    "copy_psql": "`psql COPY` into `psql COPY`, binary",
    "copy_jdbc": "Spark JDBC to JDBC, tuned",
}
MERGE = {
    "merge_ours": "ours: a pipeline inside the database",
    "merge_sql": "by hand: one `INSERT … ON CONFLICT`",
    "merge_partitions": "`foreachPartition` with psycopg, no transaction around it",
}
SMALL = {"small_ours": "ours: a pipeline inside the database", "small_sql": "by hand: one `INSERT … SELECT`"}


def postgres_section(arguments: argparse.Namespace) -> list[str]:
    """Measure everything and give the lines of the section."""
    JarStore.of(Settings.load()).paths(["jdbc"])  # fetched before anything is measured
    return _Bench(Postgres(), arguments).lines()


class _Bench:
    """One server, and what is measured on it."""

    def __init__(self, server: Postgres, arguments: argparse.Namespace) -> None:
        self.server, self.repeat = server, arguments.repeat
        self.rows, self.wide = arguments.pg_rows, arguments.wide
        self.held, self.changes, self.small = arguments.pg_held, arguments.pg_changes, arguments.pg_small
        self._execute("postgres", "CREATE DATABASE source")
        self._execute("postgres", "CREATE DATABASE target")
        for database in ("source", "target"):
            self._execute(database, "CREATE SCHEMA raw")

    def lines(self) -> list[str]:
        """The whole section."""
        width = 30 if self.wide else 6
        lines = [
            "## PostgreSQL",
            "",
            (
                "PostgreSQL 18 on the same machine, without fsync, so that the disk does not hide the rest. Every "
                "contender fills a table of the same definition, with its primary key and the columns `_loaded_at` and "
                f"`_batch_id`, and all end with the same count and sums. Java has loaded {WARM_ROWS:,} rows "
                "the same way before. "
                f"Best of {self.repeat}, measured with `{' '.join(['python -m benchmarks', *sys.argv[1:]])}`. "
                "Where ours is faster by less than 1×, it is slower."
            ),
            "",
        ]
        lines += [f"### A Spark frame of {self.rows:,} rows × {width} columns into a new table", ""]
        lines += self._table(FRAME, self.rows, wide=self.wide)
        self._make("source", "orders", orders_sql(self.rows, self.wide))
        lines += [f"### From one database to another, {self.rows:,} rows × {width} columns", ""]
        lines += self._table(COPY, self.rows, wide=self.wide)
        self._execute("source", "DROP TABLE raw.orders")
        lines += self._merge()
        lines += self._small()
        return lines

    def _merge(self) -> list[str]:
        self._make("target", "changes", changes_sql(self.changes, self.held))
        self._make("target", "held", orders_sql(self.held))
        fill = "INSERT INTO mart.orders SELECT *, TIMESTAMPTZ '2026-05-01', gen_random_uuid() FROM raw.held"
        lines = [f"### {self.changes:,} changed rows merged into {self.held:,}", ""]
        found = self._figures(MERGE, self.held, prepare=[fill, "ANALYZE mart.orders"])
        return [*lines, *rates(MERGE, found, self.changes), *_spent(found["merge_ours"], 1)]

    def _small(self) -> list[str]:
        self._make("target", "orders", orders_sql(self.small))
        found = self._figures(SMALL, self.small)
        ours, rival = (found[name] for name in SMALL)
        lines = [f"### {self.small:,} rows appended inside the database", ""]
        lines += ["| Contender | Seconds, median of 9 | First | Python MiB |", "|---|--:|--:|--:|"]
        for name, label in SMALL.items():
            mine = found[name]
            lines.append(f"| {label} | {mine['seconds']:.4f} | {mine['first']:.4f} | {mine['python_mib']:,.0f} |")
        over = ours["seconds"] - rival["seconds"]
        return [*lines, "", f"Ours takes {over:.3f} seconds more.", "", *_spent(ours, 9)]

    def _table(self, contenders: dict[str, str], rows: int, *, wide: bool) -> list[str]:
        return rates(contenders, self._figures(contenders, rows, wide=wide), rows)

    def _figures(
        self, contenders: dict[str, str], rows: int, *, wide: bool = False, prepare: list[str] | None = None
    ) -> dict[str, Any]:
        found, sums = {}, {}
        for name in contenders:
            runs = []
            for _ in range(self.repeat):
                self._empty(wide, prepare or [])
                runs.append(self._case(name, rows, wide))
                sums[name] = self._sum()
            found[name] = min(runs, key=lambda run: run["seconds"])
        if len(set(sums.values())) > 1:
            raise SystemExit(f"the contenders do not end with the same rows: {sums}")
        return found

    def _case(self, name: str, rows: int, wide: bool) -> dict[str, Any]:
        print(f"… postgres {name}", file=sys.stderr, flush=True)
        facts = {
            "source": self.server.url("source"), "target": self.server.url("target"), "bin": str(self.server.bin),
            "rows": rows, "wide": wide, "changes": self.changes,
        }  # fmt: skip
        command = [sys.executable, "-m", "benchmarks.postgres_case", name, json.dumps(facts)]
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise SystemExit(f"{name} failed:\n{answer.stderr}")
        figures: dict[str, Any] = json.loads(answer.stdout.strip().splitlines()[-1])
        return figures

    def _empty(self, wide: bool, prepare: list[str]) -> None:
        """A new target for the next contender, and nothing that the server has still to do for the last one."""
        for statement in (
            "DROP SCHEMA IF EXISTS mart CASCADE", "DROP SCHEMA IF EXISTS ematix_flow CASCADE", "CREATE SCHEMA mart",
            table_sql("mart.orders", wide), *prepare, "CHECKPOINT",
        ):  # fmt: skip
            self._execute("target", statement)

    def _make(self, database: str, table: str, sql: str) -> None:
        self._execute(database, f"CREATE TABLE raw.{table} AS {sql}")
        self._execute(database, f"VACUUM ANALYZE raw.{table}")

    def _sum(self) -> object:
        with psycopg.connect(self.server.url("target")) as connection:
            query = "SELECT COUNT(*), SUM(id), SUM(amount), MAX(ts), COUNT(*) FILTER (WHERE flag) FROM mart.orders"
            return connection.execute(query).fetchone()

    def _execute(self, database: str, statement: str) -> None:
        with psycopg.connect(self.server.url(database), autocommit=True) as connection:
            connection.execute(statement)


def rates(contenders: dict[str, str], found: dict[str, Any], rows: int) -> list[str]:
    """Rows per second, each contender beside the first one, which is ours."""
    lines = [
        "| Contender | Seconds | Rows/s | Ours is faster by | Python MiB | Java MiB |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    ours = next(iter(contenders))
    for name, label in contenders.items():
        mine = found[name]
        ratio = "" if name == ours else f"{mine['seconds'] / found[ours]['seconds']:.2f}×"
        lines.append(
            f"| {label} | {mine['seconds']:.2f} | {rows / mine['seconds']:,.0f} | {ratio} "
            f"| {mine['python_mib']:,.0f} | {mine['java_mib']:,.0f} |"
        )
    return [*lines, ""]


def _spent(figures: dict[str, Any], times: int) -> list[str]:
    """What the time of ours goes to: its longest statements, and all that is none."""
    spent = {sql: seconds / times for sql, seconds in figures["statements"].items()}
    longest = sorted(spent.items(), key=lambda each: -each[1])
    whole = figures.get("mean", figures["seconds"])
    lines = ["| Ours spends on | Milliseconds |", "|---|--:|"]
    for sql, seconds in longest[:6]:
        text = " ".join(sql.split()).replace("|", "\\|")
        lines.append(f"| `{text[:90]}{'…' if len(text) > 90 else ''}` | {seconds * 1000:.1f} |")
    lines.append(f"| {len(longest) - 6} other statements | {sum(each for _, each in longest[6:]) * 1000:.1f} |")
    lines.append(f"| everything that is no statement | {(whole - sum(spent.values())) * 1000:.1f} |")
    return [*lines, ""]
