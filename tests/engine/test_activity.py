"""What a progress display sees of a session."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ematix_flow.engine.activity import Activity, activity


@pytest.mark.slow
def test_an_idle_session_does_nothing(spark):
    assert activity(spark) == Activity()


@pytest.mark.slow
def test_a_running_stage_shows_its_tasks(spark, tmp_path):
    gate = tmp_path / "open"

    def wait_for_gate(batches):
        while not Path(gate).exists():
            pass
        return batches

    rows = spark.range(0, 12, 1, 3).mapInArrow(wait_for_gate, "id long")
    counted: list[int] = []
    work = threading.Thread(target=lambda: counted.append(len(rows.collect())))
    work.start()
    try:
        while work.is_alive() and (seen := activity(spark)).tasks_active < 2:
            pass
    finally:
        gate.touch()
        work.join()
    assert seen == Activity(jobs=1, stages=1, tasks_done=0, tasks_total=3, tasks_active=2)
    assert counted == [12]


def test_what_cannot_be_known_is_shown_as_nothing():
    class Gone:
        @property
        def sparkContext(self) -> None:  # noqa: N802 - Spark's name
            raise RuntimeError("stopped")

    assert activity(Gone()) == Activity()
