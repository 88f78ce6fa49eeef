"""`flow doctor`: the machine and every connection, each asked through its own backend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ematix_flow.config import Settings
from ematix_flow.doctor import examine
from ematix_flow.project import Project
from ematix_flow.spec.registry import Registry
from tests.cli.calls import Flow


@pytest.mark.usefixtures("project")
def test_each_connection_has_its_row_and_a_failure_exits_with_1(flow: Flow) -> None:
    result = flow("doctor")
    assert result.exit_code == 1
    head, *lines = [line.split(maxsplit=4) for line in result.stdout.splitlines()]
    assert head == ["NAME", "KIND", "STATUS", "ms", "DETAIL"]
    rows = {line[0]: line for line in lines}
    assert rows["warehouse"][1:3] == ["duckdb", "ok"]
    assert rows["lost"][1:3] == ["duckdb", "fail"]
    assert "the folder" in rows["lost"][4]
    assert rows["elsewhere"][1:3] == ["postgres", "fail"]
    assert rows["java"][1] == rows["pyspark"][1] == rows["cache"][1] == "machine"
    assert rows["pyspark"][2] == "ok"
    assert "hunter2" not in result.output


@pytest.mark.usefixtures("project")
def test_findings_as_json_are_whole(flow: Flow) -> None:
    found = {each["name"]: each for each in json.loads(flow("doctor", "--format", "json").stdout)}
    assert found["warehouse"].keys() == {"name", "kind", "status", "ms", "detail"}
    assert found["warehouse"]["ms"] >= 0


@pytest.mark.usefixtures("empty_folder")
def test_a_kind_that_cannot_be_opened_is_skipped_and_no_failure(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMATIX_FLOW_DSN_BUS", "kafka://k1:9092")
    found = {each["name"]: each for each in json.loads(flow("doctor", "--format", "json").stdout)}
    assert found["bus"]["status"] == "skip"
    assert flow("doctor").exit_code == (0 if found["java"]["status"] == "ok" else 1)


@pytest.mark.usefixtures("empty_folder")
def test_a_wrong_declaration_and_an_unset_variable_are_failures_of_their_own(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(".ematix-flow.toml").write_text(
        '[connections.unset]\nurl = "sqlite:///${UNSET_HERE}.db"\n[connections.wrong]\nkind = "nonsense"\n'
        '[connections.good]\nurl = "sqlite:///a.db"\n'
    )
    found = {each["name"]: each for each in json.loads(flow("doctor", "--format", "json").stdout)}
    assert {name: found[name]["status"] for name in ("unset", "wrong", "good")} == {
        "unset": "fail", "wrong": "fail", "good": "ok",
    }  # fmt: skip
    assert "UNSET_HERE" in found["unset"]["detail"]
    assert found["wrong"]["kind"] == "?"


def test_a_cache_folder_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder, status in ((tmp_path / "file" / "cache", "fail"), (tmp_path / "new" / "cache", "ok"), (tmp_path, "ok")):
        project = Project(Settings(cache_dir=folder, project_dir=tmp_path), Registry())
        assert {each.name: each.status for each in examine(project)}["cache"] == status
    assert not (tmp_path / "new").exists()
