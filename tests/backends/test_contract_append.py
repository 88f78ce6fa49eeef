"""append, and append that goes on where it stopped, on every system and path."""

from __future__ import annotations

import pytest

from ematix_flow.errors import CheckError, SpecError
from ematix_flow.spec.run import Bookmark
from tests.backends.lab import Lab, clock, everywhere

MODE = "append"


@pytest.fixture
def load(lab: Lab) -> Lab:
    lab.defaults = {"mode": "append"}
    return lab


@everywhere
def test_every_row_is_added_with_the_instant_and_the_id_of_its_run(load: Lab) -> None:
    first = load("id | v", "1 | a", "2 | NULL", at="09:00")
    second = load("id | v", "3 | ''", at="10:00")
    assert (first.rows_read, first.rows_inserted, second.rows_inserted) == (2, 2, 1)
    assert load.rows("id", "v", "_loaded_at", "_batch_id") == [
        (1, "a", "09:00", first.run_id),
        (2, None, "09:00", first.run_id),
        (3, "", "10:00", second.run_id),
    ]


@everywhere
def test_a_resumed_load_takes_what_is_new_and_keeps_its_bookmark(load: Lab) -> None:
    load.defaults["incremental_column"] = "n"
    assert load("id | n:BigInt", "1 | 4", "2 | 5").rows_inserted == 2
    assert load.bookmark() == Bookmark(load.name, "n", "5")
    result = load("id | n:BigInt", "2 | 5", "3 | 6", "4 | 7")
    assert (result.rows_inserted, result.watermark_before, result.watermark_after) == (2, "5", "7")
    assert load.rows() == [(1, 4), (2, 5), (3, 6), (4, 7)]
    bookmark = load.bookmark()
    assert bookmark == Bookmark(load.name, "n", "7")
    assert bookmark.updated_at == load.target.ledger.last_instant(load.target_ref)


def test_an_empty_source_adds_nothing_and_makes_the_table(load: Lab) -> None:
    assert load("id | v").rows_inserted == 0
    assert load.exists()
    assert load.rows() == []


def test_a_key_that_the_table_holds_is_refused_and_named(load: Lab) -> None:
    load("id | v", "1 | a")
    with load.refused(CheckError, "id=1"):
        load("id | v", "1 | b", "2 | c")


def test_a_key_that_comes_twice_is_refused_and_named(load: Lab) -> None:
    load("id | v", "1 | a")
    with load.refused(CheckError, "id=2"):
        load("id | v", "2 | b", "2 | c")


def test_a_refused_first_load_leaves_no_table(load: Lab) -> None:
    with load.refused(CheckError, "id=2"):
        load("id | v", "2 | b", "2 | c")
    assert not load.exists()


def test_a_resumed_load_without_new_rows_leaves_everything_as_it_was(load: Lab) -> None:
    load.defaults["incremental_column"] = "n"
    load("id | n:BigInt", "1 | 4", "2 | 5")
    before = load.snapshot()
    result = load.run()
    assert (result.rows_inserted, result.watermark_before, result.watermark_after) == (0, "5", "5")
    assert load("id | n:BigInt").rows_inserted == 0
    assert load.snapshot() == before


def test_a_later_row_with_the_value_of_the_bookmark_is_not_lost(load: Lab) -> None:
    load.defaults["incremental_column"] = "n"
    load("id | n:BigInt", "1 | 5")
    assert load("id | n:BigInt", "1 | 5", "2 | 5").rows_inserted == 1
    assert load.rows() == [(1, 5), (2, 5)]


def test_a_row_behind_the_bookmark_is_not_taken(load: Lab) -> None:
    load.defaults["incremental_column"] = "n"
    load("id | n:BigInt", "1 | 5")
    assert load("id | n:BigInt", "1 | 5", "9 | 4").rows_inserted == 0
    assert load.bookmark() == Bookmark(load.name, "n", "5")


def test_bookmarks_stand_on_instants_to_the_microsecond(load: Lab) -> None:
    load.defaults["incremental_column"] = "at"
    load("id | at", "1 | 09:00", "2 | 09:00:00.000001")
    assert load("id | at", "2 | 09:00:00.000001", "3 | 09:00:00.000002").rows_inserted == 1
    assert load.bookmark() == Bookmark(load.name, "at", "2026-01-05 09:00:00.000002")
    assert [row["at"] for row in load.table()][-1] == clock("09:00:00.000002")


def test_bookmarks_compare_numbers_as_numbers_and_text_as_text(load: Lab) -> None:
    load.defaults["incremental_column"] = "n"
    load("id | n:Numeric[10,2]", "1 | 9.50")
    assert load("id | n:Numeric[10,2]", "2 | 10.25").rows_inserted == 1
    assert load.bookmark() == Bookmark(load.name, "n", "10.25")


def test_bookmarks_stand_on_days_and_on_text(load: Lab) -> None:
    load.defaults["incremental_column"] = "d"
    load("id | d:Date", "1 | 2026-01-09")
    assert load("id | d:Date", "1 | 2026-01-09", "2 | 2026-01-10").rows_inserted == 1
    load.name, load.target_ref = "others", type(load.target_ref)("shop", "texts")
    load.defaults["incremental_column"] = "t"
    load("id | t", "1 | it's b")
    assert load("id | t", "1 | it's b", "2 | it's c", "3 | it's a").rows_inserted == 1
    assert load.bookmark() == Bookmark("others", "t", "it's c")


def test_null_in_the_incremental_column_is_refused(load: Lab) -> None:
    load.defaults["incremental_column"] = "n"
    load("id | n:BigInt", "1 | 5")
    with load.refused(CheckError, "id=2"):
        load("id | n:BigInt", "2 | NULL", "3 | 6")
    with load.refused(CheckError, "id=2"):
        load("id | n:BigInt", "2 | NULL")


def test_a_renamed_pipeline_starts_over_and_is_stopped_by_the_keys_that_are_there(load: Lab) -> None:
    load.defaults["incremental_column"] = "n"
    load("id | n:BigInt", "1 | 4", "2 | 5")
    before, load.name = load.name, "renamed"
    with load.refused(CheckError, "id=1"):
        load("id | n:BigInt", "3 | 6", "1 | 4", "2 | 5")
    assert load.rows() == [(1, 4), (2, 5)]
    assert load.bookmark() is None
    assert load.target.ledger.bookmark(before) == Bookmark(before, "n", "5")


def test_a_failed_load_leaves_the_bookmark(load: Lab) -> None:
    load.defaults["incremental_column"] = "n"
    load("id | n:BigInt", "1 | 5")
    with load.refused(CheckError, "id=7"):
        load("id | n:BigInt", "7 | 6", "7 | 7")
    assert load("id | n:BigInt", "7 | 6").rows_inserted == 1


def test_a_bookmark_on_another_column_is_refused(load: Lab) -> None:
    load("id | n:BigInt | m:BigInt", "1 | 5 | 1", incremental_column="n")
    with load.refused(SpecError, "bookmark on column 'n'"):
        load("id | n:BigInt | m:BigInt", "2 | 6 | 2", incremental_column="m")


def test_bookmarks_never_go_back(load: Lab) -> None:
    load.defaults["incremental_column"] = "n"
    reached = []
    for number in (5, 3, 5, 8, 1):
        load("id | n:BigInt", f"{number} | {number}")
        bookmark = load.bookmark()
        reached.append(None if bookmark is None else int(bookmark.value))
    assert reached == [5, 5, 5, 8, 8]


@everywhere
def test_a_bookmark_can_be_set_and_forgotten(load: Lab) -> None:
    load.defaults["incremental_column"] = "n"
    ledger = load.target.ledger
    ledger.set_bookmark(load.name, Bookmark(load.name, "n", "4"), clock("08:30"))
    assert load.bookmark() == Bookmark(load.name, "n", "4")
    assert load.bookmark().updated_at == clock("08:30")
    assert load("id | n:BigInt", "1 | 3", "2 | 5", "3 | 6", at="09:00").rows_inserted == 2
    assert load.bookmark().updated_at == clock("09:00")
    # Somebody's clock may be behind that of the loads.
    ledger.set_bookmark(load.name, Bookmark(load.name, "n", "9"), clock("08:45"))
    assert load.bookmark() == Bookmark(load.name, "n", "9")
    assert load("id | n:BigInt", "4 | 7", "5 | 10", at="10:00").rows_inserted == 1
    assert load.bookmark() == Bookmark(load.name, "n", "10")
    ledger.set_bookmark(load.name, None, clock("10:30"))
    assert load.bookmark() is None
    assert load("id | n:BigInt", "6 | 1", at="11:00").rows_inserted == 1
    assert load.bookmark() == Bookmark(load.name, "n", "1")


def test_the_bookmarks_of_others_stay_where_they_are(load: Lab) -> None:
    ledger = load.target.ledger
    for name in ("one", "two"):
        ledger.set_bookmark(name, Bookmark(name, "n", "5"), clock("08:30"))
    ledger.set_bookmark("one", None, clock("08:45"))
    assert (ledger.bookmark("one"), ledger.bookmark("two")) == (None, Bookmark("two", "n", "5"))
