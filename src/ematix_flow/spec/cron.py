"""Whether a text can be a cron schedule: every field names moments that there are."""

from __future__ import annotations

import re

__all__ = ["is_cron"]

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_DAYS = "sun mon tue wed thu fri sat".split()
# Minute, hour, day of the month, month, day of the week; a sixth field is seconds. Sunday is 0 and 7.
_FIELDS: tuple[tuple[int, int, list[str]], ...] = (
    (0, 59, []),
    (0, 23, []),
    (1, 31, []),
    (1, 12, _MONTHS),
    (0, 7, _DAYS),
    (0, 59, []),
)
_PART = re.compile(r"(?P<from>\*|\?|\w+)(?:-(?P<to>\w+))?(?:/(?P<step>\d+))?")
_LAST = re.compile(r"L|(?:\d+|[a-z]{3})(?:#[1-5]|L|W)|LW", re.IGNORECASE)


def is_cron(text: str) -> bool:
    """Whether `text` has five or six fields, each within its bounds."""
    fields = text.split()
    if len(fields) not in (5, 6):
        return False
    return all(
        all(_is_part(part, *bounds, is_day=at in (2, 4)) for part in field.split(","))
        for at, (field, bounds) in enumerate(zip(fields, _FIELDS, strict=False))
    )


def _is_part(part: str, low: int, high: int, names: list[str], *, is_day: bool) -> bool:
    if is_day and _LAST.fullmatch(part):
        head = re.match(r"\d+|[a-z]{3}", part, re.IGNORECASE)
        return head is None or part in ("L", "LW") or _number(head.group(), low, high, names) is not None
    found = _PART.fullmatch(part)
    if found is None or (found["step"] is not None and int(found["step"]) == 0):
        return False
    if found["from"] in ("*", "?"):
        return found["to"] is None and (found["from"] == "*" or is_day)
    first = _number(found["from"], low, high, names)
    if found["to"] is None:
        return first is not None
    last = _number(found["to"], low, high, names)
    return first is not None and last is not None and first <= last


def _number(word: str, low: int, high: int, names: list[str]) -> int | None:
    if word.lower() in names:
        return names.index(word.lower()) + low
    return int(word) if word.isdecimal() and low <= int(word) <= high else None
