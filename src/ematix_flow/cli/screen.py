"""What reaches a screen or a pipe: answers on stdout, everything else on stderr, folded only where a person looks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Literal

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
            console.print(part, crop=False)
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


@dataclass(frozen=True)
class Header:
    """The head of a column, and how its cells stand."""

    name: str = ""
    justify: Literal["left", "right"] = "left"
    folds: bool = True
    """Gives way first where the terminal is narrow."""


def aligned(rows: Iterable[Sequence[str]], headers: Sequence[Header] = ()) -> Table:
    """Rows in aligned columns, empty columns left out; cells fold where the terminal is narrow, none is cut off."""
    from rich.table import Table

    table = Table(box=None, show_header=bool(headers), padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    columns = list(zip(*rows, strict=True))
    heads = headers or [Header()] * len(columns)
    filled = [(head, cells) for head, cells in zip(heads, columns, strict=True) if any(cells)]
    for head, cells in filled:
        width = None if head.folds else max(len(text) for text in (head.name, *cells))
        table.add_column(head.name, overflow="fold", justify=head.justify, min_width=width)
    for row in zip(*(cells for _, cells in filled), strict=True):
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
