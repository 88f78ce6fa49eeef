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
from ematix_flow.strategies.base import EVENT_TIME, Counts, strategy_for
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
    "merge, soft deletes": {"update_columns": COMPARED, "handle_deletes": "soft"},
    "merge, last of several": {"on_duplicate": "last", "on_duplicate_order_by": "note"},
}
EVENTS = {"event_timestamp_column": "at"}
HISTORIES: Mapping[str, dict[str, Any]] = {
    "scd2": {},
    "scd2, soft deletes": {"handle_deletes": "soft"},
    "scd2, soft deletes, empty allowed": {"handle_deletes": "soft", "allow_empty_source": True},
    "scd2, ttl": {"ttl": "25m"},
    "scd2, first of several": {"on_duplicate": "first", "on_duplicate_order_by": "w"},
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
FEW = (
    "append",
    "merge, hard deletes",
    "merge, soft deletes",
    "merge, last of several",
    "scd2, soft deletes",
    "scd2, first of several",
    "scd2, events, late inserted",
)

LANES = {
    "duckdb": (Lane(BY_NAME["duckdb_memory"], "pushed"), OPTIONS, 6),
    "sqlite": (Lane(BY_NAME["sqlite_memory"], "pushed"), OPTIONS, 6),
    "postgres": (Lane(BY_NAME["postgres"], "pushed"), (*FEW, "merge, some columns"), 4),
    "postgres-spark": (Lane(BY_NAME["postgres"], "spark"), FEW, 3),
    "mysql": (Lane(BY_NAME["mysql"], "pushed"), FEW, 4),
    "mysql-spark": (Lane(BY_NAME["mysql"], "spark"), FEW, 3),
    "duckdb-spark": (Lane(BY_NAME["duckdb_memory"], "spark"), FEW, 3),
    "sqlite-spark": (Lane(BY_NAME["sqlite"], "spark"), FEW, 3),
    "memory-spark": (Lane(BY_NAME["memory"], "spark"), FEW, 3),
    "delta-spark": (
        Lane(BY_NAME["delta"], "spark", BY_NAME["memory"]),
        ("scd2, events, late inserted",),
        2,
    ),
    "parquet-spark": (Lane(BY_NAME["parquet"], "spark", BY_NAME["memory"]), ("append", "truncate"), 3),
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
        unique = "on_duplicate" not in options and (not flaws or dice.random() > 0.02)
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
    rows_done = rows_of(strategy_for(mode), wanted.counts)
    assert {name: result[name] for name in rows_done} == rows_done
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


def marks_of(lane: str) -> tuple[pytest.MarkDecorator, ...]:
    return (*LANES[lane][0].system.marks, *((pytest.mark.slow,) if "spark" in lane else ()))


CASES = [
    pytest.param(lane, name, seed, id=f"{lane}-{name}-{seed}", marks=marks_of(lane))
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


@pytest.mark.parametrize(
    "lane",
    [*("duckdb", "sqlite"), *(pytest.param(f"{each}-spark", marks=pytest.mark.slow) for each in ("duckdb", "sqlite"))],
)
@pytest.mark.parametrize("mode", ["merge", "scd2"])
def test_a_load_that_goes_on_gives_what_a_whole_one_gives(lane: str, mode: str, make_lab: MakeLab) -> None:
    dice = random.Random(mode)
    whole = make_lab(lane, {"mode": mode})
    resumed = make_lab(lane, {"mode": mode, "incremental_column": "n", "lookback": 3})
    now, types = DAY, {"id": BigInt(), "region": Text(), "v": Text(), "n": BigInt()}
    source: dict[tuple[int, str], Row] = {}
    reached = 0
    for _ in range(LANES[lane][2]):
        now += timedelta(minutes=10)
        for _ in range(dice.randrange(4)):
            # Now and then a row comes with a number that was passed already, but not by more than the lookback.
            number = reached + dice.choice([1, 1, 1, -1, -3])
            key = (dice.choice([1, 2, 3]), dice.choice(["eu", "us"]))
            if key not in source or number > source[key]["n"]:
                source[key] = {"id": key[0], "region": key[1], "v": dice.choice(["a", "b", None]), "n": number}
        reached = max((row["n"] for row in source.values()), default=0)
        rows = dice.sample(list(source.values()), len(source))
        results = [lab.load(types, rows, at=now) for lab in (whole, resumed)]
        assert timeline(resumed) == timeline(whole)
        assert results[0].rows_inserted == results[1].rows_inserted
        assert results[1].rows_read <= results[0].rows_read
