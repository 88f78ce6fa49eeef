"""The worked examples of the load strategies, one test each, on every embedded engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from ematix_flow.strategies.base import EVENT_TIME, Counts
from ematix_flow.types import BigInt, Text
from tests.oracle import Moment, Offence, Row
from tests.strategies.harness import Bench, DuckDBBench, SqliteBench, intent_for, with_options

TYPES = {"id": BigInt(), "v": Text()}
DAY = datetime(2026, 3, 1, tzinfo=UTC)
BENCHES = {"duckdb": DuckDBBench, "sqlite": SqliteBench}


class Story:
    """A table that loads of `(id, v)` or `(id, v, "11:00")` are brought into."""

    def __init__(self, bench_class: type[Bench], mode: str, **options: object) -> None:
        columns = {"update": ("v",)} if mode == "merge" else {"compare": ("v",)}
        self.intent = intent_for(mode, TYPES, keys=("id",), **columns, **options)
        self.bench = bench_class(mode, self.intent)
        self.number = 0

    def load(self, *rows: tuple[object, ...], at: str = "23:00", day: int = 0, **options: object) -> Counts:
        self.number += 1
        moment = Moment(instant(at) + timedelta(days=day), str(UUID(int=self.number)))
        return self.bench.load([_row(row) for row in rows], with_options(self.intent, **options), moment)

    def rows(self) -> list[tuple[object, ...]]:
        return sorted((row["id"], row["v"]) for row in self.bench.table())

    def history(self) -> list[tuple[object, ...]]:
        """Versions as (id, v, from, to), where the current one has no end."""
        rows = sorted(self.bench.table(), key=lambda row: (row["id"], row["valid_from"]))
        assert all(row["is_current"] == (row["valid_to"] is None) for row in rows)
        return [(row["id"], row["v"], clock(row["valid_from"]), clock(row["valid_to"])) for row in rows]


def instant(at: str) -> datetime:
    hour, minute = at.split(":")
    return DAY + timedelta(hours=int(hour), minutes=int(minute))


def clock(value: object) -> str | None:
    return None if value is None else value.strftime("%H:%M")  # type: ignore[attr-defined]


def _row(row: tuple[object, ...]) -> Row:
    found: Row = {"id": row[0], "v": row[1]}
    return found | {EVENT_TIME: instant(str(row[2]))} if len(row) > 2 else found


@pytest.fixture(params=BENCHES)
def story(request: pytest.FixtureRequest):
    return lambda mode, **options: Story(BENCHES[request.param], mode, **options)


def done(counts: Counts) -> tuple[int, int]:
    return counts.inserted, counts.closed


def test_merge_inserts_new_keys_and_leaves_equal_rows_alone(story) -> None:
    table = story("merge")
    table.load((1, "a"))
    before = {row["id"]: row for row in table.bench.table()}
    counts = table.load((1, "a"), (2, "b"))
    assert (counts.inserted, counts.updated, counts.unchanged) == (1, 0, 1)
    assert table.rows() == [(1, "a"), (2, "b")]
    after = {row["id"]: row for row in table.bench.table()}
    assert after[1] == before[1]
    assert after[2]["_batch_id"] == str(UUID(int=2))


def test_merge_sees_a_value_that_becomes_null_as_a_change(story) -> None:
    table = story("merge")
    table.load((1, "a"), (2, "b"))
    counts = table.load((1, None))
    assert (counts.inserted, counts.updated, counts.unchanged) == (0, 1, 0)
    assert table.rows() == [(1, None), (2, "b")]


def test_merge_with_hard_deletes_removes_vanished_keys_and_counts_them(story) -> None:
    table = story("merge", deletes="hard")
    table.load((1, "a"), (2, "b"))
    counts = table.load((1, "a"))
    assert (counts.unchanged, counts.deleted) == (1, 1)
    assert table.rows() == [(1, "a")]


def test_scd2_opens_a_first_version(story) -> None:
    table = story("scd2")
    assert done(table.load((1, "a"), at="01:00")) == (1, 0)
    assert table.history() == [(1, "a", "01:00", None)]


def test_scd2_closes_the_old_version_where_the_new_one_begins(story) -> None:
    table = story("scd2")
    table.load((1, "a"), at="01:00")
    assert done(table.load((1, "b"), at="02:00")) == (1, 1)
    assert table.history() == [(1, "a", "01:00", "02:00"), (1, "b", "02:00", None)]
    assert done(table.load((1, "b"), at="03:00")) == (0, 0)
    assert table.history() == [(1, "a", "01:00", "02:00"), (1, "b", "02:00", None)]


def test_scd2_soft_delete_closes_a_vanished_key_and_its_return_opens_a_new_version(story) -> None:
    table = story("scd2", deletes="soft")
    table.load((1, "a"), at="01:00")
    counts = table.load((2, "x"), at="02:00")
    assert (counts.closed, counts.closed_missing) == (1, 1)
    assert table.history()[0] == (1, "a", "01:00", "02:00")
    assert done(table.load((1, "a"), (2, "x"), at="03:00")) == (1, 0)
    assert table.history()[:2] == [(1, "a", "01:00", "02:00"), (1, "a", "03:00", None)]


def test_scd2_by_event_time_closes_at_the_event(story) -> None:
    table = story("scd2", event_time=True)
    table.load((1, "a", "10:00"))
    assert done(table.load((1, "b", "11:00"))) == (1, 1)
    assert table.history() == [(1, "a", "10:00", "11:00"), (1, "b", "11:00", None)]


def test_scd2_refuses_a_late_event_and_changes_nothing(story) -> None:
    table = story("scd2", event_time=True)
    table.load((1, "a", "12:00"))
    with pytest.raises(Offence) as refused:
        table.load((1, "z", "08:00"), (2, "new", "09:00"))
    assert refused.value.code == "late-event"
    assert table.history() == [(1, "a", "12:00", None)]


def test_scd2_takes_a_late_event_that_says_nothing_new(story) -> None:
    table = story("scd2", event_time=True)
    table.load((1, "a", "12:00"))
    assert done(table.load((1, "a", "08:00"))) == (0, 0)
    assert table.history() == [(1, "a", "12:00", None)]


def test_scd2_applies_several_events_of_one_key_in_order(story) -> None:
    table = story("scd2", event_time=True)
    assert done(table.load((1, "a", "10:00"), (1, "c", "12:00"), (1, "b", "11:00"))) == (3, 0)
    expected = [(1, "a", "10:00", "11:00"), (1, "b", "11:00", "12:00"), (1, "c", "12:00", None)]
    assert table.history() == expected


def test_scd2_with_a_ttl_closes_a_changed_version_by_its_change(story) -> None:
    table = story("scd2", ttl=timedelta(days=7))
    table.load((1, "a"))
    counts = table.load((1, "b"), day=10)
    assert (counts.inserted, counts.closed, counts.closed_ttl) == (1, 1, 0)


def test_scd2_never_expires_a_key_that_the_source_still_shows(story) -> None:
    table = story("scd2", ttl=timedelta(days=7))
    table.load((1, "a"))
    assert done(table.load((1, "a"), day=10)) == (0, 0)


def test_scd2_expires_a_key_that_the_source_has_not_shown_for_the_ttl(story) -> None:
    table = story("scd2", ttl=timedelta(days=7))
    table.load((1, "a"))
    assert done(table.load((2, "b"), day=5)) == (1, 0)
    counts = table.load((2, "b"), day=10)
    assert (counts.inserted, counts.closed, counts.closed_ttl) == (0, 1, 1)


def test_a_correction_at_the_newest_instant_replaces_the_version(story) -> None:
    table = story("scd2", event_time=True)
    table.load((1, "a", "10:00"))
    counts = table.load((1, "b", "10:00"))
    assert (counts.inserted, counts.closed, counts.corrected, counts.unchanged) == (0, 0, 1, 0)
    assert table.history() == [(1, "b", "10:00", None)]


def test_a_correction_that_is_followed_by_a_newer_event_counts_as_corrected_and_closed(story) -> None:
    table = story("scd2", event_time=True)
    table.load((1, "a", "10:00"))
    counts = table.load((1, "b", "10:00"), (1, "c", "11:00"))
    assert (counts.inserted, counts.closed, counts.corrected) == (1, 1, 1)
    assert table.history() == [(1, "b", "10:00", "11:00"), (1, "c", "11:00", None)]


def test_a_late_row_that_is_inserted_splits_the_version_in_force(story) -> None:
    table = story("scd2", event_time=True, late="insert")
    table.load((1, "a", "10:00"), (1, "c", "14:00"))
    assert done(table.load((1, "b", "12:00"))) == (1, 0)
    expected = [(1, "a", "10:00", "12:00"), (1, "b", "12:00", "14:00"), (1, "c", "14:00", None)]
    assert table.history() == expected


def test_a_late_row_that_is_inserted_keeps_the_deletion_after_it(story) -> None:
    table = story("scd2", event_time=True, late="insert")
    table.load((1, "a", "10:00"))
    table.load((2, "x", "11:00"), at="11:00", deletes="soft")
    table.load((1, "c", "14:00"))
    table.load((1, "b", "10:30"))
    assert table.history()[:3] == [(1, "a", "10:00", "10:30"), (1, "b", "10:30", "11:00"), (1, "c", "14:00", None)]


def test_a_late_row_takes_the_place_of_a_version_that_was_never_in_force(story) -> None:
    table = story("scd2", event_time=True, late="insert")
    table.load((1, "a", "12:00"), at="09:00")
    table.load((2, "x", "09:00"), at="10:00", deletes="soft")
    table.load((1, "c", "14:00"), at="15:00")
    assert table.history()[:2] == [(1, "a", "12:00", "12:00"), (1, "c", "14:00", None)]
    with pytest.raises(Offence, match="late-event"):
        table.load((1, "a", "12:00"), at="16:00", late="error")
    counts = table.load((1, "a", "12:00"), at="16:00")
    assert (counts.inserted, counts.corrected) == (0, 1)
    assert table.history()[:2] == [(1, "a", "12:00", "14:00"), (1, "c", "14:00", None)]


def test_rows_before_the_first_version_are_harmless_only_if_all_of_them_say_what_it_says(story) -> None:
    table = story("scd2", event_time=True, late="insert")
    table.load((1, "a", "12:00"))
    assert done(table.load((1, "a", "08:00"), (1, "a", "09:00"))) == (0, 0)
    assert done(table.load((1, "a", "08:00"), (1, "b", "09:00"))) == (2, 0)
    expected = [(1, "a", "08:00", "09:00"), (1, "b", "09:00", "12:00"), (1, "a", "12:00", None)]
    assert table.history() == expected


def test_a_late_row_is_judged_by_the_newest_version_as_this_load_corrects_it(story) -> None:
    table = story("scd2", event_time=True, late="ignore")
    table.load((1, "a", "12:00"))
    counts = table.load((1, "a", "08:00"), (1, "b", "12:00"))
    assert (counts.late, counts.corrected) == (1, 1)
    assert table.load((1, "a", "08:00"), (1, "b", "12:00")).late == 1


def test_a_late_row_that_is_ignored_is_counted(story) -> None:
    table = story("scd2", event_time=True, late="ignore")
    table.load((1, "a", "10:00"), (1, "c", "14:00"))
    counts = table.load((1, "b", "12:00"), (1, "a", "11:00"))
    assert (counts.late, counts.unchanged, counts.inserted) == (1, 1, 0)
    assert len(table.history()) == 2


def test_columns_that_are_not_compared_stay_as_first_stored(story) -> None:
    table = story("scd2")
    table.load((1, "a"))
    stored = table.bench.table()
    table.intent = with_options(table.intent, compare=("v",))
    assert done(table.load((1, "a"), day=1)) == (0, 0)
    assert table.bench.table() == stored


@pytest.mark.parametrize("mode", ["merge", "scd2"])
def test_an_empty_source_with_deletes_is_refused_unless_allowed(story, mode: str) -> None:
    table = story(mode, deletes="hard" if mode == "merge" else "soft")
    table.load((1, "a"))
    with pytest.raises(Offence, match="empty-source"):
        table.load()
    counts = table.load(allow_empty_source=True, day=1)
    assert counts.deleted + counts.closed_missing == 1


@pytest.mark.parametrize("mode", ["merge", "scd2"])
def test_null_and_duplicate_keys_are_refused(story, mode: str) -> None:
    table = story(mode)
    with pytest.raises(Offence, match="null-key"):
        table.load((None, "a"))
    with pytest.raises(Offence, match="duplicate-key"):
        table.load((1, "a"), (1, "a"))
