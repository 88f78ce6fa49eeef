"""The folders that a project lends its runs: gone when the run ends, swept when its process died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from ematix_flow.backends.workshop import Workshop
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
