"""`flow jars`: what Spark can be given beside its own classes, and whether it is here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UnknownNameError
from .failure import WRONG_CALL, fail, reported
from .options import Format, Shape, Verbose
from .progress import fetch_watched
from .screen import Header, aligned, answers, show, show_json

if TYPE_CHECKING:
    from ..engine.jars import Jar, JarStore

app = typer.Typer(help="Look at the jars that Spark is given, and fetch them ahead.", no_args_is_help=True)

_HEADERS = (
    Header("GROUP", folds=False),
    Header("STATE", folds=False),
    Header("MB", "right", folds=False),
    Header("COORDINATE"),
    Header("FILE"),
)

Groups = Annotated[
    list[str] | None,
    typer.Argument(metavar="[GROUP]...", help="Groups such as jdbc or delta. Default: all.", show_default=False),
]


@app.command("list")
def list_jars(groups: Groups = None, format: Shape = Format.TEXT) -> None:
    """List the jars of the lock: group, whether the file is here and whole, size, coordinate and file."""
    with reported():
        store, jars = _chosen(groups)
        _answer(store, jars, format)


@app.command("fetch")
def fetch_jars(groups: Groups = None, format: Shape = Format.TEXT, verbose: Verbose = False) -> None:
    """Fetch jars now that are not here, check them, and list them; runs that need them fetch them too."""
    with reported(verbose=verbose):
        store, jars = _chosen(groups)
        with fetch_watched():
            store.paths(jar.group for jar in jars)
        _answer(store, jars, format)


def _chosen(groups: list[str] | None) -> tuple[JarStore, tuple[Jar, ...]]:
    from ..config import Settings
    from ..engine.jars import JarStore, group_names, locked_jars
    from ..errors import ConfigError

    try:
        return JarStore.of(Settings.load()), locked_jars(groups or group_names())
    except (ConfigError, UnknownNameError) as error:
        fail(error, WRONG_CALL)


def _answer(store: JarStore, jars: tuple[Jar, ...], format: Format) -> None:
    found = [(jar, store.state(jar), str(store.path(jar))) for jar in jars]
    if format is Format.JSON:
        show_json([{**asdict(jar), "file": file, "state": state} for jar, state, file in found])
        return
    rows = [(jar.group, state, f"{jar.size / 1e6:.1f}", jar.coordinate, file) for jar, state, file in found]
    show(answers(), aligned(rows, _HEADERS))
