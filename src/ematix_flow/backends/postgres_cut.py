"""Queries of PostgreSQL in parts that several connections can read: ranges of the pages of a large table.

A query is cut only where each row of its result comes from one row of one table, whoever reads it. Everything else,
and every table that a range of pages does not divide, is read as one stream.
"""

from __future__ import annotations

import json
import logging
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from ..errors import BackendError
from .sql_connection import SqlConnection
from .sql_text import replace_tables

__all__ = ["Cut", "Limits", "cut_points", "find_cut"]

_LOG = logging.getLogger(__name__)
_OLDEST = 140_000
"""Older servers would look at the whole table for each range."""
_MOST_PARTS = 256


@dataclass(frozen=True)
class Limits:
    """When a table is worth several connections, and how many."""

    readers: int
    """Connections that read at the same time."""
    table_bytes: int = 64 * 2**20
    """Smaller tables are read by one."""
    part_bytes: int = 32 * 2**20
    """What one part of a table has at least; a reader takes one part after the other."""


@dataclass(frozen=True)
class Cut:
    """A query as several that together give its rows, each of them once."""

    table: str
    parts: tuple[str, ...]
    readers: int


def find_cut(connection: SqlConnection, sql: str, limits: Limits) -> Cut | None:
    """The query in parts; None where it has to be, or had better be, read as one stream."""
    source = _only_table(sql) if limits.readers > 1 else None
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
        count = max(readers, min(size // limits.part_bytes, _MOST_PARTS))
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


@dataclass(frozen=True)
class _Source:
    """The one table that a query reads."""

    name: str
    columns: frozenset[str]
    """Those that the query names."""
    whole: bool
    """The query takes all of them, whatever it names."""

    def part(self, sql: str, between: str) -> str:
        """The query over a part of the table."""
        shown = "*" if self.whole else ", ".join(map(_quoted, sorted(self.columns)))
        return replace_tables(sql, "postgres", lambda *_: f"(SELECT {shown} FROM {self.name} WHERE {between})")


def _only_table(sql: str) -> _Source | None:
    """The table of a query that takes rows of one table as they are, and leaves some out."""
    try:
        tree: exp.Expr = parse_one(sql, read="postgres")
    except SqlglotError:
        return None
    while isinstance(tree, exp.Select):
        if not _is_plain(tree):
            return None
        inner = tree.args["from_"].this
        if isinstance(inner, exp.Table):
            return _source(tree, inner)
        if not isinstance(inner, exp.Subquery) or _has_more(inner, "this", "alias"):
            return None
        tree = inner.this
    return None


def _source(select: exp.Select, table: exp.Table) -> _Source | None:
    alias = table.args.get("alias")
    if _has_more(table, "this", "db", "alias") or (alias is not None and alias.columns):
        return None
    # A name that is no column of the table may mean its whole row, or a column of the system: those have no parts.
    named = frozenset(_folded(each.this) for each in _columns(select) if not isinstance(each.this, exp.Star))
    name = exp.Table(this=table.this.copy(), db=table.args.get("db")).sql("postgres")
    return _Source(name, named, select.is_star) if named or select.is_star else None


def _is_plain(select: exp.Select) -> bool:
    """Whether what the query says of a row is the same for every reader: no clocks, no chance, no other rows."""
    if _has_more(select, "expressions", "from_", "where") or select.args.get("from_") is None:
        return False
    said = [*select.expressions, *([select.args["where"].this] if select.args.get("where") else [])]
    nodes = [node for each in said for node in each.walk()]
    return all(type(node) in _PLAIN and not _is_clock(node) for node in nodes)


def _is_clock(node: exp.Expr) -> bool:
    """Whether a text becomes another instant for each connection when it is read as a time."""
    return isinstance(node, exp.Literal) and bool(re.search(r"\b(now|today|tomorrow|yesterday)\b", node.name, re.I))


_PLAIN = frozenset({
    exp.Abs, exp.Add, exp.Alias, exp.And, exp.Between, exp.Boolean, exp.Case, exp.Cast, exp.Coalesce, exp.Column,
    exp.DPipe, exp.DataType, exp.DataTypeParam, exp.Div, exp.EQ, exp.Extract, exp.GT, exp.GTE, exp.ILike,
    exp.Identifier, exp.If, exp.In, exp.Is, exp.LT, exp.LTE, exp.Length, exp.Like, exp.Literal, exp.Lower, exp.Mul,
    exp.NEQ, exp.Neg, exp.Not, exp.Null, exp.Nullif, exp.Or, exp.Paren, exp.Round, exp.Star, exp.Sub, exp.Substring,
    exp.TimestampTrunc, exp.Trim, exp.Upper, exp.Var,
})  # fmt: skip
"""What an expression may be made of."""


def _has_more(node: exp.Expr, *known: str) -> bool:
    return any(value and key not in known for key, value in node.args.items())


def _columns(select: exp.Select) -> Iterator[exp.Column]:
    for part in (*select.expressions, select.args.get("where")):
        if part is not None:
            yield from part.find_all(exp.Column)


def _folded(name: exp.Expr) -> str:
    return name.name if name.args.get("quoted") else name.name.lower()


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql("postgres")


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
