"""Loads that meet others on a MariaDB server: locks that are waited for, and deadlocks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Annotated, Any

import pymysql
import pytest

from ematix_flow import BigInt, Project, Text, ematix, pk
from ematix_flow.config import Settings
from ematix_flow.connections import MySQLConnection, register_connection
from ematix_flow.errors import ConflictError
from ematix_flow.spec.registry import Registry
from tests.backends.test_postgres_read import wait_until
from tests.servers import empty_mysql, mariadb

pytestmark = pytest.mark.server


@contextmanager
def opened(**fields: Any) -> Iterator[Project]:
    project = Project(Settings(), Registry())
    with project.active():
        register_connection(MySQLConnection("default", empty_mysql("turns"), **fields))

        @ematix.table(schema="mart")
        class Orders:
            id: Annotated[BigInt, pk()]
            note: Text | None

        @ematix.pipeline(target=Orders, mode="merge")
        def orders(source: object) -> str:
            return "SELECT id, note FROM turns.news"

        yield project
    project.close()


def load(project: Project, token: str | None = None) -> object:
    """Merge the news; gives the result, or the error that another attempt can make good."""
    with project.active():
        try:
            return project.run(project.pipeline("orders"), token=token)
        except ConflictError as error:
            return error


@contextmanager
def other() -> Iterator[Any]:
    """Somebody else, who commits when he likes."""
    server = mariadb()
    with closing(
        pymysql.connect(host="127.0.0.1", port=server.port, user=server.USER, password="flow", database="turns")
    ) as connection:
        yield connection.cursor()


def select(sql: str) -> list[tuple[Any, ...]]:
    with other() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def prepare(project: Project) -> None:
    """Three rows are loaded, and have changed since."""
    with other() as cursor:
        cursor.execute("CREATE TABLE turns.news (id BIGINT PRIMARY KEY, note TEXT)")
        cursor.execute("INSERT INTO turns.news VALUES (1, 'a'), (2, 'a'), (3, 'a')")
        cursor.execute("COMMIT")
        assert load(project)["rows_inserted"] == 3  # type: ignore[index]
        cursor.execute("UPDATE turns.news SET note = 'b'")
        cursor.execute("COMMIT")


def check_nothing_was_written_and_the_next_run_does_it(project: Project, given: object) -> None:
    assert isinstance(given, ConflictError)
    assert (given.transient, "run again" in str(given.hint)) == (True, True)
    assert select("SELECT DISTINCT note FROM mart.orders") == [("a",)]
    assert select("SELECT COUNT(*) FROM ematix_flow.loads") == [(1,)]
    assert [run.status for run in project.runs()] == ["failed", "success"]
    assert load(project, "again")["rows_updated"] == 3  # type: ignore[index]


def test_a_lock_that_nobody_lets_go_of_is_a_conflict_after_its_time() -> None:
    with opened(lock_timeout=1) as project:
        prepare(project)
        with other() as cursor:
            cursor.execute("SELECT id FROM mart.orders WHERE id = 3 FOR UPDATE")
            given = load(project, "again")
        assert "Lock wait timeout" in str(given)
        check_nothing_was_written_and_the_next_run_does_it(project, given)


def test_a_deadlock_is_a_conflict_and_leaves_nothing() -> None:
    waiting = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    with opened(load_retries=0) as project:
        prepare(project)
        with other() as cursor, ThreadPoolExecutor(1) as pool:
            cursor.execute("CREATE TABLE turns.much (id BIGINT)")
            # The server lets the one give way who has written less.
            cursor.execute("INSERT INTO turns.much SELECT seq FROM seq_1_to_1000")
            cursor.execute("SELECT id FROM mart.orders WHERE id = 3 FOR UPDATE")
            loading = pool.submit(load, project, "again")
            wait_until(lambda: select(waiting) == [(1,)])
            cursor.execute("SELECT id FROM mart.orders WHERE id = 1 FOR UPDATE")
            given = loading.result()
        assert "Deadlock found" in str(given)
        check_nothing_was_written_and_the_next_run_does_it(project, given)
