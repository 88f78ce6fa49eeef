"""What every load promises on every system and path: records, tokens, dry runs, failures, one instant."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import pytest

from ematix_flow import BigInt, Text, pk
from ematix_flow.errors import CheckError, FlowError, UnknownNameError, UnsupportedError, UserCodeError
from ematix_flow.spec.place import TableRef
from tests.backends.conftest import LANES
from tests.backends.lab import Lab, Lane, clock, everywhere, only
from tests.backends.store import SqlStore

MODE = "append"


@pytest.fixture
def load(lab: Lab) -> Lab:
    lab.defaults = {"mode": "append"}
    return lab


@everywhere
def test_a_repeated_token_changes_nothing_and_says_so(load: Lab) -> None:
    load("id | v", "1 | a", token="day 1")
    before = load.snapshot()
    again = load("id | v", "2 | b", token="day 1")
    assert (again.status, again.replayed, again.rows_inserted) == ("success", True, 0)
    assert load.snapshot() == before
    assert load("id | v", "2 | b", token="day 2").rows_inserted == 1
    assert [run.status for run in load.runs()] == ["success"] * 3


@only(lambda lane: lane.path == "pushed")
def test_a_token_may_have_any_length(load: Lab) -> None:
    first, second = (f"{'Tag für Tag, ' * 500}{number}" for number in (1, 2))
    assert load("id | v", "1 | a", token=first).rows_inserted == 1
    assert load("id | v", "2 | b", token=second).rows_inserted == 1
    assert load("id | v", "3 | c", token=first).replayed
    assert load.rows("id") == [(1,), (2,)]


@everywhere
def test_a_dry_run_gives_exact_counts_and_leaves_nothing(load: Lab) -> None:
    result = load("id | v", "1 | a", "2 | b", dry_run=True)
    assert (result.status, result.rows_read, result.rows_inserted) == ("dry_run", 2, 2)
    assert not load.exists()
    assert list(load.runs()) == []
    assert load.target.columns(TableRef("ematix_flow", "run_history")) is None


@everywhere
def test_a_run_is_recorded_with_its_counts_and_times(load: Lab) -> None:
    before = datetime.now(UTC)
    result = load("id | v", "1 | a", "2 | b", at="09:00")
    (run,) = load.runs()
    assert (run.run_id, run.pipeline, run.schema, run.table) == (result.run_id, load.name, "shop", "customer")
    assert (run.mode, run.path, run.status, run.error) == ("append", load.lane.documented, "success", None)
    assert run.started_at == clock("09:00")
    assert run.finished_at is not None
    assert run.finished_at >= before
    assert (run.rows["rows_inserted"], run.rows["rows_read"]) == (2, 2)
    assert (result.path, result.status, result.target) == (load.lane.documented, "success", "shop.customer")


def test_a_dry_run_of_a_table_that_exists_leaves_it_and_its_bookmark(load: Lab) -> None:
    load.defaults["incremental_column"] = "id"
    load("id | v", "1 | a")
    before = load.snapshot()
    assert load("id | v", "1 | a", "2 | b", dry_run=True).rows_inserted == 1
    assert load.snapshot() == before
    assert len(load.runs()) == 1


def test_a_dry_run_that_fails_leaves_nothing_either(load: Lab) -> None:
    with pytest.raises(CheckError, match="id=1"):
        load("id | v", "1 | a", "1 | b", dry_run=True)
    assert not load.exists()
    assert list(load.runs()) == []


def test_a_failed_run_is_recorded_with_its_message(load: Lab) -> None:
    load("id | v", "1 | a", at="09:00")
    with load.refused(CheckError, "id=1"):
        load("id | v", "1 | a", at="10:00")
    failed, succeeded = load.runs()
    assert (failed.status, succeeded.status) == ("failed", "success")
    assert "CheckError" in str(failed.error)


def test_a_token_of_a_failed_run_may_be_used_again(load: Lab) -> None:
    with load.refused(CheckError, "id=1"):
        load("id | v", "1 | a", "1 | b", token="day 1")
    assert load("id | v", "1 | a", token="day 1").rows_inserted == 1


def test_a_source_that_does_not_exist_is_named(load: Lab) -> None:
    load("id | v", "1 | a")
    with load.refused(FlowError, "missing_rows"):
        load.run(sql="SELECT * FROM raw.missing_rows")


def test_a_required_column_that_the_source_has_not_is_named_with_the_nearest(load: Lab) -> None:
    columns = {"id": Annotated[BigInt, pk()], "email": Text}
    load("id | email", "1 | a@x", columns=columns)
    quote = load.source.dialect.quote
    source = load.source.relation_sql(load.source_ref)
    with load.refused(UnknownNameError, "email") as error:
        load.run(sql=f"SELECT id, email AS {quote('emial')} FROM {source}", columns=columns)
    assert "emial" in str(error.value)


def test_an_error_in_the_middle_of_a_function_is_the_users(load: Lab) -> None:
    from dataclasses import replace

    load("id | v", "1 | a")

    def broken(source: object) -> str:
        raise LookupError("no such day")

    with pytest.raises(UserCodeError, match="no such day"):
        load.project.run(replace(load.pipeline(), function=broken))
    assert load.rows() == [(1, "a")]


def test_names_of_source_columns_may_differ_in_case_and_order(load: Lab) -> None:
    load("id | v", "1 | a")
    source = load.source.relation_sql(load.source_ref)
    load("id | v", "2 | b", sql=f"SELECT v AS {load.source.dialect.quote('V')}, 1 AS more, id FROM {source}")
    assert load.rows() == [(1, "a"), (2, "b")]


@only(lambda lane: lane.system.pushed)
def test_the_tables_of_runs_and_bookmarks_are_as_documented(load: Lab) -> None:
    assert isinstance(load.store, SqlStore)
    load("id | v", "1 | a", "2 | b", at="09:00", incremental_column="id")
    name = load.target.relation_sql(TableRef("ematix_flow", "run_history"))
    (run,) = load.store.select(f"SELECT * FROM {name}")
    wanted = ("pipeline_name", "target_schema", "target_table", "mode", "path", "status", "rows_inserted")
    assert [run[column] for column in wanted] == [
        "load_customers", "shop", "customer", "append", load.lane.documented, "success", 2,
    ]  # fmt: skip
    assert run["error_message"] is None
    name = load.target.relation_sql(TableRef("ematix_flow", "watermarks"))
    (bookmark,) = load.store.select(f"SELECT pipeline_name, column_name, last_value FROM {name}")
    assert list(bookmark.values()) == ["load_customers", "id", "2"]


GAPS = [(lane, mode) for lane in LANES for mode in lane.system.gaps]


@pytest.mark.parametrize(("gap", "mode"), [pytest.param(lane, mode, id=f"{lane}-{mode}") for lane, mode in GAPS])
def test_a_mode_that_a_system_cannot_do_is_refused_while_planning(gap: Lane, mode: str, tmp_path: object) -> None:
    def no_spark() -> None:
        raise AssertionError("planning needs no Spark")

    lab = Lab(gap, tmp_path, no_spark, mode=mode)  # type: ignore[arg-type]
    with pytest.raises(gap.system.gaps[mode], match=mode) as error:
        lab("id | v", "1 | a")
    assert isinstance(error.value, UnsupportedError)
    assert "Delta" in str(error.value.hint)
    assert list(lab.runs()) == []
    lab.close()
