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
from ..spec.place import Place, Rows
from ..spec.redaction import failure_text, without_secrets
from ..spec.registered import ScheduledPipeline
from ..spec.table import Column
from ..strategies.base import Change
from .plan import After, Load, Plan, PlannedLoad, Read, Step, Transform, only_cast, plan_load
from .transform import SOURCE, assumed_names, cleaned_query, incoming_query, pushed_sql

__all__ = [
    "PreviewResult",
    "TargetPlan",
    "TransformPlan",
    "explain",
    "explain_all",
    "explain_partly",
    "explain_unplanned",
]


@dataclass(frozen=True)
class TargetPlan:
    """What would happen to one table; what cannot be told is empty."""

    schema_qualified_name: str
    mode: str
    path: str = ""
    path_reason: str = ""
    augmented_columns: tuple[str, ...] = ()
    declared_columns: tuple[str, ...] = ()
    merge_keys: tuple[str, ...] = ()
    merge_keys_reason: str | None = None
    compare_columns: tuple[str, ...] = ()
    compare_columns_reason: str | None = None
    target_connection_name: str = "default"
    target_connection_info: Mapping[str, object] = field(default_factory=dict)
    plan_sql: tuple[str, ...] = ()
    plan_sql_label: str = ""
    dry_run_rows_affected: Mapping[str, object] = field(default_factory=dict)
    dry_run_error: str | None = None
    source_sql: str | None = None
    """The whole query that gives this table its incoming rows."""
    guarantee: str = ""
    transforms_pre: tuple[str, ...] = ()
    """What is done to the cleaned rows before the load, in order."""
    incremental_column: str | None = None
    """The column of the bookmark."""
    watermark_before: str | None = None
    """Where the bookmark stands; only a dry run can tell."""


@dataclass(frozen=True)
class TransformPlan:
    """A step that would run after a load."""

    kind: Literal["sql", "callable", "transform_ref", "unknown"]
    summary: str
    """The first line of a statement, a function's name, or the name that is referred to."""
    target: str = ""
    """The table whose load comes before."""


@dataclass(frozen=True)
class PreviewResult:
    """A pipeline's plan as plain data; what cannot be told is empty, and a note says why."""

    pipeline_name: str
    schedule: str | None = None
    mode: str | None = None
    """None where there are several targets."""
    source_connection_name: str = "default"
    source_connection_info: Mapping[str, object] = field(default_factory=dict)
    source_sql: str | None = None
    """The whole query that gives the incoming rows: cleaned, and cast to the declared types. Several targets have
    one each."""
    targets: tuple[TargetPlan, ...] = ()
    is_dry_run: bool = False
    notes: tuple[str, ...] = ()
    transforms_post: tuple[TransformPlan, ...] = ()
    steps: tuple[str, ...] = ()
    """The steps of a run, in order and in words."""
    source_query: str = ""
    """What the source is asked for, as it was written."""
    cleaning: tuple[str, ...] = ()
    """The normalizers of each column, in order."""

    def to_dict(self) -> dict[str, object]:
        """The plan as a dictionary."""
        return asdict(self)

    def to_json(self) -> str:
        """The plan as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, default=str)


def explain(
    plan: Plan, source: Backend, target: Backend, *, dry_run: Mapping[str, object] | None = None
) -> PreviewResult:
    """The plan as data; `dry_run` holds the counts and the bookmark, or the error, of a run that left nothing."""
    rows = dict(dry_run or {})
    error, before = rows.pop("error", None), rows.pop("watermark_before", None)
    change = replace(
        _target_plan(plan.pipeline, PlannedLoad(plan.load, plan.keys, plan.compare_reason), target),
        path=plan.path,
        path_reason=plan.path_reason,
        source_sql=without_secrets(_incoming_sql(plan, source, target)),
        watermark_before=None if before is None else str(before),
        dry_run_rows_affected=rows,
        dry_run_error=None if error is None else str(error),
    )
    return replace(
        _preview(plan.pipeline, change),
        source_connection_name=plan.read.connection,
        source_connection_info=source.connection.redacted(),
        steps=tuple(_in_words(step, plan.pipeline) for step in plan.steps),
        source_query=without_secrets(plan.read.sql or str(plan.read.place)),
        source_sql=change.source_sql,
        is_dry_run=dry_run is not None,
        notes=plan.notes,
    )


def explain_partly(
    pipeline: Pipeline,
    source: Backend | None,
    target: Backend | None,
    place: Place | Rows | None,
    errors: Sequence[FlowError],
) -> PreviewResult:
    """What can be told of a plan where `errors` keep its source, its target or both in the dark."""
    planned = plan_load(pipeline, target)
    asked = place or pipeline.source_table
    untold = {"the path": True, "the source query": asked is None, "the SQL plan": target is None}
    reasons = [f"{error.message}. Next: {error.hint}" if error.hint else error.message for error in errors]
    reasons[0] = f"cannot be told: {', '.join(what for what, is_so in untold.items() if is_so)}, because {reasons[0]}"
    warned = [planned.keys.warning] if planned.keys and planned.keys.warning else []
    steps: list[Step] = [planned.load]
    if pipeline.transforms_post:
        steps.append(After(pipeline.transforms_post))
    return replace(
        _preview(pipeline, replace(_target_plan(pipeline, planned, target), path_reason="see the notes")),
        source_connection_info={} if source is None else source.connection.redacted(),
        steps=tuple(_in_words(step, pipeline) for step in steps),
        source_query="" if asked is None else without_secrets(str(asked)),
        notes=(*warned, *reasons),
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
        path_reason="there is no plan",
        declared_columns=pipeline.table.column_names,
        merge_keys=pipeline.keys or (),
        target_connection_name=pipeline.target_connection,
        dry_run_error=failure_text(error),
    )
    return replace(_preview(pipeline, target), is_dry_run=True)


def _preview(pipeline: Pipeline, target: TargetPlan) -> PreviewResult:
    """All that the declaration says of a pipeline with this target."""
    return PreviewResult(
        pipeline_name=pipeline.name,
        schedule=pipeline.schedule,
        mode=pipeline.mode,
        source_connection_name=pipeline.source_connection or pipeline.target_connection,
        cleaning=tuple(_cleaning(column) for column in pipeline.table.columns if column.normalizers),
        targets=(target,),
        transforms_post=tuple(
            TransformPlan(step.kind, step.summary, target.schema_qualified_name) for step in pipeline.transforms_post
        ),
    )


def _target_plan(pipeline: Pipeline, planned: PlannedLoad, target: Backend | None) -> TargetPlan:
    """What a load does to its table, without the path of its rows; without a `target`, also without its words."""
    load = planned.load
    shown = TargetPlan(
        schema_qualified_name=load.table.qualified_name,
        mode=pipeline.mode,
        declared_columns=pipeline.table.column_names,
        augmented_columns=load.table.column_names[len(pipeline.table.column_names) :],
        merge_keys=load.intent.keys,
        merge_keys_reason=planned.keys.reason if planned.keys else None,
        compare_columns=load.intent.compare or load.intent.update,
        compare_columns_reason=planned.compare_reason,
        target_connection_name=load.connection,
        plan_sql_label=load.strategy.label,
        transforms_pre=tuple(without_secrets(_described(transform)) for transform in pipeline.transforms_pre),
        incremental_column=pipeline.incremental_column,
    )
    if target is None:
        return shown
    return replace(
        shown,
        target_connection_info=target.connection.redacted(),
        guarantee=target.can.guarantee,
        plan_sql=tuple(target.explain(load.table, _change(load))),
    )


def _in_words(step: Step, pipeline: Pipeline) -> str:
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
                f"missing (drift: {pipeline.on_drift}){refused}, {step.strategy.label}, commit"
            )
        case After():
            return f"then run {', '.join(f'{each.kind}: {each.summary}' for each in step.steps)}"
        case _:
            assert_never(step)


def _change(load: Load) -> Change:
    """What a run applies; an incremental load is shown as it goes on from its bookmark."""
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
    dialect = SparkDialect() if plan.way == "spark" else target.dialect
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
    maker = "Spark" if plan.way == "spark" else f"{plan.load.connection} ({plan.load.kind})"
    return f"{asked}\n-- {maker} makes of it, as {SOURCE}:\n{dialect.render(query, {}, {})}"
