"""Runs a pipeline with several targets: each part is a load of its own, and their outcomes are told together."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import FlowError, PartialRunError, StepError
from ..spec.fan_out import FanOut
from ..spec.pipeline import Pipeline
from ..spec.redaction import failure_text
from .result import RunResult

__all__ = ["run_parts"]


def run_parts(fan_out: FanOut, run_part: Callable[[Pipeline], RunResult]) -> RunResult:
    """Each part's result by its table.

    The first failure ends the run, and what was loaded before stays. With `continue_on_failure=` the others still run,
    and PartialRunError tells of all.
    """
    results, errors = RunResult(), dict[str, FlowError]()
    for part in fan_out.parts:
        label = fan_out.label(part)
        try:
            results[label] = run_part(part)
        except FlowError as error:
            if isinstance(error, StepError):
                results[label] = RunResult(error.result)
            if not fan_out.continue_on_failure:
                _tell_of_others(fan_out, part, error)
                raise
            errors[label] = error
    if errors:
        raise _partial(fan_out, results, errors)
    return results


def _tell_of_others(fan_out: FanOut, failed: Pipeline, error: FlowError) -> None:
    position = fan_out.parts.index(failed)
    before = ", ".join(fan_out.label(part) for part in fan_out.parts[:position])
    behind = ", ".join(fan_out.label(part) for part in fan_out.parts[position + 1 :])
    if before:
        error.add_note(f"Loaded before, and committed: {before}")
    if behind:
        error.add_note(f"Not tried: {behind}")


def _partial(fan_out: FanOut, results: RunResult, errors: dict[str, FlowError]) -> PartialRunError:
    shown = {label: failure_text(error) for label, error in errors.items()}
    loaded = [fan_out.label(part) for part in fan_out.parts if fan_out.label(part) not in errors]
    outcome = {
        "pipeline": fan_out.name,
        "status": "partial" if loaded else "failed",
        "results": dict(results),
        "errors": shown,
    }
    lines = "".join(f"\n  {label}: {error.message}" for label, error in errors.items())
    message = f"{fan_out.title}: {len(errors)} of {len(fan_out.parts)} targets failed:{lines}"
    return PartialRunError(message, outcome, declared_at=fan_out.declared_at)
