"""Loads that meet: two pipelines with one token, two threads, a bookmark that moved, an interrupt after the commit."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

from ematix_flow import BigInt, Project, Text, ematix, natural_key, pk
from ematix_flow.config import Settings
from ematix_flow.connections import (
    DuckDBConnection,
    MySQLConnection,
    PostgresConnection,
    SQLiteConnection,
    register_connection,
)
from ematix_flow.errors import CheckError, ConflictError, UserCodeError
from ematix_flow.events import Event, StepStarted
from ematix_flow.spec.connection import Connection
from ematix_flow.spec.place import TableRef
from ematix_flow.spec.registry import Registry
from tests.servers import empty_mysql, empty_postgres

SERVERS = [pytest.param(name, marks=pytest.mark.server) for name in ("postgres", "mysql")]


@pytest.fixture(params=["duckdb", "sqlite", *SERVERS])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    kinds: dict[str, Callable[[], Connection]] = {
        "duckdb": lambda: DuckDBConnection("default", str(tmp_path / "shop.db")),
        "sqlite": lambda: SQLiteConnection("default", str(tmp_path / "shop.db")),
        "postgres": lambda: PostgresConnection("default", empty_postgres("turns")),
        "mysql": lambda: MySQLConnection("default", empty_mysql("lab0")),
    }
    project = Project(Settings(), Registry())
    with project.active():
        register_connection(kinds[request.param]())
        yield project
    project.close()


def declare(name: str, query: str, *, mode: str = "append", table: str = "orders", **options: Any) -> None:
    @ematix.table(schema="mart", name=table)
    class Orders:
        id: Annotated[BigInt, pk()]
        note: Text | None

    @ematix.pipeline(target=Orders, mode=mode, name=name, **options)
    def load(source: object) -> str:
        return query


def ids(project: Project, table: str = "orders") -> list[int]:
    backend: Any = project.backend("default")
    with backend.session() as connection:
        name = backend.relation_sql(TableRef("mart", table))
        return sorted(row[0] for row in connection.execute(f"SELECT id FROM {name}").fetchall())


def run_sql(project: Project, *statements: str) -> None:
    backend: Any = project.backend("default")
    with backend.session() as connection:
        for statement in statements:
            connection.execute(statement)


def test_two_pipelines_may_be_given_the_same_token(project: Project) -> None:
    declare("first", "SELECT 1 AS id, 'a' AS note", table="one")
    declare("second", "SELECT 2 AS id, 'b' AS note", table="two")
    for name in ("first", "second"):
        assert "replayed" not in project.run(project.pipeline(name), token="2026-07-01")
    assert (ids(project, "one"), ids(project, "two")) == ([1], [2])
    assert project.run(project.pipeline("first"), token="2026-07-01").replayed is True


@pytest.mark.parametrize("mode", ["append", "merge", "scd2"])
def test_two_threads_with_one_token_load_once(project: Project, mode: str) -> None:
    declare("load", "SELECT 0 AS id, 'seed' AS note", mode=mode)
    project.run(project.pipeline("load"))
    source = (
        "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 500) SELECT id, 'x' AS note FROM n"
    )
    declare("load", source, mode=mode)
    outcomes: list[object] = []
    start = threading.Barrier(2)

    def work() -> None:
        start.wait()
        outcomes.append(project.run(project.pipeline("load"), token="once").get("replayed", False))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes, key=str) == [False, True]
    assert ids(project) == list(range(501))


def overtake(project: Project, step: str, name: str) -> None:
    """Let another pipeline load and commit once the next run reaches a step."""

    def listen(event: Event) -> None:
        if isinstance(event, StepStarted) and event.step == step:
            stop()
            thread = threading.Thread(target=lambda: project.run(project.pipeline(name)))
            thread.start()
            thread.join()

    stop = project.bus.subscribe(listen)


def test_a_load_that_was_overtaken_is_refused_and_the_bookmark_stays(project: Project) -> None:
    declare("slow", "SELECT 5 AS id, 'a' AS note", incremental_column="id")
    slow = project.pipeline("slow")
    project.run(slow)
    declare("slow", "SELECT 7 AS id, 'b' AS note", incremental_column="id")
    overtake(project, "read", "slow")  # the bookmark is read, the rows are not
    with pytest.raises(ConflictError, match="committed first"):
        project.run(slow)
    bookmark = project.backend("default").ledger.bookmark("slow")
    assert bookmark is not None
    assert (ids(project), bookmark.value) == ([5, 7], "7")


def history(project: Project) -> dict[int, list[tuple[str, str, str | None, bool]]]:
    """The versions of each key, oldest first: the note, from when to when, whether it is current."""
    backend: Any = project.backend("default")
    name = backend.relation_sql(TableRef("mart", "orders"))
    kept: dict[int, list[tuple[str, str, str | None, bool]]] = {}
    with backend.session() as connection:
        text = "CHAR" if backend.connection.kind == "mysql" else "TEXT"
        columns = f"id, note, CAST(valid_from AS {text}), CAST(valid_to AS {text}), is_current"
        for key, *version in connection.execute(f"SELECT {columns} FROM {name} ORDER BY 1, 3").fetchall():
            kept.setdefault(key, []).append((version[0], version[1], version[2], bool(version[3])))
    return kept


def check_history(versions: list[tuple[str, str, str | None, bool]]) -> None:
    """Each version ends where the next begins, and only the last is current."""
    for (_, begin, end, current), (_, following, _, _) in itertools.pairwise(versions):
        assert (end, current, begin < following) == (following, False, True)
    assert versions[-1][2:] == (None, True)


def test_two_histories_of_one_table_at_once_become_one_or_one_gives_way(project: Project) -> None:
    declare("seed", "SELECT 1 AS id, 'seed' AS note", mode="scd2")
    project.run(project.pipeline("seed"))
    names = ("left", "right")
    for name in names:
        declare(name, f"SELECT 1 AS id, '{name}' AS note UNION ALL SELECT 2, '{name}'", mode="scd2")
    for _ in range(5):
        outcomes: dict[str, object] = {}
        start = threading.Barrier(2)

        def work(name: str, start: threading.Barrier = start, outcomes: dict[str, object] = outcomes) -> None:
            start.wait()
            try:
                outcomes[name] = project.run(project.pipeline(name)).status
            except ConflictError as error:
                outcomes[name] = error.transient

        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {*outcomes} == {*names}
        assert "success" in outcomes.values()
        assert {*outcomes.values()} <= {"success", True}
        for versions in history(project).values():
            check_history(versions)
        assert {versions[-1][0] for versions in history(project).values()} <= {*names}


def test_a_history_that_was_overtaken_gives_way(project: Project) -> None:
    declare("slow", "SELECT 1 AS id, 'seed' AS note", mode="scd2")
    project.run(project.pipeline("slow"))
    declare("slow", "SELECT 1 AS id, 'slow' AS note", mode="scd2")
    declare("fast", "SELECT 1 AS id, 'fast' AS note", mode="scd2")
    overtake(project, "load", "fast")  # the instant is chosen, the table is not held
    with pytest.raises(ConflictError, match=r"pipeline 'slow': another load into mart\.orders committed first"):
        project.run(project.pipeline("slow"))
    assert [note for note, *_ in history(project)[1]] == ["seed", "fast"]
    check_history(history(project)[1])


def test_an_interrupt_after_the_commit_leaves_the_record_a_success(project: Project) -> None:
    declare("load", "SELECT 1 AS id, 'a' AS note")
    backend: Any = project.backend("default")
    ended = backend.ledger.end
    project.run(project.pipeline("load"))
    committed = project.runs()[0]
    ended(committed.with_outcome("failed", committed.started_at, error="interrupted by the user"))
    assert [(run.status, run.rows["rows_inserted"]) for run in project.runs()] == [("success", 1)]


def test_a_unique_group_is_refused_with_its_values_where_the_database_does_not_enforce_it(tmp_path: Path) -> None:
    project = Project(Settings(), Registry())
    with project.active():
        register_connection(DuckDBConnection("default", str(tmp_path / "shop.duckdb")))

        @ematix.table(schema="mart", name="people")
        class People:
            id: Annotated[BigInt, pk()]
            email: Annotated[Text, natural_key()]

        @ematix.pipeline(target=People, mode="append")
        def twice(source: object) -> str:
            return "SELECT 1 AS id, 'x' AS email UNION ALL SELECT 2, 'x'"

        @ematix.pipeline(target=People, mode="merge", keys=["email"])
        def clash(source: object) -> str:
            return "SELECT 1 AS id, 'x' AS email UNION ALL SELECT 1, 'y'"

        with pytest.raises(CheckError, match=r"\(email\), which is unique: x"):
            project.run(project.pipeline("twice"))
        with pytest.raises(CheckError, match=r"\(id\), which is unique: 1"):
            project.run(project.pipeline("clash"))
    project.close()


def test_a_key_that_stands_twice_in_the_target_is_refused(project: Project) -> None:
    declare("load", "SELECT 1 AS id, 'a' AS note", mode="merge", table="doubled", keys=["note"])
    project.run(project.pipeline("load"))
    backend: Any = project.backend("default")
    name = backend.relation_sql(TableRef("mart", "doubled"))
    run_sql(project, f"INSERT INTO {name} SELECT 2, note, _loaded_at, _batch_id FROM {name}")
    declare("load", "SELECT 3 AS id, 'a' AS note", mode="merge", table="doubled", keys=["note"], update_columns=["id"])
    with pytest.raises(CheckError, match="several rows for one key"):
        project.run(project.pipeline("load"))
    assert ids(project, "doubled") == [1, 2]


def test_a_function_that_fails_is_a_failed_run_without_its_secrets(project: Project) -> None:
    @ematix.table(schema="mart", name="never")
    class Never:
        id: Annotated[BigInt, pk()]

    @ematix.pipeline(target=Never, mode="append", name="broken")
    def broken(source: object) -> str:
        raise ValueError("no route to postgres://u:hunter2@h/db")

    with pytest.raises(UserCodeError) as caught:
        project.run(project.pipeline("broken"))
    (run,) = project.runs()
    assert (run.status, "hunter2" in str(run.error), "hunter2" in str(caught.value)) == ("failed", False, False)
    assert "no route to" in str(run.error)
