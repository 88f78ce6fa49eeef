"""A query in parts that several connections read at once, each part by one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any

__all__ = ["MOST_PARTS", "Cut", "Limits", "Readers", "Take"]

MOST_PARTS = 256

Take = Callable[[Any, int, Callable[[], None]], None]
"""Reads a part: `take(cursor, part, go_on)`. It calls `go_on` between batches, which ends it where another failed."""


@dataclass(frozen=True)
class Limits:
    """When a table is worth several connections, and how many."""

    readers: int
    """Connections that read at the same time."""
    table_bytes: int = 64 * 2**20
    """Smaller tables are read by one."""
    part_bytes: int = 32 * 2**20
    """What one part of a table has at least; a reader takes one part after the other."""


@dataclass(frozen=True)
class Cut:
    """A query as several that together give its rows, each of them once."""

    table: str
    parts: tuple[str, ...]
    readers: int


class Readers:
    """The parts that nobody has read yet, and whether there is a reason to go on."""

    def __init__(self, cut: Cut, take: Take) -> None:
        self._take, self._failed = take, Event()
        self._waiting: SimpleQueue[int] = SimpleQueue()
        for part in range(len(cut.parts)):
            self._waiting.put(part)

    def read(self, cursor: Any) -> None:
        """Read parts until none is left, or until another one fails, who says why."""
        try:
            while not self._failed.is_set():
                self._take(cursor, self._waiting.get_nowait(), self._go_on)
        except (Empty, _Stopped):
            return
        except BaseException:
            self._failed.set()
            raise

    def _go_on(self) -> None:
        if self._failed.is_set():
            raise _Stopped


class _Stopped(Exception):  # noqa: N818 - nothing went wrong here
    """Another connection failed."""
