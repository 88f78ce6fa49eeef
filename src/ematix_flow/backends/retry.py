"""Trying again: how long to pause before, so that many who lost one server do not come back at the same moment."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

__all__ = ["pauses"]


def pauses(first: float, longest: float, dice: Callable[[], float] = random.random) -> Iterator[float]:
    """Seconds to pause before each further try: twice as long each time, and shorter by up to a half by chance."""
    pause = first
    while True:
        yield pause * (1 - dice() / 2)
        pause = min(2 * pause, longest)
