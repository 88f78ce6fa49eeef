"""`flow validate`: problems on stderr, answers on stdout, and the documented exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.calls import Flow


@pytest.mark.usefixtures("project")
def test_a_pipeline_without_problems_is_ok(flow: Flow) -> None:
    result = flow("validate", "sync_customers")
    assert (result.exit_code, result.stdout) == (0, "sync_customers: ok\n")
    assert "note: table analytics.customers does not exist yet" in result.stderr


@pytest.mark.usefixtures("project")
def test_problems_are_told_on_stderr_and_exit_with_1(flow: Flow) -> None:
    result = flow("validate", "sync_customers", "broken_query")
    assert (result.exit_code, result.stdout) == (1, "sync_customers: ok\n")
    assert "broken_query: 1 problem" in result.stderr
    assert "no_such_table" in result.stderr


@pytest.mark.usefixtures("project")
def test_an_unknown_name_exits_with_2(flow: Flow) -> None:
    result = flow("validate", "sync_custmers")
    assert result.exit_code == 2
    assert "did you mean 'sync_customers'?" in result.stderr


@pytest.mark.usefixtures("project")
def test_json_has_the_notes_and_a_list_where_several_are_asked_for(flow: Flow) -> None:
    one = json.loads(flow("validate", "merge_people", "--format", "json").stdout)
    assert set(one) == {"pipeline_name", "ok", "source_sql", "errors", "target_connection_name", "notes"}
    assert (one["ok"], one["errors"], len(one["notes"])) == (True, [], 1)
    two = json.loads(flow("validate", "merge_people", "sync_customers", "--format", "json").stdout)
    assert [each["pipeline_name"] for each in two] == ["merge_people", "sync_customers"]


def test_all_pipelines_are_validated_where_none_is_named(project: Path, flow: Flow) -> None:
    source = project / "pipelines.py"
    source.write_text(source.read_text().replace("raise KeyboardInterrupt", "return 7"))
    result = flow("validate")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == ["merge_people: ok", "sync_customers: ok"]
    assert "hunter2" not in result.output
