"""`flow init`: what it creates runs as it is."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.calls import Flow, command, environment

pytestmark = pytest.mark.slow

FILES = {
    ".ematix-flow.toml",
    ".gitignore",
    "Dockerfile",
    "README.md",
    "data/customers.csv",
    "flow.service",
    "pipelines.py",
}


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command(), *arguments], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )


def test_a_new_project_loads_and_keeps_history(flow: Flow, tmp_path: Path) -> None:
    created = flow("init", str(tmp_path / "shop"))
    assert created.exit_code == 0, created.stderr
    assert files(tmp_path / "shop") == FILES
    project = tmp_path / "shop"
    first = call(project, "run", "sync_customers")
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["rows_inserted"] == 3
    data = project / "data" / "customers.csv"
    data.write_text(data.read_text().replace("Grace Hopper,US", "Grace Hopper,GB"))
    second = json.loads(call(project, "run", "sync_customers").stdout)
    assert (second["rows_inserted"], second["rows_closed"], second["rows_unchanged"]) == (1, 1, 2)


def test_every_command_that_the_files_name_works(flow: Flow, tmp_path: Path) -> None:
    flow("init", str(tmp_path / "shop"))
    project = tmp_path / "shop"
    named = [line.strip() for line in (project / "README.md").read_text().splitlines() if line.startswith("    flow ")]
    service = (project / "flow.service").read_text()
    named += [line.partition("bin/")[2] for line in service.splitlines() if line.startswith("ExecStart=")]
    container = (project / "Dockerfile").read_text().splitlines()
    named += [shlex.join(json.loads(line.removeprefix("CMD "))) for line in container if line.startswith("CMD ")]
    assert len(named) == 6
    for text in named:
        done = call(project, *shlex.split(text)[1:])
        assert done.returncode == 0, (text, done.stderr)


def test_files_that_are_there_stay_and_nothing_is_half_written(flow: Flow, tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text("mine")
    refused = flow("init", str(tmp_path))
    assert refused.exit_code == 1
    assert "pipelines.py" in refused.stderr
    assert files(tmp_path) == {"pipelines.py"}
    assert flow("init", str(tmp_path), "--force").exit_code == 0
    assert files(tmp_path) == FILES
    assert "CustomerDim" in (tmp_path / "pipelines.py").read_text()


def test_a_folder_that_cannot_be_made_is_named(flow: Flow, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = flow("init", str(tmp_path / "file" / "shop"))
    assert refused.exit_code == 1
    assert "cannot be written" in refused.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there_for_the_usual_shells(shell: str) -> None:
    asked = environment(_FLOW_COMPLETE=f"source_{shell}")
    done = subprocess.run(command(), env=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"complete_{shell}" in done.stdout


@pytest.mark.usefixtures("project")
def test_a_shell_is_offered_the_names_of_pipelines() -> None:
    asked = environment(_FLOW_COMPLETE="complete_bash", COMP_WORDS="flow run s", COMP_CWORD="2")
    done = subprocess.run(command(), env=asked, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["sync_customers"]


def test_a_shell_is_offered_nothing_where_there_is_no_project(tmp_path: Path) -> None:
    asked = environment(_FLOW_COMPLETE="complete_bash", COMP_WORDS="flow run s", COMP_CWORD="2")
    done = subprocess.run(command(), cwd=tmp_path, env=asked, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")
