"""Values of bookmarks as they are kept: canonical text, read from what a user wrote, or moved back by a distance."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation, localcontext
from math import isfinite
from typing import TypeVar

from ..errors import SpecError
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
    Timestamp,
    TimestampTZ,
)

__all__ = ["earlier", "kept_text"]

Number = TypeVar("Number", int, Decimal)

_WIDE = Context(prec=600)
"""Room for every digit of a decimal."""
_BOUND = {SmallInt.kind: 2**15, Integer.kind: 2**31, BigInt.kind: 2**63}


def kept_text(text: str, type: ColumnType) -> str:
    """What a user wrote as a value of the type, in the form in which bookmarks are kept; SpecError where it is none."""
    try:
        with localcontext(_WIDE):
            return _canonical(text, type)
    except (ValueError, InvalidOperation, OverflowError):
        raise SpecError(f"{text!r} is not a value of {type}", hint=f"write {_example(type)}") from None


def earlier(text: str, type: ColumnType, back: timedelta | Decimal) -> str:
    """A kept value less the distance; the least value of the type where there is none so small."""
    match back, type:
        case timedelta(), Date():
            first = date.min
            day = date.fromisoformat(text)
            return (first if day - first < back else day - back).isoformat()
        case timedelta(), _:
            beginning = datetime(1, 1, 1, tzinfo=UTC)
            moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
            return _moment_text(beginning if moment - beginning < back else moment - back)
        case Decimal(), Float() | Double():
            return str(float(text) - float(back))
        case _:
            assert isinstance(back, Decimal)
            with localcontext(_WIDE):
                return format(max(Decimal(text) - back, _least(type)), "f")


def _canonical(text: str, type: ColumnType) -> str:
    match type:
        case SmallInt() | Integer() | BigInt():
            return str(_within(int(text), -_BOUND[type.kind], _BOUND[type.kind] - 1))
        case Numeric(_, scale):
            exact_number = Decimal(text)
            # More digits than the column keeps would be another value.
            exact = _within(exact_number.quantize(Decimal(1).scaleb(-scale)), exact_number, exact_number)
            return format(_within(exact, _least(type), -_least(type)), "f")
        case Float() | Double():
            number = float(text)
            if not isfinite(number):
                raise ValueError(text)
            return str(number)
        case Date():
            return date.fromisoformat(text).isoformat()
        case Timestamp() | TimestampTZ():
            return _moment_text(_moment(text, zoned=isinstance(type, TimestampTZ)))
        case String(length):
            return text[: _within(len(text), 0, length)]
        case _:
            return text


def _within(number: Number, least: Number, greatest: Number) -> Number:
    if not least <= number <= greatest:
        raise ValueError(number)
    return number


def _moment(text: str, *, zoned: bool) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    if not zoned:
        raise ValueError(text)
    return moment.astimezone(UTC)


def _example(type: ColumnType) -> str:
    match type:
        case SmallInt() | Integer() | BigInt():
            return "a whole number in the range of the type, such as 1200"
        case Numeric(_, scale):
            return f"a number with at most {scale} digits behind the point"
        case Float() | Double():
            return "a number, such as 1.5"
        case Date():
            return "a day, such as 2026-01-31"
        case Timestamp():
            return "a moment without a zone, such as '2026-01-31 09:30:00'"
        case TimestampTZ():
            return "an instant, such as '2026-01-31 09:30:00Z'; without a zone it is in UTC"
        case _:
            return "a shorter text"


def _least(type: ColumnType) -> Decimal:
    if isinstance(type, Numeric):
        return -(Decimal(10) ** (type.precision - type.scale) - Decimal(1).scaleb(-type.scale))
    return Decimal(-_BOUND[type.kind])


def _moment_text(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
