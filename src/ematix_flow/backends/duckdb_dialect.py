"""How DuckDB spells types, casts, instants, hashes and parsing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sqlglot import exp

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
    Text,
    Timestamp,
    TimestampTZ,
)
from .cleaning import CleaningDialect
from .dialect import KnownTypes
from .duckdb_macros import LOWER, UPPER
from .expression import call, choose, text_literal

__all__ = ["DuckDBDialect"]


class DuckDBDialect(CleaningDialect):
    """DuckDB's SQL; the session runs in UTC."""

    name = "duckdb"
    max_precision: ClassVar[int] = 38
    text_type = "VARCHAR"
    whole_types = (
        "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT",
        "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "BOOLEAN",
    )  # fmt: skip
    time_types = (
        "DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE",
    )  # fmt: skip
    text_kinds = ("VARCHAR",)
    float_kinds = ("FLOAT", "DOUBLE")
    lower_call, upper_call = LOWER, UPPER
    boolean_kind = "BOOLEAN"
    instant_kind = "TIMESTAMP WITH TIME ZONE"
    # The length of a VARCHAR is not kept by DuckDB, so it is not given.
    type_names: ClassVar[Mapping[str, str]] = {
        "small_int": "SMALLINT", "integer": "INTEGER", "big_int": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
        "numeric": "DECIMAL({precision},{scale})", "boolean": "BOOLEAN", "text": "VARCHAR", "string": "VARCHAR",
        "date": "DATE", "timestamp": "TIMESTAMP", "timestamp_tz": "TIMESTAMPTZ", "json": "JSON", "jsonb": "JSON",
        "uuid": "UUID", "bytes": "BLOB",
    }  # fmt: skip
    known_types: ClassVar[KnownTypes] = {
        "TINYINT": SmallInt(), "UTINYINT": SmallInt(), "SMALLINT": SmallInt(), "USMALLINT": Integer(),
        "INTEGER": Integer(), "UINTEGER": BigInt(), "BIGINT": BigInt(), "UBIGINT": Numeric(20, 0),
        "HUGEINT": Numeric(38, 0), "FLOAT": Float(), "DOUBLE": Double(), "DECIMAL": Numeric, "BOOLEAN": Boolean(),
        "VARCHAR": Text(), "DATE": Date(), "TIMESTAMP": Timestamp(), "TIMESTAMP_S": Timestamp(),
        "TIMESTAMP_MS": Timestamp(), "TIMESTAMP_NS": Timestamp(), "TIMESTAMP WITH TIME ZONE": TimestampTZ(),
        "TIMESTAMPTZ": TimestampTZ(), "JSON": JSON(), "UUID": UUID(), "BLOB": Bytes(),
    }  # fmt: skip

    def cast_typed(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        plain = super().cast_typed(value, type)
        is_text = self.is_kind(value, self.text_kinds)
        match type:
            case Numeric():
                # A float is rounded as it is written, not as it is stored: 1.005 at scale 2 is 1.01.
                written = self.convert(self.convert(self.convert(value, "DOUBLE"), "VARCHAR"), self.type_name(type))
                return choose((self.is_kind(value, self.float_kinds), written), default=plain)
            case Bytes():
                # A cast from text would read backslashes as escapes.
                return choose((is_text, call("ENCODE", self.convert(value, "VARCHAR"))), default=plain)
            case JSON() | JSONB():
                # DuckDB's JSON has NaN, Infinity and commas before a closing bracket, which JSON has not.
                text = self.convert(value, "VARCHAR")
                bare = call("REGEXP_REPLACE", text, text_literal(_JSON_TEXT), text_literal('""'), text_literal("g"))
                alien = call("REGEXP_MATCHES", bare, text_literal(_NO_JSON))
                strict = choose((alien, self.misfit(value, type)), default=plain.copy())
                return choose((is_text, strict), default=plain)
            case _:
                return plain

    def shown(self, value: exp.Expr) -> exp.Expression:
        plain = self.convert(value, "VARCHAR")
        is_decimal = call("STARTS_WITH", self.kind(value), text_literal("DECIMAL"))
        # A decimal without digits before the point is shown as `.5`, an instant with the offset of the session.
        led = call("REGEXP_REPLACE", plain.copy(), text_literal(r"^(-?)\."), text_literal(r"\10."))
        bare = call("REGEXP_REPLACE", plain.copy(), text_literal(r"\+00$"), text_literal(""))
        # The digits of a single-precision number are not the same on all engines, those of a double are.
        double = self.convert(self.convert(value, "DOUBLE"), "VARCHAR")
        return choose(
            (is_decimal, led),
            (self.is_kind(value, self.float_kinds), double),
            (self.is_kind(value, ("TIMESTAMP WITH TIME ZONE",)), bare),
            (self.is_kind(value, ("BLOB",)), call("DECODE", self.convert(value, "BLOB"))),
            default=plain,
        )

    def text(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        if isinstance(type, Timestamp | TimestampTZ):
            # Through microseconds, so that the session's zone has no say.
            moment = call("MAKE_TIMESTAMP", call("EPOCH_US", value.copy()))
            return call("STRFTIME", moment, text_literal("%Y-%m-%d %H:%M:%S.%f"))
        if isinstance(type, Numeric) and type.precision == type.scale < self.max_precision:
            # A decimal without digits before the point is shown as `.5`.
            return super().text(value, Numeric(type.precision + 1, type.scale))
        return super().text(value, type)

    def sha256(self, text: exp.Expr) -> exp.Expression:
        return call("UNHEX", call("SHA256", text.copy()))

    def matches(self, text: exp.Expr, shape: str) -> exp.Expression:
        return call("REGEXP_FULL_MATCH", text.copy(), text_literal(shape))

    def refuse(self, message: exp.Expr) -> exp.Expression:
        return call("ERROR", message)

    def round_float(self, number: exp.Expr, digits: int) -> exp.Expression:
        # Large numbers have no digits to lose; of the others a decimal holds every digit that is written.
        written = self.convert(self.convert(number, "VARCHAR"), f"DECIMAL(38, {digits + 18})")
        rounded = self.convert(call("ROUND", written, exp.Literal.number(digits)), "DOUBLE")
        small = exp.LT(this=call("ABS", number.copy()), expression=self.convert(_power(16 - digits), "DOUBLE"))
        return choose((small, rounded), default=number.copy())

    def to_local(self, moment: exp.Expr, zone: exp.Expr) -> exp.Expression:
        return call("TIMEZONE", zone.copy(), self.convert(moment, "TIMESTAMPTZ"))

    def from_local(self, moment: exp.Expr, zone: exp.Expr) -> exp.Expression:
        return self.convert(call("TIMEZONE", zone.copy(), moment.copy()), "TIMESTAMP")


_JSON_TEXT = r'"(?:\\.|[^"\\])*"'
_NO_JSON = r"(?i)nan|inf|,\s*[\]}]"


def _power(exponent: int) -> exp.Expression:
    return text_literal(f"1e{exponent}")
