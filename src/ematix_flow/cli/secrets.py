"""`flow secrets`: whether a reference can be filled."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import SecretError
from .failure import FAILED, fail, reported
from .options import Modules, Verbose
from .screen import show_line
from .workspace import opened, users_prints

app = typer.Typer(help="Look at secrets.", no_args_is_help=True)

_LONG = 12
"""A shorter secret shows none of its characters: four of them would be too much of it."""


# A group with one command would lose the command's name.
@app.callback()
def secrets() -> None:
    """Look at secrets."""


@app.command("test")
def try_reference(
    reference: Annotated[
        str, typer.Argument(metavar="REF", help="A reference, as DB_PASSWORD, vault:path#key or ${env:DB_PASSWORD}.")
    ],
    show: Annotated[bool, typer.Option("--show", help="Print the secret itself.")] = False,
    modules: Modules = None,
    verbose: Verbose = False,
) -> None:
    """Fill a reference, as a connection would, and show what came of it: a glimpse, or all of it with --show.

    Resolvers that the project's modules register are used.
    """
    from ..secrets import expand

    text = reference if reference.startswith("${") else f"${{{reference}}}"
    with reported(verbose=verbose), opened(modules, verbose=verbose, needs_modules=False):
        try:
            with users_prints():
                value = expand(text)
        except SecretError as error:
            fail(error, FAILED, about=text, verbose=verbose)
        show_line(value if show else f"{text}: {_glimpse(value)}")


def _glimpse(value: str) -> str:
    shown = f"{value[:2]}…{value[-2:]}" if len(value) >= _LONG else "…"
    return f"{shown} ({len(value)} character{'' if len(value) == 1 else 's'})"
