"""A large table of PostgreSQL read by several connections at once, all of which see the same rows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from .parts import Cut, Readers, Take

__all__ = ["read_cut"]

_LOG = logging.getLogger(__name__)
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def read_cut(
    cut: Cut,
    connected: Callable[[], AbstractContextManager[Any]],
    refusals: tuple[type[Exception], ...],
    take: Take,
) -> None:
    """Let `take(cursor, part, go_on)` read each part once, by several connections that see the same rows.

    It calls `go_on` between batches, which ends it where another connection failed. The first connection lends its
    snapshot to the others. One that cannot join, because the server refuses it or because somebody waits to have the
    table for himself, stays away, and the others do its work.
    """
    readers = Readers(cut, take)

    def join(snapshot: str) -> None:
        with ExitStack() as opened:
            try:
                cursor = opened.enter_context(connected())
                _see(cursor, cut.table, snapshot)
            except refusals as error:
                _LOG.info("a connection could not join those that read %s: %s", cut.table, error)
                return
            readers.read(cursor)

    with connected() as cursor:
        snapshot = _lend(cursor, cut.table, refusals)
        with ThreadPoolExecutor(max(1, cut.readers - 1), "ematix-read") as others:
            joined = [others.submit(join, snapshot) for _ in range(cut.readers - 1)] if snapshot else []
            readers.read(cursor)
        for each in joined:
            each.result()


def _lend(cursor: Any, table: str, refusals: tuple[type[Exception], ...]) -> str | None:
    """Begin a transaction that keeps the table as it is; gives the name of what it sees, None where it has none."""
    _hold(cursor, table)
    try:
        cursor.execute("SELECT pg_export_snapshot()")
        return str(cursor.fetchone()[0])
    except refusals as error:
        _LOG.info("one connection reads all parts of %s: %s", table, error)
        cursor.execute("ROLLBACK")
        _hold(cursor, table)
        return None


def _hold(cursor: Any, table: str) -> None:
    cursor.execute(_BEGIN)
    cursor.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")


def _see(cursor: Any, table: str, snapshot: str) -> None:
    """Begin a transaction that sees what the first one sees."""
    cursor.execute(_BEGIN)
    cursor.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
    # Who waits to have the table for himself waits for the first connection; behind him, this one would wait for ever.
    cursor.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE NOWAIT")
