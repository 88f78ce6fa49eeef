"""`flow run`: load once, and say what happened."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PartialRunError, StepError
from .failure import FAILED, fail, reported
from .options import Modules, NoColor, PipelineName, ResultFormat, Verbose
from .progress import watched
from .screen import answers, facts, show, show_json
from .workspace import find_pipeline, opened

if TYPE_CHECKING:
    from rich.console import RenderableType


def run_pipeline(
    name: PipelineName,
    modules: Modules = None,
    format: Annotated[
        ResultFormat, typer.Option("--format", help="How to write the result; auto: JSON unless stdout is a terminal.")
    ] = ResultFormat.AUTO,
    verbose: Verbose = False,
    token: Annotated[
        str | None, typer.Option("--token", help="Load at most once for this token.", show_default=False)
    ] = None,
    no_color: NoColor = False,
) -> None:
    """Run a pipeline once, now, and print its result."""
    with reported(verbose=verbose), opened(modules, verbose=verbose) as project:
        pipeline = find_pipeline(project, name)
        is_text = sys.stdout.isatty() if format is ResultFormat.AUTO else format is ResultFormat.TEXT
        failure: PartialRunError | StepError | None = None
        try:
            with watched(project, verbose=verbose):
                result: Mapping[str, object] = project.run(pipeline, token=token)
        except (PartialRunError, StepError) as error:
            # Rows are committed, and whoever reads the answer has to know which.
            failure, result = error, error.outcome if isinstance(error, PartialRunError) else error.result
        if is_text:
            show(answers(no_color=no_color), *describe_outcome(result))
        else:
            show_json(result)
        if failure is not None:
            fail(failure, FAILED, verbose=verbose)


def describe_outcome(result: Mapping[str, object]) -> list[RenderableType]:
    """A result for people: one load, or one after the other where there were several."""
    found = result.get("results", result)
    if isinstance(found, Mapping) and found and all(isinstance(each, Mapping) for each in found.values()):
        return [part for each in found.values() for part in describe_result(each)]
    return [] if "results" in result else describe_result(result)


def describe_result(result: Mapping[str, object]) -> list[RenderableType]:
    """A result for people: the outcome, then every fact of it."""
    from rich.text import Text

    rest = {key: value for key, value in result.items() if value is not None and value != []}
    name, status, seconds = rest.pop("pipeline", "run"), rest.pop("status", "done"), _seconds(rest)
    outcome = Text.assemble((str(name), "bold"), ": ", (str(status), "bold green"))
    if rest.pop("replayed", False):
        outcome.append(", nothing to do: this token was committed before")
    if seconds is not None:
        outcome.append(f", in {seconds:.1f} s")
    order = sorted(rest, key=lambda key: not key.startswith(("rows_", "closed_")))
    return [outcome, facts((_label(key), _value(rest[key])) for key in order)]


def _seconds(rest: dict[str, object]) -> float | None:
    started, finished = rest.get("started_at"), rest.pop("finished_at", None)
    if started is None or finished is None:
        return None
    return (datetime.fromisoformat(str(finished)) - datetime.fromisoformat(str(started))).total_seconds()


def _label(key: str) -> str:
    return key.removeprefix("rows_").replace("_", " ")


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "\n".join(_value(each) for each in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {each}" for key, each in value.items() if key != "run_id")
    return f"{value:,}" if isinstance(value, int) else str(value)
