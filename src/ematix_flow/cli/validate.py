"""`flow validate`: what would stop pipelines, before they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .failure import FAILED, reported
from .options import Format, Modules, Shape, Verbose
from .screen import notices, show, show_json, show_line
from .workspace import find_planned, opened, users_prints

if TYPE_CHECKING:
    from ..engine.validate import ValidateResult


def validate_pipelines(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="The pipelines' names; all where none is named.", show_default=False),
    ] = None,
    modules: Modules = None,
    verbose: Verbose = False,
    format: Shape = Format.TEXT,
) -> None:
    """Analyse pipelines against their real systems, without reading or writing a row."""
    with reported(verbose=verbose), opened(modules, verbose=verbose) as project:
        wanted = [find_planned(project, name) for name in names or ()]
        # A function that loads by itself cannot be looked into; it is an error only where somebody asks for it.
        wanted = wanted or [each for each in project.pipelines() if each.parts]
        with users_prints():
            results = [project.validate(each) for each in wanted]
        if format is Format.JSON:
            found = [result.to_dict() for result in results]
            show_json(found[0] if len(names or ()) == 1 else found)
        else:
            for result in results:
                _show(result)
        if not all(result.ok for result in results):
            raise typer.Exit(FAILED)


def _show(result: ValidateResult) -> None:
    if result.ok:
        show_line(f"{result.pipeline_name}: ok")
    else:
        count = len(result.errors)
        lines = [f"  - {error}" for error in result.errors]
        show(notices(), f"{result.pipeline_name}: {count} {'problem' if count == 1 else 'problems'}", *lines)
    if result.notes:
        show(notices(), *(f"  note: {note}" for note in result.notes))
