"""Backends that die at the worst moment. Workers of Spark import this module."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from urllib.parse import urlsplit

from ematix_flow.backends.postgres import PostgresBackend
from ematix_flow.backends.sql import SqlConnection
from ematix_flow.connections import PostgresConnection
from ematix_flow.errors import ConnectError
from ematix_flow.spec.place import TableRef


def die() -> NoReturn:
    """End this process as a lack of memory would."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def is_first_attempt(partition: int) -> bool:
    """Whether this is a task of Spark that works on a partition for the first time."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return task is not None and (task.partitionId(), task.attemptNumber()) == (partition, 0)


class FragileConnection(PostgresConnection):
    """A connection that workers of Spark come to grief with."""

    def open(self, workshop: Any) -> PostgresBackend:
        return FragileBackend(self, workshop)


class FragileBackend(PostgresBackend):
    """In first attempts, dies behind the commit of the first partition, and loses the server at the third."""

    @contextmanager
    def transaction(self, connection: SqlConnection) -> Iterator[None]:
        if is_first_attempt(2):
            raise ConnectError(f"lost the server, whose password is {urlsplit(self.connection.url).password}")
        with super().transaction(connection):
            yield
        if is_first_attempt(0):
            die()


class DyingBackend(PostgresBackend):
    """Dies when all rows are staged, before any of them is in its table."""

    def take_turn(self, connection: SqlConnection, table: object) -> NoReturn:
        die()


class ForgetfulBackend(PostgresBackend):
    """Finds the tables of tasks as a server leaves them that went down: empty."""

    def take_turn(self, connection: SqlConnection, table: TableRef) -> None:
        super().take_turn(connection, table)
        names = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'stage%'").fetchall()
        for (name,) in names:
            connection.execute(f"TRUNCATE {self.bookkeeping_schema}.{name}")
