"""The folders that a project lends its runs: gone when the run ends, swept when its process died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from ematix_flow.backends.workshop import Workshop
from ematix_flow.config import Settings
from ematix_flow.errors import ConfigError
from ematix_flow.project import Project
from tests.cli.calls import environment

RUN = """\
import sys
from pathlib import Path
from ematix_flow.backends.workshop import Workshop

with Workshop(lambda: None, Path(sys.argv[1])).bench() as bench:
    (bench / "rows.parquet").write_text("rows")
    print(bench, flush=True)
    sys.stdin.read()
"""


def start_no_spark() -> NoReturn:
    raise AssertionError("a folder needs no Spark")


def run_elsewhere(scratch: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process in the middle of a run, and its folder."""
    call = [sys.executable, "-c", RUN, str(scratch)]
    process = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("", timeout=60)


def test_the_folder_of_a_run_vanishes_with_it(tmp_path: Path) -> None:
    with Workshop(start_no_spark, tmp_path).bench() as bench:
        (bench / "rows.parquet").write_text("rows")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_dead_run_is_swept_by_the_next(tmp_path: Path) -> None:
    process, left = run_elsewhere(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    end(process)
    assert (left / "rows.parquet").exists()
    with Workshop(start_no_spark, tmp_path).bench() as bench:
        assert list(tmp_path.iterdir()) == [bench]


def test_the_folder_of_a_run_that_lives_is_left_alone(tmp_path: Path) -> None:
    process, theirs = run_elsewhere(tmp_path)
    with Workshop(start_no_spark, tmp_path).bench() as bench:
        assert {*tmp_path.iterdir()} == {bench, theirs}
        assert (theirs / "rows.parquet").exists()
    end(process)
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_owns_is_not_ours_to_sweep(tmp_path: Path) -> None:
    (tmp_path / "ematix-flow-run-being-made").mkdir()
    (tmp_path / "letters").mkdir()
    with Workshop(start_no_spark, tmp_path).bench():
        assert (tmp_path / "letters").exists()
        assert (tmp_path / "ematix-flow-run-being-made").exists()


def session_on(master: str) -> Any:
    """As much of a session as tells where it works."""
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master))


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,4]"])
def test_spark_on_this_machine_reads_and_writes_any_folder(master: str, tmp_path: Path) -> None:
    workshop = Workshop(lambda: session_on(master), tmp_path)
    with workshop.bench() as bench:
        assert workshop.exchange("read").parent == bench


@pytest.mark.parametrize("master", ["spark://one:7077", "yarn", "k8s://https://one"])
def test_spark_on_other_machines_needs_a_folder_that_is_declared_as_shared(master: str, tmp_path: Path) -> None:
    workshop = Workshop(lambda: session_on(master), tmp_path)
    with workshop.bench(), pytest.raises(ConfigError, match=f"Spark runs on {master}") as refused:
        workshop.exchange("read")
    assert "shared_folder in [spark]" in str(refused.value.hint)


def test_the_shared_folder_of_a_project_wins_over_its_staging_folder(tmp_path: Path) -> None:
    (tmp_path / ".ematix-flow.toml").write_text(
        '[project]\nstaging_dir = "own"\n[spark]\nshared_folder = "shared"\n', encoding="utf-8"
    )
    workshop = Project(Settings.load(tmp_path)).workshop
    with workshop.bench() as bench:
        assert bench.parent == tmp_path / "shared"
        assert workshop.exchange("read").parent == bench
