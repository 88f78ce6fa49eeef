"""`flow jars`: what the lock has, whether it is here, and fetching it ahead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ematix_flow.engine.jars import JarStore, group_names, locked_jars
from tests.cli.calls import Flow, modules_loaded_by, on_a_terminal
from tests.spark_session import cache_dir


def test_every_jar_is_listed_with_its_state(empty_folder: Path, flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMATIX_FLOW_CACHE_DIR", str(empty_folder))
    result = flow("jars", "list")
    assert result.exit_code == 0
    head, *lines = [line.split() for line in result.stdout.splitlines()]
    assert head == ["GROUP", "STATE", "MB", "COORDINATE", "FILE"]
    assert [line[3] for line in lines] == [jar.coordinate for jar in locked_jars(group_names())]
    assert {line[1] for line in lines} == {"missing"}
    assert lines[0][4].startswith(str(empty_folder / "jars"))


@pytest.mark.usefixtures("empty_folder")
def test_fetched_jars_are_listed_as_json(flow: Flow) -> None:
    result = flow("jars", "fetch", "jdbc", "--format", "json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert {each["state"] for each in found} == {"present"}
    assert found[0].keys() == {"group", "coordinate", "file", "sha256", "size", "state"}
    assert [Path(each["file"]) for each in found] == list(JarStore(cache_dir() / "jars").paths(["jdbc"]))


def test_a_jar_that_cannot_be_had_exits_with_1(empty_folder: Path, flow: Flow) -> None:
    (empty_folder / ".ematix-flow.toml").write_text('[jars]\nfolder = "jars"\n')
    result = flow("jars", "fetch", "delta")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "JarError [session.jar]" in result.stderr
    assert "io.delta:delta-spark_4.1_2.13:4.4.0" in result.stderr
    assert "jars.folder" in result.stderr


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize("command", ["list", "fetch"])
def test_an_unknown_group_exits_with_2_and_names_the_nearest(command: str, flow: Flow) -> None:
    result = flow("jars", command, "jdcb")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean 'jdbc'?" in result.stderr


@pytest.mark.usefixtures("empty_folder")
def test_listing_loads_no_spark() -> None:
    assert modules_loaded_by("jars", "list").isdisjoint({"pyspark", "pyarrow"})


def test_a_terminal_sees_what_is_being_fetched(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty_folder / "settings.xml").write_text("<ivysettings/>")
    monkeypatch.setenv("EMATIX_FLOW_CACHE_DIR", str(empty_folder / "cache"))
    monkeypatch.setenv("EMATIX_FLOW_JARS_IVY_SETTINGS", str(empty_folder / "settings.xml"))
    code, received = on_a_terminal("jars", "fetch", "avro", width=200)
    assert code == 1
    assert "fetching 1 jar (avro): 0.0 of 0.1 MB" in received
    assert "spark-avro_2.13-4.1.1.jar" in received
