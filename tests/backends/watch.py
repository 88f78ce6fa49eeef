"""Hears of everything that a load is about to do: its steps, statements, rows that are sent, changes of file names."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from ematix_flow.backends import mysql
from ematix_flow.backends.mysql import MySQLBackend
from ematix_flow.backends.postgres import PostgresBackend
from ematix_flow.events import Event, StepProgress
from tests.backends.lab import Lab

IDLE = ("SET ", "SELECT ", "PRAGMA ", "DESCRIBE ", "SAVEPOINT ", "RELEASE ", "ANALYZE ")
"""How statements begin that change nothing by themselves."""


class Listener(Protocol):
    """Hears of everything that is about to happen."""

    def event(self, text: str) -> None:
        """Something is about to happen."""


class Killer:
    """Ends this process at the n-th event; what the event was stays in a file."""

    def __init__(self, number: int, note: Path) -> None:
        self.number, self.note = number, note
        self.seen = 0

    def event(self, text: str) -> None:
        """Something is about to happen."""
        self.seen += 1
        if self.seen == self.number:
            self.note.write_text(text, encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """A driver's connection that tells the killer of every statement."""

    def __init__(self, connection: Any, killer: Listener, idle: tuple[str, ...]) -> None:
        self.__dict__.update(_connection=connection, _killer=killer, _idle=idle)

    def execute(self, sql: str) -> Any:
        if not sql.startswith(self._idle):
            self._killer.event(sql)
        return self._connection.execute(sql)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._connection, name, value)


def watch_statements(lab: Lab, killer: Listener, idle: tuple[str, ...] = IDLE) -> None:
    """Let the backend hand out watched connections.

    To die before a statement that changes nothing is to die before the next one that does, so those are left out.
    """
    backend: Any = lab.target
    real = backend.connect
    backend.connect = lambda: Watched(real(), killer, idle)
    if isinstance(backend, PostgresBackend):
        watch_copies(backend, killer)
    if isinstance(backend, MySQLBackend):
        watch_files_sent(killer)


def watch_copies(backend: Any, killer: Listener) -> None:
    """Rows that are sent to the server: before the first and before the last part of them."""
    real = backend.copy_in

    def parts(sql: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        killer.event(sql)
        *first, last = chunks
        yield from first
        killer.event(f"the end of {sql}")
        yield last

    backend.copy_in = lambda connection, sql, chunks: real(connection, sql, parts(sql, chunks))


def watch_files_sent(killer: Listener) -> None:
    """Rows that are sent to the server: before the first and before the last part of the file."""
    real = mysql.sent

    def parts(chunks: Iterator[bytes]) -> Iterator[bytes]:
        killer.event("the first part of LOAD DATA")
        *first, last = chunks, b""
        yield from (each for part in first for each in part)
        killer.event("the end of LOAD DATA")
        yield last

    mysql.sent = lambda chunks, take: real(parts(chunks), take)  # type: ignore[assignment]


def watch_files(_: Lab, killer: Killer) -> None:
    """Count what changes names of files: the steps by which a load in a folder becomes visible."""
    for name in ("rename", "replace", "link", "unlink"):
        _watch_call(name, killer)


def watch_spark(_: Lab, killer: Killer) -> None:
    """Count the statements by which Spark changes a table: the names of its files are Java's affair."""
    from pyspark.sql import SparkSession

    real: Any = SparkSession.sql

    def watched(session: Any, sql: str, *arguments: Any, **more: Any) -> Any:
        if sql.startswith(("ALTER ", "CALL ", "MERGE ")):
            killer.event(sql)
        return real(session, sql, *arguments, **more)

    SparkSession.sql = watched  # type: ignore[method-assign]


def watch_steps(lab: Lab, killer: Listener) -> None:
    """Count the beginning and the end of every step, too."""

    def hear(event: Event) -> None:
        if not isinstance(event, StepProgress):  # counted from within a statement, which has been heard of
            killer.event(f"{type(event).__name__} {getattr(event, 'step', '')}")

    lab.project.bus.subscribe(hear)


def _watch_call(name: str, killer: Killer) -> None:
    real = getattr(os, name)

    def watched(*arguments: Any, **more: Any) -> Any:
        killer.event(f"os.{name} {arguments}")
        return real(*arguments, **more)

    setattr(os, name, watched)
