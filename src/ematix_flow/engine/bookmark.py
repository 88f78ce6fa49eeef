"""Where an incremental load got to: the check of a stored bookmark, the query for the next one."""

from __future__ import annotations

from sqlglot import exp

from ..backends.dialect import Dialect
from ..errors import SpecError
from ..spec.pipeline import Pipeline
from ..spec.run import Bookmark
from ..strategies.base import INCOMING
from ..types import ColumnType

__all__ = ["check_bookmark", "reached_query"]


def check_bookmark(pipeline: Pipeline, bookmark: Bookmark | None) -> Bookmark | None:
    """The stored bookmark, refused where it stands on another column than the pipeline names."""
    column = pipeline.incremental_column
    if bookmark is not None and bookmark.column != column:
        raise SpecError(
            f"pipeline {pipeline.name!r} has its bookmark on column {bookmark.column!r}, not {column!r}",
            hint=f"keep incremental_column={bookmark.column!r}, or delete the pipeline's row from "
            "ematix_flow.watermarks to load everything again",
            declared_at=pipeline.declared_at,
        )
    return bookmark


def reached_query(column: str, type: ColumnType, dialect: Dialect) -> exp.Query:
    """The greatest value of `column` among the incoming rows, as canonical text."""
    greatest = exp.Max(this=exp.column(column, table="i", quoted=True))
    return exp.select(dialect.text(greatest, type).as_("_reached")).from_(
        exp.alias_(exp.table_(INCOMING), "i", table=True)
    )
