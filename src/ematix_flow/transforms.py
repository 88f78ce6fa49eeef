"""Transforms of incoming data: row transforms for ``transforms_pre=`` and the markers that hold SQL of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .errors import SpecError, nearest
from .normalize import (
    deduplicate_by,
    derive,
    filter_where,
    is_normalizer,
    is_pipeline_transform,
    limit,
    sample_pct,
    sql,
)
from .spec.row_transform import RowTransform
from .spec.table import ManagedTable

__all__ = [
    "apply_normalization",
    "deduplicate_by",
    "derive",
    "filter_where",
    "is_normalizer",
    "is_pipeline_transform",
    "limit",
    "sample_pct",
    "sql",
]

Engine = Literal["spark", "duckdb", "sqlite"]


def apply_normalization(
    cls: type[ManagedTable], sql: str, transforms_pre: Sequence[RowTransform] = (), *, dialect: Engine = "spark"
) -> str:
    """The query that cleans the rows of ``sql`` as the table's columns say and applies the transforms, for one engine.

    Without normalizers and transforms it is ``sql`` itself. SQLite runs it on connections of this package alone, which
    know its functions.
    """
    from .backends.dialect import Dialect
    from .backends.duckdb_dialect import DuckDBDialect
    from .backends.mysql_dialect import MySQLDialect
    from .backends.postgres_dialect import PostgresDialect
    from .backends.spark_dialect import SparkDialect
    from .backends.sqlite_dialect import SqliteDialect
    from .engine.transform import assumed_names, cleaned_query, pushed_sql
    from .spec.pipeline import build_pipeline

    known = (SparkDialect(), DuckDBDialect(), SqliteDialect(), PostgresDialect(), MySQLDialect())
    engines: dict[str, Dialect] = {engine.name: engine for engine in known}
    if dialect not in engines:
        raise SpecError(f"there is no engine {dialect!r}", hint=nearest("engine", dialect, engines))
    options = {"target": cls, "mode": "append", "name": cls.__name__, "transforms_pre": list(transforms_pre)}
    pipeline = build_pipeline(lambda source: sql, options, None)
    columns = pipeline.table.columns
    if not pipeline.transforms_pre and not any(column.normalizers for column in columns):
        return sql
    engine = engines[dialect]
    rows = cleaned_query(pipeline, columns, assumed_names(pipeline, columns, engine), engine)
    return pushed_sql(sql, rows, engine, None, None)
