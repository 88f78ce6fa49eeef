"""Row transforms as queries: each takes a query and gives one with the same columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from ..errors import UnknownNameError
from ..spec.pipeline import Pipeline
from ..spec.row_transform import RowTransform, deduplicate_by, filter_where, limit, sample_pct

__all__ = ["mentioned_columns", "transformed"]

LAYER = "_pre"
RANK = "_rank"


def transformed(pipeline: Pipeline, rows: exp.Select, columns: Sequence[str]) -> exp.Select:
    """The rows after all of the pipeline's transforms, in order; `columns` are the names they have."""
    for number, transform in enumerate(pipeline.transforms_pre, 1):
        before = rows.subquery(f"{LAYER}_{number}", copy=False)
        rows = _applied(transform, before, columns, pipeline)
    return rows


def mentioned_columns(texts: Iterable[str], dialect: str) -> dict[str, str] | None:
    """The columns that users' SQL speaks of, by name and as written; None where some of it cannot be read."""
    found: dict[str, str] = {}
    for text in texts:
        try:
            tree = parse_one(text, read=dialect)
        except SqlglotError:
            return None
        for column in tree.find_all(exp.Column):
            if not column.table and isinstance(column.this, exp.Identifier):
                found.setdefault(column.name, column.this.sql(dialect))
    return found


def _applied(transform: RowTransform, before: exp.Expr, columns: Sequence[str], pipeline: Pipeline) -> exp.Select:
    rows = exp.select(exp.Star(), copy=False).from_(before, copy=False)
    match transform:
        case filter_where(expr):
            return rows.where(_own(expr), copy=False)
        case limit(n):
            return rows.limit(n, copy=False)
        case sample_pct(p):
            chance = exp.Anonymous(this="RANDOM_FRACTION", expressions=[])
            return rows.where(exp.LT(this=chance, expression=exp.Literal.number(repr(float(p)))), copy=False)
        case deduplicate_by():
            return _first_of_each(transform, before, columns, pipeline)
        case _:
            assert_never(transform)


def _first_of_each(
    transform: deduplicate_by, before: exp.Expr, columns: Sequence[str], pipeline: Pipeline
) -> exp.Select:
    keys = [_found(key, columns, pipeline) for key in transform.keys]
    # All columns at the end, so that rows that differ in anything have one order.
    order = [
        exp.Ordered(this=_own(term.expression), desc=term.descending, nulls_first=term.nulls_first)
        for term in transform.terms
    ]
    order += [
        exp.Ordered(this=exp.column(name, quoted=True), desc=False, nulls_first=False)
        for name in columns
        if name not in keys
    ]
    rank = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column(key, quoted=True) for key in keys],
        order=exp.Order(expressions=order or [exp.column(keys[0], quoted=True)]),
    )
    ranked = exp.select(exp.Star(), exp.alias_(rank, RANK, quoted=True), copy=False).from_(before, copy=False)
    first = exp.EQ(this=exp.column(RANK, quoted=True), expression=exp.Literal.number(1))
    shown = [exp.column(name, quoted=True) for name in columns]
    return exp.select(*shown, copy=False).from_(ranked.subquery("_ranked", copy=False), copy=False).where(first)


def _found(name: str, columns: Sequence[str], pipeline: Pipeline) -> str:
    """The column that a key names, exactly or differing in case alone."""
    found = [each for each in columns if each == name] or [
        each for each in columns if each.casefold() == name.casefold()
    ]
    if not found:
        raise UnknownNameError(
            "column",
            name,
            known=columns,
            where=f"pipeline {pipeline.name!r}: deduplicate_by: the source",
            declared_at=pipeline.declared_at,
        )
    return found[0]


def _own(text: str) -> exp.Expr:
    """The user's own SQL, to the letter; on lines of its own, so that a comment ends with it."""
    return exp.Paren(this=exp.Var(this=f"\n{text}\n"))
