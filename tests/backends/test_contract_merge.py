"""merge and scd1 on every system that can change rows, on both paths."""

from __future__ import annotations

import pytest

from ematix_flow.errors import CheckError, DriftError
from ematix_flow.spec.run import Bookmark
from tests.backends.lab import Lab, counts, everywhere

MODE = "merge"


@pytest.fixture
def load(lab: Lab) -> Lab:
    lab.defaults = {"mode": "merge"}
    return lab


@everywhere
def test_new_keys_are_inserted_and_equal_rows_left_alone(load: Lab) -> None:
    load("id | v", "1 | a")
    assert counts(load("id | v", "1 | a", "2 | b")) == (1, 0, 1)
    assert load.rows() == [(1, "a"), (2, "b")]


@everywhere
def test_a_null_takes_the_place_of_a_value_and_absent_keys_stay(load: Lab) -> None:
    load("id | v", "1 | a", "2 | b")
    assert counts(load("id | v", "1 | NULL")) == (0, 1, 0)
    assert load.rows() == [(1, None), (2, "b")]


@everywhere
def test_hard_deletes_remove_keys_that_the_source_no_longer_has(load: Lab) -> None:
    load("id | v", "1 | a", "2 | b")
    result = load("id | v", "1 | a", handle_deletes="hard")
    assert counts(result, "inserted", "updated", "unchanged", "deleted") == (0, 0, 1, 1)
    assert load.rows() == [(1, "a")]


def test_a_value_takes_the_place_of_a_null(load: Lab) -> None:
    load("id | v", "1 | NULL")
    assert counts(load("id | v", "1 | a")) == (0, 1, 0)
    assert load.rows() == [(1, "a")]


def test_an_empty_text_is_not_null(load: Lab) -> None:
    load("id | v", "1 | NULL")
    assert counts(load("id | v", "1 | ''")) == (0, 1, 0)
    assert counts(load("id | v", "1 | ''")) == (0, 0, 1)


def test_insert_update_and_unchanged_add_up_to_the_rows_read(load: Lab) -> None:
    load("id | v | w", "1 | a | x", "2 | b | x", "3 | c | x")
    result = load("id | v | w", "1 | a | x", "2 | B | x", "3 | c | X", "4 | d | x")
    assert counts(result, "read", "inserted", "updated", "unchanged") == (4, 1, 2, 1)
    assert load.rows() == [(1, "a", "x"), (2, "B", "x"), (3, "c", "X"), (4, "d", "x")]


def test_a_repeated_load_changes_nothing_at_all(load: Lab) -> None:
    load("id | v", "1 | a", "2 | NULL")
    before = load.table()
    assert counts(load.run()) == (0, 0, 2)
    assert load.table() == before


def test_only_changed_rows_carry_the_new_run(load: Lab) -> None:
    first = load("id | v", "1 | a", "2 | b", at="09:00")
    second = load("id | v", "1 | a", "2 | B", at="10:00")
    expected = [(1, "09:00", first.run_id), (2, "10:00", second.run_id)]
    assert load.rows("id", "_loaded_at", "_batch_id") == expected


def test_update_columns_limit_what_is_compared_and_set(load: Lab) -> None:
    load("id | v | w", "1 | a | x", update_columns=["v"])
    assert counts(load("id | v | w", "1 | a | y", update_columns=["v"])) == (0, 0, 1)
    assert counts(load("id | v | w", "1 | b | y", "2 | c | z", update_columns=["v"])) == (1, 1, 0)
    assert load.rows() == [(1, "b", "x"), (2, "c", "z")]


def test_an_empty_list_of_update_columns_inserts_what_is_absent(load: Lab) -> None:
    load("id | v", "1 | a", update_columns=[])
    assert counts(load("id | v", "1 | b", "2 | c", update_columns=[])) == (1, 0, 1)
    assert load.rows() == [(1, "a"), (2, "c")]


def test_keys_may_be_several_columns(load: Lab) -> None:
    load.keys = ("id", "region")
    load("id | region | v", "1 | eu | a", "1 | us | b")
    assert counts(load("id | region | v", "1 | us | B", "2 | us | c")) == (1, 1, 0)
    assert load.rows() == [(1, "eu", "a"), (1, "us", "B"), (2, "us", "c")]


def test_keys_may_be_other_columns_than_the_primary_key(load: Lab) -> None:
    load("id | email | v", "1 | a@x | a", keys=["email"])
    assert counts(load("id | email | v", "1 | a@x | b", keys=["email"])) == (0, 1, 0)
    assert load.rows() == [(1, "a@x", "b")]


def test_hard_deletes_remove_everything_only_when_an_empty_source_is_allowed(load: Lab) -> None:
    load("id | v", "1 | a", "2 | b")
    with load.refused(CheckError, "no rows") as error:
        load("id | v", handle_deletes="hard")
    assert "allow_empty_source" in str(error.value)
    result = load("id | v", handle_deletes="hard", allow_empty_source=True)
    assert result.rows_deleted == 2
    assert load.rows() == []


def test_a_null_key_is_refused_and_the_row_named(load: Lab) -> None:
    load.keys = ("id",)
    load("id | email | v", "1 | a@x | a", keys=["email"])
    with load.refused(CheckError, "NULL"):
        load("id | email | v", "1 | a@x | a", "2 | NULL | b", keys=["email"])


def test_a_key_that_comes_twice_is_refused_and_named(load: Lab) -> None:
    load("id | v", "1 | a")
    with load.refused(CheckError, "id=7"):
        load("id | v", "1 | a", "7 | x", "7 | y")


def test_a_failed_load_with_deletes_deletes_nothing(load: Lab) -> None:
    load("id | v", "1 | a", "2 | b")
    with load.refused(CheckError, "id=2"):
        load("id | v", "2 | x", "2 | y", handle_deletes="hard")


def test_scd1_is_merge_under_its_own_name(load: Lab) -> None:
    load("id | v", "1 | a", mode="scd1")
    assert counts(load("id | v", "1 | b", mode="scd1")) == (0, 1, 0)
    assert [run.mode for run in load.runs()] == ["scd1", "scd1"]


@everywhere
def test_soft_deletes_mark_keys_that_the_source_no_longer_has(load: Lab) -> None:
    load.defaults["handle_deletes"] = "soft"
    load("id | v", "1 | a", "2 | b", at="09:00")
    result = load("id | v", "1 | a", at="10:00")
    assert counts(result, "inserted", "updated", "unchanged", "deleted") == (0, 0, 1, 1)
    assert load.rows("id", "v", "_is_deleted", "_loaded_at") == [(1, "a", False, "09:00"), (2, "b", True, "10:00")]
    before = load.table()
    assert counts(load.run(), "unchanged", "deleted") == (1, 0)
    assert load.table() == before


def test_a_key_that_is_back_is_no_longer_marked(load: Lab) -> None:
    load.defaults["handle_deletes"] = "soft"
    load("id | v", "1 | a", "2 | b")
    load("id | v", "1 | a")
    result = load("id | v", "1 | a", "2 | b")
    assert counts(result, "inserted", "updated", "unchanged", "deleted") == (0, 1, 1, 0)
    assert load.rows("id", "v", "_is_deleted") == [(1, "a", False), (2, "b", False)]


def test_soft_deletes_mark_everything_only_when_an_empty_source_is_allowed(load: Lab) -> None:
    load.defaults["handle_deletes"] = "soft"
    load("id | v", "1 | a", "2 | b")
    with load.refused(CheckError, "no rows"):
        load("id | v")
    assert load("id | v", allow_empty_source=True).rows_deleted == 2
    assert load.rows("id", "_is_deleted") == [(1, True), (2, True)]


def test_a_table_without_the_mark_is_drift_until_it_may_evolve(load: Lab) -> None:
    load("id | v", "1 | a", "2 | b")
    for policy in ("error", "warn"):
        with load.refused(DriftError, "_is_deleted"):
            load("id | v", "1 | a", handle_deletes="soft", on_drift=policy)
    result = load("id | v", "1 | a", "3 | c", handle_deletes="soft", on_drift="evolve")
    assert counts(result, "inserted", "updated", "unchanged", "deleted") == (1, 0, 1, 1)
    assert load.rows("id", "_is_deleted") == [(1, False), (2, True), (3, False)]
    assert counts(load("id | v", "1 | a", "3 | c", handle_deletes="soft")) == (0, 0, 2)


@pytest.mark.parametrize(("policy", "kept"), [("last", "new"), ("first", "old")])
def test_one_of_several_rows_for_a_key_counts_where_a_column_says_which(load: Lab, policy: str, kept: str) -> None:
    load.defaults |= {"on_duplicate": policy, "on_duplicate_order_by": "at"}
    result = load("id | v | at", "1 | old | 09:00", "1 | mid | 09:30", "1 | new | 10:00", "2 | only | NULL")
    assert counts(result, "read", "inserted", "unchanged") == (4, 2, 2)
    assert load.rows("id", "v") == [(1, kept), (2, "only")]
    assert counts(load.run()) == (0, 0, 4)


def test_rows_that_no_column_tells_apart_are_refused_and_named(load: Lab) -> None:
    load.defaults |= {"on_duplicate": "last", "on_duplicate_order_by": "at"}
    load("id | v | at", "1 | a | 09:00")
    with load.refused(CheckError, "the same at.*id=7"):
        load("id | v | at", "1 | b | 10:00", "7 | x | 09:00", "7 | y | 10:00", "7 | z | 10:00")
    with load.refused(CheckError, "NULL in at.*id=7"):
        load("id | v | at", "1 | b | 10:00", "7 | x | NULL", "7 | y | 10:00")
    assert load("id | v | at", "7 | x | 09:00", "7 | y | 09:00", "7 | z | 10:00").rows_inserted == 1


@everywhere
def test_a_resumed_merge_reads_what_is_at_or_after_its_bookmark(load: Lab) -> None:
    load.defaults["incremental_column"] = "n"
    load("id | v | n:BigInt", "1 | a | 4", "2 | b | 5")
    assert load.bookmark() == Bookmark(load.name, "n", "5")
    # Row 1 was changed without a new number, so nobody sees that; row 2 comes again and says nothing new.
    result = load("id | v | n:BigInt", "1 | A | 4", "2 | b | 5", "3 | c | 5", "4 | d | 6")
    assert counts(result, "read", "inserted", "updated", "unchanged") == (3, 2, 0, 1)
    assert (result.watermark_before, result.watermark_after) == ("5", "6")
    assert counts(load("id | v | n:BigInt", "2 | B | 7", "4 | d | 6")) == (0, 1, 1)
    assert load.rows("id", "v") == [(1, "a"), (2, "B"), (3, "c"), (4, "d")]


def test_a_lookback_reads_again_what_lies_shortly_before_the_bookmark(load: Lab) -> None:
    load.defaults |= {"incremental_column": "at", "lookback": "10m"}
    load("id | v | at", "1 | a | 09:00", "2 | b | 09:15", "3 | c | 09:20")
    result = load("id | v | at", "1 | A | 09:00", "2 | b | 09:15", "5 | late | 09:10", "3 | c | 09:20")
    assert counts(result, "read", "inserted", "updated", "unchanged") == (3, 1, 0, 2)
    assert load.rows("id", "v") == [(1, "a"), (2, "b"), (3, "c"), (5, "late")]
    # Nothing is left at the bookmark, which stays where it is.
    reached = load.bookmark()
    load("id | v | at", "2 | B | 09:12")
    assert load.bookmark() == reached
    assert load.rows("id", "v")[1] == (2, "B")


def test_a_lookback_on_numbers_may_be_longer_than_the_way(load: Lab) -> None:
    load.defaults |= {"incremental_column": "n", "lookback": 100_000}
    load("id | n:SmallInt", "1 | 3")
    assert counts(load("id | n:SmallInt", "1 | 3", "2 | 1")) == (1, 0, 1)


def test_null_in_the_incremental_column_is_refused(load: Lab) -> None:
    load.defaults["incremental_column"] = "n"
    load("id | n:BigInt", "1 | 5")
    with load.refused(CheckError, "id=2"):
        load("id | n:BigInt", "2 | NULL", "3 | 6")
