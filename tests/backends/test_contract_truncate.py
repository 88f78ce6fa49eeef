"""truncate on every system and path."""

from __future__ import annotations

import pytest

from ematix_flow.errors import CheckError, FlowError
from tests.backends.lab import Lab, everywhere, only

MODE = "truncate"


@pytest.fixture
def load(lab: Lab) -> Lab:
    lab.defaults = {"mode": "truncate"}
    return lab


@everywhere
def test_new_rows_take_the_place_of_all_old_ones(load: Lab) -> None:
    load("id | v", "1 | a", "2 | b")
    result = load("id | v", "2 | B", "3 | NULL")
    assert (result.rows_read, result.rows_inserted) == (2, 2)
    assert load.rows() == [(2, "B"), (3, None)]


def test_every_row_carries_the_run_that_wrote_it(load: Lab) -> None:
    load("id | v", "1 | a", at="09:00")
    second = load("id | v", "1 | a", at="10:00")
    assert load.rows("_loaded_at", "_batch_id") == [("10:00", second.run_id)]


def test_an_empty_source_empties_the_table(load: Lab) -> None:
    load("id | v", "1 | a")
    assert load("id | v").rows_inserted == 0
    assert load.rows() == []
    assert load.exists()


def test_a_failed_load_keeps_the_old_rows(load: Lab) -> None:
    load("id | v", "1 | a")
    with load.refused(CheckError, "id=4"):
        load("id | v", "4 | x", "4 | y")
    with load.refused(FlowError, "nothing|nope"):
        load.run(sql="SELECT nope FROM nowhere.nothing")


@only(lambda lane: lane.source is None)
def test_a_table_may_be_replaced_by_rows_made_from_itself(load: Lab) -> None:
    load("id | v", "1 | a", "2 | b")
    own = load.target.relation_sql(load.target_ref)
    load.run(sql=f"SELECT id, v FROM {own} WHERE id > 1")
    assert load.rows() == [(2, "b")]
