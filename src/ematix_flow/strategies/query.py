"""Small builders for the expressions that strategies are made of; every name is quoted, no dialect is assumed.

A node belongs to one parent, so each call gives new nodes and nothing is copied while a query grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from .base import EVENT_TIME, INCOMING

__all__ = [
    "absent",
    "all_of",
    "any_of",
    "as_text",
    "case",
    "cell",
    "cells",
    "derived",
    "differs",
    "duplicates",
    "everything",
    "incoming_at",
    "join",
    "label",
    "matches",
    "named",
    "nulls",
    "number",
    "select",
    "source",
    "union",
    "value",
]


def cell(name: str, table: str) -> exp.Column:
    """The column `name` of `table`."""
    return exp.Column(this=_identifier(name), table=_identifier(table))


def cells(names: Iterable[str], table: str) -> list[exp.Expr]:
    """Several columns of `table`."""
    return [cell(name, table) for name in names]


def everything(table: str) -> exp.Column:
    """All columns of `table`."""
    return exp.Column(this=exp.Star(), table=_identifier(table))


def named(expression: exp.Expr, name: str) -> exp.Alias:
    """The expression under a name. A column is never given its own name: Spark cannot resolve such plans."""
    return exp.Alias(this=expression, alias=_identifier(name))


def value(name: str) -> exp.Placeholder:
    """A value of the run."""
    return exp.Placeholder(this=name)


def label(word: str) -> exp.Literal:
    """A word as text."""
    return exp.Literal.string(word)


def number(whole: int) -> exp.Expression:
    """A whole number."""
    return exp.Literal.number(whole)


def as_text(expression: exp.Expr) -> exp.Cast:
    """The expression as text, for people: drivers need not know its type."""
    return exp.Cast(this=expression, to=exp.DataType.build("text"))


def source(name: str, alias: str) -> exp.Table:
    """A logical table, or an earlier part of the query, under an alias."""
    return exp.Table(this=exp.Identifier(this=name), alias=exp.TableAlias(this=_identifier(alias)))


def select(*expressions: exp.Expr, from_: exp.Expr, where: exp.Expr | None = None) -> exp.Select:
    """A plain SELECT."""
    query = exp.select(*expressions, copy=False).from_(from_, copy=False)
    return query if where is None else query.where(where, copy=False)


def join(query: exp.Select, table: exp.Expr, on: exp.Expr, *, outer: bool = False) -> exp.Select:
    """The query with one more table; `outer` keeps rows that find no partner."""
    return query.join(table, on=on, join_type="left" if outer else None, copy=False)


def derived(query: exp.Query, alias: str) -> exp.Subquery:
    """A query as a table."""
    return exp.Subquery(this=query, alias=exp.TableAlias(this=_identifier(alias)))


def union(*queries: exp.Query) -> exp.Query:
    """All rows of all queries. The first decides names and types, so it must be the typed one."""
    whole = queries[0]
    for query in queries[1:]:
        whole = exp.Union(this=whole, expression=query, distinct=False)
    return whole


def all_of(*conditions: exp.Expr) -> exp.Expr:
    """True where every condition is."""
    return exp.and_(*conditions, copy=False)


def any_of(*conditions: exp.Expr) -> exp.Expr:
    """True where a condition is; false without any."""
    return exp.or_(*conditions, copy=False) if conditions else exp.false()


def case(*branches: tuple[exp.Expr, exp.Expr], default: exp.Expr | None = None) -> exp.Case:
    """The value beside the first true condition."""
    return exp.Case(ifs=[exp.If(this=condition, true=then) for condition, then in branches], default=default)


def matches(names: Iterable[str], left: str, right: str) -> exp.Expr:
    """Rows of two tables agree in all columns; NULL agrees with nothing."""
    return all_of(*(exp.EQ(this=cell(name, left), expression=cell(name, right)) for name in names))


def differs(names: Iterable[str], left: str, right: str) -> exp.Expr:
    """Rows of two tables disagree in some column; NULL differs from every value but NULL."""
    return any_of(*(exp.NullSafeNEQ(this=cell(name, left), expression=cell(name, right)) for name in names))


def nulls(names: Iterable[str], table: str) -> exp.Expr:
    """Some of the columns are NULL."""
    return any_of(*(exp.Is(this=cell(name, table), expression=exp.null()) for name in names))


def absent(query: exp.Select, keys: Sequence[str], table: str) -> exp.Select:
    """The query's rows whose keys in `table` no incoming row has.

    A join on distinct keys, because NOT EXISTS makes SQLite scan `incoming` once for every row.
    """
    arrived = select(*cells(keys, "i"), from_=source(INCOMING, "i")).distinct(copy=False)
    query = join(query, derived(arrived, "x"), matches(keys, "x", table), outer=True)
    return query.where(nulls(keys[:1], "x"), copy=False)


def incoming_at(table: str, *, event_time: bool) -> exp.Expr:
    """When the rows of `incoming` happened: their event time, or now."""
    return cell(EVENT_TIME, table) if event_time else value("now")


def duplicates(names: Sequence[str], event_column: str = EVENT_TIME) -> exp.Select:
    """Values of `names` that several incoming rows share; the event time is called as the user does."""
    shown = [named(as_text(cell(name, "i")), event_column if name == EVENT_TIME else name) for name in names]
    query = select(*shown, from_=source(INCOMING, "i")).group_by(*cells(names, "i"), copy=False)
    several = exp.GT(this=exp.Count(this=exp.Star()), expression=number(1))
    return query.having(several, copy=False).limit(6, copy=False)


def _identifier(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)
