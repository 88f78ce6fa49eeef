"""How DuckDB spells types, casts, instants, hashes and parsing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sqlglot import exp

from ..types import (
    JSON,
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
from .dialect import CastingDialect, KnownTypes, call, choose, one_of, text_literal
from .template import Template

__all__ = ["DuckDBDialect"]


class DuckDBDialect(CastingDialect):
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

    def cast(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        plain = super().cast(value, type)
        match type:
            case Numeric():
                # A float is rounded as it is written, not as it is stored: 1.005 at scale 2 is 1.01.
                written = self.convert(self.convert(value, "VARCHAR"), self.type_name(type))
                return choose((one_of(self.kind(value), ("FLOAT", "DOUBLE")), written), default=plain)
            case Bytes():
                # A cast from text would read backslashes as escapes.
                encoded = call("ENCODE", self.convert(value, "VARCHAR"))
                return choose((one_of(self.kind(value), ("VARCHAR",)), encoded), default=plain)
            case _:
                return plain

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

    def reshape(self, text: exp.Expr, template: Template, iso: str) -> exp.Expression:
        fits = call("REGEXP_FULL_MATCH", text.copy(), text_literal(template.shape))
        iso_text = call("REGEXP_REPLACE", text.copy(), text_literal(f"^{template.shape}$"), text_literal(iso))
        return choose((fits, iso_text))

    def refuse(self, message: exp.Expr) -> exp.Expression:
        return call("ERROR", message)
