"""A person's first hour: a SQLite table becomes a dimension in DuckDB, by the command line alone."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

pytestmark = pytest.mark.slow

PIPELINES = """
from ematix_flow import Annotated, BigInt, String, Text, TimestampTZ, ematix, pk
from ematix_flow.normalize import empty_to_null, lower, parse_timestamp, trim

@ematix.connection
class crm:
    kind = "sqlite"
    path = "crm.db"

@ematix.connection
class analytics:
    kind = "duckdb"
    path = "analytics.duckdb"

@ematix.table(schema="analytics")
class CustomerDim:
    customer_id: Annotated[BigInt, pk()]
    email: Annotated[String[256] | None, trim(), lower(), empty_to_null()]
    full_name: Annotated[Text, trim()]
    signed_up_at: Annotated[TimestampTZ | None, parse_timestamp()]

@ematix.pipeline(
    target=CustomerDim, mode="scd2", compare_columns=["email", "full_name"],
    source_connection="crm", target_connection="analytics",
)
def sync_customers(source):
    return "SELECT customer_id, email, full_name, signed_up_at FROM customers"
"""

Flow = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a source of three customers."""
    (tmp_path / "pipelines.py").write_text(PIPELINES, encoding="utf-8")
    (tmp_path / ".ematix-flow.toml").write_text('[project]\nmodules = ["pipelines"]\n', encoding="utf-8")
    source(
        tmp_path,
        "CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, email TEXT, full_name TEXT, signed_up_at TEXT)",
        "INSERT INTO customers VALUES (1, ' ADA@Example.com ', 'Ada', '2026-01-02'), (2, '', ' Bob', NULL), "
        "(3, 'cy@example.com', 'Cy', '2026-01-03T10:20:30Z')",
    )
    return tmp_path


@pytest.fixture
def flow(folder: Path) -> Flow:
    """The command, in a process of its own inside the project."""
    path = os.pathsep.join(entry for entry in sys.path if entry)

    def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "import sys; from ematix_flow.cli import main; sys.exit(main())", *arguments]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        return done

    return run


def source(folder: Path, *statements: str) -> None:
    with sqlite3.connect(folder / "crm.db") as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def dimension(folder: Path) -> list[tuple[Any, ...]]:
    """The dimension as another program sees it."""
    with duckdb.connect(str(folder / "analytics.duckdb"), read_only=True) as connection:
        return connection.execute(
            "SELECT customer_id, email, full_name, CAST(signed_up_at AT TIME ZONE 'UTC' AS VARCHAR), is_current "
            "FROM analytics.analytics.customer_dim ORDER BY customer_id, valid_from"
        ).fetchall()


def test_a_dimension_keeps_its_history_over_two_runs(folder: Path, flow: Flow) -> None:
    assert "sync_customers" in flow("list").stdout
    assert flow("connections", "check", "crm").stdout.startswith("crm: ok")
    assert "customer_dim" in flow("preview", "sync_customers").stdout
    assert not (folder / "analytics.duckdb").exists()

    first = json.loads(flow("run", "sync_customers").stdout)
    assert (first["status"], first["rows_inserted"], first["rows_closed"]) == ("success", 3, 0)

    source(folder, "UPDATE customers SET full_name = 'Ada Lovelace' WHERE customer_id = 1")
    second = json.loads(flow("run", "sync_customers").stdout)
    assert (second["rows_inserted"], second["rows_closed"], second["rows_unchanged"]) == (1, 1, 2)

    runs = json.loads(flow("runs", "list", "--format", "json").stdout)
    assert [(run["run_id"], run["status"], run["mode"], run["rows_inserted"]) for run in runs] == [
        (second["run_id"], "success", "scd2", 1),
        (first["run_id"], "success", "scd2", 3),
    ]
    assert dimension(folder) == [
        (1, "ada@example.com", "Ada", "2026-01-02 00:00:00", False),
        (1, "ada@example.com", "Ada Lovelace", "2026-01-02 00:00:00", True),
        (2, None, "Bob", None, True),
        (3, "cy@example.com", "Cy", "2026-01-03 10:20:30", True),
    ]


def test_a_load_that_cannot_be_right_says_why_and_leaves_the_dimension(folder: Path, flow: Flow) -> None:
    flow("run", "sync_customers")
    before = dimension(folder)
    source(folder, "UPDATE customers SET full_name = NULL WHERE customer_id = 2")
    failed = flow("run", "sync_customers", code=1)
    assert "full_name" in failed.stderr
    assert dimension(folder) == before
    runs = json.loads(flow("runs", "list", "--format", "json").stdout)
    assert [run["status"] for run in runs] == ["failed", "success"]
    assert "full_name" in runs[0]["error"]
    assert "sync_customers" in flow("run", "sync_custmers", code=2).stderr
