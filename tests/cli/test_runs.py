"""`flow runs`: what was recorded, as a table and as data."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from ematix_flow.cli.runs import run_record
from ematix_flow.cli.screen import Header, aligned
from ematix_flow.spec.run import Run
from tests.cli.calls import Flow

START = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
RUN = Run(
    run_id="0b9c6d1e-0000-4000-8000-000000000000",
    pipeline="customers",
    schema="dim",
    table="customer",
    mode="scd2",
    path="same_db",
    started_at=START,
    finished_at=START + timedelta(seconds=1.5),
    status="success",
    rows={"rows_inserted": 3, "rows_closed": 1, "rows_updated": 1},
)


@pytest.mark.usefixtures("project")
def test_runs_are_listed_newest_first_with_their_outcome(flow: Flow) -> None:
    flow("run", "sync_customers")
    flow("run", "broken_query")
    head, newest, oldest = flow("runs", "list").stdout.splitlines()[:3]
    assert head.split()[:4] == ["run", "pipeline", "mode", "status"]
    assert newest.split()[1:4] == ["broken_query", "merge", "failed"]
    assert "no_such_table" in newest
    assert oldest.split()[1:4] == ["sync_customers", "scd2", "success"]


@pytest.mark.usefixtures("project")
def test_runs_can_be_chosen_by_pipeline_and_status(flow: Flow) -> None:
    flow("run", "sync_customers")
    flow("run", "broken_query")
    flow("run", "merge_people")

    def listed(*flags: str) -> list[str]:
        return [run["pipeline"] for run in json.loads(flow("runs", "list", "--format", "json", *flags).stdout)]

    assert listed() == ["merge_people", "broken_query", "sync_customers"]
    assert listed("--pipeline", "sync_customers") == ["sync_customers"]
    assert listed("--status", "success") == ["merge_people", "sync_customers"]
    assert listed("--status", "success", "--limit", "1") == ["merge_people"]
    assert listed("--limit", "2") == ["merge_people", "broken_query"]
    assert "older runs are recorded too" in flow("runs", "list", "--limit", "2").stderr
    assert "older runs" not in flow("runs", "list").stderr


@pytest.mark.usefixtures("project")
def test_a_run_is_shown_by_the_beginning_of_its_id(flow: Flow) -> None:
    run_id = json.loads(flow("run", "sync_customers").stdout)["run_id"]
    shown = json.loads(flow("runs", "show", run_id[:6], "--format", "json").stdout)
    assert (shown["run_id"], shown["status"], shown["rows_inserted"]) == (run_id, "success", 2)
    assert ["run", "id", run_id] in [line.split() for line in flow("runs", "show", run_id).stdout.splitlines()]


@pytest.mark.usefixtures("project")
def test_an_unknown_run_exits_with_2(flow: Flow) -> None:
    flow("run", "sync_customers")
    result = flow("runs", "show", "zzzz")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no run has an id that begins with 'zzzz'" in result.stderr


@pytest.mark.usefixtures("project")
def test_a_beginning_that_several_runs_share_exits_with_2(flow: Flow) -> None:
    flow("run", "sync_customers")
    flow("run", "sync_customers")
    result = flow("runs", "show", "")
    assert result.exit_code == 2
    assert "2 runs begin with ''" in result.stderr


@pytest.mark.usefixtures("project")
def test_runs_of_an_unknown_pipeline_are_a_wrong_call(flow: Flow) -> None:
    assert flow("runs", "list", "--pipeline", "no_such_pipeline").exit_code == 2


@pytest.mark.usefixtures("project")
def test_a_project_that_never_ran_says_so_on_stderr(flow: Flow) -> None:
    result = flow("runs", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no runs are recorded" in result.stderr


def test_a_record_has_the_names_of_results() -> None:
    record = run_record(RUN)
    assert record["target"] == "dim.customer"
    assert record["started_at"] == "2026-03-04T05:06:07Z"
    assert record["seconds"] == 1.5
    assert (record["rows_inserted"], record["rows_closed"]) == (3, 1)


def test_closed_versions_are_not_told_twice() -> None:
    assert "rows_updated" not in run_record(RUN)
    assert run_record(replace(RUN, mode="merge"))["rows_updated"] == 1


def test_a_recorded_error_shows_no_secrets() -> None:
    record = run_record(replace(RUN, error="cannot reach mysql://bob:hunter2@db/x"))
    assert record["error"] == "cannot reach mysql://bob:***@db/x"


def test_a_narrow_table_folds_its_long_columns_and_keeps_the_short_ones_whole() -> None:
    table = aligned([("0b9c6d1e", "long " * 10)], [Header("run", folds=False), Header("error")])
    console = Console(width=30, color_system=None)
    with console.capture() as captured:
        console.print(table)
    lines = captured.get().splitlines()
    assert max(len(line) for line in lines) <= 30
    assert lines[1].startswith("0b9c6d1e  long")
    assert captured.get().count("long") == 10


def test_empty_columns_are_left_out() -> None:
    table = aligned([("a", "", "b")], [Header("first"), Header("second"), Header("third")])
    assert [column.header for column in table.columns] == ["first", "third"]
