"""What a user declares of a pipeline: where its rows come from, which table they go to, and how."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, TypedDict, get_args

from ..errors import SpecError, SpecTypeError, UnknownNameError, UnsupportedError, nearest
from .duration import parse_duration
from .origin import Origin
from .place import TableRef
from .table import ManagedTable, Table

__all__ = [
    "MODES",
    "DriftPolicy",
    "ForcedPath",
    "LatePolicy",
    "Mode",
    "Pipeline",
    "PipelineFunction",
    "PipelineOptions",
    "build_pipeline",
]

Mode = Literal["append", "truncate", "merge", "scd1", "scd2"]
MODES: tuple[str, ...] = get_args(Mode)
DriftPolicy = Literal["error", "warn", "evolve"]
LatePolicy = Literal["error", "ignore", "insert"]
ForcedPath = Literal["same_db", "cross_db"]
PipelineFunction = Callable[..., object]


class PipelineOptions(TypedDict, total=False):
    """The keywords of `@ematix.pipeline`; one list for the decorator and its function twins."""

    target: type[ManagedTable]
    mode: Mode
    name: str
    schedule: str | None
    timezone: str | None
    source_connection: str | None
    target_connection: str | None
    source_table: str | None
    column_map: Mapping[str, str] | None
    keys: Sequence[str] | None
    update_columns: Sequence[str] | None
    compare_columns: Sequence[str] | None
    event_timestamp_column: str | None
    handle_deletes: Literal["hard", "soft"] | None
    incremental_column: str | None
    on_drift: DriftPolicy
    force_path: ForcedPath | None
    ttl: timedelta | str | float | None
    late_events: LatePolicy
    allow_empty_source: bool
    # Documented spellings of the same things.
    incremental: bool
    watermark_column: str | None
    ttl_seconds: float | None


LATER = {
    "targets": "several targets in one pipeline",
    "continue_on_failure": "several targets in one pipeline",
    "continue_on_target_failure": "several targets in one pipeline",
    "transforms_pre": "row transforms before the load",
    "transforms_post": "steps after the load",
    "continue_on_failure_post": "steps after the load",
    "depends_on": "dependencies between pipelines",
    "upstream_freshness_secs": "dependencies between pipelines",
    "retry": "retries",
    "expectations": "data quality",
    "on_quality_failure": "data quality",
    "freshness_sla": "freshness",
    "freshness_column": "freshness",
    "alert_on_quality_warn": "data quality",
    "strict_schema": "strict schemas",
}
"""Documented keywords that this version refuses instead of ignoring."""


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A bounded load of one source into one table."""

    name: str
    function: PipelineFunction = field(compare=False)
    table: Table
    mode: Mode
    schedule: str | None = None
    timezone: str | None = None
    source_connection: str | None = None
    target_connection: str = "default"
    source_table: TableRef | None = None
    column_map: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] | None = None
    update_columns: tuple[str, ...] | None = None
    compare_columns: tuple[str, ...] | None = None
    event_timestamp_column: str | None = None
    handle_deletes: Literal["hard", "soft"] | None = None
    incremental_column: str | None = None
    on_drift: DriftPolicy = "error"
    force_path: ForcedPath | None = None
    ttl: timedelta | None = None
    late_events: LatePolicy = "error"
    allow_empty_source: bool = False
    declared_at: Origin | None = field(default=None, compare=False)

    @property
    def parameters(self) -> int:
        """How many handles the function wants: 0, 1 (the source) or 2 (source and target)."""
        return len(_positional(self.function))


def build_pipeline(function: PipelineFunction, options: Mapping[str, object], declared_at: Origin | None) -> Pipeline:
    """The record of a decorated function, or the first thing that is wrong with it."""
    name = str(options.get("name") or getattr(function, "__name__", "pipeline"))
    _check_keywords(name, options, declared_at)
    target = options.get("target")
    if target is None:
        raise SpecTypeError(f"pipeline {name!r} has no target", hint="pass target=YourTable", declared_at=declared_at)
    if not (isinstance(target, type) and issubclass(target, ManagedTable)):
        raise SpecTypeError(
            f"pipeline {name!r}: target must be a table class, not {target!r}",
            hint="decorate the class with @ematix.table(schema=…)",
            declared_at=declared_at,
        )
    values = _plain_values(name, options, declared_at)
    pipeline = Pipeline(name=name, function=function, table=target._table(), declared_at=declared_at, **values)  # type: ignore[arg-type]
    _check_function(pipeline)
    _check_combination(pipeline)
    _check_columns(pipeline)
    return pipeline


def _check_keywords(name: str, options: Mapping[str, object], declared_at: Origin | None) -> None:
    for keyword in options:
        if keyword in LATER:
            raise UnsupportedError(
                f"pipeline {name!r}: {keyword}= ({LATER[keyword]}) is not part of this version",
                hint="remove the keyword; nothing documented is silently ignored",
                declared_at=declared_at,
            )
        if keyword not in PipelineOptions.__annotations__:
            raise SpecTypeError(
                f"pipeline {name!r} does not know the keyword {keyword!r}",
                hint=nearest("keyword", keyword, PipelineOptions.__annotations__),
                declared_at=declared_at,
            )


def _plain_values(name: str, options: Mapping[str, object], declared_at: Origin | None) -> dict[str, object]:
    """Keywords as the record wants them: synonyms merged, texts parsed, closed words checked."""
    given = {key: value for key, value in options.items() if key not in ("target", "name") and value is not None}
    if given.pop("incremental", False) and "watermark_column" not in given and "incremental_column" not in given:
        raise SpecTypeError(f"pipeline {name!r}: incremental=True needs watermark_column=", declared_at=declared_at)
    _rename(given, "watermark_column", "incremental_column", name, declared_at)
    _rename(given, "ttl_seconds", "ttl", name, declared_at)
    if "mode" not in given:
        raise SpecTypeError(
            f"pipeline {name!r} has no mode", hint=f"pass mode=, one of {', '.join(MODES)}", declared_at=declared_at
        )
    for keyword, allowed in _CLOSED.items():
        if keyword in given and given[keyword] not in allowed:
            raise UnsupportedError(
                f"pipeline {name!r}: {keyword}={given[keyword]!r} is not possible",
                hint=nearest(keyword, str(given[keyword]), allowed),
                declared_at=declared_at,
            )
    for keyword in ("keys", "update_columns", "compare_columns"):
        if keyword in given:
            given[keyword] = _names(name, keyword, given[keyword], declared_at)
    if "ttl" in given:
        given["ttl"] = parse_duration(given["ttl"])  # type: ignore[arg-type]
    if "source_table" in given:
        given["source_table"] = TableRef.parse(str(given["source_table"]))
    return given


_CLOSED: Mapping[str, tuple[str, ...]] = {
    "mode": MODES,
    "on_drift": get_args(DriftPolicy),
    "late_events": get_args(LatePolicy),
    "force_path": get_args(ForcedPath),
    "handle_deletes": ("hard", "soft"),
}


def _rename(given: dict[str, object], old: str, new: str, name: str, declared_at: Origin | None) -> None:
    if old not in given:
        return
    if new in given:
        raise SpecTypeError(f"pipeline {name!r}: {old}= and {new}= say the same thing", declared_at=declared_at)
    given[new] = given.pop(old)


def _names(name: str, keyword: str, value: object, declared_at: Origin | None) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise SpecTypeError(
            f"pipeline {name!r}: {keyword}= takes a list of column names, not {value!r}", declared_at=declared_at
        )
    return tuple(value)


def _check_function(pipeline: Pipeline) -> None:
    if pipeline.parameters > 2:
        raise SpecTypeError(
            f"pipeline {pipeline.name!r}: the function takes {pipeline.parameters} arguments",
            hint="it may take none, (source) or (source, target)",
            declared_at=pipeline.declared_at,
        )
    if pipeline.parameters == 0 and pipeline.source_table is None:
        raise SpecTypeError(
            f"pipeline {pipeline.name!r}: a function without arguments needs source_table=",
            hint="write def name(source): return 'SELECT …', or pass source_table='schema.table'",
            declared_at=pipeline.declared_at,
        )
    if pipeline.column_map and pipeline.source_table is None:
        raise SpecError(
            f"pipeline {pipeline.name!r}: column_map= belongs to source_table=", declared_at=pipeline.declared_at
        )


def _check_combination(pipeline: Pipeline) -> None:
    """Options that only some modes can honour."""
    scd2, merge = pipeline.mode == "scd2", pipeline.mode in ("merge", "scd1")
    rules = (
        ("event_timestamp_column", pipeline.event_timestamp_column is not None, scd2, "scd2"),
        ("ttl", pipeline.ttl is not None, scd2, "scd2"),
        ("late_events", pipeline.late_events != "error", scd2, "scd2"),
        ("compare_columns", pipeline.compare_columns is not None, scd2 or merge, "scd2, merge or scd1"),
        ("update_columns", pipeline.update_columns is not None, merge, "merge or scd1"),
        ("keys", pipeline.keys is not None, scd2 or merge, "merge, scd1 or scd2"),
        ("handle_deletes", pipeline.handle_deletes is not None, scd2 or merge, "merge, scd1 or scd2"),
        ("incremental_column", pipeline.incremental_column is not None, pipeline.mode == "append", "append"),
    )
    for keyword, given, possible, modes in rules:
        if given and not possible:
            raise SpecError(
                f"pipeline {pipeline.name!r}: {keyword}= is for mode {modes}, not {pipeline.mode}",
                declared_at=pipeline.declared_at,
            )
    if pipeline.late_events != "error" and pipeline.event_timestamp_column is None:
        raise SpecError(
            f"pipeline {pipeline.name!r}: late_events= needs event_timestamp_column=",
            declared_at=pipeline.declared_at,
        )
    if merge and pipeline.handle_deletes == "soft":
        raise UnsupportedError(
            f"pipeline {pipeline.name!r}: {pipeline.mode} cannot delete softly",
            hint="use handle_deletes='hard', or mode='scd2', which keeps the history",
            declared_at=pipeline.declared_at,
        )
    if scd2 and pipeline.handle_deletes == "hard":
        raise SpecError(
            f"pipeline {pipeline.name!r}: scd2 keeps history and never deletes rows",
            hint="use handle_deletes='soft'",
            declared_at=pipeline.declared_at,
        )


def _check_columns(pipeline: Pipeline) -> None:
    """Every column that is named must be declared."""
    named = {
        "keys": pipeline.keys,
        "update_columns": pipeline.update_columns,
        "compare_columns": pipeline.compare_columns,
        "column_map": tuple(pipeline.column_map),
        "incremental_column": (pipeline.incremental_column,) if pipeline.incremental_column else (),
    }
    for keyword, names in named.items():
        for name in names or ():
            if name not in pipeline.table.column_names:
                raise UnknownNameError(
                    "column",
                    name,
                    known=pipeline.table.column_names,
                    where=f"pipeline {pipeline.name!r}: {keyword}=: table {pipeline.table.qualified_name!r}",
                    declared_at=pipeline.declared_at,
                )


def _positional(function: PipelineFunction) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter for parameter in inspect.signature(function).parameters.values() if parameter.kind in kinds]
