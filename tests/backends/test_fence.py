"""A run that has read its rows gives way to another run of its pipeline that has loaded newer ones meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from ematix_flow.errors import ConflictError
from ematix_flow.events import Event, StepFinished
from ematix_flow.types import BigInt, Text
from tests.backends.lab import Lab, clock, everywhere, only, read_table

MODE = "truncate"
HEADER = "id | v"


def meanwhile(lab: Lab, act: Callable[[], object]) -> None:
    """Once the next run has read its rows, something else happens to its end."""

    def listen(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == "read":
            stop()
            thread = threading.Thread(target=act)
            thread.start()
            thread.join()

    stop = lab.project.bus.subscribe(listen)


@everywhere
@only(lambda lane: lane.path == "copied" or lane.system.name in ("memory", "parquet"))
def test_old_rows_never_replace_newer_ones(lab: Lab) -> None:
    lab.defaults = {"mode": "truncate"}
    lab(HEADER, "1 | first", at="09:00")

    def overtake() -> None:
        lab(HEADER, "1 | newer", at="09:00")

    meanwhile(lab, overtake)
    with pytest.raises(ConflictError, match="committed first"):
        lab(HEADER, "1 | old", at="09:00")
    assert lab.rows() == [(1, "newer")]
    assert [run.status for run in lab.runs()].count("failed") == 1
    # The next run starts from what is there now, and nothing is in its way.
    lab.seed(*read_table(HEADER, ["1 | newest"]))
    assert lab.run().rows_inserted == 1
    assert lab.rows() == [(1, "newest")]


@only(lambda lane: lane.path == "copied")
def test_another_pipeline_may_load_the_table_meanwhile(lab: Lab) -> None:
    lab.defaults = {"mode": "append"}
    lab(HEADER, "1 | first", at="09:00")

    def join_in() -> None:
        lab.run(sql="SELECT 2 AS id, 'theirs' AS v", name="another", at="09:30")

    meanwhile(lab, join_in)
    lab(HEADER, "3 | ours", at="10:00")
    assert lab.rows() == [(1, "first"), (2, "theirs"), (3, "ours")]


@only(lambda lane: lane.path == "copied")
def test_rows_of_a_frame_were_not_read_by_the_run_and_go_in_by_turns(lab: Lab) -> None:
    lab.defaults = {"mode": "append", "force_path": None}
    lab.types = {"id": BigInt(), "v": Text()}
    brought = [{"id": [1], "v": ["ours"]}, {"id": [2], "v": ["theirs"]}]
    pipeline = replace(lab.pipeline(), function=lambda source: pa.table(brought.pop()))
    meanwhile(lab, lambda: lab.project.run(pipeline, now=clock("09:30")))
    lab.project.run(pipeline, now=clock("10:00"))
    assert lab.rows() == [(1, "ours"), (2, "theirs")]
