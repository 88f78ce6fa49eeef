"""What reaches a screen or a pipe: answers on stdout, everything else on stderr, folded only where a person looks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING

import typer

from ..config import environment

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_UNFOLDED = 100_000
"""Columns of an output that is no terminal: one row stays one line."""

_PIPE_CLOSED = 141
"""What a shell reports for a program that wrote into a closed pipe."""


def answers(*, no_color: bool = False) -> Console:
    """The console of stdout, where answers go."""
    return _console(sys.stdout, no_color)


def notices() -> Console:
    """The console of stderr, where everything goes that is no answer."""
    return _console(sys.stderr, False)


def show(console: Console, *parts: RenderableType) -> None:
    """Print each part on its own line or lines."""
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    text = captured.get()
    if not console.file.isatty():
        # Cells are padded to their columns; a pipe has no use for spaces at the end of a line.
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    _write(console.file, text)


def show_json(value: object, *, indent: int | None = None) -> None:
    """Print a value as JSON on stdout, whole; what JSON does not know is written as text."""
    _write(sys.stdout, json.dumps(value, indent=indent, default=str) + "\n")


def show_line(text: str) -> None:
    """Print one line on stdout as it is."""
    _write(sys.stdout, f"{text}\n")


def aligned(rows: Iterable[Sequence[str]], headers: Sequence[str] = (), *, numeric: Sequence[str] = ()) -> Table:
    """Rows in aligned columns; cells fold where the terminal is narrow, and nothing is cut off."""
    from rich.table import Table

    cells = [list(row) for row in rows]
    table = Table(box=None, show_header=bool(headers), padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    names = headers or [""] * max((len(row) for row in cells), default=0)
    for name in names:
        table.add_column(name, overflow="fold", justify="right" if name in numeric else "left")
    for row in cells:
        table.add_row(*row)
    return table


def facts(pairs: Iterable[tuple[str, RenderableType]]) -> Table:
    """Labels and values below each other, indented."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=0)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in pairs:
        table.add_row("", label, value)
    return table


def _console(file: IO[str], no_color: bool) -> Console:
    from rich.console import Console

    return Console(
        file=file,
        width=None if file.isatty() else _UNFOLDED,
        color_system=None if no_color or environment("NO_COLOR") else "auto",
        markup=False,
        emoji=False,
        highlight=False,
    )


def _write(file: IO[str], text: str) -> None:
    try:
        file.write(text)
        file.flush()
    except BrokenPipeError:
        # The reader left. Python flushes once more at its end, and that must find somewhere to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
        raise typer.Exit(_PIPE_CLOSED) from None
