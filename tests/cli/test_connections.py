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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home" / ".ematix-flow" / "connections.toml"


@pytest.mark.usefixtures("empty_folder")
def test_a_connection_is_set_by_its_url_and_by_fields(flow: Flow, home: Path) -> None:
    result = flow("connections", "set", "shop=sqlite:///shop.db?x=1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no field 'x'" in result.stderr
    assert not home.exists()
    result = flow("connections", "set", "shop=sqlite:///shop.db")
    assert (result.exit_code, result.stdout) == (0, f"shop: written to {home}\n")
    assert flow("connections", "set", "lake", "kind=duckdb", "path=a=b.duckdb", "memory_limit=1GB").exit_code == 0
    assert flow("connections", "set", "lake", "memory_limit=2GB").exit_code == 0
    rows = [line.split(maxsplit=1) for line in flow("connections", "list").stdout.splitlines()]
    assert [row[0] for row in rows] == ["lake", "shop"]
    assert rows[0][1].startswith("kind=duckdb path=a=b.duckdb memory_limit=2GB")
    assert home.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("empty_folder", "home")
@pytest.mark.parametrize("call", [["shop"], ["=x"], ["shop=sqlite:///a", "path=b"], ["shop", "path"], ["shop", "=b"]])
def test_a_malformed_declaration_exits_with_2(flow: Flow, call: list[str]) -> None:
    result = flow("connections", "set", *call)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.usefixtures("empty_folder", "home")
def test_a_wrong_url_is_refused_without_being_repeated(flow: Flow) -> None:
    result = flow("connections", "set", "shop=hunter2")
    assert result.exit_code == 2
    assert "hunter2" not in result.output


@pytest.mark.usefixtures("empty_folder")
def test_variables_for_single_fields_show_as_the_origin(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMATIX_FLOW_DUCKDB_WAREHOUSE_PATH", "a.duckdb")
    line = flow("connections", "list").stdout.strip()
    assert line == "warehouse  kind=duckdb path=a.duckdb  environment variable EMATIX_FLOW_DUCKDB_WAREHOUSE_PATH"


@pytest.mark.usefixtures("project")
def test_a_value_that_a_variable_overrides_is_shown_once(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMATIX_FLOW_POSTGRES_ELSEWHERE_LOCK_TIMEOUT", "5")
    line = next(each for each in flow("connections", "list").stdout.splitlines() if each.startswith("elsewhere"))
    assert "postgres://bob:***@db.example.org/x kind=postgres lock_timeout=5 " in line
    monkeypatch.setenv("EMATIX_FLOW_POSTGRES_ELSEWHERE_URL", "postgres://eve:hunter2@db2/x")
    line = next(each for each in flow("connections", "list").stdout.splitlines() if each.startswith("elsewhere"))
    assert line.count("postgres://") == 1
    assert "url=postgres://eve:***@db2/x" in line


@pytest.mark.usefixtures("empty_folder")
def test_a_wrong_value_names_the_variable_that_it_came_from(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMATIX_FLOW_DSN_SHOP", "postgres://bob@db/x?sslmod=require&pasword=hunter2")
    said = flow("connections", "check", "shop").stderr
    assert "has no option 'sslmod'" in said
    assert "did you mean 'sslmode'?" in said
    assert "environment variable EMATIX_FLOW_DSN_SHOP" in said
    assert "hunter2" not in said + flow("connections", "list").output


def test_a_url_after_a_space_is_a_wrong_call_and_is_not_repeated(flow: Flow) -> None:
    result = flow("connections", "set", "shop", "postgres://bob:hunter2@db/x")
    assert result.exit_code == 2
    assert "shop=URL" in result.stderr
    assert "hunter2" not in result.output
