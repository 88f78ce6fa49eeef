"""Where something was declared: the user's file and line."""

from __future__ import annotations

import itertools
import os
import sys
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

__all__ = ["Origin", "declared_at"]

_PACKAGE = f"{Path(__file__).resolve().parent.parent}{os.sep}"


@dataclass(frozen=True)
class Origin:
    """A line of the user's code, or another place such as an environment variable, which has no lines."""

    file: str
    line: int = 0
    unit: int = field(default=0, compare=False, repr=False)
    """Which body of code was running: a module that is loaded again is another one. 0 where that is not known."""

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}" if self.line else self.file


def declared_at() -> Origin | None:
    """The nearest caller outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return None if frame is None else Origin(frame.f_code.co_filename, frame.f_lineno, _unit(frame.f_code))


_units: dict[int, tuple[weakref.ref[CodeType], int]] = {}
_numbers = itertools.count(1)


def _unit(code: CodeType) -> int:
    """A number for the code itself: equal texts that are compiled twice are two."""
    place = id(code)
    known = _units.get(place)
    if known is None or known[0]() is not code:
        known = _units[place] = weakref.ref(code, lambda _: _units.pop(place, None)), next(_numbers)
    return known[1]
