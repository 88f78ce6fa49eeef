"""Random loads through the whole engine, each compared with the oracle; repeats, splits and permutations of loads."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ematix_flow.engine.result import rows_of
from ematix_flow.errors import CheckError
from ematix_flow.strategies.base import EVENT_TIME, Counts
from ematix_flow.types import BigInt, ColumnType, Numeric, Text, TimestampTZ
from tests.backends.conftest import BY_NAME
from tests.backends.lab import DAY, Lab, Lane
from tests.backends.store import Row, plain
from tests.oracle import Expected, Moment, Offence, expect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = ("id", "region")
TYPES: Mapping[str, ColumnType] = {"id": BigInt(), "region": Text(), "v": Text(), "w": Numeric(8, 2), "note": Text()}
COMPARED = ["v", "w"]

MERGES: Mapping[str, dict[str, Any]] = {
    "merge": {},
    "merge, some columns": {"update_columns": ["v"]},
    "merge, absent only": {"update_columns": []},
    "merge, hard deletes": {"update_columns": COMPARED, "handle_deletes": "hard"},
    "merge, hard deletes, empty allowed": {"handle_deletes": "hard", "allow_empty_source": True},
}
EVENTS = {"event_timestamp_column": "at"}
HISTORIES: Mapping[str, dict[str, Any]] = {
    "scd2": {},
    "scd2, soft deletes": {"handle_deletes": "soft"},
    "scd2, soft deletes, empty allowed": {"handle_deletes": "soft", "allow_empty_source": True},
    "scd2, ttl": {"ttl": "25m"},
    "scd2, events": EVENTS,
    "scd2, events, late ignored": {**EVENTS, "late_events": "ignore"},
    "scd2, events, late inserted": {**EVENTS, "late_events": "insert"},
    "scd2, events, late inserted, soft deletes": {**EVENTS, "late_events": "insert", "handle_deletes": "soft"},
    "scd2, events, late ignored, ttl": {**EVENTS, "late_events": "ignore", "ttl": "25m"},
}
OPTIONS = {
    "append": {"mode": "append"},
    "truncate": {"mode": "truncate"},
    **{name: {"mode": "merge", **options} for name, options in MERGES.items()},
    **{name: {"mode": "scd2", "compare_columns": COMPARED, **options} for name, options in HISTORIES.items()},
}
FEW = ("append", "merge, hard deletes", "scd2, soft deletes", "scd2, events, late inserted")

LANES = {
    "duckdb": (Lane(BY_NAME["duckdb_memory"], "same_db"), OPTIONS, 6),
    "sqlite": (Lane(BY_NAME["sqlite_memory"], "same_db"), OPTIONS, 6),
    "postgres": (Lane(BY_NAME["postgres"], "same_db"), OPTIONS, 6),
    "postgres-spark": (Lane(BY_NAME["postgres"], "cross_db"), FEW, 3),
    "mysql": (Lane(BY_NAME["mysql"], "same_db"), OPTIONS, 6),
    "mysql-spark": (Lane(BY_NAME["mysql"], "cross_db"), FEW, 3),
    "duckdb-spark": (Lane(BY_NAME["duckdb_memory"], "cross_db"), FEW, 3),
    "sqlite-spark": (Lane(BY_NAME["sqlite"], "cross_db"), FEW, 3),
    "memory-spark": (Lane(BY_NAME["memory"], "cross_db"), FEW, 3),
    "parquet-spark": (Lane(BY_NAME["parquet"], "cross_db", BY_NAME["memory"]), ("append", "truncate"), 3),
}

MakeLab = Callable[[str, Mapping[str, Any]], Lab]


@pytest.fixture
def make_lab(tmp_path: Path, session: Callable[[], SparkSession]) -> Iterator[MakeLab]:
    """Labs with a table of two keys; each has its own folder."""
    made: list[Lab] = []

    def make(lane: str, options: Mapping[str, Any]) -> Lab:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        lab = Lab(LANES[lane][0], folder, session, **options)
        lab.keys = KEYS
        made.append(lab)
        return lab

    yield make
    for lab in made:
        lab.close()


def random_rows(dice: random.Random, options: Mapping[str, Any], around: datetime, *, flaws: bool = True) -> list[Row]:
    """Few keys, few values, few instants, so that rows meet; now and then a flaw that must be refused."""
    rows: dict[object, Row] = {}
    events, keyed = "event_timestamp_column" in options, options["mode"] in ("merge", "scd2")
    for number in range(dice.randrange(0, 9)):
        row: Row = {
            "id": None if flaws and keyed and dice.random() < 0.01 else dice.choice([1, 2, 3]),
            "region": dice.choice(["eu", "us"]),
            "v": dice.choice(["a", "b", "", None]),
            "w": dice.choice([plain("1.50", Numeric(8, 2)), plain("-2", Numeric(8, 2)), None]),
            "note": f"note {number}",
        }
        if options["mode"] == "append":
            row["id"] = dice.randrange(40)
        if events:
            at = around + timedelta(minutes=dice.randrange(-60, 25, 5))
            row["at"] = None if flaws and dice.random() < 0.01 else at
        unique = not flaws or dice.random() > 0.02
        rows[(row["id"], row["region"], row.get("at")) if unique else number] = row
    return list(rows.values())


def types_for(options: Mapping[str, Any]) -> dict[str, ColumnType]:
    return {**TYPES, "at": TimestampTZ()} if "event_timestamp_column" in options else dict(TYPES)


def load_as_expected(lab: Lab, rows: Sequence[Row], at: datetime) -> Counts | None:
    """The engine and the oracle agree on the table and the counts, or both refuse. Gives the counts."""
    lab.seed(types_for(lab.defaults), rows)
    before = lab.table()
    incoming = [{(EVENT_TIME if name == "at" else name): value for name, value in row.items()} for row in rows]
    intent = replace(lab.project.plan(lab.pipeline()).load.intent, check_keys=True)
    mode = lab.defaults["mode"]

    def expected(run_id: str) -> Expected:
        return expect(mode, before, incoming, intent, Moment(at, run_id))

    try:
        result = lab.run(at=at)
    except CheckError:
        with pytest.raises(Offence):
            expected("refused")
        assert lab.table() == before
        return None
    wanted = expected(str(result.run_id))
    after = lab.table()
    assert after == ordered(wanted.rows, after)
    assert {name: result[name] for name in rows_of(mode, wanted.counts)} == rows_of(mode, wanted.counts)
    return wanted.counts


def ordered(rows: Sequence[Row], like: Sequence[Row]) -> list[Row]:
    """The oracle's rows with their columns and rows in the order of the table's."""
    names = list(like[0]) if like else []
    shaped = [{name: row[name] for name in names} for row in rows]
    return sorted(shaped, key=lambda row: [(value is not None, str(value)) for value in row.values()])


def check_history(table: Sequence[Row]) -> None:
    """Versions of a key follow each other without overlap, and only the last may be current."""
    by_key: dict[tuple[object, ...], list[Row]] = {}
    for row in sorted(table, key=lambda row: row["valid_from"]):
        by_key.setdefault(tuple(row[key] for key in KEYS), []).append(row)
    for versions in by_key.values():
        assert all(row["is_current"] == (row["valid_to"] is None) for row in versions)
        for row, following in pairwise(versions):
            assert row["valid_from"] < following["valid_from"]
            assert row["valid_to"] is not None
            assert row["valid_from"] <= row["valid_to"] <= following["valid_from"]


CASES = [
    pytest.param(lane, name, seed, id=f"{lane}-{name}-{seed}", marks=(pytest.mark.slow,) if "spark" in lane else ())
    for lane, (_, names, _) in LANES.items()
    for name in names
    for seed in range(1 if "spark" in lane else 2)
]


@pytest.mark.parametrize(("lane", "name", "seed"), CASES)
def test_random_loads_agree_with_the_oracle_and_repeat_without_change(
    lane: str, name: str, seed: int, make_lab: MakeLab
) -> None:
    options = OPTIONS[name]
    dice = random.Random(f"{seed} {name}")
    lab, now = make_lab(lane, options), DAY
    for _ in range(LANES[lane][2]):
        now += timedelta(minutes=10)
        counts = load_as_expected(lab, random_rows(dice, options, now), now)
        if options["mode"] == "scd2":
            check_history(lab.table())
        # Time alone expires versions, so a load with a time to live is no repeat later.
        if counts is not None and options["mode"] in ("merge", "scd2") and "ttl" not in options:
            now += timedelta(minutes=10)
            before = lab.table()
            again = lab.run(at=now)
            assert lab.table() == before
            assert again.rows_inserted == 0
            assert again.rows_unchanged == counts.read - counts.late


@pytest.mark.parametrize("lane", ["duckdb", "sqlite"])
@pytest.mark.parametrize("seed", range(4))
def test_a_batch_of_events_may_come_split_into_several(lane: str, seed: int, make_lab: MakeLab) -> None:
    options = OPTIONS["scd2, events, late inserted"]
    dice = random.Random(seed)
    whole, split = make_lab(lane, options), make_lab(lane, options)
    now, types = DAY, types_for(options)
    for _ in range(3):
        now += timedelta(minutes=30)
        rows = sorted(random_rows(dice, options, now, flaws=False), key=lambda row: row["at"])
        whole.load(types, rows, at=now)
        cut = dice.randrange(len(rows) + 1)
        split.load(types, rows[:cut], at=now)
        split.load(types, rows[cut:], at=now)
        assert timeline(split) == timeline(whole)


@pytest.mark.parametrize("lane", ["duckdb", "sqlite"])
@pytest.mark.parametrize("name", ["merge", "scd2", "scd2, events, late inserted", "scd2, events, late ignored"])
def test_the_order_of_rows_does_not_matter(lane: str, name: str, make_lab: MakeLab) -> None:
    options = OPTIONS[name]
    dice = random.Random(name)
    straight, shuffled = make_lab(lane, options), make_lab(lane, options)
    now, types = DAY, types_for(options)
    for _ in range(4):
        now += timedelta(minutes=10)
        rows = random_rows(dice, options, now, flaws=False)
        straight.load(types, rows, at=now)
        shuffled.load(types, dice.sample(rows, len(rows)), at=now)
        assert timeline(straight) == timeline(shuffled)


def timeline(lab: Lab) -> list[Row]:
    """The table without what names the run."""
    rows = [{name: value for name, value in row.items() if not name.startswith("_")} for row in lab.table()]
    return sorted(rows, key=lambda row: [(value is not None, str(value)) for value in row.values()])
