"""The display of a run: silent in a pipe, live on a terminal, and never the reason that Spark starts."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from tests.cli.calls import modules_loaded_by, on_a_terminal

ACROSS_SYSTEMS = """

@ematix.connection
class ledger:
    kind = "sqlite"
    path = "ledger.db"


@ematix.pipeline(target=People, mode="append", source_connection="warehouse", target_connection="ledger")
def copy_people(source):
    return "SELECT range AS id, 'Ada' AS name FROM range(12345)"


@ematix.pipeline(
    target=People, mode="append", source_connection="warehouse", target_connection="ledger", force_path="spark"
)
def move_people(source):
    return "SELECT 1 AS id, 'Ada' AS name"
"""


@pytest.mark.usefixtures("project")
def test_a_terminal_sees_progress_and_then_a_readable_result() -> None:
    code, shown = on_a_terminal("run", "sync_customers")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert code == 0
    assert "\x1b[?25l" in shown  # the cursor hides while a live display is on
    assert "planning" in plain
    assert "sync_customers: success, in " in plain
    assert '{"run_id"' not in plain


@pytest.mark.usefixtures("project")
def test_a_failure_on_a_terminal_leaves_the_cursor_visible() -> None:
    code, shown = on_a_terminal("run", "broken_query")
    assert code == 1
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert "no_such_table" in shown


@pytest.mark.usefixtures("project")
def test_json_can_be_had_on_a_terminal() -> None:
    code, shown = on_a_terminal("run", "sync_customers", "--format", "json")
    assert code == 0
    assert '{"run_id"' in shown


@pytest.mark.usefixtures("project")
def test_a_run_inside_one_database_loads_no_spark() -> None:
    loaded = modules_loaded_by("run", "sync_customers")
    assert "duckdb" in loaded
    assert "pyspark" not in loaded


def test_a_terminal_sees_how_many_rows_were_copied(project: Path) -> None:
    with (project / "pipelines.py").open("a") as source:
        source.write(ACROSS_SYSTEMS)
    duckdb.connect(str(project / "warehouse.duckdb")).close()
    code, shown = on_a_terminal("run", "copy_people", width=160)
    assert code == 0
    assert re.search(r"12,345 rows, [\d,]+ rows/s", shown)
    assert "Spark" not in shown


@pytest.mark.slow
def test_a_terminal_sees_that_spark_starts(project: Path) -> None:
    with (project / "pipelines.py").open("a") as source:
        source.write(ACROSS_SYSTEMS)
    duckdb.connect(str(project / "warehouse.duckdb")).close()
    code, shown = on_a_terminal("run", "move_people")
    assert code == 0
    assert "move_people: " in shown
    assert "starting Spark" in shown
