"""Random loads on real engines, each compared with the oracle and then repeated."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from ematix_flow.strategies.base import EVENT_TIME, Counts, Intent
from ematix_flow.types import BigInt, Text
from tests.oracle import Expected, Moment, Offence, Row, expect
from tests.strategies.harness import Bench, DuckDBBench, SqliteBench, intent_for, ordered, with_options

START = datetime(2026, 1, 1, tzinfo=UTC)
TYPES = {"k": BigInt(), "region": Text(), "v": Text(), "w": BigInt(), "note": Text()}
KEYS = ("k", "region")
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 5))]

BENCHES = {"duckdb": DuckDBBench, "sqlite": SqliteBench}


@pytest.fixture(params=BENCHES)
def bench_class(request: pytest.FixtureRequest) -> type[Bench]:
    return BENCHES[request.param]


def moments() -> Iterator[Moment]:
    for number in range(1, 1000):
        yield Moment(START + timedelta(minutes=10 * number), str(UUID(int=number)))


def random_rows(dice: random.Random, *, event_time: bool, around: datetime, unique: bool = True) -> list[Row]:
    """Few keys, few values, few instants: so that rows meet."""
    rows: dict[object, Row] = {}
    for number in range(dice.choice([0, 1, 1, 2, 3, 5, 8])):
        row: Row = {
            "k": dice.choice([1, 1, 2]) if dice.random() > 0.01 else None,
            "region": dice.choice(["eu", "eu", "eu", "us"]),
            "v": dice.choice(["a", "b", None]),
            "w": dice.choice([1, None]),
            "note": f"note {number}",
        }
        if event_time:
            at = around + timedelta(minutes=dice.randrange(-50, 40, 10))
            row[EVENT_TIME] = at if dice.random() > 0.01 else None
        at_key = (row["k"], row["region"], row.get(EVENT_TIME))
        rows[at_key if unique and dice.random() > 0.01 else number] = row
    return list(rows.values())


def outcome(mode: str, before: Sequence[Row], rows: Sequence[Row], intent: Intent, moment: Moment) -> Expected | str:
    try:
        return expect(mode, before, rows, intent, moment)
    except Offence as offence:
        return offence.code


def check_load(bench: Bench, mode: str, rows: Sequence[Row], intent: Intent, moment: Moment) -> Counts | None:
    """The engine and the oracle agree on the table, the counts, or the offence."""
    before = bench.table()
    expected = outcome(mode, before, rows, intent, moment)
    if isinstance(expected, str):
        with pytest.raises(Offence) as refused:
            bench.load(rows, intent, moment)
        assert refused.value.code == expected
        assert ordered(bench.table()) == ordered(before)
        return None
    counts = bench.load(rows, intent, moment)
    after = bench.table()
    assert ordered(after) == ordered([{name: row[name] for name in bench.names} for row in expected.rows])
    assert counts == expected.counts
    if mode == "scd2":
        check_history(before, after, counts)
    return counts


def check_history(before: Sequence[Row], after: Sequence[Row], counts: Counts) -> None:
    """Versions of a key are in order and disjoint, at most one is current, and the counts say what happened."""
    by_key: dict[object, list[Row]] = {}
    for row in sorted(after, key=lambda row: row["valid_from"]):
        by_key.setdefault(tuple(row[key] for key in KEYS), []).append(row)
    for versions in by_key.values():
        for version, following in pairwise(versions):
            assert version["valid_to"] is not None
            assert version["valid_from"] <= version["valid_to"] <= following["valid_from"]
            assert version["valid_from"] < following["valid_from"]
        assert all(version["is_current"] == (version["valid_to"] is None) for version in versions)
    assert len(after) - len(before) == counts.inserted
    identity = (*KEYS, "valid_from")
    still = {tuple(row[name] for name in identity) for row in after if row["is_current"]}
    was = {tuple(row[name] for name in identity) for row in before if row["is_current"]}
    assert len(was - still) == counts.closed


def check_repeat(bench: Bench, rows: Sequence[Row], intent: Intent, moment: Moment, late: int) -> None:
    before = bench.table()
    counts = bench.load(rows, intent, moment)
    assert ordered(bench.table()) == ordered(before)
    assert counts == Counts(read=len(rows), unchanged=len(rows) - counts.late, late=counts.late)
    assert counts.late <= late


SCD2_OPTIONS = {
    "processing time": {},
    "soft deletes": {"deletes": "soft"},
    "soft deletes, empty allowed": {"deletes": "soft", "allow_empty_source": True},
    "ttl": {"ttl": timedelta(minutes=25)},
    "soft deletes and ttl": {"deletes": "soft", "ttl": timedelta(minutes=25)},
    "last of several": {"on_duplicate": "last", "order_by": "note"},
    "first of several, soft deletes": {"on_duplicate": "first", "order_by": "w", "deletes": "soft"},
    "event time": {"event_time": True},
    "event time, late ignored": {"event_time": True, "late": "ignore"},
    "event time, late inserted": {"event_time": True, "late": "insert"},
    "event time, late inserted, soft deletes": {"event_time": True, "late": "insert", "deletes": "soft"},
    "event time, late ignored, soft deletes": {"event_time": True, "late": "ignore", "deletes": "soft"},
    "event time, late ignored, ttl": {"event_time": True, "late": "ignore", "ttl": timedelta(minutes=25)},
}


@pytest.mark.parametrize("options", SCD2_OPTIONS.values(), ids=SCD2_OPTIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_scd2_loads_agree_with_the_oracle_and_repeat_without_change(
    bench_class: type[Bench], seed: int, options: dict[str, object]
) -> None:
    dice = random.Random(f"{seed} {options}")
    intent = intent_for("scd2", TYPES, keys=KEYS, compare=("v", "w"), **options)
    bench, clock = bench_class("scd2", intent), moments()
    for _ in range(6):
        moment = next(clock)
        rows = random_rows(dice, event_time=intent.event_time, around=moment.now, unique=intent.order_by is None)
        counts = check_load(bench, "scd2", rows, intent, moment)
        if counts is not None:
            # Time alone expires versions, so a load with a ttl is repeated at its own instant.
            again = Moment(moment.now, str(UUID(int=0))) if intent.ttl else next(clock)
            check_repeat(bench, rows, intent, again, counts.late)


MERGE_OPTIONS = {
    "all": {"update": ("v", "w", "note")},
    "some columns": {"update": ("v",)},
    "insert if absent": {"update": ()},
    "hard deletes": {"update": ("v", "w"), "deletes": "hard"},
    "hard deletes, empty allowed": {"update": ("v", "w"), "deletes": "hard", "allow_empty_source": True},
    "soft deletes": {"update": ("v", "w"), "deletes": "soft"},
    "soft deletes, empty allowed": {"update": ("v", "w"), "deletes": "soft", "allow_empty_source": True},
    "soft deletes, insert if absent": {"update": (), "deletes": "soft"},
    "last of several": {"update": ("v", "w", "note"), "on_duplicate": "last", "order_by": "note"},
    "first of several, soft deletes": {
        "update": ("v", "w"),
        "deletes": "soft",
        "on_duplicate": "first",
        "order_by": "w",
    },
}


@pytest.mark.parametrize("options", MERGE_OPTIONS.values(), ids=MERGE_OPTIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_merge_loads_agree_with_the_oracle_and_repeat_without_change(
    bench_class: type[Bench], seed: int, options: dict[str, object]
) -> None:
    dice = random.Random(f"{seed} {options}")
    intent = intent_for("merge", TYPES, keys=KEYS, **options)
    bench, clock = bench_class("merge", intent), moments()
    for _ in range(5):
        moment = next(clock)
        rows = random_rows(dice, event_time=False, around=moment.now, unique=intent.order_by is None)
        counts = check_load(bench, "merge", rows, intent, moment)
        if counts is not None:
            assert counts.inserted + counts.updated + counts.unchanged == len(rows)
            check_repeat(bench, rows, intent, next(clock), 0)


@pytest.mark.parametrize("mode", ["append", "truncate"])
@pytest.mark.parametrize("primary_key", [(), KEYS], ids=["no key", "key"])
def test_append_and_truncate_agree_with_the_oracle(
    bench_class: type[Bench], mode: str, primary_key: tuple[str, ...]
) -> None:
    dice = random.Random(f"{mode} {primary_key}")
    intent = intent_for(mode, TYPES, primary_key=primary_key)
    bench = bench_class(mode, intent)
    for moment, _ in zip(moments(), range(8), strict=False):
        check_load(bench, mode, random_rows(dice, event_time=False, around=moment.now), intent, moment)


def test_a_switch_of_options_between_loads_agrees_with_the_oracle(bench_class: type[Bench]) -> None:
    for seed in range(4):
        dice = random.Random(seed)
        intent = intent_for("scd2", TYPES, keys=KEYS, compare=("v", "w"))
        bench, clock = bench_class("scd2", intent), moments()
        for _ in range(8):
            chosen = with_options(intent, **dice.choice(list(SCD2_OPTIONS.values())))
            moment = next(clock)
            rows = random_rows(dice, event_time=chosen.event_time, around=moment.now, unique=chosen.order_by is None)
            check_load(bench, "scd2", rows, chosen, moment)


def test_the_order_of_incoming_rows_does_not_matter(bench_class: type[Bench]) -> None:
    dice = random.Random(1)
    intent = intent_for("scd2", TYPES, keys=KEYS, compare=("v", "w"), event_time=True, late="insert")
    straight, shuffled = bench_class("scd2", intent), bench_class("scd2", intent)
    for moment, _ in zip(moments(), range(10), strict=False):
        rows = [
            row
            for row in random_rows(dice, event_time=True, around=moment.now)
            if None not in (row["k"], row[EVENT_TIME])
        ]
        rows = list({(row["k"], row["region"], row[EVENT_TIME]): row for row in rows}.values())
        straight.load(rows, intent, moment)
        shuffled.load(dice.sample(rows, len(rows)), intent, moment)
        assert ordered(straight.table()) == ordered(shuffled.table())
