"""MariaDB: this package beside Spark's own JDBC, the server's own files and SQL by hand, on one server."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pymysql

from ematix_flow.config import Settings
from ematix_flow.engine.jars import JarStore
from tests.servers import MariaDB

from .mysql_data import changes_sql, columns_sql, orders_sql, table_sql
from .postgres import rates
from .postgres_data import WARM_ROWS
from .rounds import best_runs

ROOT = Path(__file__).resolve().parent.parent
ROOM = ("--innodb-buffer-pool-size=512M", "--innodb-log-file-size=256M")
READER = "reader"
"""Another user of the same server, so that its tables are those of another system."""
FRAME = {
    "frame_ours": "ours: a pipeline that returns the frame",
    "frame_jdbc_tuned": "Spark JDBC, rewritten batches of 10,000",
    "frame_jdbc": "Spark JDBC, defaults",
}
COPY = {
    "copy_ours": "ours: a pipeline between two connections",
    "copy_files": "`SELECT … INTO OUTFILE` and `LOAD DATA INFILE`, both in the server",
    "copy_jdbc": "Spark JDBC to JDBC, tuned",
}
MERGE = {
    "merge_ours": "ours: a pipeline inside the database",
    "merge_sql": "by hand: one `INSERT … ON DUPLICATE KEY UPDATE`",
}


def mysql_section(arguments: argparse.Namespace) -> list[str]:
    """Measure everything and give the lines of the section."""
    JarStore.of(Settings.load()).paths(["jdbc"])  # fetched before anything is measured
    server = MariaDB()
    server.stop()
    server.start(*ROOM)
    return _Bench(server, arguments).lines()


class _Bench:
    """One server, and what is measured on it."""

    def __init__(self, server: MariaDB, arguments: argparse.Namespace) -> None:
        self.server, self.repeat = server, arguments.repeat
        self.rows, self.held, self.changes = arguments.my_rows, arguments.my_held, arguments.my_changes
        self._execute("CREATE DATABASE raw", "CREATE DATABASE mart")
        user = f"{READER}@'127.0.0.1'"
        self._execute(f"CREATE USER {user} IDENTIFIED BY 'flow'", f"GRANT SELECT ON raw.* TO {user}")

    def lines(self) -> list[str]:
        """The whole section."""
        lines = [
            "## MariaDB",
            "",
            (
                "MariaDB 11.4 on the same machine, which does not wait for the disk at the end of a transaction. Every "
                "contender fills a table of the same definition, with its primary key and the columns `_loaded_at` and "
                f"`_batch_id`, and all end with the same count and sums. Java has loaded {WARM_ROWS:,} rows the same "
                "way before. JDBC is MySQL's Connector/J. "
                f"Best of {self.repeat}, measured with `{' '.join(['python -m benchmarks', *sys.argv[1:]])}`. "
                "Where ours is faster by less than 1×, it is slower."
            ),
            "",
        ]
        lines += [f"### A Spark frame of {self.rows:,} rows × 6 columns into a new MariaDB table", ""]
        lines += rates(FRAME, self._figures(FRAME, self.rows), self.rows)
        self._make("orders", orders_sql(self.rows))
        lines += [f"### From one MariaDB user's tables to another's, {self.rows:,} rows × 6 columns", ""]
        lines += rates(COPY, self._figures(COPY, self.rows), self.rows)
        self._make("held", orders_sql(self.held))
        self._make("changes", changes_sql(self.changes, self.held))
        fill = "INSERT INTO mart.orders SELECT *, '2026-05-01', UUID() FROM raw.held"
        lines += [f"### {self.changes:,} changed rows merged into {self.held:,} in MariaDB", ""]
        lines += rates(
            MERGE, self._figures(MERGE, self.held, prepare=(fill, "ANALYZE TABLE mart.orders")), self.changes
        )
        return lines

    def _figures(self, contenders: dict[str, str], rows: int, prepare: tuple[str, ...] = ()) -> dict[str, Any]:
        def once(name: str) -> tuple[dict[str, Any], object]:
            self._empty(prepare)
            return self._case(name, rows), self._sum()

        return best_runs(contenders, self.repeat, once)

    def _case(self, name: str, rows: int) -> dict[str, Any]:
        print(f"… mysql {name}", file=sys.stderr, flush=True)
        target = self.server.url("mart")
        source = self.server.url("raw").replace(f"{self.server.USER}:", f"{READER}:", 1)
        facts = {"source": source, "target": target, "rows": rows, "folder": str(self.server.folder / "temporary")}
        command = [sys.executable, "-m", "benchmarks.mysql_case", name, json.dumps(facts)]
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise SystemExit(f"{name} failed:\n{answer.stderr}")
        figures: dict[str, Any] = json.loads(answer.stdout.strip().splitlines()[-1])
        return figures

    def _empty(self, prepare: tuple[str, ...]) -> None:
        """A new target for the next contender."""
        made = ("DROP DATABASE IF EXISTS ematix_flow", "DROP DATABASE mart", "CREATE DATABASE mart")
        self._execute(*made, table_sql("mart.orders"), *prepare)

    def _make(self, table: str, sql: str) -> None:
        self._execute(
            "SET max_recursive_iterations = 100000000",
            f"CREATE TABLE raw.{table} ({columns_sql()}, PRIMARY KEY (id))",
            f"INSERT INTO raw.{table} {sql}",
            f"ANALYZE TABLE raw.{table}",
        )

    def _sum(self) -> object:
        return self._execute("SELECT COUNT(*), SUM(id), SUM(amount), MAX(ts), SUM(flag) FROM mart.orders")

    def _execute(self, *statements: str) -> object:
        """Run statements; gives the first row of the last one."""
        options: dict[str, Any] = {"port": self.server.port, "user": self.server.USER, "password": "flow"}
        with pymysql.connect(host="127.0.0.1", autocommit=True, **options) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchone()
