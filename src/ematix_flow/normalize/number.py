"""Normalizers of numbers and times: rounding, bounds, zones, the begin of a period."""
# ruff: noqa: N801, A001 - markers are written in lower case, as the functions they read like

from __future__ import annotations

import difflib
import math
import zoneinfo
from dataclasses import dataclass
from datetime import date, datetime

from ..errors import SpecError, SpecTypeError, nearest
from ..types import (
    BigInt,
    ColumnType,
    Date,
    Double,
    Float,
    Integer,
    Numeric,
    SmallInt,
    String,
    Text,
    Timestamp,
    TimestampTZ,
)
from .base import Marker, check_whole, in_utc, literal

__all__ = ["PERIODS", "clamp", "date_trunc", "round", "to_timezone"]

PERIODS = (
    "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year",
)  # fmt: skip
"""What `date_trunc` knows; a week begins on Monday."""

_NUMBERS = SmallInt | Integer | BigInt | Numeric | Float | Double


@dataclass(frozen=True)
class round(Marker):
    """The number rounded to ``precision`` digits behind the point, half away from zero; -2 rounds to hundreds.

    A float is rounded as it is written: 2.675 becomes 2.68.
    """

    precision: int = 0

    def __post_init__(self) -> None:
        check_whole("round", "precision", self.precision)
        if not -15 <= self.precision <= 15:
            raise SpecError(f"round: the precision is from -15 to 15, not {self.precision}")

    def check_place(self, before: tuple[object, ...], type: ColumnType | None) -> None:
        """Refuse a column that holds no numbers."""
        if type is not None and not isinstance(type, _NUMBERS):
            raise SpecError(f"round is for columns of numbers, and this one is {type}", hint="declare a number type")

    def to_sql(self, col: str) -> str:
        return f"ROUND_NUMBER({col}, {self.precision})"


@dataclass(frozen=True)
class clamp(Marker):
    """``low`` in place of less, ``high`` in place of more; NULL stays NULL."""

    low: object
    high: object

    def __post_init__(self) -> None:
        kinds = {_family(value) for value in (self.low, self.high)}
        if len(kinds) > 1 or None in kinds:
            raise SpecTypeError(
                f"clamp: {self.low!r} and {self.high!r} are no bounds", hint="give two numbers, two times or two texts"
            )
        for bound in (self.low, self.high):
            literal(bound)
        low, high = (in_utc(each) if isinstance(each, datetime) else each for each in (self.low, self.high))
        if low > high:  # type: ignore[operator]
            raise SpecError(f"clamp: the low bound {self.low!r} is above the high one, {self.high!r}")

    def check_place(self, before: tuple[object, ...], type: ColumnType | None) -> None:
        """Refuse a column whose type is of another kind than the bounds."""
        if type is None:
            return
        if not isinstance(type, _FAMILIES[str(_family(self.low))]):
            raise SpecError(f"clamp: {self.low!r} and {self.high!r} are no bounds of a column of type {type}")

    def to_sql(self, col: str) -> str:
        return f"CLAMP({col}, {_bound(self.low)}, {_bound(self.high)})"


@dataclass(frozen=True)
class to_timezone(Marker):
    """The local time in a zone, of an instant; the instant, of a local time in that zone.

    A text is an instant where it has an offset or a ``Z``. An hour that a clock shows twice is the later one; one that
    it leaves out is as far behind the change as it is behind the begin of the gap.
    """

    tz: str

    def __post_init__(self) -> None:
        tz: object = self.tz
        if not isinstance(tz, str):
            raise SpecTypeError(f"to_timezone takes the name of a zone, not {tz!r}", hint="write 'Europe/Berlin'")
        known = zoneinfo.available_timezones()
        if tz not in known:
            close = difflib.get_close_matches(tz, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "write a name such as 'Europe/Berlin' or 'UTC'"
            raise SpecError(f"to_timezone: there is no time zone {tz!r}", hint=hint)

    def check_place(self, before: tuple[object, ...], type: ColumnType | None) -> None:
        """Refuse what leaves unclear whether there is an instant or a local time."""
        for marker in before:
            if isinstance(marker, to_timezone | date_trunc):
                raise SpecError(
                    f"{self!r} cannot follow {marker!r}: whether there is an instant then depends on the engine",
                    hint="put to_timezone before date_trunc, and only once; or use sql()",
                )

    def to_sql(self, col: str) -> str:
        return f"AT_ZONE({col}, {literal(self.tz)})"


@dataclass(frozen=True)
class date_trunc(Marker):
    """The begin of the period that the time is in; an instant's periods are those of UTC."""

    precision: str

    def __post_init__(self) -> None:
        word: object = self.precision
        if not isinstance(word, str):
            raise SpecTypeError(f"date_trunc takes the name of a period, not {word!r}", hint="write 'day'")
        singular = word.lower()[:-1] if word.lower().endswith("s") else word.lower()
        if singular not in PERIODS:
            raise SpecError(f"date_trunc: there is no period {word!r}", hint=nearest("period", word, PERIODS))
        object.__setattr__(self, "precision", singular)

    def to_sql(self, col: str) -> str:
        return f"TRUNCATE_TIME({col}, {literal(self.precision)})"


_FAMILIES: dict[str, tuple[type, ...]] = {
    "number": (SmallInt, Integer, BigInt, Numeric, Float, Double),
    "text": (Text, String),
    "day": (Date, Timestamp, TimestampTZ),
    "instant": (Date, Timestamp, TimestampTZ),
}


def _family(value: object) -> str | None:
    match value:
        case bool():
            return None
        case int():
            return "number"
        case float():
            return "number" if math.isfinite(value) else None
        case str():
            return "text"
        case datetime():
            return "instant"
        case date():
            return "day"
    return None


def _bound(value: object) -> str:
    """A bound as text, which each engine reads as the column's type."""
    match value:
        case datetime():
            return literal(in_utc(value).isoformat(sep=" "))
        case date():
            return literal(value.isoformat())
        case _:
            return literal(str(value))
