"""Queries that take rows of one table as they are: each row of the result comes from one row, whoever reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from .sql_text import replace_tables

__all__ = ["Source", "only_table"]


@dataclass(frozen=True)
class Source:
    """The one table that a query reads."""

    table: exp.Table
    dialect: str
    columns: frozenset[str]
    """Those that the query names."""
    whole: bool
    """The query takes all of them, whatever it names."""

    @property
    def name(self) -> str:
        """The table as the query names it."""
        return self.table.sql(self.dialect)

    def part(self, sql: str, between: str) -> str:
        """The query over a part of the table."""
        shown = "*" if self.whole else ", ".join(map(self._quoted, sorted(self.columns)))
        return replace_tables(sql, self.dialect, lambda *_: f"(SELECT {shown} FROM {self.name} WHERE {between})")

    def _quoted(self, name: str) -> str:
        return exp.to_identifier(name, quoted=True).sql(self.dialect)


def only_table(sql: str, dialect: str, fold: Callable[[exp.Expr], str]) -> Source | None:
    """The table of a query that takes rows of one table as they are, and leaves some out; None of any other.

    `fold` gives the name that the system knows a column by.
    """
    try:
        tree: exp.Expr = parse_one(sql, read=dialect)
    except SqlglotError:
        return None
    while isinstance(tree, exp.Select):
        if not _is_plain(tree):
            return None
        inner = tree.args["from_"].this
        if isinstance(inner, exp.Table):
            return _source(tree, inner, dialect, fold)
        if not isinstance(inner, exp.Subquery) or _has_more(inner, "this", "alias"):
            return None
        tree = inner.this
    return None


def _source(select: exp.Select, table: exp.Table, dialect: str, fold: Callable[[exp.Expr], str]) -> Source | None:
    alias = table.args.get("alias")
    if _has_more(table, "this", "db", "alias") or (alias is not None and alias.columns):
        return None
    # A name that is no column of the table may mean its whole row, or a column of the system: those have no parts.
    named = frozenset(fold(each.this) for each in _columns(select) if not isinstance(each.this, exp.Star))
    bare = exp.Table(this=table.this.copy(), db=table.args.get("db"))
    return Source(bare, dialect, named, select.is_star) if named or select.is_star else None


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
