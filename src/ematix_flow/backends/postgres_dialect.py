"""How PostgreSQL spells types, casts, instants, hashes and parsing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
from .cleaning import CleaningDialect
from .dialect import KnownTypes
from .expression import call, cast_to, choose, filled, joined, text_literal, whole_number
from .hooks import HOOKS, KIND

__all__ = ["FITS", "LOWER", "REFUSE", "UPPER", "PostgresDialect"]

LOWER, UPPER = "PG_TEMP.EMATIX_LOWER", "PG_TEMP.EMATIX_UPPER"
REFUSE = "PG_TEMP.EMATIX_REFUSE"
FITS = "PG_TEMP.EMATIX_FITS"
"""Functions that a connection makes for itself when a statement needs them."""


class PostgresDialect(CleaningDialect):
    """PostgreSQL's SQL; the session runs in UTC.

    PostgreSQL reads every branch of a query, whichever it takes, and knows no cast between many of its types: a value
    whose type is not known goes by way of its text.
    """

    name = "postgres"
    max_precision: ClassVar[int] = 1000
    text_type = "TEXT"
    whole_types = ("smallint", "integer", "bigint")
    time_types = ("date", "timestamp without time zone", "timestamp with time zone")
    text_kinds = ("text", "character varying", "character", "name", "unknown")
    float_kinds = ("real", "double precision")
    lower_call, upper_call = LOWER, UPPER
    boolean_kind = "boolean"
    instant_kind = "timestamp with time zone"
    type_names: ClassVar[Mapping[str, str]] = {
        "small_int": "SMALLINT", "integer": "INTEGER", "big_int": "BIGINT", "float": "REAL",
        "double": "DOUBLE PRECISION", "numeric": "NUMERIC({precision},{scale})", "boolean": "BOOLEAN", "text": "TEXT",
        "string": "VARCHAR({length})", "date": "DATE", "timestamp": "TIMESTAMP", "timestamp_tz": "TIMESTAMPTZ",
        "json": "JSON", "jsonb": "JSONB", "uuid": "UUID", "bytes": "BYTEA",
    }  # fmt: skip
    known_types: ClassVar[KnownTypes] = {
        "SMALLINT": SmallInt(), "INTEGER": Integer(), "BIGINT": BigInt(), "REAL": Float(),
        "DOUBLE PRECISION": Double(), "NUMERIC": Numeric, "BOOLEAN": Boolean(), "TEXT": Text(), "NAME": Text(),
        "CHARACTER VARYING": String, "VARCHAR": String, "CHARACTER": String, "DATE": Date(),
        "TIMESTAMP": Timestamp(), "TIMESTAMPTZ": TimestampTZ(), "TIMESTAMP WITHOUT TIME ZONE": Timestamp(),
        "TIMESTAMP WITH TIME ZONE": TimestampTZ(), "JSON": JSON(), "JSONB": JSONB(), "UUID": UUID(),
        "BYTEA": Bytes(),
    }  # fmt: skip

    def column_type(self, declared: str) -> ColumnType | None:
        # A length is optional here; without one the text has no bound.
        bare = declared.upper().strip()
        return Text() if bare in ("CHARACTER VARYING", "VARCHAR") else super().column_type(declared)

    def kind(self, value: exp.Expr) -> exp.Expression:
        return cast_to(call("PG_TYPEOF", value.copy()), "TEXT")

    def known_kind(self, value: exp.Expr) -> str | None:
        if isinstance(value, exp.Literal) and not value.is_string:
            return "integer" if value.name.isdigit() else "numeric"
        known = super().known_kind(value)
        return known and known.partition("(")[0]

    def convert(self, value: exp.Expr, type_name: str, *, attempt: bool = False) -> exp.Expression:
        name = _SPELLED.get(type_name, type_name.replace("DECIMAL", "NUMERIC"))
        if name == "TEXT":
            return cast_to(value, name)
        if isinstance(value, exp.Cast) and not attempt and _group(_written(value)) == _group(name) is not None:
            return cast_to(value, name)
        text = cast_to(value, "TEXT")
        return self._attempt(text, name) if attempt else cast_to(text, name)

    def compared_type(self, type: ColumnType) -> ColumnType:
        return Text() if isinstance(type, JSON) else type

    def compared(self, value: exp.Expression, type: ColumnType) -> exp.Expression:
        return cast_to(value, "TEXT") if isinstance(type, JSON) else value

    def literal(self, text: str, type: ColumnType) -> exp.Expression:
        if isinstance(type, Bytes):
            return call("CONVERT_TO", text_literal(text), text_literal("UTF8"))
        return cast_to(text_literal(text), self.type_name(type))

    def concat(self, parts: Sequence[exp.Expr]) -> exp.Expression:
        # CONCAT takes a hundred arguments at most.
        return joined(parts)

    def cast(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        known = super().known_kind(value)
        if known == "real" and not isinstance(type, Float):
            # By its text, which PostgreSQL goes by, a single number would become another double.
            value = cast_to(value, "DOUBLE PRECISION")
            value.meta[KIND] = known = "double precision"
        if known is not None and not isinstance(value, exp.Literal) and self._is_kept(known, type):
            return exp.Paren(this=value.copy())
        return super().cast(value, type)

    def cast_text(self, text: exp.Expr, type: ColumnType) -> exp.Expression:
        match type:
            case Float() | Double():
                # PostgreSQL refuses by itself what is too large.
                return self.convert(text, self.type_name(type))
            case Timestamp() | TimestampTZ():
                # PostgreSQL would round to the microsecond.
                finer, cut = text_literal(r"(\.\d{6})\d+"), text_literal(r"\1")
                return self.convert(call("REGEXP_REPLACE", text.copy(), finer, cut), self.type_name(type))
            case _:
                return super().cast_text(text, type)

    def cast_typed(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        is_text = self.is_kind(value, self.text_kinds)
        text = self.convert(value, "TEXT")
        match type:
            case SmallInt() | Integer() | BigInt():
                truth = choose(
                    (exp.EQ(this=text, expression=text_literal("true")), whole_number(1)), default=whole_number(0)
                )
                known = exp.Is(this=value.copy(), expression=exp.null())
                truth = choose((known, exp.null()), default=truth)
                is_truth = self.is_kind(value, (self.boolean_kind,))
                return choose((is_truth, cast_to(truth, self.type_name(type))), default=super().cast_typed(value, type))
            case Float() | Double():
                return self.convert(value, self.type_name(type))
            case Boolean():
                is_truth = self.is_kind(value, (self.boolean_kind, *self.text_kinds))
                number = exp.NEQ(this=self.convert(value, "NUMERIC"), expression=whole_number(0))
                return choose((is_truth, self.convert(value, "BOOLEAN")), default=exp.Paren(this=number))
            case Bytes():
                utf8 = call("CONVERT_TO", text.copy(), text_literal("UTF8"))
                return choose((is_text, utf8), default=self.convert(value, "BYTEA"))
            case Numeric():
                # A float is rounded as it is written, which is what its text says.
                return self.convert(value, self.type_name(type))
            case _:
                return super().cast_typed(value, type)

    def shown(self, value: exp.Expr) -> exp.Expression:
        plain = self.convert(value, "TEXT")
        bare = call("REGEXP_REPLACE", plain.copy(), text_literal(r"\+00$"), text_literal(""))
        utf8 = call("CONVERT_FROM", self.convert(value, "BYTEA"), text_literal("UTF8"))
        return choose(
            (self.is_kind(value, ("text", "character varying")), plain),
            (self.is_kind(value, self.float_kinds), _float_text(value)),
            (self.is_kind(value, (self.instant_kind,)), bare),
            (self.is_kind(value, ("bytea",)), utf8),
            default=plain.copy(),
        )

    def text(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        match type:
            case Timestamp() | TimestampTZ():
                return call("TO_CHAR", value.copy(), text_literal("YYYY-MM-DD HH24:MI:SS.US"))
            case Bytes():
                return call("ENCODE", value.copy(), text_literal("hex"))
            case Float() | Double():
                zero = exp.EQ(this=value.copy(), expression=whole_number(0))
                return choose((zero, text_literal("0")), default=self.convert(value, "TEXT"))
            case _:
                return self.convert(value, "TEXT")

    def sha256(self, text: exp.Expr) -> exp.Expression:
        return call("SHA256", call("CONVERT_TO", text.copy(), text_literal("UTF8")))

    def matches(self, text: exp.Expr, shape: str) -> exp.Expression:
        return exp.Paren(this=exp.RegexpLike(this=text.copy(), expression=text_literal(f"^(?:{_spelled(shape)})$")))

    def refuse(self, message: exp.Expr) -> exp.Expression:
        return call(REFUSE, message, exp.cast(exp.null(), "text"))

    def misses(self, value: exp.Expr, type: ColumnType) -> exp.Expr | None:
        fits = call(FITS, cast_to(value, "TEXT"), text_literal(self.type_name(type)))
        return exp.Not(this=fits)

    def strict(self, value: exp.Expr, parsed: exp.Expr, problem: str) -> exp.Expression:
        message = self.concat([text_literal(f"{problem}: "), self.cast(value, Text())])
        is_null = exp.Is(this=value.copy(), expression=exp.null())
        refused = call(REFUSE, message, parsed.copy())
        return choose((is_null, exp.null()), default=call("COALESCE", parsed, refused))

    def missing(self, query: exp.Expr) -> tuple[str, ...]:
        # Of several ways to match, PostgreSQL takes the longest and other engines the first: alike for one class.
        patterns = [node.expressions[1].name for node in query.find_all(exp.Anonymous) if node.name == "REGEX_REPLACE"]
        odd = any(not re.fullmatch(_ONE_CLASS, pattern) for pattern in patterns)
        return (*super().missing(query), *((HOOKS["REGEX_REPLACE"],) if odd else ()))

    def round_float(self, number: exp.Expr, digits: int) -> exp.Expression:
        finite = exp.LT(this=call("ABS", number.copy()), expression=cast_to(text_literal("1e300"), "DOUBLE PRECISION"))
        exact = cast_to(cast_to(number, "TEXT"), "NUMERIC")
        rounded = cast_to(call("ROUND", exact, exp.Literal.number(digits)), "DOUBLE PRECISION")
        return choose((finite, rounded), default=number.copy())

    def to_local(self, moment: exp.Expr, zone: exp.Expr) -> exp.Expression:
        return call("TIMEZONE", zone.copy(), call("TIMEZONE", text_literal("UTC"), moment.copy()))

    def from_local(self, moment: exp.Expr, zone: exp.Expr) -> exp.Expression:
        return call("TIMEZONE", text_literal("UTC"), call("TIMEZONE", zone.copy(), moment.copy()))

    def _is_kept(self, kind: str, type: ColumnType) -> bool:
        """Whether values of PostgreSQL's own type are values of the declared one, as they are."""
        given = self.column_type(kind)
        if isinstance(given, String):
            if kind.startswith("character("):
                return False  # its blanks at the end are not part of the value
            return isinstance(type, Text) or (isinstance(type, String) and type.length >= given.length)
        return given is not None and given == type

    def _attempt(self, text: exp.Expression, name: str) -> exp.Expression:
        """The cast where it succeeds, else NULL; the text has the shape of the type already, but perhaps no meaning."""
        tree = _ATTEMPTS.get(name)
        if tree is not None:
            return filled(tree, text)
        parameters = re.fullmatch(r"NUMERIC\((\d+), ?(\d+)\)", name)
        assert parameters is not None, name
        precision, scale = (int(number) for number in parameters.groups())
        number = call("ROUND", cast_to(text, "NUMERIC"), exp.Literal.number(scale))
        fits = exp.LT(this=call("ABS", number), expression=cast_to(text_literal(f"1e{precision - scale}"), "NUMERIC"))
        return choose((exp.and_(_is_number(text), fits), cast_to(number.copy(), name)))


_SPELLED = {"DOUBLE": "DOUBLE PRECISION", "FLOAT": "REAL", "VARCHAR": "TEXT"}
_ONE_CLASS = r"(?:\[(?:\\.|[^\[\]\\])+\]|\\.|[\w ,;:#@!%&=<>~'\"/-])\+?"
_GROUPS = {
    **dict.fromkeys(("SMALLINT", "INTEGER", "BIGINT", "REAL", "DOUBLE PRECISION"), "number"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "DATE"), "time"),
}


def _written(value: exp.Cast) -> str:
    return str(value.to.args.get("kind") or value.to.sql("postgres")).upper()


def _group(name: str) -> str | None:
    """Types between which PostgreSQL casts directly."""
    return "number" if name.startswith("NUMERIC") else _GROUPS.get(name)


def _is_number(text: exp.Expr) -> exp.Expression:
    return filled(_NUMBER, text)


def _float_text(value: exp.Expr) -> exp.Expression:
    """The digits of a double in the form that all engines share: a whole number has a point, large ones an exponent."""
    # PostgreSQL computes what is constant before it chooses a branch: a text that is no number must not be cast.
    digits = filled(_DIGITS, cast_to(value, "TEXT"))
    return filled(_FLOAT_TEXT, cast_to(digits, "DOUBLE PRECISION"))


_NUMBER = parse_one(r":x ~ '^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$'", read="postgres")
_ATTEMPTS = {
    "BIGINT": parse_one(
        "CASE WHEN :x ~ '^-?[0-9]+$' THEN CASE WHEN CAST(:x AS NUMERIC) BETWEEN -9223372036854775808 AND "
        "9223372036854775807 THEN CAST(:x AS BIGINT) END "
        r"WHEN :x ~ '^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$' THEN CASE WHEN CAST(:x AS NUMERIC) "
        "BETWEEN -9223372036854775808 AND 9223372036854775807 THEN CAST(CAST(:x AS NUMERIC) AS BIGINT) END END",
        read="postgres",
    ),
    "DOUBLE PRECISION": parse_one(
        r"CASE WHEN :x ~ '^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$' THEN CASE WHEN "
        "ABS(CAST(:x AS NUMERIC)) < 1.7e308 AND (ABS(CAST(:x AS NUMERIC)) > 1e-300 OR CAST(:x AS NUMERIC) = 0) "
        "THEN CAST(:x AS DOUBLE PRECISION) END "
        "WHEN :x ~* '^[+-]?(inf|infinity|nan)$' THEN CAST(:x AS DOUBLE PRECISION) END",
        read="postgres",
    ),
    # The month has so many days: the first of the next one less a day.
    **{
        name: parse_one(
            "CASE WHEN NOT :x ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}' THEN NULL WHEN CAST(SUBSTR(:x, 9, 2) AS INTEGER) "
            "<= EXTRACT(DAY FROM CAST(SUBSTR(:x, 1, 7) || '-01' AS DATE) "
            f"+ INTERVAL '1 month' - INTERVAL '1 day') THEN CAST(:x AS {name}) END",
            read="postgres",
        )
        for name in ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
    },
}
_DIGITS = parse_one("CASE WHEN :x ~ '^-?([0-9.]+(e[+-]?[0-9]+)?|NaN|Infinity)$' THEN :x END", read="postgres")
_FLOAT_TEXT = parse_one(
    """
    CASE WHEN :x IS NULL THEN NULL
         WHEN :x = 'NaN' THEN 'nan'
         WHEN :x = 'Infinity' THEN 'inf'
         WHEN :x = '-Infinity' THEN '-inf'
         WHEN ABS(:x) >= 1e15 AND ABS(:x) < 1e16 THEN CAST(CAST(CAST(:x AS TEXT) AS NUMERIC) AS TEXT)
            || CASE WHEN :x = FLOOR(:x) THEN '.0' ELSE '' END
         WHEN CAST(:x AS TEXT) ~ '^-?[0-9]+$' THEN CAST(:x AS TEXT) || '.0'
         ELSE CAST(:x AS TEXT) END
    """,
    read="postgres",
)


def _spelled(shape: str) -> str:
    """A regular expression in PostgreSQL's words, which has no groups that ignore case."""

    def both(found: re.Match[str]) -> str:
        inner = re.sub(r"\\.|\[[^\]]*\]|\(\?:|[A-Za-z]", _either, found[1])
        return f"(?:{inner})"

    return re.sub(r"\(\?i:((?:[^()]|\(\?:[^()]*\))*)\)", both, shape)


def _either(found: re.Match[str]) -> str:
    text = found[0]
    return f"[{text.lower()}{text.upper()}]" if len(text) == 1 and text.isalpha() else text
