"""A large table of MySQL read by several connections at once, all of which see the same rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .base import QueryColumn
from .dialect import Dialect
from .mysql_rows import carried_sql, copy_out
from .parts import Cut, Readers, Take
from .progress import Tally

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_cut", "taking"]

_LOG = logging.getLogger(__name__)
LOCK_SECONDS = 1
"""How long to wait for a moment in which nobody writes: who writes may have to wait behind."""
_SHORT = f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}, innodb_lock_wait_timeout = {LOCK_SECONDS}"


def taking(parts: Sequence[str], columns: Sequence[QueryColumn], dialect: Dialect, folder: Path, tally: Tally) -> Take:
    """What writes each part of a query into a file of its own in `folder`."""

    def take(cursor: Any, part: int, go_on: Callable[[], None]) -> None:
        def written(batch: pa.RecordBatch) -> None:
            tally.add_batch(batch)
            go_on()

        name = "rows.parquet" if len(parts) == 1 else f"rows-{part:05}.parquet"
        cursor.execute(carried_sql(columns, dialect, parts[part]))
        copy_out(cursor, folder / name, columns, dialect, written)
        tally.add(parts=1)

    return take


def read_cut(
    cut: Cut,
    connected: Callable[[], AbstractContextManager[Any]],
    refusals: tuple[type[Exception], ...],
    take: Take,
) -> bool:
    """Let `take` read each part once, by several connections that see the same rows.

    The server lends no snapshot. So nobody may write to the table for the moment in which all connections take theirs.
    Gives False, and has read nothing, where that moment is not to be had.
    """
    with ExitStack() as opened:
        try:
            with connected() as gate:
                cursors = _joined(cut, connected, refusals, opened)
                _see_the_same(cut.table, gate, cursors)
        except refusals as error:
            _LOG.info("%s is read as one stream, by one connection: %s", cut.table, error)
            return False
        readers = Readers(cut, take)
        with ThreadPoolExecutor(len(cursors), "ematix-read") as others:
            joined = [others.submit(readers.read, cursor) for cursor in cursors[1:]]
            readers.read(cursors[0])
        for each in joined:
            each.result()
    return True


def _joined(
    cut: Cut,
    connected: Callable[[], AbstractContextManager[Any]],
    refusals: tuple[type[Exception], ...],
    opened: ExitStack,
) -> list[Any]:
    """The connections that the server lets in, two at least."""
    cursors: list[Any] = []
    for number in range(cut.readers):
        try:
            cursors.append(opened.enter_context(connected()))
        except refusals as error:
            if number < 2:
                raise
            _LOG.info("a connection could not join those that read %s: %s", cut.table, error)
            break
    return cursors


def _see_the_same(table: str, gate: Any, cursors: list[Any]) -> None:
    """Begin a transaction in each connection, while the one at the gate lets nobody write to the table."""
    for cursor in (gate, *cursors):
        cursor.execute(_SHORT)
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    # Without autocommit InnoDB has its own lock of the table too, for which those wait who write by a foreign key.
    gate.execute("SET SESSION autocommit = 0, innodb_table_locks = 1")
    gate.execute(f"LOCK TABLES {table} READ")
    for cursor in cursors:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        # A table that is read cannot be altered before the transaction ends.
        cursor.execute(f"SELECT 1 FROM {table} LIMIT 0")
        cursor.fetchall()
    gate.execute("UNLOCK TABLES")
