"""`flow preview` and `flow dry-run`: the plan as a page and as data."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ematix_flow.cli.plan_text import describe_plan
from ematix_flow.engine.explain import PreviewResult, TargetPlan
from tests.cli.calls import Flow

TARGET = TargetPlan(
    schema_qualified_name="dim.customer",
    mode="merge",
    path="same_db",
    path_reason="one database",
    declared_columns=("id", "name"),
    augmented_columns=("_loaded_at",),
    merge_keys=("id",),
    merge_keys_reason="primary key",
    compare_columns=("name",),
    compare_columns_reason="auto-derived",
    target_connection_name="dwh",
    target_connection_info={"name": "dwh", "kind": "duckdb", "path": "dwh.duckdb", "note": None},
    guarantee="all or nothing",
    plan_sql=("UPDATE t SET [bold]x = 1", "INSERT INTO t VALUES (1)"),
    plan_sql_label="update + insert",
)
PLAN = PreviewResult(
    pipeline_name="customers",
    schedule=None,
    mode="merge",
    source_connection_name="raw",
    source_connection_info={"name": "raw", "kind": "sqlite", "path": "raw.db"},
    steps=("read the source query from raw (sqlite)",),
    source_query="SELECT * FROM raw.people",
    cleaning=("name: trim(), lower()",),
    source_sql="SELECT 1",
    targets=(TARGET,),
    notes=("the first note",),
)


def page(plan: PreviewResult, *, verbose: bool = False, width: int = 200, colored: bool = False) -> str:
    console = Console(width=width, markup=False, force_terminal=colored, color_system="standard" if colored else None)
    with console.capture() as captured:
        for part in describe_plan(plan, verbose=verbose, colored=colored):
            console.print(part)
    return captured.get()


def facts(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_page_says_everything_about_one_target() -> None:
    lines = facts(page(PLAN))
    assert lines[0] == "PREVIEW customers"
    for expected in (
        "Schedule —",
        "Mode merge",
        "Source raw (sqlite, path=raw.db)",
        "1. SELECT * FROM raw.people",
        "- name: trim(), lower()",
        "Target dim.customer",
        "Connection dwh (duckdb, path=dwh.duckdb)",
        "Path same_db (one database)",
        "Columns id, name, _loaded_at (auto)",
        "Merge keys id [primary key]",
        "Compare columns name [auto-derived]",
        "Guarantee all or nothing",
        "SQL plan (update + insert)",
        "1. UPDATE t SET [bold]x = 1",
        "2. INSERT INTO t VALUES (1)",
        "- the first note",
    ):
        assert expected in lines


def test_a_dry_run_shows_its_counts() -> None:
    counted = replace(TARGET, dry_run_rows_affected={"rows_inserted": 2, "rows_updated": 0})
    text = page(replace(PLAN, is_dry_run=True, targets=(counted,)))
    assert text.startswith("DRY RUN customers")
    assert "Dry run rows_inserted 2, rows_updated 0" in facts(text)


def test_several_targets_take_one_line_each_unless_everything_is_asked_for() -> None:
    failed = replace(TARGET, schema_qualified_name="dim.other", dry_run_error="CheckError: duplicate keys")
    plan = replace(PLAN, targets=(TARGET, failed))
    assert "dim.customer merge keys id same_db planned" in facts(page(plan))
    assert "dim.other merge keys id same_db failed: CheckError: duplicate keys" in facts(page(plan))
    assert "Show each target's plan with -v." in page(plan)
    assert "Target dim.other" in facts(page(plan, verbose=True))


def test_a_long_statement_is_shortened_unless_everything_is_asked_for() -> None:
    statement = "\n".join(f"line {number}" for number in range(40))
    plan = replace(PLAN, targets=(replace(TARGET, plan_sql=(statement,)),))
    assert "line 39" not in page(plan)
    assert "… 26 more lines; -v shows them" in page(plan)
    assert "line 39" in page(plan, verbose=True)


def test_nothing_is_cut_off_on_a_narrow_terminal() -> None:
    narrow = page(PLAN, width=30)
    assert max(len(line) for line in narrow.splitlines()) <= 30
    assert "INSERTINTOtVALUES(1)" in re.sub(r"\s", "", narrow)


def test_statements_are_highlighted_only_where_there_are_colours() -> None:
    assert "\x1b[" in page(PLAN, colored=True)
    assert "\x1b[" not in page(PLAN)


@pytest.mark.usefixtures("project")
def test_preview_is_printed_once(flow: Flow) -> None:
    result = flow("preview", "sync_customers")
    assert result.exit_code == 0
    assert result.stdout.count("PREVIEW sync_customers") == 1
    assert "printed by the function" not in result.stdout


@pytest.mark.usefixtures("project")
def test_preview_as_json_is_the_whole_plan(flow: Flow) -> None:
    plan = json.loads(flow("preview", "sync_customers", "--format", "json").stdout)
    assert plan["pipeline_name"] == "sync_customers"
    assert plan["is_dry_run"] is False
    assert len(plan["targets"][0]["plan_sql"]) > 0


@pytest.mark.usefixtures("project")
def test_preview_of_what_cannot_all_be_told_says_why_and_succeeds(flow: Flow) -> None:
    result = flow("preview", "broken_function")
    assert (result.exit_code, result.stderr.count("Error")) == (0, 0)
    lines = facts(result.stdout)
    assert "Target analytics.people" in lines
    assert "cannot be told: the path, the source query" in " ".join(lines)
    assert flow("dry-run", "broken_function").exit_code == 1


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("name", ["preview", "dry-run"])
def test_an_unknown_pipeline_exits_with_2(name: str, flow: Flow) -> None:
    assert flow(name, "no_such_pipeline").exit_code == 2


@pytest.mark.usefixtures("project")
def test_colours_go_where_they_are_forced_and_not_where_they_are_refused(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in flow("preview", "sync_customers").stdout
    assert "\x1b[" not in flow("preview", "sync_customers", "--no-color").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in flow("preview", "sync_customers").stdout


def test_a_dry_run_counts_and_leaves_nothing(project: Path, flow: Flow) -> None:
    result = flow("dry-run", "sync_customers")
    assert result.exit_code == 0
    assert "rows_inserted 2" in result.stdout
    assert json.loads(flow("run", "sync_customers").stdout)["rows_inserted"] == 2


@pytest.mark.usefixtures("project")
def test_a_dry_run_that_fails_exits_with_1_and_says_why_on_both_streams(flow: Flow) -> None:
    result = flow("dry-run", "broken_query", "--format", "json")
    assert result.exit_code == 1
    assert "no_such_table" in json.loads(result.stdout)["targets"][0]["dry_run_error"]
    assert "no_such_table" in result.stderr
