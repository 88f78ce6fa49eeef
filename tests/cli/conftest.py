"""A small real project in a folder of its own, and two ways to call `flow` in it: in this process and as a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.calls import Flow, Program, command, environment

PROJECT_FILE = """\
[project]
modules = ["pipelines"]

[connections.elsewhere]
url = "postgres://bob:hunter2@db.example.org/x"
"""

PIPELINES = """\
from typing import Annotated

from ematix_flow.decorators import ematix
from ematix_flow.markers import pk
from ematix_flow.types import BigInt, Text

print("printed by the module")


@ematix.connection
class warehouse:
    kind = "duckdb"
    path = "warehouse.duckdb"


@ematix.connection
class lost:
    kind = "duckdb"
    path = "no/such/folder/lost.duckdb"


@ematix.table(schema="analytics")
class Customers:
    id: Annotated[BigInt, pk()]
    name: Text


@ematix.pipeline(target=Customers, mode="scd2", target_connection="warehouse", schedule="0 5 * * *")
def sync_customers(source):
    print("printed by the function")
    return "SELECT * FROM (VALUES (1, 'Ada'), (2, 'Bob')) AS people(id, name)"


@ematix.table(schema="analytics", name="people")
class People:
    id: Annotated[BigInt, pk()]
    name: Text


@ematix.pipeline(target=People, mode="merge", target_connection="warehouse")
def merge_people(source):
    return "SELECT 1 AS id, 'Ada' AS name"


@ematix.pipeline(target=People, mode="merge", target_connection="warehouse")
def broken_function(source):
    return {}["no such key"]


@ematix.pipeline(target=People, mode="merge", target_connection="warehouse")
def broken_query(source):
    return "SELECT id, name FROM no_such_table"


@ematix.pipeline(target=People, mode="merge", target_connection="warehouse")
def telling_function(source):
    raise RuntimeError("cannot reach postgres://bob:hunter2@db.example.org/x")


@ematix.pipeline(target=People, mode="merge", target_connection="warehouse")
def interrupted_function(source):
    raise KeyboardInterrupt
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the project, which is the current one."""
    (tmp_path / ".ematix-flow.toml").write_text(PROJECT_FILE)
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without a project, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture
def flow() -> Flow:
    """Calls a command in this process."""
    from ematix_flow.cli.app import app

    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def program() -> Program:
    """Calls a command as a program of its own."""
    return lambda *arguments: subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, env=environment(), timeout=120
    )
