"""Where something was declared: the user's file and line."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

__all__ = ["Origin", "declared_at"]

_PACKAGE = f"{Path(__file__).resolve().parent.parent}{os.sep}"


@dataclass(frozen=True)
class Origin:
    """A line of the user's code."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


def declared_at() -> Origin | None:
    """The nearest caller outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return None if frame is None else Origin(frame.f_code.co_filename, frame.f_lineno)
