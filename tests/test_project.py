"""`Project`: modules loaded anew, secrets filled late, relative paths begun in the project's folder."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from ematix_flow.cli.app import app
from ematix_flow.config import Settings
from ematix_flow.connections import DuckDBConnection, ObjectStoreLocalConnection, SQLiteConnection
from ematix_flow.engine.session import SessionOptions, open_session
from ematix_flow.errors import FlowError, SecretError
from ematix_flow.project import Project
from ematix_flow.spec.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARED = """\
from typing import Annotated

from ematix_flow import ematix, pk
from ematix_flow.types import BigInt


@ematix.connection
class default:
    kind = "sqlite"
    path = "shop.db"


@ematix.connection
class secret:
    kind = "{kind}"
    path = "${{NO_SUCH_VARIABLE}}/secret.db"
    {further}


@ematix.table(schema="main")
class Person:
    id: Annotated[BigInt, pk()]
"""
PIPELINES = """\
import shared

from ematix_flow import ematix


@ematix.pipeline(target=shared.Person, mode="append")
def plain(source):
    return "SELECT 1 AS id"


@ematix.pipeline(target=shared.Person, mode="append", target_connection="secret")
def hidden(source):
    return "SELECT 1 AS id"
"""


CALLER = """\
from ematix_flow.project import Project


def load(folder):
    return Project.load(["pipelines"], cwd=folder)
"""


def write_project(folder: Path, kind: str = "duckdb", further: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "shared.py").write_text(SHARED.format(kind=kind, further=further))
    (folder / "pipelines.py").write_text(PIPELINES)
    return folder


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The modules of these projects are gone afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    yield
    for name in ("caller", "shared", "pipelines", "package", "package.shared"):
        sys.modules.pop(name, None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project")


def names(project: Project) -> list[str]:
    return [found.name for found in project.connections()]


def test_a_second_load_declares_again_what_sibling_modules_declare(folder: Path) -> None:
    for _ in range(2):
        assert names(Project.load(["pipelines"], cwd=folder)) == ["default", "secret"]


def test_a_second_load_declares_again_what_modules_of_folders_declare(folder: Path) -> None:
    (folder / "package").mkdir()
    (folder / "shared.py").rename(folder / "package" / "shared.py")
    (folder / "pipelines.py").write_text(PIPELINES.replace("import shared", "from package import shared"))
    for _ in range(2):
        assert names(Project.load(["pipelines"], cwd=folder)) == ["default", "secret"]


def test_a_module_that_is_named_and_imported_by_another_is_loaded_once(folder: Path) -> None:
    assert names(Project.load(["pipelines", "shared"], cwd=folder)) == ["default", "secret"]


def test_projects_with_modules_of_one_name_do_not_mix(folder: Path, tmp_path: Path) -> None:
    other = write_project(tmp_path / "other", kind="sqlite")
    kinds = []
    for each in (folder, other, folder):
        loaded = Project.load(["pipelines"], cwd=each)
        kinds.append(loaded.registry.connections["secret"].kind)
    assert kinds == ["duckdb", "sqlite", "duckdb"]


def test_a_load_keeps_this_package_and_the_module_that_asks_for_it(folder: Path) -> None:
    (folder / "caller.py").write_text(CALLER)
    sys.path.insert(0, str(folder))
    caller = importlib.import_module("caller")
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("caller", "ematix_flow")}
    caller.load(folder)
    assert {name: sys.modules.get(name) for name in kept} == kept


@pytest.mark.parametrize(
    ("kind", "further"), [("duckdb", ""), ("sqlite", ""), ("object_store_local", 'format = "parquet"')]
)
def test_a_preview_needs_no_secret(kind: str, further: str, tmp_path: Path) -> None:
    project = Project.load(["pipelines"], cwd=write_project(tmp_path / "project", kind, further))
    preview = project.preview(project.pipeline("hidden"))
    assert preview.targets[0].target_connection_info["path"] == "${NO_SUCH_VARIABLE}/secret.db"
    with pytest.raises(SecretError, match="NO_SUCH_VARIABLE"):
        project.run(project.pipeline("hidden"))


def test_a_preview_knows_two_connections_with_one_reference_as_one_database(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "project")
    (folder / ".ematix-flow.toml").write_text(
        '[connections.twin]\nkind = "duckdb"\npath = "${NO_SUCH_VARIABLE}/secret.db"\n'
    )
    text = PIPELINES.replace('target_connection="secret"', 'target_connection="secret", source_connection="twin"')
    (folder / "pipelines.py").write_text(text)
    project = Project.load(["pipelines"], cwd=folder)
    assert project.preview(project.pipeline("hidden")).targets[0].path == "same_db"


def test_runs_of_a_system_that_cannot_be_read_are_an_error(folder: Path) -> None:
    with pytest.raises(SecretError):
        Project.load(["pipelines"], cwd=folder).runs()


def test_whoever_asks_for_runs_can_be_told_which_systems_cannot_be_read(folder: Path) -> None:
    project = Project.load(["pipelines"], cwd=folder)
    project.run(project.pipeline("plain"))
    unread: list[tuple[str, FlowError]] = []
    runs = project.runs(on_unread=lambda *told: unread.append(told))
    assert [run.pipeline for run in runs] == ["plain"]
    assert [(name, type(error)) for name, error in unread] == [("secret", SecretError)]


def test_runs_are_an_error_where_no_system_can_be_read(folder: Path) -> None:
    project = Project.load(["pipelines"], cwd=folder)
    with pytest.raises(SecretError):
        project.runs(pipeline="hidden", on_unread=lambda *_: None)


def test_a_relative_path_begins_in_the_projects_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    project = Project.load(["pipelines"], cwd=folder)
    project.run(project.pipeline("plain"))
    assert (folder / "shop.db").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert project.backend("default").connection.redacted()["path"] == "shop.db"


def test_a_path_that_a_reference_fills_begins_there_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMEWHERE", "data")
    registry = Registry()
    registry.add_connection(DuckDBConnection("duck", "${SOMEWHERE}/a.duckdb"))
    registry.add_connection(ObjectStoreLocalConnection("lake", "${SOMEWHERE}", "csv"))
    registry.add_connection(SQLiteConnection("memory", ":memory:"))
    project = Project(Settings(project_dir=tmp_path), registry)
    paths = {name: project.backend(name).connection.path for name in ("duck", "lake", "memory")}
    assert paths == {"duck": str(tmp_path / "data/a.duckdb"), "lake": str(tmp_path / "data"), "memory": ":memory:"}


def test_an_absolute_path_stays(tmp_path: Path) -> None:
    registry = Registry()
    registry.add_connection(SQLiteConnection("shop", str(tmp_path / "shop.db")))
    project = Project(Settings(project_dir=tmp_path / "project"), registry)
    assert project.backend("shop").connection.path == str(tmp_path / "shop.db")


def test_listing_runs_notes_a_system_that_cannot_be_read_and_lists_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    flow = ["--module", "pipelines"]
    assert CliRunner().invoke(app, ["run", "plain", *flow]).exit_code == 0
    result = CliRunner().invoke(app, ["runs", "list", *flow])
    assert result.exit_code == 0
    assert "plain" in result.stdout
    assert "note: the runs in 'secret' cannot be read: SecretError" in result.stderr


def test_listing_runs_fails_where_no_system_can_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, ["runs", "list", "--pipeline", "hidden", "--module", "pipelines"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "NO_SUCH_VARIABLE" in result.stderr


def test_checking_a_connection_whose_file_is_missing_says_so_and_creates_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, ["connections", "check", "default", "--module", "pipelines"])
    assert result.exit_code == 0
    assert "shop.db does not exist yet; the first load creates it" in result.stdout
    assert not (folder / "shop.db").exists()


@pytest.mark.slow
def test_a_project_that_closes_leaves_a_session_it_did_not_start(spark: SparkSession, tmp_path: Path) -> None:
    project = Project(Settings.load(tmp_path), Registry())
    assert project.workshop.spark() is spark
    project.close()
    assert spark.range(3).count() == 3
    assert open_session(SessionOptions(tmp_path)) is spark
