"""Backends that die at the worst moment. Workers of Spark import this module."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from ematix_flow.backends.postgres import PostgresBackend
from ematix_flow.backends.sql import SqlConnection
from ematix_flow.connections import PostgresConnection


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
    """A connection whose first task dies when its rows are committed, and before Spark knows."""

    def open(self, workshop: Any) -> PostgresBackend:
        return FragileBackend(self, workshop)


class FragileBackend(PostgresBackend):
    """Dies behind the commit, in the first attempt at the first partition."""

    @contextmanager
    def transaction(self, connection: SqlConnection) -> Iterator[None]:
        with super().transaction(connection):
            yield
        if is_first_attempt(0):
            die()


class DyingBackend(PostgresBackend):
    """Dies when all rows are staged, before any of them is in its table."""

    def take_turn(self, connection: SqlConnection, table: object) -> NoReturn:
        die()
