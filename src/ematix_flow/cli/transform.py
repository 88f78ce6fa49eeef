"""`flow transform`: functions that work on a connection by themselves."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import UnknownNameError
from .failure import WRONG_CALL, fail, reported
from .options import Format, Modules, Shape, Verbose
from .screen import notices, show, show_json, show_line
from .workspace import opened, users_prints

app = typer.Typer(help="Look at transforms and run them.", no_args_is_help=True)


@app.command("list")
def list_transforms(modules: Modules = None, format: Shape = Format.TEXT) -> None:
    """List the project's transforms: name and schedule."""
    with reported(), opened(modules) as project:
        declared = project.transforms()
        if format is Format.JSON:
            show_json(
                [
                    {"name": each.name, "schedule": each.schedule, "target_connection": each.target_connection}
                    for each in declared
                ]
            )
        elif not declared:
            show(notices(), f"no transforms are declared in {', '.join(project.settings.modules)}")
        else:
            show_line("\n".join(f"{each.name}\t{each.schedule or '(unscheduled)'}" for each in declared))


@app.command("run")
def run_transform(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The transform's name.", show_default=False)],
    modules: Modules = None,
    verbose: Verbose = False,
) -> None:
    """Run a transform once, now, and print its result."""
    with reported(verbose=verbose), opened(modules, verbose=verbose) as project:
        try:
            project.transform(name)
        except UnknownNameError as error:
            fail(error, WRONG_CALL)
        with users_prints():
            result = project.run_transform(name)
        show_json(result)
