"""Queries of PostgreSQL in parts that several connections can read: ranges of the pages of a large table.

A query is cut only where each row of its result comes from one row of one table, whoever reads it. Everything else,
and every table that a range of pages does not divide, is read as one stream.
"""

from __future__ import annotations

import json
import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

from sqlglot import exp

from ..errors import BackendError
from .one_table import only_table
from .parts import MOST_PARTS, Cut, Limits
from .sql_connection import SqlConnection

__all__ = ["cut_points", "find_cut"]

_LOG = logging.getLogger(__name__)
_OLDEST = 140_000
"""Older servers would look at the whole table for each range."""


def find_cut(connection: SqlConnection, sql: str, limits: Limits) -> Cut | None:
    """The query in parts; None where it has to be, or had better be, read as one stream."""
    source = only_table(sql, "postgres", _folded) if limits.readers > 1 else None
    if source is None:
        return None
    try:
        found = connection.execute(_facts_sql(source.name)).fetchall()
        if not found:
            return None
        names, pages, page_bytes, free = cast("tuple[list[str], list[int], int, int]", found[0])
        size = sum(pages) * page_bytes
        readers = min(limits.readers, free)
        if readers < 2 or size < limits.table_bytes or not source.columns <= set(names):
            return None
        count = max(readers, min(size // limits.part_bytes, MOST_PARTS))
        parts = tuple(source.part(sql, between) for between in _ranges(cut_points(pages, count)))
        return Cut(source.name, parts, readers) if _reads_ranges(connection, parts[0]) else None
    except BackendError as error:
        _LOG.info("the table is read as one stream: %s", error.message)
        return None


def cut_points(pages: Sequence[int], parts: int) -> list[int]:
    """Numbers of pages between which a table has about the same amount, where it has files of so many pages each.

    The partitions of a table are cut at the same numbers, so that one condition on the whole table says each part.
    """

    def before(page: int) -> int:
        return sum(min(each, page) for each in pages)

    total, numbers = sum(pages), range(max(pages) + 1)
    points = {bisect_left(numbers, total * at / parts, key=before) for at in range(1, parts)}
    return sorted(points - {0})


def _folded(name: exp.Expr) -> str:
    return name.name if name.args.get("quoted") else name.name.lower()


def _facts_sql(table: str) -> str:
    """Asks for the columns of a table, the pages of its files, and the connections that are free.

    No row where a range of pages does not say a part of it: it is no table, belongs in part to another server, is kept
    in another form, may be looked at only in part, or the server is too old.
    """
    name = exp.Literal.string(table).sql("postgres")
    return f"""
WITH RECURSIVE tree AS (
  SELECT to_regclass({name})::oid AS oid UNION SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = tree.oid
), files AS (
  SELECT bool_and(relkind = 'p' OR relkind = 'r' AND amname = 'heap') AS known,
    bool_or(relrowsecurity OR relpersistence = 't') AS hidden,
    array_agg(COALESCE(pg_relation_size(c.oid), 0) / current_setting('block_size')::bigint) AS pages
  FROM tree JOIN pg_class AS c ON c.oid = tree.oid LEFT JOIN pg_am AS m ON m.oid = c.relam
)
SELECT (SELECT array_agg(attname::text) FROM pg_attribute
    WHERE attrelid = to_regclass({name}) AND attnum > 0 AND NOT attisdropped),
  pages, current_setting('block_size')::int,
  (current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - COALESCE(current_setting('reserved_connections', true)::int, 0)
    - (SELECT SUM(numbackends) FROM pg_stat_database))::int
FROM files WHERE known AND NOT hidden AND current_setting('server_version_num')::int >= {_OLDEST}
  AND has_table_privilege(to_regclass({name})::oid, 'SELECT')"""


def _ranges(points: Sequence[int]) -> Iterator[str]:
    """Conditions that divide a table, which may grow while it is read."""
    bounds = [None, *points, None]
    for low, high in pairwise(bounds):
        said = [f"ctid >= '({low},0)'::tid"] if low is not None else []
        said += [f"ctid < '({high},0)'::tid"] if high is not None else []
        yield " AND ".join(said) or "true"


def _reads_ranges(connection: SqlConnection, sql: str) -> bool:
    """Whether the server would go straight to the pages; where an index finds the rows sooner, it would not."""
    answer = connection.execute(f"EXPLAIN (FORMAT JSON) {sql}").fetchall()[0][0]
    plan = json.loads(answer) if isinstance(answer, str) else answer
    kinds = set(_kinds(cast("list[dict[str, Any]]", plan)[0]["Plan"]))
    return "Tid Range Scan" in kinds and kinds <= {"Tid Range Scan", "Append", "Result", "Subquery Scan"}


def _kinds(plan: dict[str, Any]) -> Iterator[str]:
    yield plan["Node Type"]
    for inner in plan.get("Plans", ()):
        yield from _kinds(inner)
