"""A load killed at any moment leaves the table as it was or as it should be; the next run repairs the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.backends.conftest import BY_NAME
from tests.backends.crash_run import SCENARIOS

ROOT = Path(__file__).parents[2]
INTERRUPTED = "interrupted"

# The databases share their load, so a few scenarios on the slower one are enough.
PUSHED = [
    *(("pushed", "sqlite", scenario) for scenario in SCENARIOS),
    *(("pushed", "duckdb", scenario) for scenario in ("merge", "first load")),
]
SPARK = [("spark", "sqlite", "scd2"), ("spark", "parquet", "append"), ("spark", "parquet", "truncate")]
STEPS = 4
"""Reading and loading, each of which begins and ends."""


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
@pytest.mark.parametrize(("path", "system", "scenario"), PUSHED + SPARK)
def test_a_load_may_die_at_any_moment(path: str, system: str, scenario: str, tmp_path: Path) -> None:
    done = run_program(path, system, scenario, str(tmp_path))
    assert done.returncode == 0, done.stderr
    points = json.loads(done.stdout)
    marks = ("5", "7") if scenario == "append" else (None, None)
    for point in points:
        check_point(point, before=marks[0], after=marks[1])
    # The sweep met both sides of the commit, and it went through every step and the middle of the change.
    assert {point["state"] for point in points} == {"before", "after"}
    moments = [point["statement"] for point in points]
    assert sum(moment.startswith("Step") for moment in moments) == STEPS
    middle = "os." if BY_NAME[system].gaps else "INSERT INTO"
    assert any(moment.startswith(middle) and "customer" in moment for moment in moments)
