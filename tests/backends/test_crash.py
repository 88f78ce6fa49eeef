"""A load killed at any moment leaves the table as it was or as it should be; the next run repairs the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ematix_flow.connections import PostgresConnection
from ematix_flow.errors import ConnectError
from tests.backends.conftest import BY_NAME
from tests.backends.crash_run import SCENARIOS, no_spark
from tests.backends.lab import Lab, Lane, Route, read_table
from tests.backends.watch import watch_statements
from tests.servers import Postgres, empty_mysql, empty_postgres

pytestmark = pytest.mark.xdist_group("crash")  # the program that kills is loaded once
ROOT = Path(__file__).parents[2]
INTERRUPTED = "interrupted"

# The databases share their load, so a few scenarios on the slower one are enough.
PUSHED = [
    *(("pushed", "sqlite", scenario) for scenario in SCENARIOS),
    *(("pushed", "duckdb", scenario) for scenario in ("merge", "first load")),
]
SERVER = [
    *(("pushed", "postgres", scenario) for scenario in ("scd2", "first load")),
    *(("copied", "postgres", scenario) for scenario in ("merge", "truncate")),
    ("pushed", "mysql", "merge"),
    ("copied", "mysql", "truncate"),
    ("pushed", "mysql", "first load"),
]
SPARK = [
    ("spark", "sqlite", "scd2"),
    ("spark", "parquet", "append"),
    ("spark", "parquet", "truncate"),
    ("spark", "iceberg", "merge"),
]
STEPS = 4
"""Reading and loading, each of which begins and ends."""


class Program:
    """The program that kills, in a process of its own with our search path."""

    def __init__(self, log: Path) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.backends.crash_run"]
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        self._log = log

    def sweep(self, *arguments: str) -> list[dict[str, Any]]:
        """All points of a load."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(arguments), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        answer = json.loads(line)
        assert "error" not in answer, answer["error"] + self._log.read_text()
        return answer["points"]  # type: ignore[no-any-return]

    def close(self) -> None:
        """Let it end by itself."""
        self._process.communicate()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One program for all sweeps: it takes seconds to load what they need."""
    started = Program(tmp_path_factory.mktemp("program") / "errors.txt")
    yield started
    started.close()


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
@pytest.mark.parametrize(
    ("path", "system", "scenario"),
    [*PUSHED, *SPARK, *(pytest.param(*each, marks=pytest.mark.server) for each in SERVER)],
)
def test_a_load_may_die_at_any_moment(path: str, system: str, scenario: str, program: Program, tmp_path: Path) -> None:
    servers = {"postgres": lambda: empty_postgres("crash"), "mysql": lambda: empty_mysql("lab0")}
    points = program.sweep(path, system, scenario, str(tmp_path), servers.get(system, str)())
    marks = ("5", "7") if scenario == "append" else (None, None)
    for point in points:
        check_point(point, before=marks[0], after=marks[1])
    # The sweep met both sides of the commit, and it went through every step and the middle of the change.
    assert {point["state"] for point in points} == {"before", "after"}
    moments = [point["statement"] for point in points]
    assert sum(moment.startswith("Step") for moment in moments) == STEPS
    assert any(moment.startswith(middle_of(path, system, scenario)) for moment in moments)
    if scenario == "first load":
        # Only where the server commits by itself is a table left that no load has filled.
        early = any(point["exists"] and point["state"] == "before" for point in points)
        assert early == (system == "mysql")


def middle_of(path: str, system: str, scenario: str) -> str:
    """How the statement begins that brings rows into the table; copied rows of a full refresh go straight there."""
    if system == "iceberg":
        return "CALL "
    if BY_NAME[system].is_folder:
        return "os."
    if (path, scenario) == ("copied", "truncate"):
        return {"postgres": 'the end of COPY "shop"."customer"', "mysql": "the end of LOAD DATA"}[system]
    return {"postgres": 'INSERT INTO "shop"."customer"', "mysql": "INSERT INTO `shop`.`customer`"}.get(
        system, "INSERT INTO"
    )


class Stopper:
    """Stops a server, as a crash would, when something happens for the n-th time."""

    def __init__(self, server: Postgres, moment: str, time: int) -> None:
        self.server, self.moment, self.time = server, moment, time

    def event(self, text: str) -> None:
        if text.startswith(self.moment):
            self.time -= 1
            if self.time == 0:
                self.server.stop("immediate")


ONCE = {"retry_timeout": 0, "load_retries": 0}
"""Fields of a connection whose loads are not tried again: what a fault leaves is to be seen."""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server that nobody else uses."""
    own = Postgres()
    yield own
    own.remove()


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(
    ("path", "mode", "moment", "time"),
    [
        ("pushed", "merge", 'INSERT INTO "shop"."customer"', 1),
        ("pushed", "scd2", "COMMIT", 2),  # the first one is that of the record
        ("copied", "truncate", 'the end of COPY "shop"."customer"', 1),
    ],
)
def test_a_server_may_fall_in_the_middle_of_a_load(
    path: Route, mode: str, moment: str, time: int, server: Postgres, tmp_path: Path
) -> None:
    # What this server commits is safe, unlike on the one that other tests share.
    url = f"{server.url()}?options=-csynchronous_commit%3Don"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS shop, raw, ematix_flow CASCADE")
    system = replace(BY_NAME["postgres"], connect=lambda name, _: PostgresConnection(name, url, **ONCE))
    lab = Lab(Lane(system, path), tmp_path, no_spark, mode=mode)
    lab("id | v", "1 | a", "2 | b", at="09:00")
    before = lab.table()
    lab.seed(*read_table("id | v", ("1 | A", "2 | b", "3 | c")))
    watch_statements(lab, Stopper(server, moment, time))
    with pytest.raises(ConnectError, match="load_customers") as caught:
        lab.run(at="10:00")
    assert caught.value.transient
    server.start()
    assert lab.table() == before
    assert [run.status for run in lab.runs()] == ["running", "success"]
    lab.run(at="11:00")
    current = [row for row in lab.table() if row.get("is_current", True)]
    assert [(row["id"], row["v"]) for row in current] == [(1, "A"), (2, "b"), (3, "c")]
    (_, fallen, _) = lab.runs()
    assert (fallen.status, str(caught.value.message) in str(fallen.error)) == ("failed", True)
    lab.close()
