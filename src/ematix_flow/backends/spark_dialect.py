"""How Spark spells types, casts, instants, hashes and parsing: `SparkDialect`."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
from .expression import call, choose, joined, plain_text, text_literal
from .hooks import DECLARED
from .template import Template

__all__ = ["SparkDialect"]


class SparkDialect(CleaningDialect):
    """Spark SQL, for every system whose rows are frames; the session runs in UTC and in ANSI mode."""

    name = "spark"
    text_type = "STRING"
    whole_types = ("tinyint", "smallint", "int", "bigint", "boolean")
    time_types = ("date", "timestamp", "timestamp_ntz")
    text_kinds = ("string",)
    float_kinds = ("float", "double")
    boolean_kind = "boolean"
    instant_kind = "timestamp"
    type_names: ClassVar[Mapping[str, str]] = {
        "small_int": "SMALLINT", "integer": "INT", "big_int": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
        "numeric": "DECIMAL({precision}, {scale})", "boolean": "BOOLEAN", "text": "STRING", "string": "STRING",
        "date": "DATE", "timestamp": "TIMESTAMP_NTZ", "timestamp_tz": "TIMESTAMP", "json": "STRING", "jsonb": "STRING",
        "uuid": "STRING", "bytes": "BINARY",
    }  # fmt: skip
    known_types: ClassVar[KnownTypes] = {
        "TINYINT": SmallInt(), "SMALLINT": SmallInt(), "INT": Integer(), "BIGINT": BigInt(), "FLOAT": Float(),
        "DOUBLE": Double(), "DECIMAL": Numeric, "BOOLEAN": Boolean(), "STRING": Text(), "VARCHAR": String,
        "CHAR": String, "DATE": Date(), "TIMESTAMP_NTZ": Timestamp(), "TIMESTAMP": TimestampTZ(), "BINARY": Bytes(),
    }  # fmt: skip

    def cast_text(self, text: exp.Expr, type: ColumnType) -> exp.Expression:
        match type:
            case UUID():
                return call("LOWER", text.copy())
            case Timestamp() | TimestampTZ():
                # Spark reads an offset only after seconds.
                short, full = text_literal(r"^(.{16})([Z+-].*)$"), text_literal("$1:00$2")
                return super().cast_text(call("REGEXP_REPLACE", text.copy(), short, full), type)
            case _:
                return super().cast_text(text, type)

    def cast_typed(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        plain = self.convert(value, self.type_name(type))
        match type:
            case UUID():
                return choose((self.is_kind(value, ("void",)), plain), default=self.misfit(value, type))
            case TimestampTZ():
                # Spark would read a number as seconds since 1970.
                timely = self.is_kind(value, (*self.time_types, "void"))
                return choose((timely, plain), default=self.misfit(value, type))
            case JSON() | JSONB():
                return choose((_is_broken(plain), self.misfit(value, type)), default=plain.copy())
            case String(length):
                # The text of a float is long to say, so it is said once here: NULL means that it is too long.
                number = call("REGEXP_SUBSTR", self._float_text(value), text_literal(f"^.{{0,{length}}}$"))
                null = exp.Is(this=value.copy(), expression=exp.null())
                number = call("COALESCE", number, choose((null, exp.null()), default=self.misfit(value, type)))
                text = self._decoded(value)
                too_long = exp.GT(this=call("LENGTH", text), expression=exp.Literal.number(length))
                return choose(
                    (self.is_kind(value, self.float_kinds), number),
                    (too_long, self.misfit(value, type)),
                    default=text.copy(),
                )
            case _:
                return super().cast_typed(value, type)

    def shown(self, value: exp.Expr) -> exp.Expression:
        is_float = self.is_kind(value, self.float_kinds)
        return choose((is_float, self._float_text(value)), default=self._decoded(value))

    def text(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        if isinstance(type, Timestamp | TimestampTZ):
            return call("DATE_FORMAT", value.copy(), text_literal("yyyy-MM-dd HH:mm:ss.SSSSSS"))
        return super().text(value, type)

    def sha256(self, text: exp.Expr) -> exp.Expression:
        return call("UNHEX", call("SHA2", text.copy(), exp.Literal.number(256)))

    def matches(self, text: exp.Expr, shape: str) -> exp.Expression:
        return call("REGEXP_LIKE", text.copy(), text_literal(rf"^(?:{shape})\z"))

    def reshape(self, text: exp.Expr, template: Template, iso: str) -> exp.Expression:
        groups = text_literal(re.sub(r"\\(\d+)", r"$\1", iso))
        parts = text_literal(rf"^{template.shape}\z")
        return choose((self.matches(text, template.shape), call("REGEXP_REPLACE", text.copy(), parts, groups)))

    def refuse(self, message: exp.Expr) -> exp.Expression:
        return call("RAISE_ERROR", message)

    def regex_replace(self, text: exp.Expr, pattern: str, replacement: str, *, everywhere: bool) -> exp.Expression:
        if everywhere:
            return call("REGEXP_REPLACE", text.copy(), text_literal(pattern), text_literal(_in_java(replacement, 0)))
        # Spark replaces every match. To replace the first alone, what is before it is matched and put back.
        first, new = rf"\A((?s:.*?))({pattern})", "$1" + _in_java(replacement, 2)
        return call("REGEXP_REPLACE", text.copy(), text_literal(first), text_literal(new))

    def default_to(self, node: exp.Expr) -> exp.Expression:
        # Spark would make numbers of texts rather than a text of the number.
        value, given = node.expressions
        is_text = self.is_text(value) or isinstance(node.meta.get(DECLARED), Text | String)
        return call("COALESCE", value.copy(), text_literal(plain_text(given)) if is_text else given.copy())

    def round_float(self, number: exp.Expr, digits: int) -> exp.Expression:
        return call("ROUND", number.copy(), exp.Literal.number(digits))

    def to_local(self, moment: exp.Expr, zone: exp.Expr) -> exp.Expression:
        return call("CONVERT_TIMEZONE", text_literal("UTC"), zone.copy(), moment.copy())

    def from_local(self, moment: exp.Expr, zone: exp.Expr) -> exp.Expression:
        filled = {"moment": moment, "zone": zone}
        tree = _FROM_LOCAL.copy()
        for hole in list(tree.find_all(exp.Placeholder)):
            hole.replace(filled[hole.name].copy())
        return exp.Paren(this=tree)

    def random(self) -> exp.Expression:
        return call("RAND")

    def _float_text(self, value: exp.Expr) -> exp.Expression:
        # By way of text, because not every type becomes a float, and this stands in queries over all of them.
        plain = self.convert(value, self.text_type)
        single = self.convert(self.convert(plain, "FLOAT"), "DOUBLE")
        number = choose((self.is_kind(value, ("float",)), single), default=self.convert(plain, "DOUBLE"))
        return _FLOAT_TEXT.transform(lambda node: number if isinstance(node, exp.Placeholder) else node)

    def _decoded(self, value: exp.Expr) -> exp.Expression:
        plain = self.convert(value, self.text_type)
        is_binary = self.is_kind(value, ("binary",))
        return choose((is_binary, call("VALIDATE_UTF8", plain)), default=plain.copy())


# Java writes 12000000.0 as 1.2E7 and 1e+20 as 1.0E20, and some very large numbers with more digits than they need.
_FLOAT_TEXT = parse_one(
    r"""
    ELEMENT_AT(TRANSFORM(ARRAY(:number), x -> CASE
        WHEN x IS NULL THEN NULL
        WHEN NOT REGEXP_LIKE(CAST(x AS STRING), '[EIN]') THEN CAST(x AS STRING)
        WHEN ABS(x) BETWEEN 1e-4 AND 9999999999999998D
            THEN REGEXP_REPLACE(CAST(CAST(x AS DECIMAL(38, 20)) AS STRING), '([.][0-9]+?)0*$', '$1')
        ELSE REGEXP_REPLACE(LOWER(CASE
            WHEN CAST(FORMAT_STRING('%.14e', x) AS DOUBLE) = x THEN FORMAT_STRING('%.14e', x)
            WHEN CAST(FORMAT_STRING('%.15e', x) AS DOUBLE) = x THEN FORMAT_STRING('%.15e', x)
            ELSE FORMAT_STRING('%.16e', x) END), '[.]?0+(?=e)|inity', '')
        END), 1)
    """,
    read="spark",
)

# Of an hour that a clock shows twice Spark takes the earlier one. The offset of the day after gives the later one.
_FROM_LOCAL = parse_one(
    """
    ELEMENT_AT(TRANSFORM(
        TRANSFORM(
            TRANSFORM(ARRAY(:moment), t -> NAMED_STRUCT('t', t, 'utc', CONVERT_TIMEZONE(:zone, 'UTC', t))),
            x -> NAMED_STRUCT('t', x.t, 'utc', x.utc, 'later', x.t - (
                CONVERT_TIMEZONE('UTC', :zone, x.utc + INTERVAL '1' DAY) - (x.utc + INTERVAL '1' DAY)))),
        y -> CASE WHEN CONVERT_TIMEZONE('UTC', :zone, y.later) = y.t THEN GREATEST(y.utc, y.later) ELSE y.utc END
    ), 1)
    """,
    read="spark",
)


def _in_java(replacement: str, shift: int) -> str:
    """A replacement in Java's words, its groups counted from another begin."""

    def part(found: re.Match[str]) -> str:
        # A digit behind the number of a group must not be read as part of it.
        if found["group"]:
            return f"${int(found['group']) + shift}" + (f"\\{found['digit']}" if found["digit"] else "")
        return f"\\{found[0][-1]}"

    return re.sub(r"\\(?P<group>\d)(?P<digit>\d?)|\\\\|[$]", part, replacement)


def _is_broken(text: exp.Expr) -> exp.Expression:
    """Whether a text is no JSON. Spark reads no further than the first value, so that has to fill both brackets."""
    given = exp.Not(this=exp.Is(this=text.copy(), expression=exp.null()))
    framed = (joined([text_literal(a), text.copy(), text_literal(z)]) for a, z in (("[", "]"), ('{"v":', "}")))
    broken = [exp.Is(this=call("TRY_PARSE_JSON", one), expression=exp.null()) for one in framed]
    return exp.And(this=given, expression=exp.Paren(this=exp.Or(this=broken[0], expression=broken[1])))
