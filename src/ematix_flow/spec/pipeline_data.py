"""Pipelines as plain data: a function for a query that is known, and the dictionaries that describe a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from datetime import timedelta
from decimal import Decimal

from .duration import format_duration
from .modes import mode_facts
from .pipeline import Pipeline
from .place import Query
from .post import SqlStep, TransformRef
from .table import key_ladder

__all__ = ["Given", "normalized_spec", "pipeline_spec"]


@dataclass(frozen=True, slots=True)
class Given:
    """The function of a pipeline whose source is known from the beginning."""

    answer: object

    def __call__(self, _source: object) -> object:
        return self.answer


def pipeline_spec(pipeline: Pipeline) -> dict[str, object]:
    """The pipeline as it was declared: name, source, target, mode, keys, and the options that are not the default.

    A mode that needs keys has those that a run goes by, so that a pipeline can be made of its own data.
    """
    return {
        "name": pipeline.name,
        "source": {"connection": pipeline.source_connection, "query": _query(pipeline)},
        "target": {"connection": pipeline.target_connection, "table": pipeline.table.to_spec()},
        "mode": pipeline.mode,
        "keys": _keys(pipeline),
        **{each.name: _plain(getattr(pipeline, each.name)) for each in fields(pipeline) if _is_told(pipeline, each)},
        **({"lookback": format_duration(pipeline.lookback)} if isinstance(pipeline.lookback, timedelta) else {}),
    }


def normalized_spec(pipeline: Pipeline) -> dict[str, object]:
    """The pipeline as a run takes it: connections named, the table with its fingerprint."""
    table = pipeline.table
    source = pipeline.source_connection or pipeline.target_connection
    return {
        **pipeline_spec(pipeline),
        "source": {"connection": source, "query": _query(pipeline)},
        "target": {
            "connection": pipeline.target_connection,
            "table": {**table.to_spec(), "fingerprint": table.fingerprint},
        },
    }


_TOLD = ("name", "declared_at", "function", "table", "mode", "keys", "source_connection", "target_connection")
"""Fields that stand elsewhere, or say where and not what."""


def _keys(pipeline: Pipeline) -> list[str]:
    if not mode_facts(pipeline.mode).needs_keys:
        return []
    return list(key_ladder(pipeline.table, pipeline.keys, pipeline=pipeline.name).names)


def _is_told(pipeline: Pipeline, each: Field[object]) -> bool:
    default = each.default if each.default_factory is MISSING else each.default_factory()
    return each.name not in _TOLD and getattr(pipeline, each.name) != default


def _query(pipeline: Pipeline) -> str | None:
    """What is read, as text; None where only the function knows."""
    if not isinstance(pipeline.function, Given):
        return None if pipeline.source_table is None else str(pipeline.source_table)
    answer = pipeline.function.answer
    return answer.sql if isinstance(answer, Query) else str(answer)


def _plain(value: object) -> object:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return float(value) if value % 1 else int(value)
        case SqlStep(sql=text) | TransformRef(name=text):
            return text
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return str(value)
