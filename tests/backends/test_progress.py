"""How far a copy is: told now and then while rows move, and once more with all of them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from ematix_flow.backends.progress import Moved, Tally
from ematix_flow.events import Event, StepProgress
from ematix_flow.types import BigInt, Text
from tests.backends.conftest import BY_NAME
from tests.backends.crash_run import no_spark
from tests.backends.lab import Lab, Lane

ROWS = 3000
PAIRS = {
    ("duckdb", "postgres"): {("read", "reading"), ("load", "writing")},
    ("postgres", "sqlite"): {("read", "reading"), ("read", "writing")},
    # The bytes go from one server to the other.
    ("postgres", "postgres"): {("load", "writing")},
    ("sqlite", "mysql"): {("read", "reading"), ("load", "writing")},
    # DuckDB reads the files by itself.
    ("mysql", "duckdb"): {("read", "reading")},
}


def test_a_copy_is_told_twice_a_second_at_most_and_at_its_end() -> None:
    told: list[Moved] = []
    now = 0.0
    tally = Tally(told.append, Moved("reading", parts=2), lambda: now)
    for tenth in range(20):
        now = tenth / 10
        tally.add(rows=10, bytes=100)
    tally.add(parts=1)
    assert [moved.rows for moved in told] == [60, 110, 160]
    tally.end()
    assert told[-1] == Moved("reading", rows=200, bytes=2000, parts_done=2, parts=2)


def test_rows_that_nobody_looks_into_are_known_at_the_end() -> None:
    told: list[Moved] = []
    tally = Tally(told.append, Moved("writing", None), lambda: 0.0)
    assert list(tally.pieces([b"some", b"more"])) == [b"some", b"more"]
    assert tally.moved == Moved("writing", None, 8)
    tally.end(3)
    assert told == [Moved("writing", 3, 8, 1, 1)]


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_copied_load_tells_of_all_its_rows(source: str, target: str, tmp_path: Path) -> None:
    lab = Lab(Lane(BY_NAME[target], "copied", BY_NAME[source]), tmp_path, no_spark, mode="append")
    told = defaultdict[tuple[str, str], list[StepProgress]](list)

    def hear(event: Event) -> None:
        if isinstance(event, StepProgress):
            told[event.step, event.doing].append(event)

    lab.project.bus.subscribe(hear)
    lab.load({"id": BigInt(), "v": Text()}, [{"id": number, "v": f"row {number}"} for number in range(ROWS)])
    assert set(told) == PAIRS[source, target]
    for events in told.values():
        assert (events[-1].rows, events[-1].parts_done, events[-1].parts) == (ROWS, 1, 1)
        assert {(event.run_id, event.pipeline) for event in events} == {(lab.runs()[0].run_id, lab.name)}
    lab.close()
