"""What SQLite cannot say in SQL: Python functions that cast strictly, hash and parse, registered on each connection."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache, wraps

from ..types import UUID, BigInt, Boolean, ColumnType, Double, Float, Numeric, TimestampTZ
from .dialect import utc_text
from .sqlite_cleaning import FUNCTIONS
from .template import TRUE_WORDS, Template, text_shape

__all__ = [
    "Complaint",
    "cast_boolean",
    "cast_bytes",
    "cast_date",
    "cast_decimal",
    "cast_float",
    "cast_instant",
    "cast_integer",
    "cast_json",
    "cast_number",
    "cast_text",
    "cast_timestamp",
    "cast_uuid",
    "float_text",
    "lower",
    "parse_date",
    "parse_timestamp",
    "refuse",
    "register",
    "sha256",
    "upper",
]

Value = int | float | str | bytes | None


class Complaint:
    """The last error that one of the functions raised: SQLite itself only says that there was one."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def listening(self, function: Callable[..., Value]) -> Callable[..., Value]:
        """The function, with its errors kept here before they reach SQLite."""

        @wraps(function)
        def call(*arguments: Value) -> Value:
            try:
                return function(*arguments)
            except Exception as error:
                self.error = error
                raise

        return call


def register(connection: sqlite3.Connection) -> Complaint:
    """Make every function known to `connection`; the complaint tells what went wrong in them."""
    complaint = Complaint()
    for name, (arguments, function) in (_FUNCTIONS | FUNCTIONS).items():
        connection.create_function(name, arguments, complaint.listening(function), deterministic=True)
    return complaint


def cast_integer(value: Value, bits: int) -> int | None:
    """A whole number of so many bits; a fraction or a larger number is refused."""
    if value is None:
        return None
    number = _decimal(value, BigInt())
    if number != number.to_integral_value() or not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(f"a value does not fit an integer of {bits} bits: {value!r}")
    return int(number)


def cast_number(value: Value, precision: int, scale: int) -> int | float | None:
    """A decimal of at most 15 digits, as the number whose shortest text it is."""
    exact = _quantized(value, precision, scale)
    if exact is None:
        return None
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def cast_decimal(value: Value, precision: int, scale: int) -> str | None:
    """A decimal of any precision, as text at its scale."""
    exact = _quantized(value, precision, scale)
    return None if exact is None else format(exact, "f")


def cast_float(value: Value, bits: int) -> float | None:
    """A float of so many bits; NaN is refused because SQLite would store it as NULL."""
    if value is None:
        return None
    said = value if isinstance(value, int | float) else _shaped(value, _FLOATS[bits])
    number = float(said)
    if math.isnan(number):
        raise ValueError("SQLite cannot store NaN")
    if math.isinf(number) and "inf" in str(said).lower():
        return number
    try:
        kept: float = number if bits == 64 else struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        kept = math.inf
    if math.isinf(kept):
        raise ValueError(f"a value does not fit {_FLOATS[bits]}: {value!r}")
    return kept


def cast_boolean(value: Value) -> int | None:
    """0 or 1 from a number or one of the usual words."""
    if value is None or isinstance(value, int | float):
        return None if value is None else int(value != 0)
    return int(_shaped(value, Boolean()).lower() in TRUE_WORDS)


def cast_text(value: Value, length: int) -> str | None:
    """Text of at most `length` characters; a length of 0 sets no limit."""
    if value is None:
        return None
    text = _text(value)
    if length and len(text) > length:
        raise ValueError(f"a value does not fit String[{length}]: {text[:80]!r}")
    return text


def cast_instant(value: Value) -> str | None:
    """An instant as UTC text to the microsecond; without offset it is in UTC."""
    if value is None:
        return None
    moment = _moment(value)
    return utc_text(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def cast_timestamp(value: Value) -> str | None:
    """A time of day on a day, as written: an offset is dropped."""
    if value is None:
        return None
    return utc_text(_moment(value).replace(tzinfo=UTC))


def cast_date(value: Value) -> str | None:
    """A day; of a time it is the day as written."""
    if value is None:
        return None
    return _moment(value).date().isoformat()


def cast_uuid(value: Value) -> str | None:
    """An identifier in lower case with dashes."""
    return None if value is None else _shaped(value, UUID()).lower()


def cast_json(value: Value) -> str | None:
    """A JSON document as written."""
    if value is None:
        return None
    text = _text(value)
    json.loads(text, parse_constant=_no_constant)
    return text


def cast_bytes(value: Value) -> bytes | None:
    """Bytes; of a text its UTF-8 form."""
    if value is None or isinstance(value, bytes):
        return value
    return _text(value).encode()


def lower(value: Value) -> str | None:
    """The text in lower case, by the rules of Unicode."""
    return None if value is None else _text(value).lower()


def upper(value: Value) -> str | None:
    """The text in upper case, by the rules of Unicode."""
    return None if value is None else _text(value).upper()


def float_text(value: float | None) -> str | None:
    """The shortest text that reads back as the same float."""
    if value is None:
        return None
    return "0" if value == 0 else repr(float(value))


def sha256(text: str | None) -> bytes | None:
    """The digest of a text."""
    return None if text is None else hashlib.sha256(text.encode()).digest()


def parse_timestamp(value: Value, *formats: str) -> str | None:
    """The instant that a text means by the first format that fits."""
    for found, template in _readings(value, formats):
        if (moment := _read(found, template.timestamp)) is not None:
            return utc_text(moment)
    return None


def parse_date(value: Value, *formats: str) -> str | None:
    """The day that a text means by the first format that fits."""
    for found, template in _readings(value, formats):
        if (moment := _read(found, template.date + " 00:00:00.0Z")) is not None:
            return moment.date().isoformat()
    return None


def refuse(message: str) -> None:
    """Ends the query."""
    raise ValueError(message)


_FLOATS = {32: Float(), 64: Double()}
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)


def _text(value: int | float | str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _shaped(value: int | float | str | bytes, type: ColumnType) -> str:
    """The text without the spaces at its ends; refused where it has not the shape of the type's texts."""
    text = _text(value).strip(" ")
    shape = text_shape(type)
    if shape is not None and _shape(shape).fullmatch(text) is None:
        raise ValueError(f"a value does not fit {type}: {value!r}")
    return text


def _decimal(value: int | float | str | bytes, type: ColumnType) -> Decimal:
    number = Decimal(repr(value) if isinstance(value, float | int) else _shaped(value, type))
    if not number.is_finite():
        raise ValueError(f"a value is not a finite number: {value!r}")
    return number


def _quantized(value: Value, precision: int, scale: int) -> Decimal | None:
    if value is None:
        return None
    exact = _decimal(value, Numeric(precision, scale))
    if exact.adjusted() >= precision - scale and exact != 0:
        raise ValueError(f"a value does not fit Numeric[{precision}, {scale}]: {value!r}")
    exact = exact.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    # copy_abs, because abs rounds to the digits of the current context.
    if exact.copy_abs() >= Decimal(10) ** (precision - scale):
        raise ValueError(f"a value does not fit Numeric[{precision}, {scale}]: {value!r}")
    return exact.copy_abs() if exact == 0 else exact


def _moment(value: int | float | str | bytes) -> datetime:
    if isinstance(value, int | float):
        raise ValueError(f"a number is not a time: {value!r}")
    return datetime.fromisoformat(_shaped(value, TimestampTZ()))


def _no_constant(word: str) -> None:
    raise ValueError(f"not JSON: {word}")


def _readings(value: Value, formats: tuple[str, ...]) -> list[tuple[re.Match[str], Template]]:
    """The formats whose shape the text has."""
    if value is None:
        return []
    text = _text(value)
    templates = [Template.of(template) for template in formats]
    return [(found, template) for template in templates if (found := _shape(template.shape).fullmatch(text))]


@lru_cache(maxsize=256)
def _shape(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _read(found: re.Match[str], iso: str) -> datetime | None:
    """The moment that the parts mean; None for a day that its month has not."""
    try:
        return datetime.fromisoformat(found.expand(iso))
    except ValueError:
        return None


_FUNCTIONS: dict[str, tuple[int, Callable[..., Value]]] = {
    "ematix_cast_integer": (2, cast_integer),
    "ematix_cast_number": (3, cast_number),
    "ematix_cast_decimal": (3, cast_decimal),
    "ematix_cast_float": (2, cast_float),
    "ematix_cast_boolean": (1, cast_boolean),
    "ematix_cast_text": (2, cast_text),
    "ematix_cast_instant": (1, cast_instant),
    "ematix_cast_timestamp": (1, cast_timestamp),
    "ematix_cast_date": (1, cast_date),
    "ematix_cast_uuid": (1, cast_uuid),
    "ematix_cast_json": (1, cast_json),
    "ematix_cast_bytes": (1, cast_bytes),
    "ematix_float_text": (1, float_text),
    "ematix_lower": (1, lower),
    "ematix_upper": (1, upper),
    "ematix_sha256": (1, sha256),
    "ematix_parse_timestamp": (-1, parse_timestamp),
    "ematix_parse_date": (-1, parse_date),
    "ematix_refuse": (1, refuse),
}
