"""Queries of MySQL in parts that several connections can read: ranges of the primary key of a large table.

A query is cut only where each row of its result comes from one row of one table, whoever reads it. Everything else,
and every table that has no single whole number for a key, is read as one stream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappush, heapreplace
from itertools import pairwise
from operator import itemgetter

from ..errors import BackendError
from ..spec.place import TableRef
from .mysql_dialect import MySQLDialect
from .mysql_tables import here
from .one_table import Source, only_table
from .parts import MOST_PARTS, Cut, Limits
from .sql_connection import SqlConnection

__all__ = ["cut_points", "find_cut"]

_LOG = logging.getLogger(__name__)
_GAPS = 256
"""How many halvings may be spent on gaps between keys."""


def find_cut(connection: SqlConnection, sql: str, limits: Limits, dialect: MySQLDialect) -> Cut | None:
    """The query in parts; None where it has to be, or had better be, read as one stream."""
    source = only_table(sql, "mysql", lambda name: name.name.lower()) if limits.readers > 1 else None
    if source is None:
        return None
    try:
        table = _table(connection, source, dialect)
        # One more lets all of them see the same rows.
        readers = min(limits.readers, _free(connection) - 1)
        if table is None or readers < 2 or not source.columns <= table.columns:
            return None
        size = table.bytes * min(1.0, _rows_read(connection, sql) / max(table.rows, 1))
        if size < limits.table_bytes:
            return None
        key = dialect.quote(table.key)
        low, high = connection.execute(f"SELECT MIN({key}), MAX({key}) FROM {source.name}").fetchall()[0]
        count = max(readers, min(table.bytes // limits.part_bytes, MOST_PARTS))
        if low is None:
            return None
        rows = partial(_rows_between, connection, source.name, key)
        points = cut_points(int(str(low)), int(str(high)), count, rows)
        parts = tuple(source.part(sql, between) for between in _ranges(key, points))
        return Cut(source.name, parts, readers) if points and _reads_ranges(connection, parts) else None
    except BackendError as error:
        _LOG.info("the table is read as one stream: %s", error.message)
        return None


def cut_points(low: int, high: int, parts: int, rows: Callable[[int, int], float]) -> list[int]:
    """Keys that divide those from `low` to `high` into ranges of similar size, however large the gaps between them.

    `rows(begin, end)` estimates the rows of a range, whose end is no part of it.
    """
    # The largest range is halved until none is too large; those in a gap are empty.
    ranges = [(-rows(low, high + 1), low, high + 1)]
    enough = -ranges[0][0] / parts
    for _ in range(2 * parts + _GAPS):
        size, begin, stop = ranges[0]
        if -size <= enough or stop - begin < 2:
            break
        middle = (begin + stop) // 2
        heapreplace(ranges, (-rows(begin, middle), begin, middle))
        heappush(ranges, (-rows(middle, stop), middle, stop))
    # Of small ranges the server estimates more in sum.
    enough = -sum(size for size, _, _ in ranges) / parts
    points, gathered = list[int](), 0.0
    for size, begin, _ in sorted(ranges, key=itemgetter(1)):
        if gathered and gathered - size > enough:
            points.append(begin)
            gathered = 0.0
        gathered -= size
    return points


@dataclass(frozen=True)
class _Table:
    """What the server knows of a table; sizes are estimates."""

    key: str
    columns: frozenset[str]
    bytes: int
    rows: int


def _table(connection: SqlConnection, source: Source, dialect: MySQLDialect) -> _Table | None:
    """The table as a range of its key can divide it; None where none can."""
    schema = source.table.db or str(connection.execute("SELECT DATABASE()").fetchall()[0][0])
    at = here(TableRef(schema, source.table.name), dialect)
    # Only InnoDB gives several connections one view of its rows.
    sizes = connection.execute(
        "SELECT data_length, table_rows FROM information_schema.tables "
        f"WHERE {at} AND table_type = 'BASE TABLE' AND engine = 'InnoDB'"
    ).fetchall()
    columns = connection.execute(
        f"SELECT LOWER(column_name), data_type, column_key, extra FROM information_schema.columns WHERE {at}"
    ).fetchall()
    keys = [(str(name), str(kind).lower()) for name, kind, place, _ in columns if place == "PRI"]
    if not sizes or len(keys) != 1 or keys[0][1] not in _WHOLE:
        return None
    # A time of day may be taken for one of today, which is another day for each connection; `*` gives no hidden ones.
    known = (str(name) for name, kind, _, extra in columns if kind != "time" and "INVISIBLE" not in str(extra).upper())
    return _Table(keys[0][0], frozenset(known), int(str(sizes[0][0] or 0)), int(str(sizes[0][1] or 0)))


_WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint")


def _free(connection: SqlConnection) -> int:
    """How many connections the server may still let in, as far as it tells."""
    allowed, mine = connection.execute("SELECT @@max_connections, @@max_user_connections").fetchall()[0]
    taken = connection.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'").fetchall()
    free = int(str(allowed)) - int(str(taken[0][1]))
    return min(free, int(str(mine))) if mine else free


def _ranges(key: str, points: Sequence[int]) -> Iterator[str]:
    """Conditions that divide a table, whose keys may meanwhile be smaller or larger than they were."""
    for low, high in pairwise([None, *points, None]):
        said = [f"{key} >= {low}"] if low is not None else []
        said += [f"{key} < {high}"] if high is not None else []
        yield " AND ".join(said)


def _rows_read(connection: SqlConnection, sql: str) -> float:
    """How many rows the server would look at; none where an index finds them sooner than the key does."""
    plan = _plan(connection, sql)
    scans = plan.get("type") in ("ALL", "index") or plan.get("key") == "PRIMARY"
    return float(str(plan.get("rows") or 0)) if scans else 0


def _rows_between(connection: SqlConnection, table: str, key: str, begin: int, end: int) -> float:
    """How many rows a range of keys has; the server estimates without reading them."""
    return _rows_read(connection, f"SELECT {key} FROM {table} WHERE {key} >= {begin} AND {key} < {end}")


def _reads_ranges(connection: SqlConnection, parts: Sequence[str]) -> bool:
    """Whether the server would go straight to the keys; a part that a condition rules out tells nothing."""
    plans = (_plan(connection, part) for part in (parts[0], parts[-1]))
    return any(plan.get("type") == "range" and plan.get("key") == "PRIMARY" for plan in plans)


def _plan(connection: SqlConnection, sql: str) -> Mapping[str, object]:
    """How the server would read a query of one table; empty where it would take several steps."""
    cursor = connection.execute(f"EXPLAIN FORMAT=TRADITIONAL {sql}")
    names = [str(column[0]) for column in cursor.description or ()]
    rows = cursor.fetchall()
    return dict(zip(names, rows[0], strict=True)) if len(rows) == 1 else {}
