"""A sample of the seeded runs: every fault once on each database; and the judge notices what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.faults import FAULTS, WHEEL, Strike
from tests.chaos.processes import Outcome
from tests.chaos.runs import Seen, State, judge, scenario_of
from tests.chaos.scenario import difference, said
from tests.chaos.stage import TOKEN

ROOT = Path(__file__).parents[2]
DEADLOCK = 116
"""A seed whose load gives way in a deadlock on MariaDB, which takes the rows that it had staged with it."""


@pytest.mark.slow
@pytest.mark.server
def test_no_fault_loses_doubles_or_tears_a_row() -> None:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.chaos", "--jobs", "1"]
    command += ["--runs", str(len(FAULTS)), "--also", str(DEADLOCK)]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # The number of runs stands behind the name of the database.
    found = {(fault, line.split()[-8:-6][0]) for line in done.stdout.splitlines() for fault in FAULTS if fault in line}
    assert found == {(fault, database) for fault in FAULTS for database in ("postgres", "mysql")}


def test_the_first_seeds_are_one_of_each_fault() -> None:
    assert WHEEL[: len(FAULTS)] == tuple(FAULTS)


ROW = {"id": 1, "v": "a", "n": 1, "_batch_id": "first"}
NEW = {"id": 2, "v": "b", "n": 2, "_batch_id": "second"}
BEFORE = State([ROW], None, {"shop.customer"}, {"day": "first"}, {"first": "success"})
AFTER = State(
    [ROW, NEW], None, {"shop.customer"}, {"day": "first", TOKEN: "second"}, {"first": "success", "second": "success"}
)
REPLAYED = Outcome("success", replayed=True)
GOOD = Seen(AFTER, said(AFTER.rows), said(AFTER.rows), REPLAYED, AFTER, REPLAYED, AFTER, [])
MERGE = replace(scenario_of(0, "postgres"), mode="merge")
STRIKE = Strike("COMMIT", ((TOKEN, Outcome("success")),))


def problems(seen: Seen, strike: Strike = STRIKE) -> str:
    """What the judge says of a run on a database that keeps tables and rows together."""
    return "; ".join(judge(MERGE, False, strike, BEFORE, seen))


def test_a_good_run_has_no_problem() -> None:
    assert problems(GOOD) == ""


@pytest.mark.parametrize(
    ("left", "problem"),
    [
        (replace(AFTER, rows=[ROW, NEW, NEW]), "1 too many, such as id=2"),
        (replace(AFTER, rows=[ROW]), "1 missing, such as id=2"),
        (replace(AFTER, tokens=BEFORE.tokens), "1 too many, such as id=2"),
        (replace(AFTER, tokens=BEFORE.tokens), "rows are there of runs that have no token: ['second']"),
        (replace(AFTER, history={"first": "success", "second": "running"}), "is 'running' in the history"),
        (replace(AFTER, bookmark="7"), "the bookmark was '7'"),
        (replace(AFTER, tables={"shop.customer", "shop.stage"}), "tables were left: ['shop.stage']"),
    ],
)
def test_what_a_fault_left_is_compared_in_every_part(left: State, problem: str) -> None:
    assert problem in problems(replace(GOOD, left=left))


def test_a_driver_that_says_success_must_have_committed() -> None:
    left = replace(BEFORE, rows=[ROW])
    loaded = Outcome("success")
    assert "its token" in problems(replace(GOOD, left=left, again=loaded))


def test_a_failure_that_no_attempt_can_make_good_is_a_problem() -> None:
    failed = Strike("COMMIT", ((TOKEN, Outcome("BackendError", text="no such table")),))
    assert "failed for good: no such table" in problems(GOOD, failed)


def test_the_next_runs_must_replay_and_leave_nothing_behind() -> None:
    assert "the run after that loaded again" in problems(replace(GOOD, once_more=Outcome("success")))
    assert "folders were left" in problems(replace(GOOD, folders=["ematix-flow-run-1"]))


def test_rows_are_compared_with_their_number() -> None:
    assert difference(["a", "b"], ["a", "b"]) == ""
    assert difference(["a", "a"], ["a", "b"]) == "1 missing, such as b; 1 too many, such as a"
