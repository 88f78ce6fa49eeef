"""What happens after a load: SQL on the target, functions, and what is registered under a name; each one recorded."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import assert_never

from ..backends.base import Backend, Ledger
from ..backends.sql_text import check_statement
from ..errors import FlowError, SpecError, StepError, UnknownNameError, UnsupportedError, UserCodeError
from ..spec.pipeline import Pipeline
from ..spec.post import CallStep, PostStep, SqlStep, TransformRef, step_name
from ..spec.redaction import failure_text
from ..spec.registered import RegisteredTransform
from ..spec.run import Run
from .handle import Handle
from .result import RunResult
from .source import awaited
from .step_record import metrics_text, new_step

__all__ = [
    "Metrics",
    "ParentContext",
    "Refer",
    "StepScope",
    "call_transform",
    "check_steps",
    "run_steps",
    "run_transform",
    "step_problems",
]

Metrics = Mapping[str, object] | None
"""What a step reports of itself."""


@dataclass(frozen=True, kw_only=True)
class ParentContext:
    """The load after which a step runs."""

    pipeline_name: str
    run_id: str
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_unchanged: int = 0
    rows_deleted: int = 0
    rows_closed: int = 0
    rows_read: int = 0
    target: str = ""
    mode: str = ""

    @classmethod
    def of(cls, pipeline: Pipeline, result: Mapping[str, object]) -> ParentContext:
        """What a step may know of a load's result."""
        counts = [each.name for each in fields(cls) if each.name.startswith("rows_")]
        return cls(
            pipeline_name=pipeline.name,
            run_id=str(result["run_id"]),
            target=pipeline.table.qualified_name,
            mode=pipeline.mode,
            **{name: int(str(result.get(name, 0))) for name in counts},
        )


Refer = Callable[[str, ParentContext], Metrics]
"""Runs the transform or the pipeline of a name."""
StepScope = Callable[[str], AbstractContextManager[None]]
"""Tells listeners that a step begins and ends."""


def check_steps(pipeline: Pipeline, target: Backend, known: Collection[str]) -> None:
    """Refuse, before anything is loaded, steps that cannot run; `known` are the names that can be referred to."""
    for _, error in step_problems(pipeline, target, known):
        raise error


def step_problems(pipeline: Pipeline, target: Backend, known: Collection[str]) -> Iterator[tuple[int, FlowError]]:
    """The positions of steps that cannot run, and why."""
    for index, step in enumerate(pipeline.transforms_post):
        name, connection = step_name(index, step), target.connection
        if isinstance(step, TransformRef) and step.name not in known:
            where = f"{pipeline.title}, step {name}: the project"
            place = pipeline.declared_at
            yield (
                index,
                UnknownNameError("transform or pipeline", step.name, known=known, where=where, declared_at=place),
            )
        elif isinstance(step, SqlStep) and type(target).execute is Backend.execute:
            problem = f"step {name} is SQL, and connection {connection.name!r} ({connection.kind}) runs none"
            yield index, pipeline.error(problem, kind=UnsupportedError, hint="write the step as a function")
        elif isinstance(step, SqlStep):
            try:
                check_statement(step.sql, target.dialect.name)
            except SpecError as error:
                yield index, pipeline.error(f"step {name}: {error.message}", hint="make each statement a step")


def run_steps(pipeline: Pipeline, target: Backend, refer: Refer, result: RunResult, scope: StepScope) -> None:
    """Run each step in order and add what became of them to `result`; StepError where one fails.

    With `continue_on_failure_post=` a failed step is a warning, and the later ones still run.
    """
    parent = ParentContext.of(pipeline, result)
    outcomes: list[dict[str, object]] = []
    result["transforms_post"] = outcomes
    for index, step in enumerate(pipeline.transforms_post):
        name = step_name(index, step)
        run = new_step(
            pipeline.name, parent=parent.run_id, step=name, table=(pipeline.table.schema, pipeline.table.name)
        )
        try:
            with scope(name):
                done = _recorded(target.ledger, run, lambda step=step: _run_step(step, pipeline, target, parent, refer))  # type: ignore[misc]
        except FlowError as error:
            outcomes.append({"step": name, "status": "transform_failed", "run_id": run.run_id, "error": error.message})
            message = f"{pipeline.title}: the load is committed, but step {name} failed: {error.message}"
            if not pipeline.continue_on_failure_post:
                raise StepError(message, result, declared_at=pipeline.declared_at) from error
            warnings.warn(message, UserWarning, stacklevel=2)
        else:
            metrics = {} if done.metrics_json is None else {"metrics": json.loads(done.metrics_json)}
            outcomes.append({"step": name, "status": done.status, "run_id": run.run_id, **metrics})


def run_transform(transform: RegisteredTransform, target: Backend) -> RunResult:
    """Run a transform by itself, and record it."""
    run = new_step(transform.name)
    done = _recorded(target.ledger, run, lambda: call_transform(transform, target, None))
    metrics = None if done.metrics_json is None else json.loads(done.metrics_json)
    return RunResult(run_id=run.run_id, status="success", transform=transform.name, metrics=metrics)


def call_transform(transform: RegisteredTransform, target: Backend, parent: ParentContext | None) -> Metrics:
    """Call a transform's function; its own connection is `target`."""
    return _call(transform.title, transform.function, Handle(target), (parent,) if transform.takes_parent else ())


def _run_step(step: PostStep, pipeline: Pipeline, target: Backend, parent: ParentContext, refer: Refer) -> Metrics:
    match step:
        case SqlStep(sql):
            Handle(target).execute(sql)
            return None
        case CallStep(function, takes_parent):
            return _call(pipeline.title, function, Handle(target), (parent,) if takes_parent else ())
        case TransformRef(name):
            return refer(name, parent)
        case _:
            assert_never(step)


def _call(title: str, function: Callable[..., object], handle: Handle, further: tuple[object, ...]) -> Metrics:
    try:
        answer = function(handle, *further)
        if inspect.isawaitable(answer):
            answer = awaited(answer)
    except FlowError:
        raise
    except Exception as error:  # user code is a boundary: its failure is named, its cause kept
        name = getattr(function, "__name__", type(function).__name__)
        raise UserCodeError(f"{title}: {name} failed with {type(error).__name__}: {error}") from error
    if not isinstance(answer, Mapping):
        return None
    try:
        metrics_text(answer)
    except ValueError as error:
        raise UserCodeError(f"{title}: the metrics cannot be written as JSON: {error}") from error
    return answer


def _recorded(ledger: Ledger, run: Run, work: Callable[[], Metrics]) -> Run:
    """The final record of the work, which stands in the history from its beginning."""
    ledger.start(run)
    try:
        text = metrics_text(work())
    except BaseException as error:
        failed = run.with_outcome("transform_failed", datetime.now(UTC), error=failure_text(error))
        try:
            ledger.end(failed)
        except FlowError as second:
            error.add_note(f"The failed step could not be recorded either: {second.message}")
        raise
    done = run.with_outcome("transform_success", datetime.now(UTC), metrics_json=text)
    ledger.end(done)
    return done
