"""Lengths of time as people write them: ``"5m"`` ↔ ``timedelta(minutes=5)``."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from ..errors import SpecError, SpecTypeError

__all__ = ["format_duration", "parse_duration"]

_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}
_PART = r"(\d+(?:\.\d+)?)\s*(ms|us|[wdhms])"
_HINT = "write a number and a unit, such as '90s', '5m', '6h', '1d' or '1h30m', a number of seconds, or a timedelta"


def parse_duration(value: str | float | timedelta) -> timedelta:
    """What `value` says: ``"5m"``, ``"1h30m"``, a number of seconds or a timedelta; never negative."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | timedelta):
        raise SpecTypeError(f"a duration cannot be {value!r}", hint=_HINT)
    if isinstance(value, str):
        duration = _from_text(value)
    elif isinstance(value, timedelta):
        duration = value
    else:
        duration = _from_seconds(value)
    if duration < timedelta(0):
        raise SpecError(f"a duration cannot be negative: {value!r}", hint=_HINT)
    return duration


def format_duration(duration: timedelta) -> str:
    """`duration` as text that `parse_duration` reads back exactly; weeks are written as days."""
    if duration < timedelta(0):
        return f"-{format_duration(-duration)}"
    parts = []
    rest = duration
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, rest = divmod(rest, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _from_text(text: str) -> timedelta:
    lowered = text.strip().lower()
    if not re.fullmatch(rf"(?:{_PART}\s*)+", lowered):
        raise SpecError(f"{text!r} is not a duration", hint=_HINT)
    try:
        return sum((float(number) * _UNITS[unit] for number, unit in re.findall(_PART, lowered)), timedelta(0))
    except OverflowError:
        raise SpecError(f"{text!r} is too long for a duration", hint=_HINT) from None


def _from_seconds(seconds: float) -> timedelta:
    if not math.isfinite(seconds):
        raise SpecError(f"{seconds!r} seconds is not a duration", hint=_HINT)
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise SpecError(f"{seconds!r} seconds is too long for a duration", hint=_HINT) from None
