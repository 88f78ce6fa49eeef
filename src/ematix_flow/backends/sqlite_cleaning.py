"""Normalizers for SQLite: Python functions that say what its SQL cannot."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

from ..normalize.regex import END
from ..types import Double, TimestampTZ
from .cleaning import PLAIN_INTEGER, PLAIN_NUMBER
from .dialect import utc_text
from .template import FALSE_WORDS, TRUE_WORDS, text_shape

__all__ = [
    "FUNCTIONS",
    "at_zone",
    "clamp",
    "first_characters",
    "parse_bool",
    "parse_int",
    "parse_numeric",
    "regex_replace",
    "round_number",
    "says",
    "truncate_time",
]

Value = int | float | str | bytes | None


def regex_replace(text: str | None, pattern: str, replacement: str, flags: str) -> str | None:
    """The text with every match replaced, or the first one."""
    if text is None:
        return None
    return _compiled(pattern).sub(_filled(replacement), text, count=0 if flags == "g" else 1)


def first_characters(text: str | None, count: int) -> str | None:
    """The first characters, or all but the last ones."""
    return None if text is None else text[:count]


def parse_int(value: Value) -> int | None:
    """A whole number of 64 bits, or NULL."""
    if isinstance(value, str | bytes):
        text = _text(value)
        number = int(text) if _shape(PLAIN_INTEGER).fullmatch(text) and len(text.lstrip("-0")) < 20 else None
    elif isinstance(value, float):
        number = int(value) if value.is_integer() else None
    else:
        number = value
    return number if number is not None and -(2**63) <= number < 2**63 else None


def parse_numeric(value: Value, precision: int, scale: int) -> int | float | str | None:
    """A decimal rounded to its scale, or NULL; in the form in which SQLite keeps decimals of that size."""
    if value is None:
        return None
    text = _text(value)
    if isinstance(value, str | bytes) and not _shape(PLAIN_NUMBER).fullmatch(text):
        return None
    number = Decimal(text)
    if not number.is_finite() or (number != 0 and number.adjusted() >= precision - scale):
        return None
    exact = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if exact.copy_abs() >= Decimal(10) ** (precision - scale):
        return None
    return _kept(exact, precision)


def parse_bool(value: Value, *words: str) -> int | None:
    """1 or 0 for one of the words, which begin with a plus or a minus sign; NULL for others."""
    if value is None:
        return None
    text = _text(value).lower()
    return next((int(word[0] == "+") for word in words if word[1:] == text), None)


def says(value: Value, kind: str, given: str) -> int | None:
    """Whether a value, or what its text says, is the given one."""
    if value is None:
        return None
    text = _text(value)
    match kind:
        case "truth":
            return int(text.lower() in (TRUE_WORDS if given == "true" else FALSE_WORDS))
        case "number":
            return int(_says_number(text, given))
        case _:
            moment = _moment(text) if _strict_shape(text, str(text_shape(TimestampTZ()))) else None
            return int(moment is not None and moment == _moment(given))


def round_number(value: Value, digits: int, kind: str, scale: int) -> int | float | str | None:
    """A number rounded half away from zero, as it is written."""
    if value is None:
        return None
    number = _number(value, kind, scale)
    if not number.is_finite():
        return float(number)
    rounded = number.quantize(Decimal(1).scaleb(-digits), context=_EXACT)
    return float(rounded) + 0.0 if kind == Double.kind else _kept(rounded, len(rounded.as_tuple().digits))


def clamp(value: Value, low: str, high: str, kind: str, scale: int) -> Value:
    """The value, or the bound that it is beyond."""
    if value is None:
        return None
    if kind == "text":
        return min(max(_text(value), low, key=str.encode), high, key=str.encode)
    if kind == TimestampTZ.kind:
        return utc_text(min(max(_strict_moment(value), _strict_moment(low)), _strict_moment(high)))
    number, least, most = (_number(each, kind, scale) for each in (value, low, high))
    bounded = min(max(number, least), most)
    return float(bounded) if kind == Double.kind else _kept(bounded, len(bounded.as_tuple().digits))


def at_zone(value: Value, zone: str, is_instant: int) -> str | None:
    """The local time of an instant, the instant of a local time."""
    if value is None:
        return None
    moment = _strict_moment(value)
    if is_instant or _shape(_OFFSET).fullmatch(_text(value)):
        return utc_text(moment.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC))
    local = moment.replace(tzinfo=ZoneInfo(zone))
    # Of two readings the later one, which also is the one that goes on from before a gap.
    return utc_text(max(each.astimezone(UTC) for each in (local, local.replace(fold=1))))


def truncate_time(value: Value, period: str) -> str | None:
    """The begin of the period that a time is in."""
    if value is None:
        return None
    moment = _strict_moment(value)
    if period in _CLOCK:
        return utc_text(_rounded_down(moment, _CLOCK[period]))
    match period:
        case "week":
            moment -= timedelta(days=moment.weekday())
        case "month":
            moment = moment.replace(day=1)
        case "quarter":
            moment = moment.replace(month=(moment.month - 1) // 3 * 3 + 1, day=1)
        case "year":
            moment = moment.replace(month=1, day=1)
    return utc_text(_rounded_down(moment, timedelta(days=1)))


_CLOCK = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
}


_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)
_OFFSET = r".*[0-9][0-9]:[0-9][0-9].*(?:Z|[+-][0-9][0-9](?::?[0-9][0-9])?) *"
_KEPT_AS_NUMBER = 15
_FIRST = datetime(1, 1, 1, tzinfo=UTC)


def _rounded_down(moment: datetime, period: timedelta) -> datetime:
    return moment - (moment - _FIRST) % period


def _text(value: int | float | str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(END, r"\Z"))


@lru_cache(maxsize=256)
def _shape(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@lru_cache(maxsize=256)
def _filled(replacement: str) -> Callable[[re.Match[str]], str]:
    """What a replacement makes of a match."""
    parts = re.split(r"(\\.)", replacement, flags=re.DOTALL)

    def fill(found: re.Match[str]) -> str:
        return "".join(_part(part, found) for part in parts)

    return fill


def _part(part: str, found: re.Match[str]) -> str:
    if not part.startswith("\\"):
        return part
    return "\\" if part == "\\\\" else found[int(part[1])] or ""


def _kept(number: Decimal, precision: int) -> int | float | str:
    if precision > _KEPT_AS_NUMBER:
        return format(number.copy_abs() if number == 0 else number, "f")
    return int(number) if number == number.to_integral_value() else float(number)


def _strict_shape(text: str, shape: str) -> bool:
    return _shape(shape).fullmatch(text.strip(" ")) is not None


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.strip(" "))
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _strict_moment(value: int | float | str | bytes) -> datetime:
    text = _text(value)
    moment = _moment(text) if _strict_shape(text, str(text_shape(TimestampTZ()))) else None
    if moment is None:
        raise ValueError(f"a value is not a time: {value!r}")
    return moment


def _says_number(text: str, given: str) -> bool:
    if not _shape(str(text_shape(Double()))).fullmatch(text):
        return False
    number = Decimal(text)
    if float(number) != float(given) or not number.is_finite():
        return False
    places = Decimal(1).scaleb(-18)
    return number.quantize(places, context=_EXACT) == Decimal(given).quantize(places, context=_EXACT)


def _number(value: int | float | str | bytes, kind: str, scale: int) -> Decimal:
    """A number in the working type of its column."""
    text = _text(value).strip(" ")
    if not _strict_shape(text, str(text_shape(Double()))):
        raise ValueError(f"a value is not a number: {value!r}")
    number = Decimal(text)
    if kind == Double.kind:
        return number
    if not number.is_finite():
        raise ValueError(f"a value is not a finite number: {value!r}")
    exact = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if exact.copy_abs() >= Decimal(10) ** (38 - scale):
        raise ValueError(f"a value does not fit {38 - scale} digits before the point: {value!r}")
    return exact


FUNCTIONS: dict[str, tuple[int, Callable[..., Value]]] = {
    "ematix_regex_replace": (4, regex_replace),
    "ematix_first_characters": (2, first_characters),
    "ematix_parse_int": (1, parse_int),
    "ematix_parse_decimal": (3, parse_numeric),
    "ematix_parse_bool": (-1, parse_bool),
    "ematix_says": (3, says),
    "ematix_round_number": (4, round_number),
    "ematix_clamp": (5, clamp),
    "ematix_at_zone": (3, at_zone),
    "ematix_truncate_time": (2, truncate_time),
}
