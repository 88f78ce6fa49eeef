"""Transforms of incoming data: row transforms for ``transforms_pre=`` and the markers that hold SQL of one's own."""

from __future__ import annotations

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

__all__ = [
    "deduplicate_by",
    "derive",
    "filter_where",
    "is_normalizer",
    "is_pipeline_transform",
    "limit",
    "sample_pct",
    "sql",
]
