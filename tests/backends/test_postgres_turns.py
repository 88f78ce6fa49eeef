"""Loads that meet on a PostgreSQL server: first loads that make the same things, locks of others, and deadlocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import psycopg
import pytest

from ematix_flow import BigInt, Project, Text, ematix, pk
from ematix_flow.config import Settings
from ematix_flow.connections import PostgresConnection, register_connection
from ematix_flow.errors import ConflictError, ConnectError
from ematix_flow.spec.registry import Registry
from tests.servers import empty_postgres

pytestmark = pytest.mark.server

TURN = "SELECT pg_advisory_xact_lock(hashtextextended('ematix_flow:mart.orders', 0))"
ROUNDS = 6


@contextmanager
def opened(url: str, **fields: Any) -> Iterator[Project]:
    """A project of its own, as another process would have it."""
    project = Project(Settings(), Registry())
    with project.active():
        register_connection(PostgresConnection("default", url, **fields))
        yield project
    project.close()


@pytest.fixture
def url() -> str:
    return empty_postgres("turns")


def load(project: Project, *, table: str = "orders", token: str | None = None, note: str = "a") -> object:
    """Merge one row; gives the status, or the error that another attempt can make good."""
    with project.active():

        @ematix.table(schema="mart", name=table)
        class Orders:
            id: Annotated[BigInt, pk()]
            note: Text | None

        @ematix.pipeline(target=Orders, mode="merge", name=f"load_{table}")
        def pipeline(source: object) -> str:
            return f"SELECT 1 AS id, '{note}' AS note"

        try:
            return project.run(project.pipeline(f"load_{table}"), token=token)
        except ConflictError as error:
            return error


def at_once(works: Sequence[Callable[[], object]]) -> list[Any]:
    """What each gives, all of them begun together."""
    start = threading.Barrier(len(works))

    def begin(work: Callable[[], object]) -> object:
        start.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        begun = [pool.submit(begin, work) for work in works]
    return [each.exception() or each.result() for each in begun]


def select(url: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(sql).fetchall()  # type: ignore[call-overload, no-any-return]


@contextmanager
def several(url: str, number: int) -> Iterator[list[Project]]:
    """Projects that know nothing of each other."""
    projects = []
    for _ in range(number):
        project = Project(Settings(), Registry())
        with project.active():
            register_connection(PostgresConnection("default", url))
        projects.append(project)
    yield projects
    for project in projects:
        project.close()


def test_first_loads_of_one_table_at_once_make_everything_once() -> None:
    for _ in range(ROUNDS):
        url = empty_postgres("turns")
        with several(url, 3) as projects:
            given = at_once([partial(load, project) for project in projects])
        gave_way = [each for each in given if isinstance(each, ConflictError)]
        assert [each for each in given if isinstance(each, BaseException) and each not in gave_way] == []
        statuses = [status for (status,) in select(url, "SELECT status FROM ematix_flow.run_history")]
        assert sorted(statuses) == ["failed"] * len(gave_way) + ["success"] * (3 - len(gave_way))
        assert len(gave_way) < 3
        assert select(url, "SELECT id, note FROM mart.orders") == [(1, "a")]


def test_first_loads_of_several_tables_at_once_all_succeed() -> None:
    tables = ("orders", "people", "things")
    for _ in range(ROUNDS):
        url = empty_postgres("turns")
        with several(url, len(tables)) as projects:
            given = at_once([partial(load, each, table=table) for each, table in zip(projects, tables, strict=True)])
        assert [each for each in given if isinstance(each, BaseException)] == []
        assert select(url, "SELECT status, COUNT(*) FROM ematix_flow.run_history GROUP BY 1") == [("success", 3)]
        for table in tables:
            assert select(url, f"SELECT id, note FROM mart.{table}") == [(1, "a")]


def test_first_loads_at_once_with_one_token_apply_it_once(url: str) -> None:
    with several(url, 3) as projects:
        given = at_once([partial(load, project, token="day") for project in projects])
    assert sorted(bool(each.get("replayed")) for each in given) == [False, True, True]
    assert select(url, "SELECT COUNT(*) FROM ematix_flow.loads") == [(1,)]


def test_declared_tables_may_be_ensured_at_once(url: str) -> None:
    def ensure(project: Project) -> object:
        with project.active():

            @ematix.table(schema="mart", name="ensured")
            class Ensured:
                id: Annotated[BigInt, pk()]

            return Ensured.ensure(project.connect("default"))

    with several(url, 3) as projects:
        given = at_once([partial(ensure, project) for project in projects])
    assert [each for each in given if isinstance(each, BaseException)] == []
    assert select(url, "SELECT COUNT(*) FROM mart.ensured") == [(0,)]


def test_a_schema_that_somebody_else_makes_meanwhile_is_used_by_the_next_try(url: str) -> None:
    with psycopg.connect(url) as other, opened(url) as project, ThreadPoolExecutor(1) as pool:
        other.execute("CREATE SCHEMA mart")
        loading = pool.submit(load, project)
        wait_for_a_waiting_load(url)
        other.commit()
        assert loading.result()["status"] == "success"  # type: ignore[index]
        assert [run.status for run in project.runs()] == ["success"]


def test_existing_schemas_are_enough_for_a_user_who_may_create_none(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS narrow")
        admin.execute("CREATE ROLE narrow LOGIN")
        admin.execute("CREATE SCHEMA mart AUTHORIZATION narrow; CREATE SCHEMA ematix_flow AUTHORIZATION narrow")
    with opened(url.replace("postgres@", "narrow@")) as project:
        assert load(project)["status"] == "success"  # type: ignore[index]
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP SCHEMA mart CASCADE; DROP SCHEMA ematix_flow CASCADE; DROP ROLE narrow")


def test_a_lock_that_nobody_lets_go_of_is_a_conflict_after_its_time(url: str) -> None:
    with opened(url, lock_timeout=1) as project:
        load(project)
        for taken in ("LOCK TABLE mart.orders IN ACCESS EXCLUSIVE MODE", TURN):
            with psycopg.connect(url) as other:
                other.execute(taken)
                given = load(project, note="b")
                assert isinstance(given, ConflictError)
                assert ("run again" in str(given.hint), given.passing) == (True, False)
        assert select(url, "SELECT note FROM mart.orders") == [("a",)]
        assert [run.status for run in project.runs()] == ["failed", "failed", "success"]
        assert load(project, note="b")["rows_updated"] == 1  # type: ignore[index]


def test_a_statement_that_takes_too_long_is_cancelled_and_may_be_tried_again(url: str) -> None:
    with opened(url, statement_timeout=1) as project:
        load(project)
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE mart.orders IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(ConnectError, match="statement timeout") as caught:
                load(project, note="b")
        assert (caught.value.transient, "statement_timeout=" in str(caught.value.hint)) == (True, True)
        assert [run.status for run in project.runs()] == ["failed", "success"]


def test_a_deadlock_is_a_conflict_and_leaves_nothing(url: str) -> None:
    with opened(url, load_retries=0) as project:
        load(project)
        with psycopg.connect(url) as other, ThreadPoolExecutor(1) as pool:
            # Only the load looks for deadlocks, so that it is the one that gives way.
            other.execute("SET deadlock_timeout = '1h'")
            other.execute("LOCK TABLE mart.orders IN ACCESS EXCLUSIVE MODE")
            loading = pool.submit(load, project, note="b")
            wait_for_a_waiting_load(url)
            other.execute(TURN)
            assert isinstance(loading.result(), ConflictError)
        assert select(url, "SELECT note FROM mart.orders") == [("a",)]


def test_a_database_that_reads_repeatably_by_default_changes_nothing(url: str) -> None:
    with several(f"{url}?options=-cdefault_transaction_isolation%3Dserializable", 3) as projects:
        load(projects[0])
        given = at_once([partial(load, project, token="day", note="b") for project in projects])
    assert sorted(bool(each.get("replayed")) for each in given) == [False, True, True]
    assert select(url, "SELECT note FROM mart.orders") == [("b",)]


def wait_for_a_waiting_load(url: str) -> None:
    """Until one of our connections waits for a lock."""
    waiting = (
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'ematix-flow' AND wait_event_type = 'Lock'"
    )
    deadline = time.monotonic() + 60
    with psycopg.connect(url, autocommit=True) as observer:
        while observer.execute(waiting).fetchone() != (1,):
            assert time.monotonic() < deadline, "no load waits"
