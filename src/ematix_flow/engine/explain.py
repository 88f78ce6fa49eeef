"""Prints the steps of a plan instead of running them: what `preview` and `dry_run` give back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Literal, assert_never

from ..backends.base import Backend
from ..backends.spark_dialect import SparkDialect
from ..errors import FlowError
from ..spec.fan_out import FanOut
from ..spec.pipeline import Pipeline
from ..spec.place import Rows
from ..spec.redaction import failure_text, without_secrets
from ..spec.registered import ScheduledPipeline
from ..spec.table import Column
from ..strategies.base import Change
from .plan import After, Load, Plan, Read, Step, Transform, only_cast
from .transform import SOURCE, assumed_names, cleaned_query, incoming_query, pushed_sql

__all__ = ["PreviewResult", "TargetPlan", "TransformPlan", "explain", "explain_all", "explain_unplanned"]


@dataclass(frozen=True)
class TargetPlan:
    """What would happen to one table."""

    schema_qualified_name: str
    mode: str
    path: str
    path_reason: str
    declared_columns: tuple[str, ...]
    augmented_columns: tuple[str, ...]
    merge_keys: tuple[str, ...]
    merge_keys_reason: str | None
    compare_columns: tuple[str, ...]
    compare_columns_reason: str | None
    target_connection_name: str
    target_connection_info: Mapping[str, object]
    guarantee: str
    plan_sql: tuple[str, ...]
    plan_sql_label: str
    source_sql: str | None = None
    """The whole query that gives this table its incoming rows."""
    dry_run_rows_affected: Mapping[str, object] = field(default_factory=dict)
    dry_run_error: str | None = None


@dataclass(frozen=True)
class TransformPlan:
    """A step that would run after a load."""

    kind: Literal["sql", "callable", "transform_ref"]
    summary: str
    """The first line of a statement, a function's name, or the name that is referred to."""
    target: str
    """The table whose load comes before."""


@dataclass(frozen=True)
class PreviewResult:
    """A pipeline's plan as plain data."""

    pipeline_name: str
    schedule: str | None
    mode: str | None
    """None where there are several targets."""
    source_connection_name: str
    source_connection_info: Mapping[str, object]
    steps: tuple[str, ...]
    """The steps of a run, in order and in words."""
    source_query: str
    """What the source is asked for, as it was written."""
    cleaning: tuple[str, ...]
    """The normalizers of each column, in order."""
    source_sql: str | None
    """The whole query that gives the incoming rows: cleaned, and cast to the declared types. Several targets have
    one each."""
    targets: tuple[TargetPlan, ...]
    is_dry_run: bool = False
    notes: tuple[str, ...] = ()
    transforms_post: tuple[TransformPlan, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The plan as a dictionary."""
        return asdict(self)

    def to_json(self) -> str:
        """The plan as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, default=str)


def explain(
    plan: Plan, source: Backend, target: Backend, *, dry_run: Mapping[str, object] | None = None
) -> PreviewResult:
    """The plan as data; `dry_run` holds the counts, or the error, of a run that left nothing."""
    load, pipeline = plan.load, plan.pipeline
    rows = dict(dry_run or {})
    error = rows.pop("error", None)
    change = TargetPlan(
        schema_qualified_name=load.table.qualified_name,
        mode=pipeline.mode,
        path=plan.path,
        path_reason=plan.path_reason,
        declared_columns=pipeline.table.column_names,
        augmented_columns=load.table.column_names[len(pipeline.table.column_names) :],
        merge_keys=load.intent.keys,
        merge_keys_reason=plan.keys.reason if plan.keys else None,
        compare_columns=load.intent.compare or load.intent.update,
        compare_columns_reason=plan.compare_reason,
        target_connection_name=load.connection,
        target_connection_info=target.connection.redacted(),
        guarantee=target.can.guarantee,
        plan_sql=tuple(target.explain(load.table, _change(plan))),
        plan_sql_label=load.strategy.label,
        source_sql=without_secrets(_incoming_sql(plan, source, target)),
        dry_run_rows_affected=rows,
        dry_run_error=None if error is None else str(error),
    )
    return PreviewResult(
        pipeline_name=pipeline.name,
        schedule=pipeline.schedule,
        mode=pipeline.mode,
        source_connection_name=plan.read.connection,
        source_connection_info=source.connection.redacted(),
        steps=tuple(_in_words(step, plan, target) for step in plan.steps),
        source_query=without_secrets(plan.read.sql or str(plan.read.place)),
        cleaning=tuple(_cleaning(column) for column in plan.transform.columns if column.normalizers),
        source_sql=change.source_sql,
        targets=(change,),
        is_dry_run=dry_run is not None,
        notes=plan.notes,
        transforms_post=tuple(
            TransformPlan(step.kind, step.summary, load.table.qualified_name) for step in pipeline.transforms_post
        ),
    )


def explain_all(declared: Pipeline | FanOut | ScheduledPipeline, plans: Sequence[PreviewResult]) -> PreviewResult:
    """The plans of all parts as one: the first says what is read, each says what becomes of its table."""
    first = next((plan for plan in plans if plan.source_query), plans[0])
    several = len(plans) > 1
    return replace(
        first,
        pipeline_name=declared.name,
        schedule=declared.schedule,
        mode=None if several else first.mode,
        steps=tuple(dict.fromkeys(step for plan in plans for step in plan.steps)),
        cleaning=tuple(dict.fromkeys(line for plan in plans for line in plan.cleaning)),
        source_sql=None if several else first.source_sql,
        targets=tuple(target for plan in plans for target in plan.targets),
        notes=tuple(dict.fromkeys(note for plan in plans for note in plan.notes)),
        transforms_post=tuple(step for plan in plans for step in plan.transforms_post),
    )


def explain_unplanned(pipeline: Pipeline, error: FlowError) -> PreviewResult:
    """What can be told of a dry run that failed before there was a plan."""
    target = TargetPlan(
        schema_qualified_name=pipeline.table.qualified_name,
        mode=pipeline.mode,
        path="",
        path_reason="there is no plan",
        declared_columns=pipeline.table.column_names,
        augmented_columns=(),
        merge_keys=pipeline.keys or (),
        merge_keys_reason=None,
        compare_columns=(),
        compare_columns_reason=None,
        target_connection_name=pipeline.target_connection,
        target_connection_info={},
        guarantee="",
        plan_sql=(),
        plan_sql_label="",
        dry_run_error=failure_text(error),
    )
    return PreviewResult(
        pipeline_name=pipeline.name,
        schedule=pipeline.schedule,
        mode=pipeline.mode,
        source_connection_name=pipeline.source_connection or pipeline.target_connection,
        source_connection_info={},
        steps=(),
        source_query="",
        cleaning=(),
        source_sql=None,
        targets=(target,),
        is_dry_run=True,
    )


def _in_words(step: Step, plan: Plan, target: Backend) -> str:
    match step:
        case Read(place=Rows()):
            return f"read {step.place}"
        case Read():
            return f"read {step.place if step.sql is None else 'the source query'} from {step.connection} ({step.kind})"
        case Transform():
            cleaned = sum(bool(column.normalizers) for column in step.columns)
            rows = "".join(f", {_described(transform)}" for transform in step.rows)
            return f"clean {cleaned}{rows} and cast {len(step.columns)} columns"
        case Load():
            guards = [guard.code for guard in step.strategy.guards(step.intent)]
            refused = f", refuse {', '.join(guards)}" if guards else ""
            return (
                f"load into {step.table.qualified_name} on {step.connection} ({step.kind}): create it where it is "
                f"missing (drift: {plan.pipeline.on_drift}){refused}, {step.strategy.label}, commit"
            )
        case After():
            return f"then run {', '.join(f'{each.kind}: {each.summary}' for each in step.steps)}"
        case _:
            assert_never(step)


def _change(plan: Plan) -> Change:
    """What a run applies; an incremental load is shown as it goes on from its bookmark."""
    load = plan.load
    if load.intent.incremental is None:
        return load.change
    return load.strategy.change(replace(load.intent, resume=True))


def _cleaning(column: Column) -> str:
    return f"{column.name}: {', '.join(_described(marker) for marker in column.normalizers)}"


def _described(marker: object) -> str:
    """A normalizer by its name and whatever it was given."""
    given: list[str] = []
    if is_dataclass(marker):
        values = ((each, getattr(marker, each.name)) for each in fields(marker) if each.init)
        given = [f"{each.name}={value!r}" for each, value in values if value != each.default]
    return f"{type(marker).__name__}({', '.join(given)})"


def _incoming_sql(plan: Plan, source: Backend, target: Backend) -> str:
    """The query that gives `incoming`, assuming that the source has the declared names."""
    dialect = target.dialect if plan.path == "same_db" or plan.read.by_target else SparkDialect()
    wanted = assumed_names(plan.pipeline, plan.transform.columns, dialect)
    query = incoming_query(plan.pipeline, plan.transform.columns, wanted, dialect)
    if plan.read.sql is None:
        return dialect.render(query, {}, {})
    if plan.path == "same_db":
        return pushed_sql(target.user_sql(plan.read.sql), query, dialect, None, None)
    asked = plan.read.sql
    if plan.transform.at_source:
        names = assumed_names(plan.pipeline, plan.transform.columns, source.dialect)
        rows = cleaned_query(plan.pipeline, plan.transform.columns, names, source.dialect)
        asked = pushed_sql(source.user_sql(asked), rows, source.dialect, None, None)
        rest = only_cast(plan)
        given = assumed_names(rest.pipeline, rest.transform.columns, dialect)
        query = incoming_query(rest.pipeline, rest.transform.columns, given, dialect)
    asked = f"-- {plan.read.connection} ({plan.read.kind}) runs:\n{asked}"
    return f"{asked}\n-- Spark makes of it, as {SOURCE}:\n{dialect.render(query, {}, {})}"
