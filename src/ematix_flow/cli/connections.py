"""`flow connections`: which systems the project knows, from where, and whether they answer."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import FlowError
from .failure import WRONG_CALL, fail, reported
from .options import Format, Modules, Shape, Verbose
from .screen import aligned, answers, show, show_json, show_line
from .workspace import opened

app = typer.Typer(help="Look at connections.", no_args_is_help=True)


@app.command("list")
def list_connections(modules: Modules = None, format: Shape = Format.TEXT) -> None:
    """List every connection: name, value without secrets, and where it comes from."""
    with reported(), opened(modules, needs_modules=False) as project:
        found = [(each.name, each.redacted(), each.origin) for each in project.connections()]
        if format is Format.JSON:
            show_json([{"name": name, "value": value, "origin": origin} for name, value, origin in found])
        elif found:
            show(answers(), aligned(found))
        else:
            show_line("no connections configured")


@app.command("check")
def check_connection(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The connection's name.")],
    modules: Modules = None,
    verbose: Verbose = False,
) -> None:
    """Open a connection and ask whether the system answers."""
    with reported(verbose=verbose), opened(modules, verbose=verbose, needs_modules=False) as project:
        try:
            answer = project.backend(name).ping()
        except FlowError as error:
            fail(error, WRONG_CALL, about=name, verbose=verbose)
        show_line(f"{name}: ok ({answer})")
