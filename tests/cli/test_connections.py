"""`flow connections`: names, redacted values, origins, and whether systems answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.calls import Flow


def test_connections_are_listed_without_secrets_and_with_their_origin(project: Path, flow: Flow) -> None:
    result = flow("connections", "list")
    assert result.exit_code == 0
    assert "hunter2" not in result.output
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert rows["elsewhere"] == ["postgres://bob:***@db.example.org/x", f"{project / '.ematix-flow.toml'}:4"]
    assert rows["warehouse"][-1].startswith(f"{project / 'pipelines.py'}:")


@pytest.mark.usefixtures("project")
def test_connections_as_json_are_whole(flow: Flow) -> None:
    listed = {each["name"]: each for each in json.loads(flow("connections", "list", "--format", "json").stdout)}
    assert set(listed) == {"elsewhere", "lost", "warehouse"}
    assert listed["elsewhere"]["value"] == "postgres://bob:***@db.example.org/x"


@pytest.mark.usefixtures("empty_folder")
def test_no_connections_is_an_answer_and_needs_no_module(flow: Flow) -> None:
    result = flow("connections", "list")
    assert (result.exit_code, result.stdout) == (0, "no connections configured\n")


@pytest.mark.usefixtures("empty_folder")
def test_connections_of_the_environment_need_no_module(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMATIX_FLOW_DSN_ORDERS", "sqlite:///orders.db")
    assert "orders  sqlite:///orders.db  environment variable EMATIX_FLOW_DSN_ORDERS" in (
        flow("connections", "list").stdout
    )
    assert flow("connections", "check", "orders").stdout.startswith("orders: ok (")


@pytest.mark.usefixtures("project")
def test_a_connection_that_answers_is_ok(flow: Flow) -> None:
    result = flow("connections", "check", "warehouse")
    assert result.exit_code == 0
    assert result.stdout.startswith("warehouse: ok (DuckDB ")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("name", ["lost", "elsewhere", "no_such_connection"])
def test_a_connection_that_does_not_answer_exits_with_2(name: str, flow: Flow) -> None:
    result = flow("connections", "check", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert any(line.startswith(f"{name}: ") for line in result.stderr.splitlines())
    assert "hunter2" not in result.stderr
