"""Steps and transforms in a system's run history: their records, and steps that users record by themselves."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import get_args

from ..backends.base import Ledger
from ..backends.owner import current_owner
from ..errors import SpecError, nearest
from ..spec.redaction import without_secrets
from ..spec.run import Run, StepStatus

__all__ = ["metrics_text", "new_step", "record_step"]


def new_step(
    pipeline: str, *, parent: str | None = None, step: str | None = None, table: tuple[str, str] = ("", "")
) -> Run:
    """The record of a step that begins now."""
    return Run(
        run_id=str(uuid.uuid4()),
        pipeline=pipeline,
        schema=table[0],
        table=table[1],
        mode="transform",
        path="post",
        started_at=datetime.now(UTC),
        parent_run_id=parent,
        step_name=step,
        owner=current_owner(),
    )


def record_step(
    ledger: Ledger,
    begun: Run,
    status: StepStatus,
    error: str | None = None,
    metrics: str | Mapping[str, object] | None = None,
) -> Run:
    """Write a step that has ended already, once its parts are known to be right; gives what was written."""
    if status not in get_args(StepStatus):
        hint = nearest("status", str(status), get_args(StepStatus))
        raise SpecError(f"a step cannot have the status {status!r}", hint=hint)
    if begun.parent_run_id is not None:
        _check_run_id(begun.parent_run_id)
    try:
        text = metrics_text(metrics)
    except ValueError as problem:
        raise SpecError(f"the metrics of a step are no JSON: {problem}", hint="pass a dictionary") from None
    ended = begun.with_outcome(
        status, datetime.now(UTC), error=None if error is None else without_secrets(error), metrics_json=text
    )
    ledger.start(begun)
    ledger.end(ended)
    return ended


def metrics_text(metrics: str | Mapping[str, object] | None) -> str | None:
    """What a step reports of itself, as JSON; ValueError where it cannot be."""
    if metrics is None:
        return None
    try:
        if isinstance(metrics, str):
            json.loads(metrics)
            return metrics
        return json.dumps({str(name): value for name, value in metrics.items()}, default=str)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _check_run_id(text: str) -> None:
    try:
        uuid.UUID(text)
    except ValueError:
        hint = "pass the run_id of the load's result, or None"
        raise SpecError(f"{text!r} is not the id of a run", hint=hint) from None
