"""`flow list`, and what the program answers before it does anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ematix_flow._version import __version__
from tests.cli.calls import Flow, Program, modules_loaded_by


@pytest.mark.usefixtures("project")
def test_the_list_is_sorted_and_aligned(flow: Flow) -> None:
    lines = flow("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines)
    assert len({line.index("pipeline  ") for line in lines}) == 1
    assert "sync_customers        pipeline  0 5 * * *      scd2   analytics.customers" in lines
    assert "merge_people          pipeline  (unscheduled)  merge  analytics.people" in lines


@pytest.mark.usefixtures("project")
def test_the_list_as_json_has_the_documented_keys(flow: Flow) -> None:
    listed = json.loads(flow("list", "--format", "json").stdout)
    (found,) = [each for each in listed if each["name"] == "sync_customers"]
    assert (found["kind"], found["schedule"], found["mode"]) == ("pipeline", "0 5 * * *", "scd2")
    assert set(found) == {
        "name", "kind", "schedule", "mode", "target", "source_connection", "target_connection",
    }  # fmt: skip
    assert ["merge_people", None] in [[each["name"], each["schedule"]] for each in listed]


def test_several_modules_can_be_named(project: Path, flow: Flow) -> None:
    (project / "more.py").write_text(
        "from pipelines import People\n"
        "from ematix_flow.decorators import ematix\n"
        "@ematix.pipeline(target=People, mode='append', source_table='a.b')\n"
        "def one_more(): ...\n"
    )
    listed = json.loads(flow("list", "--module", "more", "-m", "pipelines", "--format", "json").stdout)
    assert {"one_more", "sync_customers"} <= {each["name"] for each in listed}


def test_an_empty_module_lists_nothing_on_stdout(project: Path, flow: Flow) -> None:
    (project / "nothing.py").write_text("")
    result = flow("list", "--module", "nothing")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no pipelines are declared in nothing" in result.stderr


@pytest.mark.usefixtures("empty_folder")
def test_a_folder_without_a_project_is_a_wrong_call(flow: Flow) -> None:
    result = flow("list")
    assert result.exit_code == 2
    assert "ConfigError [config.invalid]" in result.stderr
    assert "--module" in result.stderr


@pytest.mark.usefixtures("empty_folder")
def test_a_module_that_does_not_exist_is_a_wrong_call(flow: Flow) -> None:
    result = flow("list", "--module", "no_such_module")
    assert result.exit_code == 2
    assert "no_such_module" in result.stderr


def test_a_module_that_fails_says_which_line(empty_folder: Path, flow: Flow) -> None:
    (empty_folder / "failing.py").write_text("x = 1\ny = x / 0\n")
    result = flow("list", "--module", "failing")
    assert result.exit_code == 2
    assert "ZeroDivisionError" in result.stderr
    assert "raised at: failing.py:2" in result.stderr


def test_a_module_that_leaves_the_process_is_a_failure(empty_folder: Path, flow: Flow) -> None:
    (empty_folder / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    result = flow("list", "--module", "leaving")
    assert result.exit_code == 1
    assert "sys.exit(0)" in result.stderr


def test_the_version_is_printed(flow: Flow) -> None:
    assert flow("--version").stdout == f"flow {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["list", "--format", "xml"], ["run"]])
def test_a_wrong_call_exits_with_2(arguments: list[str], program: Program) -> None:
    assert program(*arguments).returncode == 2


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["list", "--format", "json"], ["run", "--help"]])
@pytest.mark.usefixtures("project")
def test_help_and_list_load_no_engine(arguments: list[str]) -> None:
    loaded = modules_loaded_by(*arguments)
    assert "typer" in loaded
    assert not {"pyspark", "fastapi", "duckdb", "pandas", "pyarrow", "numpy"} & loaded
