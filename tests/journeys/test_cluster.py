"""Spark frames on a real cluster: its workers bring the rows into servers, and nobody sees the password."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.cluster_run import PARTITIONS, ROWS
from tests.servers import empty_mysql, empty_postgres
from tests.spark_cluster import SparkCluster

# One process runs all of them: the cluster is started once.
pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.xdist_group("cluster")]

PASSWORD = "Qm7-whisper"


@dataclass(frozen=True)
class Outcome:
    """What the driver told, and what Spark wrote down of it."""

    told: dict[str, Any]
    events: str


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("cluster")
    root = Path(__file__).resolve().parents[2]
    # This server asks for no password, and takes one all the same.
    postgres = empty_postgres("cluster").replace("postgres@", f"postgres:{PASSWORD}@")
    with SparkCluster() as cluster:
        arguments = [cluster.master, str(folder), postgres, empty_mysql("cluster")]
        done = subprocess.run(
            [sys.executable, "-m", "tests.journeys.cluster_run", *arguments],
            cwd=root,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{cluster.log()[-3000:]}"
    files = [file for file in (folder / "events").rglob("*") if file.is_file()]
    events = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return Outcome(json.loads((folder / "outcome.json").read_text(encoding="utf-8")), events)


@pytest.mark.parametrize("system", ["postgres", "mysql"])
def test_merges_and_appends_of_a_cluster_count_as_everywhere(outcome: Outcome, system: str) -> None:
    told = outcome.told[system]
    assert told["merged"] == [[ROWS, 0, 0], [0, ROWS - 100, 100]]
    assert told["appended"] == [ROWS, 0]
    assert told["rows"] == [[ROWS, ROWS, "b9"]]
    assert told["times"] == [[ROWS, ROWS]]
    assert told["left"] == 0


def test_workers_that_die_lose_no_row_and_double_none(outcome: Outcome) -> None:
    told = outcome.told["crashes"]
    assert (told["inserted"], told["rows"], told["left"]) == (ROWS, [[ROWS, ROWS, "A9"]], 0)
    # Two were killed indeed, and one lost the server.
    ends = [line for line in outcome.events.splitlines() if "SparkListenerTaskEnd" in line]
    assert sum("Python worker exited unexpectedly" in line for line in ends) == 2
    assert "lost the server, whose password is ***" in outcome.events


def test_tables_of_a_driver_that_was_killed_go_with_the_next_run(outcome: Outcome) -> None:
    told = outcome.told["orphans"]
    assert (told["signal"], told["before"]) == (signal.SIGKILL, PARTITIONS)
    assert (told["left"], told["rows"]) == (0, [[ROWS]])


def test_rows_that_a_server_has_lost_before_the_load_stop_it(outcome: Outcome) -> None:
    told = outcome.told["forgotten"]
    assert told["error"].startswith("ConflictError")
    assert f"brought {ROWS} rows to the server, and 0 are there" in told["error"]
    assert told["rows"] == [[ROWS]]


def test_a_value_that_a_worker_cannot_bring_in_is_named(outcome: Outcome) -> None:
    assert "column 'name' holds a text with a zero byte" in outcome.told["refused"]
    assert outcome.told["refused"].startswith("CheckError")


def test_workers_whose_python_lacks_the_package_are_told_apart(outcome: Outcome) -> None:
    assert outcome.told["estranged"].startswith("SessionError: the workers of Spark have no ematix_flow")
    assert "PYSPARK_PYTHON" in outcome.told["estranged"]


def test_what_a_server_gives_to_a_cluster_needs_a_folder_that_is_shared(outcome: Outcome) -> None:
    told = outcome.told["reads"]
    assert told["error"].startswith("ConfigError: Spark runs on spark://127.0.0.1:")
    assert "shared_folder in [spark]" in told["error"]
    assert told["rows"] == 5


@pytest.mark.parametrize("place", ["plan", "function", "conf"])
def test_nothing_that_spark_shows_holds_the_password(outcome: Outcome, place: str) -> None:
    assert PASSWORD in outcome.told["secrets"]["sent"]
    assert outcome.told["secrets"][place]
    assert PASSWORD not in outcome.told["secrets"][place]


def test_no_event_log_holds_the_password(outcome: Outcome) -> None:
    assert "MapInArrow" in outcome.events
    assert PASSWORD not in outcome.events
