"""How SQLite spells types, casts, instants, hashes and parsing, with the help of Python functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from sqlglot import exp, parse_one

from ..types import (
    JSON,
    JSONB,
    UUID,
    BigInt,
    Boolean,
    Bytes,
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
from .cleaning import working_type
from .dialect import Dialect, KnownTypes, utc_text
from .expression import call, choose, one_of, plain_text, text_literal, whole_number
from .hooks import DECLARED, INSTANT, Hook

__all__ = ["SqliteDialect"]


class SqliteDialect(Dialect):
    """SQLite's SQL with our Python functions.

    Instants are UTC text of fixed width, so that they sort; decimals of more than 15 digits are text at their scale.
    A value that is stored in its canonical form already is recognised in SQL; only others cost a call into Python.
    """

    name = "sqlite"
    max_precision = None
    # SQLite derives how a column stores values from parts of the name: JSON alone would make `1.50` the number 1.5.
    type_names: ClassVar[Mapping[str, str]] = {
        "small_int": "SMALLINT", "integer": "INTEGER", "big_int": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
        "numeric": "NUMERIC({precision},{scale})", "boolean": "BOOLEAN", "text": "TEXT", "string": "VARCHAR({length})",
        "date": "DATE", "timestamp": "TIMESTAMP", "timestamp_tz": "TIMESTAMPTZ", "json": "JSONTEXT",
        "jsonb": "JSONBTEXT", "uuid": "UUID", "bytes": "BLOB",
    }  # fmt: skip
    known_types: ClassVar[KnownTypes] = {
        "TINYINT": SmallInt(), "SMALLINT": SmallInt(), "INT": Integer(), "INTEGER": Integer(), "BIGINT": BigInt(),
        "FLOAT": Float(), "REAL": Double(), "DOUBLE": Double(), "DOUBLE PRECISION": Double(), "NUMERIC": Numeric,
        "DECIMAL": Numeric, "DECTEXT": Numeric, "BOOLEAN": Boolean(), "BOOL": Boolean(), "TEXT": Text(),
        "CLOB": Text(), "VARCHAR": String, "NVARCHAR": String, "CHAR": String, "CHARACTER VARYING": String,
        "DATE": Date(), "TIMESTAMP": Timestamp(), "DATETIME": Timestamp(), "TIMESTAMPTZ": TimestampTZ(),
        "JSONTEXT": JSON(), "JSON": JSON(), "JSONBTEXT": JSONB(), "JSONB": JSONB(), "UUID": UUID(), "BLOB": Bytes(),
    }  # fmt: skip

    def type_name(self, type: ColumnType) -> str:
        if isinstance(type, Numeric) and type.precision > _DIGITS:
            return f"DECTEXT({type.precision},{type.scale})"
        return super().type_name(type)

    def cast(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        canonical, convert = _casting(value, type)
        null = exp.Is(this=value.copy(), expression=exp.null())
        return choose((exp.or_(null, canonical, copy=False), value.copy()), default=convert)

    def instant(self, value: datetime) -> exp.Expression:
        return text_literal(utc_text(value))

    def literal(self, text: str, type: ColumnType) -> exp.Expression:
        kept_as_text = Text | String | JSON | JSONB | UUID | Date | Timestamp | TimestampTZ
        return text_literal(text) if isinstance(type, kept_as_text) else super().literal(text, type)

    def text(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        match type:
            case SmallInt() | Integer() | BigInt():
                return exp.Cast(this=value.copy(), to=exp.DataType.build("text"))
            case Boolean():
                null = exp.Is(this=value.copy(), expression=exp.null())
                return choose((null, exp.null()), (value.copy(), text_literal("true")), default=text_literal("false"))
            case Float() | Double():
                return call("ematix_float_text", value.copy())
            case Numeric(precision, scale) if precision <= _DIGITS:
                # Adding 0 takes the sign from a negative zero; PRINTF would make 0 of NULL.
                shown = call("PRINTF", text_literal(f"%.{scale}f"), _plus_zero(value))
                return choose((exp.Is(this=value.copy(), expression=exp.null()), exp.null()), default=shown)
            case Bytes():
                # HEX would make empty text of NULL.
                shown = call("LOWER", call("HEX", value.copy()))
                return choose((exp.Is(this=value.copy(), expression=exp.null()), exp.null()), default=shown)
            case _:
                return exp.Paren(this=value.copy())

    def sha256(self, text: exp.Expr) -> exp.Expression:
        return call("ematix_sha256", text.copy())

    def parse_timestamp(self, value: exp.Expr, formats: Sequence[str]) -> exp.Expression:
        parsed = call("ematix_parse_timestamp", value.copy(), *map(text_literal, formats))
        return choose((_is_instant(value), value.copy()), default=parsed)

    def parse_date(self, value: exp.Expr, formats: Sequence[str]) -> exp.Expression:
        parsed = call("ematix_parse_date", value.copy(), *map(text_literal, formats))
        day = call("SUBSTR", value.copy(), exp.Literal.number(1), exp.Literal.number(10))
        return choose((_is_instant(value), day), default=parsed)

    def replacement(
        self, node: exp.Expr, values: Mapping[str, object], types: Mapping[str, ColumnType]
    ) -> exp.Expression | None:
        # SQLite's own LOWER and UPPER know ASCII alone. They are not redefined: a user's index may be built on them.
        match node:
            case exp.Lower() | exp.Upper():
                return call(f"ematix_{node.key}", node.this.copy())
            case exp.Cast(this=exp.Literal(is_string=True)) if node.to.is_type("timestamptz"):
                # SQLite knows no such type and would make a number of the text.
                return _moment(self.instant(datetime.fromisoformat(node.this.name)))
            case exp.Cast(this=exp.Literal(is_string=True)) if node.to.is_type("date"):
                return _moment(text_literal(node.this.name))
            case _:
                return super().replacement(node, values, types)

    def refuse(self, message: exp.Expr) -> exp.Expression:
        return call("ematix_refuse", message)

    def hooks(self) -> Mapping[str, Hook]:
        plain = ("REGEX_REPLACE", "FIRST_CHARACTERS", "PARSE_INT", "PARSE_DECIMAL", "PARSE_BOOL", "TRUNCATE_TIME")
        return {
            **super().hooks(),
            **dict.fromkeys(plain, _function),
            "NULL_WHERE": _null_where,
            "PARSE_INT_STRICT": lambda node: self._strictly("PARSE_INT", node),
            "PARSE_DECIMAL_STRICT": lambda node: self._strictly("PARSE_DECIMAL", node),
            "ROUND_NUMBER": _in_working_type,
            "CLAMP": _in_working_type,
            "AT_ZONE": lambda node: call("ematix_at_zone", *node.expressions, whole_number(node.meta.get(INSTANT, 0))),
            "RANDOM_FRACTION": lambda _: exp.Paren(this=_RANDOM.copy()),
        }

    def default_to(self, node: exp.Expr) -> exp.Expression:
        value, given = node.expressions
        is_text = self.is_text(value) or isinstance(node.meta.get(DECLARED), Text | String)
        # A moment is kept as text of its own form, which the literal has already.
        given = text_literal(plain_text(given)) if is_text and not given.is_string else given.copy()
        return call("COALESCE", value.copy(), given)

    def _strictly(self, name: str, node: exp.Expr) -> exp.Expression:
        value, *arguments = node.expressions
        parsed = call(f"ematix_{name.lower()}", value.copy(), *(each.copy() for each in arguments))
        kind = "a whole number of 64 bits"
        if arguments:
            kind = f"a decimal of {arguments[0].name} digits, {arguments[1].name} behind the point"
        return self.strict(value, parsed, f"is not {kind}")


_RANDOM = parse_one("ABS(RANDOM() % 4503599627370496) / 4503599627370496.0", read="sqlite")


def _function(node: exp.Expr) -> exp.Expression:
    return call(f"ematix_{node.name.lower()}", *(each.copy() for each in node.expressions))


def _moment(literal: exp.Expression) -> exp.Expression:
    """A literal of which it is known that it says a time."""
    literal.meta[INSTANT] = True
    return literal


def _null_where(node: exp.Expr) -> exp.Expression:
    value, given = node.expressions
    match given:
        case exp.Boolean():
            kind = "truth"
        case _:
            kind = "moment" if given.is_string else "number"
    says = call("ematix_says", value.copy(), text_literal(kind), text_literal(plain_text(given)))
    return choose((says, exp.null()), default=value.copy())


def _in_working_type(node: exp.Expr) -> exp.Expression:
    kind = working_type(node.meta.get(DECLARED))
    scale = kind.scale if isinstance(kind, Numeric) else 0
    name = f"ematix_{node.name.lower()}"
    return call(name, *(each.copy() for each in node.expressions), text_literal(kind.kind), whole_number(scale))


_DIGITS = 15
"""A float carries this many decimal digits exactly."""

_DIGIT, _HEX = "[0-9]", "[0-9a-f]"
_DAY = f"{_DIGIT * 4}-{_DIGIT * 2}-{_DIGIT * 2}"
_INSTANT = f"{_DAY} {_DIGIT * 2}:{_DIGIT * 2}:{_DIGIT * 2}.{_DIGIT * 6}"
_NOTHING = "+0 days"
"""Without a modifier SQLite gives back a day that its month has not; with one it moves on to a day that exists."""
_UUID = "-".join(_HEX * count for count in (8, 4, 4, 4, 12))


def _casting(value: exp.Expr, type: ColumnType) -> tuple[exp.Expr, exp.Expression]:
    """A condition that holds for values in canonical form, and the call that brings others there."""
    name = type.kind
    match type:
        case SmallInt() | Integer() | BigInt():
            bits = {"small_int": 16, "integer": 32, "big_int": 64}[name]
            least = -(2 ** (bits - 1))
            return _is_whole(value, least, -least - 1), call("ematix_cast_integer", value.copy(), whole_number(bits))
        case Numeric(precision, scale):
            exact = "ematix_cast_number" if precision <= _DIGITS else "ematix_cast_decimal"
            convert = call(exact, value.copy(), whole_number(precision), whole_number(scale))
            if precision > _DIGITS:
                return exp.false(), convert
            # Floats at the very edge of the range go the slow way.
            most = 10 ** (precision - scale) - 1
            return exp.or_(_is_whole(value, -most, most), _is_rounded(value, scale, most + 1)), convert
        case Float():
            return exp.false(), call("ematix_cast_float", value.copy(), whole_number(32))
        case Double():
            return _is(value, "real"), call("ematix_cast_float", value.copy(), whole_number(64))
        case Boolean():
            zero_or_one = exp.In(this=value.copy(), expressions=[whole_number(0), whole_number(1)])
            return exp.and_(_is(value, "integer"), zero_or_one), call("ematix_cast_boolean", value.copy())
        case String(length):
            short = exp.LTE(this=call("LENGTH", value.copy()), expression=whole_number(length))
            return exp.and_(_is(value, "text"), short), call("ematix_cast_text", value.copy(), whole_number(length))
        case Text():
            return _is(value, "text"), call("ematix_cast_text", value.copy(), whole_number(0))
        case _:
            return _documented(value, type)


def _documented(value: exp.Expr, type: ColumnType) -> tuple[exp.Expr, exp.Expression]:
    """The types that SQLite keeps as text or bytes of a certain form."""
    match type:
        case TimestampTZ():
            return _is_instant(value), call("ematix_cast_instant", value.copy())
        case Timestamp():
            return _is_instant(value), call("ematix_cast_timestamp", value.copy())
        case Date():
            same = exp.EQ(this=call("DATE", value.copy(), text_literal(_NOTHING)), expression=value.copy())
            return exp.and_(_has_form(value, _DAY), same), call("ematix_cast_date", value.copy())
        case UUID():
            return _has_form(value, _UUID), call("ematix_cast_uuid", value.copy())
        case Bytes():
            return _is(value, "blob"), call("ematix_cast_bytes", value.copy())
        case _:
            return exp.false(), call("ematix_cast_json", value.copy())


def _is_instant(value: exp.Expr) -> exp.Expression:
    """Text of the fixed form that also is a real time."""
    seconds = call("SUBSTR", value.copy(), whole_number(1), whole_number(19))
    real = exp.EQ(this=call("DATETIME", seconds, text_literal(_NOTHING)), expression=seconds.copy())
    return exp.Paren(this=exp.And(this=_has_form(value, _INSTANT), expression=real))


def _has_form(value: exp.Expr, pattern: str) -> exp.Expression:
    return exp.And(this=_is(value, "text"), expression=call("GLOB", text_literal(pattern), value.copy()))


def _is_whole(value: exp.Expr, low: int, high: int) -> exp.Expression:
    return exp.And(this=_is(value, "integer"), expression=_between(value, low, high))


def _is_rounded(value: exp.Expr, scale: int, bound: int) -> exp.Expr:
    """A float that is the nearest to a decimal of this scale."""
    rounded = exp.EQ(this=call("ROUND", value.copy(), whole_number(scale)), expression=value.copy())
    return exp.and_(_is(value, "real"), rounded, _between(value, 1 - bound, bound - 1))


def _between(value: exp.Expr, low: int, high: int) -> exp.Expression:
    return exp.Between(this=value.copy(), low=whole_number(low), high=whole_number(high))


def _is(value: exp.Expr, storage: str) -> exp.Expression:
    return one_of(call("TYPEOF", value.copy()), (storage,))


def _plus_zero(value: exp.Expr) -> exp.Expression:
    return exp.Add(this=exp.Paren(this=value.copy()), expression=whole_number(0))
