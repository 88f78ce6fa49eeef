"""What keeps a text from being a cron schedule: every field names moments that there are."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["cron_problem"]


@dataclass(frozen=True)
class _Field:
    """One field of a schedule: what it is called, and what it may hold."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    is_day: bool = False
    """May be open (`?`), or count from the end of the month."""

    @property
    def allowed(self) -> str:
        words = f", or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.low} to {self.high}{words}"


_MONTHS = tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())
_DAYS = tuple("sun mon tue wed thu fri sat".split())
# A sixth field is seconds. Sunday is 0 and 7.
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31, is_day=True),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _DAYS, is_day=True),
    _Field("second", 0, 59),
)
_PART = re.compile(r"(?P<from>\*|\?|\w+)(?:-(?P<to>\w+))?(?:/(?P<step>\d+))?")
_LAST = re.compile(r"L|(?:\d+|[a-z]{3})(?:#[1-5]|L|W)|LW", re.IGNORECASE)


def cron_problem(text: str) -> str | None:
    """What is wrong with `text`, by field; None for five or six fields that are each within their bounds."""
    fields = text.split()
    if len(fields) not in (5, 6):
        return f"it has {len(fields)} {'field' if len(fields) == 1 else 'fields'} instead of five or six"
    for given, field in zip(fields, _FIELDS, strict=False):
        if not all(_is_part(part, field) for part in given.split(",")):
            return (
                f"the {field.name} cannot be {given!r}: it is {field.allowed}, in lists, ranges (2-5) and steps (*/2)"
            )
    return None


def _is_part(part: str, field: _Field) -> bool:
    if field.is_day and _LAST.fullmatch(part):
        head = re.match(r"\d+|[a-z]{3}", part, re.IGNORECASE)
        return head is None or part in ("L", "LW") or _number(head.group(), field) is not None
    found = _PART.fullmatch(part)
    if found is None or (found["step"] is not None and int(found["step"]) == 0):
        return False
    if found["from"] in ("*", "?"):
        return found["to"] is None and (found["from"] == "*" or field.is_day)
    first = _number(found["from"], field)
    if found["to"] is None:
        return first is not None
    last = _number(found["to"], field)
    return first is not None and last is not None and first <= last


def _number(word: str, field: _Field) -> int | None:
    if word.lower() in field.names:
        return field.names.index(word.lower()) + field.low
    return int(word) if word.isdecimal() and field.low <= int(word) <= field.high else None
