"""The options that several commands share, each spelled once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """How an answer is written."""

    TEXT = "text"
    JSON = "json"


class ResultFormat(StrEnum):
    """How a run's result is written; `auto` is text on a terminal and JSON elsewhere."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--module",
        "-m",
        metavar="MODULE",
        help="Module that declares pipelines; may be repeated. Default: those of the project file.",
        show_default=False,
    ),
]


def _pipeline_names(incomplete: str) -> list[str]:
    """What a shell offers for a pipeline's name; a project that cannot be loaded offers nothing."""
    from contextlib import redirect_stderr
    from io import StringIO

    from .workspace import opened

    try:
        # The shell shows everything that is printed here as if the user had typed it.
        with redirect_stderr(StringIO()), opened(None) as project:
            return [each.name for each in project.pipelines() if each.name.startswith(incomplete)]
    except typer.Exit:
        return []


PipelineName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The pipeline's name.", show_default=False, autocompletion=_pipeline_names),
]
Shape = Annotated[Format, typer.Option("--format", help="How to write the answer.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show more: Spark's own log, whole statements, tracebacks.")
]
NoColor = Annotated[bool, typer.Option("--no-color", help="Write plain text, as NO_COLOR does.")]
