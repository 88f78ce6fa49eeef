"""`flow connections`: which systems the project knows, from where, and whether they answer."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import FlowError
from .failure import WRONG_CALL, fail, reported
from .options import Format, Modules, Shape, Verbose
from .screen import aligned, answers, show, show_json, show_line
from .workspace import opened

app = typer.Typer(help="Look at connections and declare them.", no_args_is_help=True)


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
    """Open a connection, ask whether the system answers, and tell what there is to know of it."""
    with reported(verbose=verbose), opened(modules, verbose=verbose, needs_modules=False) as project:
        try:
            backend = project.backend(name)
            answer, facts = backend.ping(), backend.facts()
        except FlowError as error:
            fail(error, WRONG_CALL, about=name, verbose=verbose)
        show_line(f"{name}: ok ({answer})")
        for fact in facts:
            show_line(f"  {fact.name}: {fact.value}{' (warning)' if fact.is_warning else ''}")


@app.command("set")
def set_connection(
    name: Annotated[str, typer.Argument(metavar="NAME[=URL]", help="The connection's name, or NAME=URL.")],
    fields: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Fields, such as kind=duckdb path=a.duckdb.")
    ] = None,
) -> None:
    """Write a connection into your own file, ~/.ematix-flow/connections.toml; everything else in it stays.

    Write secrets as references, such as '${DB_PASSWORD}': what stands on a command line is kept by the shell.
    """
    from .. import config

    name, equals, url = name.partition("=")
    pairs = [pair.partition("=") for pair in fields or ()]
    if bool(equals) == bool(pairs) or not name:
        raise typer.BadParameter("write NAME=URL, or NAME KEY=VALUE …", param_hint="NAME")
    for key, separator, _ in pairs:
        if not (key and separator):
            # The word itself is not repeated: it may be a URL with a password in it.
            raise typer.BadParameter(f"write {name}=URL, or {name} KEY=VALUE …", param_hint="KEY=VALUE")
    with reported(code=WRONG_CALL):
        written = config.set_connection(name, url if equals else None, **{key: value for key, _, value in pairs})
        show_line(f"{name}: written to {written}")
