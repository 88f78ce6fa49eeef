"""Where an incremental load got to: the check of a stored bookmark, where to read from, the query for the next one."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ..backends.dialect import Dialect
from ..errors import SpecError
from ..spec.pipeline import Pipeline
from ..spec.run import Bookmark
from ..strategies.base import INCOMING
from ..strategies.query import value
from ..types import ColumnType
from .bookmark_value import earlier

__all__ = ["check_bookmark", "reached_query", "read_from"]


def check_bookmark(pipeline: Pipeline, bookmark: Bookmark | None) -> Bookmark | None:
    """The stored bookmark, refused where it stands on another column than the pipeline names."""
    column = pipeline.incremental_column
    if bookmark is not None and bookmark.column != column:
        raise SpecError(
            f"pipeline {pipeline.name!r} has its bookmark on column {bookmark.column!r}, not {column!r}",
            hint=f"keep incremental_column={bookmark.column!r}, or load everything again after "
            f"`flow watermark reset {pipeline.name}`",
            declared_at=pipeline.declared_at,
        )
    return bookmark


def read_from(pipeline: Pipeline, bookmark: Bookmark | None) -> Bookmark | None:
    """The bookmark, or the value that lies `lookback=` before it."""
    if bookmark is None or pipeline.lookback is None:
        return bookmark
    kind = pipeline.table.column(bookmark.column).type
    return replace(bookmark, value=earlier(bookmark.value, kind, pipeline.lookback))


def reached_query(column: str, type: ColumnType, dialect: Dialect, *, resumes: bool = False) -> exp.Query:
    """The greatest value of `column` among the incoming rows, as canonical text.

    A load that resumes leaves out what lies before its bookmark, so that the next one is never behind it.
    """
    reached = exp.column(column, table="i", quoted=True)
    query = exp.select(dialect.text(exp.Max(this=reached), type).as_("_reached")).from_(
        exp.alias_(exp.table_(INCOMING), "i", table=True)
    )
    return query.where(exp.GTE(this=reached.copy(), expression=value("bookmark"))) if resumes else query
