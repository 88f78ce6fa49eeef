"""Databases inside this process: looking creates nothing, the first load creates the file, a dry run leaves none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest

from ematix_flow import ematix, pk
from ematix_flow.backends.duckdb import DuckDBBackend
from ematix_flow.backends.embedded import EmbeddedBackend
from ematix_flow.backends.sql_connection import interrupt_statements
from ematix_flow.backends.sqlite import SQLiteBackend
from ematix_flow.backends.workshop import Workshop
from ematix_flow.config import Settings
from ematix_flow.connections import DuckDBConnection, SQLiteConnection
from ematix_flow.errors import BackendError, ConnectError
from ematix_flow.project import Project
from ematix_flow.spec.pipeline import Pipeline
from ematix_flow.spec.place import Query, TableRef
from ematix_flow.spec.registry import Registry
from ematix_flow.types import BigInt

CONNECTIONS = {"duckdb": DuckDBConnection, "sqlite": SQLiteConnection}
PEOPLE = TableRef("shop", "people")


def no_spark() -> None:
    raise AssertionError("these tests need no Spark")


@pytest.fixture(params=["duckdb", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def build_backend(kind: str, path: object) -> EmbeddedBackend:
    connection = CONNECTIONS[kind]("shop", path=str(path))
    backends = {"duckdb": DuckDBBackend, "sqlite": SQLiteBackend}
    return backends[kind](connection, Workshop(no_spark))  # type: ignore[abstract,arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that is missing, in a folder that is there. It is called as a schema is, which DuckDB must tell apart."""
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "shop.db"


@pytest.fixture
def missing(kind: str, file: Path) -> EmbeddedBackend:
    return build_backend(kind, file)


@pytest.fixture
def project(kind: str, file: Path, tmp_path: Path) -> Iterator[Project]:
    project = Project(Settings(project_dir=tmp_path), Registry())
    project.registry.add_connection(CONNECTIONS[kind]("default", path=str(file)))
    yield project
    project.close()


def declare(project: Project, sql: str = "SELECT 1 AS id", **options: object) -> Pipeline:
    with project.active():

        @ematix.table(schema="shop")
        class People:
            id: Annotated[BigInt, pk()]

        @ematix.pipeline(target=People, mode="merge", **options)
        def people(source: object) -> str:
            return sql

    return project.pipeline("people")


def test_a_ping_says_that_the_first_load_creates_the_file(missing: EmbeddedBackend, file: Path) -> None:
    assert missing.ping().endswith(f"{file} does not exist yet; the first load creates it")
    assert list(file.parent.iterdir()) == []


def test_a_ping_fails_where_the_folder_is_missing(kind: str, tmp_path: Path) -> None:
    backend = build_backend(kind, tmp_path / "typo" / "shop.db")
    with pytest.raises(ConnectError, match="typo does not exist"):
        backend.ping()
    assert list(tmp_path.iterdir()) == []


def test_a_ping_of_a_file_names_the_product(kind: str, missing: EmbeddedBackend) -> None:
    with missing.creating(), missing.session() as connection:
        connection.execute("CREATE TABLE t (id INTEGER)")
    assert missing.ping().lower().startswith(f"{kind} ")
    assert "does not exist" not in missing.ping()


def test_a_query_over_a_missing_file_is_an_error_that_names_it(missing: EmbeddedBackend, file: Path) -> None:
    with pytest.raises(ConnectError, match=r"data/shop\.db does not exist"):
        missing.query_columns("SELECT 1 AS id")
    with missing.workshop.bench(), pytest.raises(ConnectError, match=r"data/shop\.db does not exist"):
        missing.read(Query("SELECT 1 AS id"))
    assert list(file.parent.iterdir()) == []


def test_a_missing_file_has_no_tables_and_no_runs(missing: EmbeddedBackend, file: Path) -> None:
    assert missing.columns(PEOPLE) is None
    assert missing.ledger.runs() == []
    assert missing.ledger.bookmark("people") is None
    assert missing.ledger.last_instant(PEOPLE) is None
    assert list(file.parent.iterdir()) == []


def test_a_backend_opens_nothing_when_it_is_built(kind: str, file: Path) -> None:
    build_backend(kind, file / "not" / "there")
    assert build_backend(kind, ":memory:")._anchor is None


def test_memory_lasts_until_the_backend_is_closed(kind: str) -> None:
    backend = build_backend(kind, ":memory:")
    with backend.session() as connection:
        connection.execute("CREATE TABLE t (id INTEGER)")
    with backend.session() as connection:
        assert connection.execute("SELECT COUNT(*) FROM t").fetchall() == [(0,)]
    backend.close()
    with pytest.raises(BackendError), backend.session() as connection:
        connection.execute("SELECT COUNT(*) FROM t")
    backend.close()


def test_two_connections_to_one_file_are_one_system(kind: str, missing: EmbeddedBackend, file: Path) -> None:
    assert missing.same_system(build_backend(kind, file.parent / ".." / "data" / file.name))
    assert not missing.same_system(build_backend(kind, file.with_name("other.db")))
    assert not missing.same_system(build_backend({"duckdb": "sqlite", "sqlite": "duckdb"}[kind], file))


def test_two_memories_are_two_systems(kind: str) -> None:
    assert not build_backend(kind, ":memory:").same_system(build_backend(kind, ":memory:"))


def test_a_first_run_creates_the_file(project: Project, file: Path) -> None:
    assert project.run(declare(project)).rows_inserted == 1
    assert file.exists()
    assert [run.status for run in project.runs()] == ["success"]


def test_a_run_does_not_create_a_folder(project: Project, file: Path) -> None:
    pipeline = declare(project)
    file.parent.rmdir()
    with pytest.raises(ConnectError):
        project.run(pipeline)
    assert not file.parent.exists()


def test_a_dry_run_counts_what_the_first_run_would_do_and_leaves_no_file(project: Project, file: Path) -> None:
    preview = project.dry_run(declare(project))
    assert preview.targets[0].dry_run_error is None
    assert preview.targets[0].dry_run_rows_affected["rows_inserted"] == 1
    assert list(file.parent.iterdir()) == []


def test_a_dry_run_of_a_query_over_a_missing_table_says_so_and_leaves_no_file(project: Project, file: Path) -> None:
    preview = project.dry_run(declare(project, "SELECT id FROM no_such_table"))
    assert "no_such_table" in str(preview.targets[0].dry_run_error)
    assert list(file.parent.iterdir()) == []


def test_a_dry_run_into_a_missing_folder_fails_as_the_run_would(project: Project, file: Path) -> None:
    pipeline = declare(project)
    file.parent.rmdir()
    assert str(project.dry_run(pipeline).targets[0].dry_run_error).startswith("ConnectError: ")


def test_a_dry_run_beside_rows_sees_them(project: Project) -> None:
    pipeline = declare(project)
    project.run(pipeline)
    assert project.dry_run(pipeline).targets[0].dry_run_rows_affected["rows_inserted"] == 0


def test_a_preview_leaves_no_file(project: Project, file: Path) -> None:
    project.preview(declare(project))
    assert project.runs() == []
    assert list(file.parent.iterdir()) == []


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


def test_a_statement_gives_up_when_another_thread_says_so(kind: str, missing: EmbeddedBackend) -> None:
    over = threading.Event()

    def interrupt() -> None:
        while not over.wait(0.01):
            interrupt_statements()

    interrupting = threading.Thread(target=interrupt)
    with missing.creating(), missing.session() as connection:
        interrupting.start()
        try:
            with pytest.raises(BackendError, match=r"(?i)interrupted"):
                connection.execute(ENDLESS)
        finally:
            over.set()
            interrupting.join()
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
