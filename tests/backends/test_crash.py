"""A load killed at any moment leaves the table as it was or as it should be; the next run repairs the rest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.backends.crash_run import SCENARIOS, look, open_lab, prepare, spark_lane

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
INTERRUPTED = "interrupted"

PUSHED = [(system, scenario) for system in ("sqlite", "duckdb") for scenario in SCENARIOS]


def run_program(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The program that kills, in a process of its own with our search path."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.backends.crash_run", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def check_point(point: dict[str, Any], *, before: str | None, after: str | None) -> None:
    """What must hold whatever the moment of death was."""
    place = point["statement"]
    assert point["state"] in ("before", "after"), f"{place} left {point['left']}, not one of {point['states']}"
    committed = point["state"] == "after"
    assert point["bookmark"] == (after if committed else before), place
    newest = point["history"][0][0] if point["history"] else None
    assert newest in (("success",) if committed else (None, "running", "success")), place
    assert point["replayed"] == committed, place
    assert not point["token_changed"], place
    assert point["repaired"], place
    assert point["stable"], place
    # The record of the dead run has an end, and nobody else's was touched.
    statuses = [status for status, _ in point["records"]]
    assert statuses[0] == "success", place
    assert "running" not in statuses, place
    interrupted = [error for status, error in point["records"] if status == "failed"]
    assert all(INTERRUPTED in str(error) for error in interrupted), place
    was_running = any(status == "running" for status, _ in point["history"])
    assert len(interrupted) == int(was_running), place


@pytest.mark.slow
@pytest.mark.parametrize(("system", "scenario"), PUSHED)
def test_a_pushed_load_may_die_before_any_of_its_statements(system: str, scenario: str, tmp_path: Path) -> None:
    done = run_program(system, scenario, str(tmp_path))
    assert done.returncode == 0, done.stderr
    points = json.loads(done.stdout)
    marks = ("5", "7") if scenario == "append" else (None, None)
    for point in points:
        check_point(point, before=marks[0], after=marks[1])
    # The sweep met both sides of the commit, and it went through the middle of the change.
    assert {point["state"] for point in points} == {"before", "after"}
    assert len(points) > 8
    assert any(point["statement"].startswith("INSERT INTO") and "customer" in point["statement"] for point in points)


SPARK = [
    ("sqlite", "scd2", r'^INSERT INTO "shop.customer"'),
    ("sqlite", "merge", r"^the end of the run"),
    ("duckdb", "scd2", r'^INSERT INTO "shop"."shop"."customer"|^INSERT INTO "shop"."customer"'),
    ("duckdb", "append", r"^INSERT INTO .*loads"),
    ("parquet", "append", r"^os\.link"),
    ("parquet", "truncate", r"^os\.(rename|replace).*part-"),
    ("parquet", "append", r"^the end of the run"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("system", "scenario", "moment"), SPARK)
def test_a_load_through_spark_may_die_in_the_middle(
    system: str, scenario: str, moment: str, tmp_path: Path, session: Callable[[], SparkSession]
) -> None:
    definition = SCENARIOS[scenario]
    lab = open_lab(spark_lane(system), definition, tmp_path, session)
    prepare(lab, definition)
    before = lab.table()
    lab.close()
    died = run_program(system, scenario, str(tmp_path), moment)
    assert died.returncode == -signal.SIGKILL, died.stderr
    lab = open_lab(spark_lane(system), definition, tmp_path, session)
    point = {"statement": (tmp_path / "note.txt").read_text(), **look(lab, definition, before)}
    lab.close()
    marks = ("5", "7") if scenario == "append" else (None, None)
    check_point(point, before=marks[0], after=marks[1])
