"""Transforms, steps and several targets on the command line: `flow transform`, `run`, `list`, `runs`, `dry-run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.calls import Flow, modules_loaded_by

MORE = """\
from ematix_flow import ematix, pipeline
from pipelines import Customers, People

ROWS = "SELECT 1 AS id, 'Ada' AS name"


@ematix.transform(target_connection="warehouse", schedule="0 6 * * *")
def shout(target):
    return {"changed": target.execute("UPDATE analytics.people SET name = upper(name)")}


@ematix.transform(target_connection="warehouse")
def broken(target):
    raise LookupError("nothing there")


@ematix.pipeline(target=People, mode="merge", target_connection="warehouse", transforms_post=[
    ematix.transform_ref("shout")])
def stepped(source):
    return ROWS


@ematix.pipeline(target=People, mode="merge", target_connection="warehouse", transforms_post=[
    ematix.transform_ref("broken")])
def badly_stepped(source):
    return ROWS


@ematix.pipeline(targets=[
    ematix.target(People, mode="merge"),
    ematix.target(Customers, mode="scd2", incremental_column=None),
], target_connection="warehouse", continue_on_failure=True)
def both(source):
    return ROWS


@ematix.pipeline(targets=[
    ematix.target(People, mode="merge"),
    ematix.target(Customers, mode="append", column_map={"name": "no_such_column"}),
], target_connection="warehouse", continue_on_failure=True)
def half(source):
    return ROWS


@pipeline.register(name="own")
def own():
    return {"rows": 7}
"""
FLAGS = ("--module", "more")


@pytest.fixture(autouse=True)
def _more(project: Path) -> None:
    (project / "more.py").write_text(MORE)


def test_transforms_are_listed_with_their_schedule(flow: Flow) -> None:
    assert flow("transform", "list", *FLAGS).stdout == "broken\t(unscheduled)\nshout\t0 6 * * *\n"
    listed = json.loads(flow("transform", "list", *FLAGS, "--format", "json").stdout)
    assert [each["name"] for each in listed] == ["broken", "shout"]


def test_the_list_shows_transforms_and_several_targets(flow: Flow) -> None:
    lines = [" ".join(line.split()) for line in flow("list", *FLAGS).stdout.splitlines()]
    assert "shout transform 0 6 * * *" in lines
    assert "own pipeline (unscheduled)" in lines
    assert "both pipeline (unscheduled) merge, scd2 analytics.people, analytics.customers" in lines
    listed = {each["name"]: each for each in json.loads(flow("list", *FLAGS, "--format", "json").stdout)}
    assert [target["mode"] for target in listed["both"]["targets"]] == ["merge", "scd2"]
    assert (listed["both"]["mode"], listed["shout"]["kind"]) == (None, "transform")


def test_a_transform_runs_and_is_recorded(flow: Flow) -> None:
    flow("run", "stepped", *FLAGS)
    result = flow("transform", "run", "shout", *FLAGS)
    assert (result.exit_code, json.loads(result.stdout)["metrics"]) == (0, {"changed": 1})
    runs = json.loads(flow("runs", "list", "-p", "shout", *FLAGS, "--format", "json").stdout)
    assert [(run["status"], run["metrics"]) for run in runs] == [("transform_success", {"changed": 1})]


def test_a_transform_that_fails_says_why_and_where(flow: Flow) -> None:
    flow("run", "stepped", *FLAGS)
    result = flow("transform", "run", "broken", *FLAGS)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "LookupError: nothing there" in result.stderr
    assert "raised at: more.py:14 in broken" in result.stderr


def test_an_unknown_transform_exits_with_2(flow: Flow) -> None:
    result = flow("transform", "run", "shuot", *FLAGS)
    assert result.exit_code == 2
    assert "did you mean 'shout'?" in result.stderr


def test_a_run_shows_its_steps(flow: Flow) -> None:
    text = flow("run", "stepped", *FLAGS, "--format", "text").stdout
    assert "step transform[0]:ref=shout, status transform_success" in " ".join(text.split())
    listed = [" ".join(line.split()) for line in flow("runs", "list", *FLAGS).stdout.splitlines()]
    assert any("stepped transform[0]:ref=shout transform transform_success" in line for line in listed)


def test_a_step_that_fails_leaves_the_result_on_stdout_and_exits_with_1(flow: Flow) -> None:
    result = flow("run", "badly_stepped", *FLAGS)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["rows_inserted"] == 1
    assert "StepError [run.step]" in result.stderr
    assert "the load is committed" in result.stderr
    assert "raised at: more.py:14 in broken" in result.stderr
    failed = json.loads(flow("runs", "list", *FLAGS, "--status", "transform_failed", "--format", "json").stdout)
    assert [(run["pipeline"], run["step"]) for run in failed] == [("badly_stepped", "transform[0]:ref=broken")]


def test_a_run_into_several_targets_gives_one_result_each(flow: Flow) -> None:
    result = flow("run", "both", *FLAGS)
    assert result.exit_code == 0
    assert list(json.loads(result.stdout)) == ["analytics.people", "analytics.customers"]
    text = flow("run", "both", *FLAGS, "--format", "text").stdout
    assert "both::analytics.people: success" in text
    assert "both::analytics.customers: success" in text
    runs = json.loads(flow("runs", "list", "-p", "both", *FLAGS, "--format", "json").stdout)
    assert {run["pipeline"] for run in runs} == {"both::analytics.people", "both::analytics.customers"}


def test_a_partial_failure_is_told_on_both_streams_and_exits_with_1(flow: Flow) -> None:
    result = flow("run", "half", *FLAGS)
    assert result.exit_code == 1
    outcome = json.loads(result.stdout)
    assert (outcome["status"], list(outcome["results"]), list(outcome["errors"])) == (
        "partial", ["analytics.people"], ["analytics.customers"],
    )  # fmt: skip
    assert "PartialRunError [run.partial]" in result.stderr
    assert "no_such_column" in result.stderr
    text = flow("run", "half", *FLAGS, "--format", "text")
    assert "half::analytics.people: success" in text.stdout


def test_a_dry_run_that_fails_for_one_target_exits_with_1(flow: Flow, project: Path) -> None:
    result = flow("dry-run", "half", *FLAGS)
    assert result.exit_code == 1
    assert "rows_inserted 1" in result.stdout
    assert "no_such_column" in result.stderr
    assert not (project / "warehouse.duckdb").exists()


def test_a_function_that_loads_by_itself_runs_but_cannot_be_looked_into(flow: Flow) -> None:
    assert json.loads(flow("run", "own", *FLAGS).stdout) == {"rows": 7}
    for command in ("preview", "dry-run", "validate"):
        result = flow(command, "own", *FLAGS)
        assert result.exit_code == 2
        assert "loads by itself" in result.stderr


def test_validating_everything_leaves_out_what_cannot_be_looked_into(flow: Flow) -> None:
    result = flow("validate", "both", "stepped", *FLAGS)
    assert (result.exit_code, result.stdout) == (0, "both: ok\nstepped: ok\n")


def test_listing_transforms_loads_no_engine() -> None:
    assert not {"pyspark", "duckdb", "pandas", "pyarrow", "numpy"} & modules_loaded_by("transform", "list", *FLAGS)
