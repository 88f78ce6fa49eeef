"""scd2 by the time of the load, on every system that can change rows, on both paths."""

from __future__ import annotations

import pytest

from ematix_flow.errors import CheckError, SpecError
from tests.backends.lab import Lab, clock, counts, everywhere

MODE = "scd2"


@pytest.fixture
def load(lab: Lab) -> Lab:
    lab.defaults = {"mode": "scd2"}
    return lab


@everywhere
def test_versions_open_close_and_stay(load: Lab) -> None:
    assert counts(load("id | v", "1 | a", at="09:00")) == (1, 0)
    assert load.history(1) == [("a", "09:00", None)]
    assert counts(load("id | v", "1 | b", at="10:00")) == (1, 1)
    assert load.history(1) == [("a", "09:00", "10:00"), ("b", "10:00", None)]
    assert counts(load("id | v", "1 | b", at="11:00")) == (0, 0)
    assert load.history(1) == [("a", "09:00", "10:00"), ("b", "10:00", None)]


@everywhere
def test_a_row_that_returns_after_a_soft_delete_opens_a_new_version(load: Lab) -> None:
    load("id | v", "1 | a", "2 | z", at="09:00")
    result = load("id | v", "2 | z", at="10:00", handle_deletes="soft")
    assert counts(result, "inserted", "closed", "closed_missing") == (0, 1, 1)
    assert load.history(1) == [("a", "09:00", "10:00")]
    assert counts(load("id | v", "1 | a", "2 | z", at="11:00", handle_deletes="soft")) == (1, 0)
    assert load.history(1) == [("a", "09:00", "10:00"), ("a", "11:00", None)]
    assert load.history(2) == [("z", "09:00", None)]


@everywhere
def test_a_time_to_live_closes_what_vanished_and_nothing_else(load: Lab) -> None:
    load("id | v", "1 | a", "2 | b", "3 | c", at="09:00", ttl="2h")
    assert counts(load("id | v", "2 | b", "3 | C", at="10:30", ttl="2h")) == (1, 1)
    result = load("id | v", "2 | b", at="12:00", ttl="2h")
    assert counts(result, "inserted", "closed", "closed_ttl") == (0, 1, 1)
    assert load.history(1) == [("a", "09:00", "12:00")]
    assert load.history(2) == [("b", "09:00", None)]
    assert load.history(3) == [("c", "09:00", "10:30"), ("C", "10:30", None)]


def test_a_change_of_an_expired_version_is_a_change_and_no_expiry(load: Lab) -> None:
    load("id | v", "1 | a", at="09:00")
    result = load("id | v", "1 | b", at="20:00", ttl="7h")
    assert counts(result, "inserted", "closed", "closed_changed", "closed_ttl") == (1, 1, 1, 0)
    assert load.history(1) == [("a", "09:00", "20:00"), ("b", "20:00", None)]


def test_an_expired_version_that_the_source_still_shows_stays_open(load: Lab) -> None:
    load("id | v", "1 | a", at="09:00")
    assert counts(load("id | v", "1 | a", at="20:00", ttl="7h")) == (0, 0)
    assert load.history(1) == [("a", "09:00", None)]


def test_with_soft_deletes_and_a_time_to_live_a_vanished_key_is_deleted(load: Lab) -> None:
    load("id | v", "1 | a", "2 | b", at="09:00")
    result = load("id | v", "2 | b", at="20:00", ttl="7h", handle_deletes="soft")
    assert counts(result, "closed", "closed_missing", "closed_ttl") == (1, 1, 0)


def test_many_versions_leave_one_current(load: Lab) -> None:
    for hour, value in enumerate("abcab", start=9):
        load("id | v", f"1 | {value}", at=f"{hour}:00")
    assert load.history(1) == [
        ("a", "09:00", "10:00"),
        ("b", "10:00", "11:00"),
        ("c", "11:00", "12:00"),
        ("a", "12:00", "13:00"),
        ("b", "13:00", None),
    ]


def test_null_and_value_are_different_and_null_and_null_are_not(load: Lab) -> None:
    load("id | v", "1 | NULL", at="09:00")
    assert counts(load("id | v", "1 | NULL", at="10:00")) == (0, 0)
    assert counts(load("id | v", "1 | ''", at="11:00")) == (1, 1)
    assert counts(load("id | v", "1 | NULL", at="12:00")) == (1, 1)
    assert load.history(1) == [(None, "09:00", "11:00"), ("", "11:00", "12:00"), (None, "12:00", None)]


def test_columns_that_are_not_compared_make_no_version_and_stay_as_first_stored(load: Lab) -> None:
    load("id | v | note", "1 | a | first", at="09:00", compare_columns=["v"])
    assert counts(load("id | v | note", "1 | a | second", at="10:00", compare_columns=["v"])) == (0, 0)
    assert load.history(1) == [("a", "first", "09:00", None)]
    load("id | v | note", "1 | b | third", at="11:00", compare_columns=["v"])
    assert load.history(1) == [("a", "first", "09:00", "11:00"), ("b", "third", "11:00", None)]


def test_soft_deletes_over_an_empty_source_are_refused_unless_allowed(load: Lab) -> None:
    load("id | v", "1 | a", at="09:00")
    with load.refused(CheckError, "no rows"):
        load("id | v", at="10:00", handle_deletes="soft")
    result = load("id | v", at="11:00", handle_deletes="soft", allow_empty_source=True)
    assert result.rows_closed == 1
    assert load.history(1) == [("a", "09:00", "11:00")]


def test_a_closed_version_is_not_closed_again(load: Lab) -> None:
    load("id | v", "1 | a", "2 | b", at="09:00")
    load("id | v", "2 | b", at="10:00", handle_deletes="soft")
    assert counts(load("id | v", "2 | b", at="11:00", handle_deletes="soft")) == (0, 0)
    assert load.history(1) == [("a", "09:00", "10:00")]


def test_a_key_that_comes_twice_is_refused_and_named(load: Lab) -> None:
    load("id | v", "1 | a", at="09:00")
    with load.refused(CheckError, "id=5"):
        load("id | v", "1 | b", "5 | x", "5 | y", at="10:00")


def test_a_null_key_is_refused(load: Lab) -> None:
    load("id | email | v", "1 | a@x | a", keys=["email"])
    with load.refused(CheckError, "NULL"):
        load("id | email | v", "1 | NULL | b", keys=["email"])


def test_a_natural_key_groups_versions_and_may_repeat_in_them(load: Lab) -> None:
    unique = {"__unique_constraints__": (("email",),)}
    load("id | email | v", "1 | a@x | a", at="09:00", keys=["email"], dunders=unique)
    assert counts(load("id | email | v", "1 | a@x | b", at="10:00", keys=["email"], dunders=unique)) == (1, 1)
    assert [row[2:] for row in load.rows("id", "email", "v", "is_current")] == [("a", False), ("b", True)]


def test_all_rows_of_a_run_share_one_instant(load: Lab) -> None:
    load("id | v", "1 | a", "2 | b", "3 | c", at="09:00")
    load("id | v", "1 | A", "2 | B", "4 | d", at="10:00", handle_deletes="soft")
    table = load.table()
    assert {row["valid_from"] for row in table} == {clock("09:00"), clock("10:00")}
    assert {row["valid_to"] for row in table} == {clock("10:00"), None}
    assert {row["_loaded_at"] for row in table} == {clock("09:00"), clock("10:00")}


def test_a_clock_that_goes_backwards_does_not_turn_history_around(load: Lab) -> None:
    load("id | v", "1 | a", at="10:00")
    assert counts(load("id | v", "1 | b", at="09:00")) == (1, 1)
    after = "2026-01-05T10:00:00.000001+00:00"
    assert load.history(1) == [("a", "10:00", after), ("b", after, None)]


def test_equal_values_have_equal_hashes_on_every_version(load: Lab) -> None:
    load("id | v", "1 | a", "2 | a", "3 | b", at="09:00")
    load("id | v", "1 | b", "2 | b", "3 | a", at="10:00")
    hashes = {(row["v"], row["row_hash"]) for row in load.table()}
    assert len(hashes) == 2
    assert all(len(digest) == 32 for _, digest in hashes)


def test_a_repeated_load_changes_nothing_at_all(load: Lab) -> None:
    load("id | v", "1 | a", "2 | NULL", at="09:00")
    before = load.table()
    result = load.run(at="10:00", handle_deletes="soft")
    assert counts(result, "read", "inserted", "closed", "unchanged") == (2, 0, 0, 2)
    assert load.table() == before


def test_a_table_without_anything_to_compare_is_refused(load: Lab) -> None:
    with pytest.raises(SpecError, match="compare"):
        load("id", "1")
    assert not load.exists()


def test_a_resumed_history_reads_what_is_at_or_after_its_bookmark(load: Lab) -> None:
    load.defaults |= {"incremental_column": "n", "compare_columns": ["v"]}
    load("id | v | n:BigInt", "1 | a | 4", "2 | b | 5", at="09:00")
    result = load("id | v | n:BigInt", "1 | A | 4", "2 | b | 5", "3 | c | 6", at="10:00")
    assert (result.rows_read, *counts(result)) == (2, 1, 0)
    assert counts(load("id | v | n:BigInt", "2 | B | 7", "3 | c | 6", at="11:00")) == (1, 1)
    assert [version[0] for version in load.history(2)] == ["b", "B"]
    assert [version[0] for version in load.history(1)] == ["a"]


def test_a_lookback_repeats_events_without_a_trace(load: Lab) -> None:
    load.defaults |= {"event_timestamp_column": "at", "incremental_column": "n", "lookback": 10}
    load(
        "id | v | n:BigInt | at", "1 | a | 1 | 09:00", "1 | b | 15 | 09:10", "1 | c | 20 | 09:20", compare_columns=["v"]
    )
    result = load(
        "id | v | n:BigInt | at",
        "1 | b | 15 | 09:10",
        "1 | c | 20 | 09:20",
        "1 | d | 14 | 09:30",
        compare_columns=["v"],
    )
    assert (result.rows_read, *counts(result)) == (3, 1, 1)
    assert [version[0] for version in load.history(1)] == ["a", "b", "c", "d"]


def test_the_last_of_several_rows_makes_the_version(load: Lab) -> None:
    load.defaults |= {"on_duplicate": "last", "on_duplicate_order_by": "n", "compare_columns": ["v"]}
    load("id | v | n:BigInt", "1 | a | 1", "1 | b | 2", at="09:00")
    assert counts(load("id | v | n:BigInt", "1 | b | 3", "1 | x | 1", at="10:00")) == (0, 0)
    assert [version[0] for version in load.history(1)] == ["b"]
