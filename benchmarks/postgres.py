"""PostgreSQL: this package beside Spark's own JDBC, the server's own programs and SQL by hand, on one server."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg

from ematix_flow.config import Settings
from ematix_flow.engine.jars import JarStore
from tests.servers import Postgres

from . import peers
from .postgres_data import WARM_ROWS, changes_sql, columns, orders_sql, table_sql
from .rounds import best_runs
from .spending import spending

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


ENCODE = "read Parquet and encode the rows for `COPY`"
COMPUTE = "Spark computes the rows and writes them as Parquet; planning"
LIMIT_FRAME = (
    "Nothing reaches the table before Spark has computed all rows, so that the transaction is short and repeated tasks "
    "do no harm; one COPY then brings them in at the speed of the server. What does not depend on the number of rows "
    "weighs more in the smaller load."
)
LIMIT_COPY = (
    "Both servers work while the rows pass, so that a pair of their own programs is the limit of one stream on this "
    "machine:"
)
LIMIT_MERGE = (
    "The statement is the one by hand but for the order of its rows. By hand nobody checks that every key comes once, "
    "nor tells which rows were new; the rows by hand are in the order of their keys already."
)

ON_SPARK = frozenset(FRAME) | {"copy_jdbc", "merge_partitions"}
PARTS = ("frame", "copy", "merge", "small")
PEER_DEFAULTS = (
    "ALTER TABLE mart.orders ALTER _loaded_at SET DEFAULT now(), ALTER _batch_id SET DEFAULT gen_random_uuid()"
)
"""For those who copy the source's columns and no others."""
LONG = 10_000_000
"""Loads of more rows than this are measured once: they are long enough to be alike."""
ROW_BYTES = {False: 140, True: 420}
"""What a row takes in a table with its key, of six columns and of thirty."""


def postgres_section(arguments: argparse.Namespace) -> list[str]:
    """Measure everything and give the lines of the section."""
    if not arguments.no_spark:
        JarStore.of(Settings.load()).paths(["jdbc"])  # fetched before anything is measured
    return _Bench(Postgres(), arguments).lines()


class _Bench:
    """One server, and what is measured on it."""

    def __init__(self, server: Postgres, arguments: argparse.Namespace) -> None:
        self.server, self.repeat = server, arguments.repeat
        self.sizes, self.wide = arguments.pg_rows, arguments.wide
        self.held, self.changes, self.small = arguments.pg_held, arguments.pg_changes, arguments.pg_small
        # Rows that are merged or few have six columns.
        self.parts = arguments.pg_part or (PARTS[:2] if self.wide else PARTS)
        self.peers, self.spark = peers.wanted_peers(arguments.peers), not arguments.no_spark
        self.memory: dict[str, dict[int, tuple[float, float]]] = {}
        self._check_room()
        self._execute("postgres", "CREATE DATABASE source")
        self._execute("postgres", "CREATE DATABASE target")
        for database in ("source", "target"):
            self._execute(database, "CREATE SCHEMA raw")

    def lines(self) -> list[str]:
        """The whole section."""
        lines = self._bulk() if {"frame", "copy"} & {*self.parts} else []
        lines += [*self._title("PostgreSQL: changes"), *self._merge()] if "merge" in self.parts else []
        lines += [*self._title("PostgreSQL: a small load"), *self._small()] if "small" in self.parts else []
        return lines

    def _bulk(self) -> list[str]:
        lines = self._title(f"PostgreSQL{', 30 columns' if self.wide else ''}")
        for rows in self.sizes:
            lines += self._frame(rows) if "frame" in self.parts and self.spark else []
            lines += self._copy(rows) if "copy" in self.parts else []
        return [*lines, *(self._flatness() if len(self.sizes) > 1 else [])]

    def _title(self, title: str) -> list[str]:
        return [
            f"## {title}",
            "",
            (
                "PostgreSQL 18 on the same machine, without fsync, so that the disk does not hide the rest. Every "
                "contender fills a table of the same definition, with its primary key and the columns `_loaded_at` and "
                f"`_batch_id`, and all end with the same count and sums. Java has loaded {WARM_ROWS:,} rows "
                "the same way before. "
                f"Best of {self.repeat} (one run where more than {LONG:,} rows are loaded), "
                f"measured with `{' '.join(['python -m benchmarks', *sys.argv[1:]])}`. "
                "Where ours is faster by less than 1×, it is slower."
            ),
            "",
        ]

    def _frame(self, rows: int) -> list[str]:
        found = self._figures(FRAME, rows, wide=self.wide)
        self._remember("a Spark frame", rows, found["frame_ours"])
        return [
            f"### A Spark frame of {rows:,} rows × {self._width} columns into a new table",
            "",
            *rates(FRAME, found, rows),
            *spending(found["frame_ours"], read=ENCODE, rest=COMPUTE),
            LIMIT_FRAME,
            "",
        ]

    def _copy(self, rows: int) -> list[str]:
        self._make("source", "orders", orders_sql(rows, self.wide))
        full = ", ".join(f"ALTER {column.name} SET NOT NULL" for column in columns(self.wide))
        self._execute("source", f"ALTER TABLE raw.orders {full}")  # as in the target
        found = self._figures(COPY, rows, wide=self.wide)
        self._remember("from one database to another", rows, found["copy_ours"])
        lines = [f"### From one database to another, {rows:,} rows × {self._width} columns", ""]
        lines += [*rates(COPY, found, rows), *spending(found["copy_ours"])]
        if "copy_jdbc" in found:
            own = found["copy_jdbc"]["seconds"] / found["copy_psql"]["seconds"]
            lines += [f"{LIMIT_COPY} `psql` is faster than Spark's JDBC by {own:.2f}×.", ""]
        if rows == self.sizes[0]:
            lines += self._whole_commands(rows)
        self._execute("source", "DROP TABLE raw.orders")
        return lines

    def _whole_commands(self, rows: int) -> list[str]:
        """Ours beside other tools, each with all that a user waits for; a tool that fails stops nobody else."""
        found, missing = {"ours": self._whole(peers.OURS, Path(sys.executable).parent)}, {}
        expected = self._sum()
        for name in self.peers:
            try:
                found[name] = self._whole(peers.PEERS[name], peers.installed(name))
                if self._sum() != expected:
                    raise peers.PeerError(f"ends with other rows: {self._sum()} and not {expected}")
            except peers.PeerError as error:
                found.pop(name, None)
                missing[name] = str(error)
        return peers.whole_table(found, missing, rows)

    def _whole(self, peer: peers.Peer, programs: Path) -> dict[str, float]:
        runs = []
        for _ in range(self.repeat):
            print(f"… postgres whole command of {peer.label}", file=sys.stderr, flush=True)
            self._empty(self.wide, [PEER_DEFAULTS])
            runs.append(peers.run_whole(peer, programs, {**self._urls(), "wide": self.wide}))
        return min(runs, key=lambda run: run["seconds"])

    def _merge(self) -> list[str]:
        self._make("target", "changes", changes_sql(self.changes, self.held))
        self._make("target", "held", orders_sql(self.held))
        fill = "INSERT INTO mart.orders SELECT *, TIMESTAMPTZ '2026-05-01', gen_random_uuid() FROM raw.held"
        lines = [f"### {self.changes:,} changed rows merged into {self.held:,}", ""]
        found = self._figures(MERGE, self.held, prepare=[fill, "ANALYZE mart.orders"])
        self._execute("target", "DROP TABLE raw.changes, raw.held")
        return [*lines, *rates(MERGE, found, self.changes), *spending(found["merge_ours"]), LIMIT_MERGE, ""]

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
        return [*lines, "", f"Ours takes {over:.3f} seconds more.", "", *spending(ours, 9)]

    def _flatness(self) -> list[str]:
        """The memory of ours at every size, so that one sees whether it grows."""
        lines = ["### Memory of ours at each size", ""]
        for what, found in self.memory.items():
            shown = (
                f"{rows:,} rows: Python {python:,.0f} MiB" + (f", Java {java:,.0f} MiB" if java else "")
                for rows, (python, java) in found.items()
            )
            lines.append(f"- {what}: {'; '.join(shown)}")
        return [*lines, ""]

    def _remember(self, what: str, rows: int, figures: dict[str, float]) -> None:
        self.memory.setdefault(what, {})[rows] = (figures["python_mib"], figures["java_mib"])

    @property
    def _width(self) -> int:
        return 30 if self.wide else 6

    def _check_room(self) -> None:
        """The source, the target, a table that one of the contenders fills in between, and the server's log."""
        tables = max(max(self.sizes) * ROW_BYTES[self.wide], self.held * ROW_BYTES[False]) * 3
        needed = tables + min(tables + 2**28, 4 * 2**30)
        free = shutil.disk_usage(self.server.folder).free
        if free < needed:
            raise SystemExit(
                f"needs {needed / 2**30:.1f} GiB in {self.server.folder}, where {free / 2**30:.1f} are free"
            )

    def _figures(
        self, contenders: dict[str, str], rows: int, *, wide: bool = False, prepare: list[str] | None = None
    ) -> dict[str, Any]:
        def once(name: str) -> tuple[dict[str, Any], object]:
            self._empty(wide, prepare or [])
            return self._case(name, rows, wide), self._sum()

        taking_part = (name for name in contenders if self.spark or name not in ON_SPARK)
        return best_runs(taking_part, self._repeats(rows), once)

    def _repeats(self, rows: int) -> int:
        return self.repeat if rows <= LONG else 1

    def _case(self, name: str, rows: int, wide: bool) -> dict[str, Any]:
        print(f"… postgres {name}", file=sys.stderr, flush=True)
        facts = {
            **self._urls(), "bin": str(self.server.bin), "rows": rows, "wide": wide, "changes": self.changes,
        }  # fmt: skip
        command = [sys.executable, "-m", "benchmarks.postgres_case", name, json.dumps(facts)]
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise SystemExit(f"{name} failed:\n{answer.stderr}")
        figures: dict[str, Any] = json.loads(answer.stdout.strip().splitlines()[-1])
        return figures

    def _urls(self) -> dict[str, Any]:
        return {name: self.server.url(name) for name in ("source", "target")}

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
    for name, mine in found.items():
        label = contenders[name]
        ratio = "" if name == ours else f"{mine['seconds'] / found[ours]['seconds']:.2f}×"
        lines.append(
            f"| {label} | {mine['seconds']:.2f} | {rows / mine['seconds']:,.0f} | {ratio} "
            f"| {mine['python_mib']:,.0f} | {mine['java_mib']:,.0f} |"
        )
    return [*lines, ""]
