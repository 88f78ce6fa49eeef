"""How MySQL and MariaDB spell types, casts, instants and hashes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from sqlglot import exp, parse_one

from ..errors import UnsupportedError
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
from .dialect import Dialect, KnownTypes, utc_text
from .expression import call, cast_to, choose, filled, literal_text, one_of, plain_text, text_literal, whole_number
from .hooks import DECLARED, KIND, Hook
from .template import TRUE_WORDS, text_shape

__all__ = ["MARIADB_COLLATION", "MYSQL_COLLATION", "REFUSAL", "MySQLDialect"]

REFUSAL = 200
"""How long the text of a refusal is made: longer than the name of a lock may be."""

MARIADB_COLLATION, MYSQL_COLLATION = "utf8mb4_nopad_bin", "utf8mb4_0900_bin"
"""In which case and blanks at the end count; each server knows one of them."""

MOST_SCALE = 30


class MySQLDialect(Dialect):
    """The SQL of MySQL and MariaDB; the session is strict, in UTC, and compares text by its bytes.

    Neither server tells the type of a value: what is not known is read by way of its text, which every value has.
    """

    name = "mysql"
    max_precision: ClassVar[int] = 65
    type_names: ClassVar[Mapping[str, str]] = {
        "small_int": "SMALLINT", "integer": "INT", "big_int": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
        "numeric": "DECIMAL({precision},{scale})", "boolean": "TINYINT(1)", "text": "LONGTEXT",
        "string": "VARCHAR({length})", "date": "DATE", "timestamp": "DATETIME(6)", "timestamp_tz": "DATETIME(6)",
        "json": "JSON", "jsonb": "JSON", "uuid": "CHAR(36) CHARACTER SET ascii COLLATE ascii_bin",
        "bytes": "LONGBLOB",
    }  # fmt: skip
    known_types: ClassVar[KnownTypes] = {
        "TINYINT": SmallInt(), "TINYINT UNSIGNED": SmallInt(), "SMALLINT": SmallInt(), "YEAR": SmallInt(),
        "SMALLINT UNSIGNED": Integer(), "MEDIUMINT": Integer(), "MEDIUMINT UNSIGNED": Integer(), "INT": Integer(),
        "INT UNSIGNED": BigInt(), "BIGINT": BigInt(), "BIGINT UNSIGNED": Numeric(20, 0), "FLOAT": Float(),
        "DOUBLE": Double(), "DECIMAL": Numeric, "VARCHAR": String, "CHAR": String, "TINYTEXT": Text(), "TEXT": Text(),
        "MEDIUMTEXT": Text(), "LONGTEXT": Text(), "DATE": Date(), "DATETIME": Timestamp(), "TIMESTAMP": TimestampTZ(),
        "JSON": JSON(), "UUID": UUID(), "BINARY": Bytes(), "VARBINARY": Bytes(), "TINYBLOB": Bytes(), "BLOB": Bytes(),
        "MEDIUMBLOB": Bytes(), "LONGBLOB": Bytes(),
    }  # fmt: skip

    def __init__(self, collation: str = MARIADB_COLLATION) -> None:
        self.collation = collation

    def type_name(self, type: ColumnType) -> str:
        if isinstance(type, Numeric) and type.scale > MOST_SCALE:
            raise UnsupportedError(
                f"mysql has no decimals with {type.scale} digits behind the point", hint=f"at most {MOST_SCALE}"
            )
        name = super().type_name(type)
        collated = f" CHARACTER SET utf8mb4 COLLATE {self.collation}"
        return name + collated if isinstance(type, Text | String) else name

    def column_type(self, declared: str) -> ColumnType | None:
        """The type that a column was made with; the servers' own widths of integers mean nothing."""
        name = re.sub(r" (?:CHARACTER SET|COLLATE) .*", "", declared.upper().strip())
        if name == "TINYINT(1)":
            return Boolean()
        if declared.upper().startswith("CHAR(36) CHARACTER SET ASCII"):
            return UUID()
        name = re.sub(r"\b(TINYINT|SMALLINT|MEDIUMINT|INT|BIGINT|YEAR|DATETIME|TIMESTAMP)\(\d+\)", r"\1", name)
        return super().column_type(name.removesuffix(" ZEROFILL"))

    def cast(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        family = self.family(value)
        match type:
            case SmallInt() | Integer() | BigInt():
                return self._whole(value, family, type)
            case Numeric():
                return self._decimal(value, family, type)
            case Float() | Double():
                return self._float(value, family, type)
            case Boolean():
                return self._truth(value, family)
            case Date() | Timestamp() | TimestampTZ():
                return self._moment(value, family, type)
            case Text():
                return self.shown(value)
            case String(length):
                text = self.shown(value)
                too_long = exp.GT(this=call("CHAR_LENGTH", text), expression=whole_number(length))
                return choose((too_long, self.misfit(value, type)), default=text.copy())
            case UUID():
                return cast_to(self._shaped(value, type, call("LOWER", _trimmed(value))), "CHAR")
            case JSON() | JSONB():
                text = self.shown(value)
                bad = exp.EQ(this=call("JSON_VALID", text), expression=whole_number(0))
                return choose((bad, self.misfit(value, type)), default=text.copy())
            case _:
                return _whole_value(value) if family == "bytes" else cast_to(self.shown(value), "BINARY")

    def instant(self, value: datetime) -> exp.Expression:
        return cast_to(text_literal(utc_text(value)), "DATETIME(6)")

    def literal(self, text: str, type: ColumnType) -> exp.Expression:
        if isinstance(type, Text | String | JSON | JSONB | UUID):
            return text_literal(text)
        return super().literal(text, type)

    def text(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        match type:
            case Timestamp() | TimestampTZ():
                return call("DATE_FORMAT", value.copy(), text_literal("%Y-%m-%d %H:%i:%s.%f"))
            case Bytes():
                return call("LOWER", call("HEX", value.copy()))
            case Boolean():
                return filled(_TRUTH_TEXT, value)
            case Float() | Double():
                zero = exp.EQ(this=value.copy(), expression=whole_number(0))
                return choose((zero, text_literal("0")), default=filled(_SHARED_FLOAT, value))
            case Numeric():
                return cast_to(cast_to(value, self._target(type)), "CHAR")
            case _:
                return cast_to(value, "CHAR")

    def sha256(self, text: exp.Expr) -> exp.Expression:
        return call("UNHEX", call("SHA2", text.copy(), whole_number(256)))

    def concat(self, parts: Sequence[exp.Expr]) -> exp.Expression:
        return call("CONCAT", *parts)

    def _hashed(self, column: exp.Expr, type: ColumnType) -> exp.Expression:
        text = self.text(column, type)
        sized = self.concat([cast_to(call("CHAR_LENGTH", text.copy()), "CHAR"), text_literal(":"), text])
        return choose((exp.Is(this=column.copy(), expression=exp.null()), text_literal("N")), default=sized)

    def parse_timestamp(self, value: exp.Expr, formats: Sequence[str]) -> exp.Expression:
        raise _unsaid("parse_timestamp()")

    def parse_date(self, value: exp.Expr, formats: Sequence[str]) -> exp.Expression:
        raise _unsaid("parse_date()")

    def refuse(self, message: exp.Expr) -> exp.Expression:
        # There is no function that fails with a text of one's own; a lock must not have a name as long as this.
        return call("IS_FREE_LOCK", call("RPAD", message, whole_number(REFUSAL), text_literal(" ")))

    def hooks(self) -> Mapping[str, Hook]:
        return {**super().hooks(), "FIRST_CHARACTERS": _first_characters}

    def missing(self, query: exp.Expr) -> tuple[str, ...]:
        """Letters have the case that the server's tables give them, which is not all of Unicode."""
        cased = [f"{node.key}()" for node in query.find_all(exp.Lower, exp.Upper)]
        called = {node.name.upper().removesuffix("_STRICT") for node in query.find_all(exp.Anonymous)}
        parsed = [f"{name.lower()}()" for name in ("PARSE_TIMESTAMP", "PARSE_DATE") if name in called]
        return tuple(dict.fromkeys((*super().missing(query), *cased, *parsed)))

    def default_to(self, node: exp.Expr) -> exp.Expression:
        value, given = node.expressions
        text = text_literal(plain_text(given))
        if isinstance(node.meta.get(DECLARED), Bytes):
            return call("COALESCE", value.copy(), cast_to(text, "BINARY"))
        return call("COALESCE", self.shown(value), text)

    def _text_of(self, node: exp.Expr) -> exp.Expression:
        return self.shown(node.expressions[0])

    def family(self, value: exp.Expr) -> str:
        """What kind of values an expression gives; one that is not known gives what its text says."""
        match value:
            case exp.Paren() | exp.Neg():
                return self.family(value.this)
            case exp.Boolean():
                return "truth"
            case exp.Literal() if not value.is_string:
                return "float" if "e" in value.name.lower() else "decimal" if "." in value.name else "whole"
            case exp.Cast():
                kind = str(value.to.args.get("kind") or value.to.sql("mysql"))
            case _:
                kind = str(value.meta.get(KIND) or "")
        return _family(kind)

    def shown(self, value: exp.Expr) -> exp.Expression:
        """The value as text, in the form that all engines share."""
        forms = {"truth": _TRUTH_TEXT, "float": _SHARED_FLOAT, "moment": _MOMENT_TEXT}
        family = self.family(value)
        if family in forms:
            return filled(forms[family], value)
        if family == "bytes":
            message = text_literal("bytes are no text in UTF-8: ")
            broken = cast_to(self.refuse(self.concat([message, call("HEX", value.copy())])), "CHAR")
            return choose((filled(_BROKEN, value), broken), default=filled(_DECODED, value))
        return cast_to(value, "CHAR")

    def misfit(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        """Refuses a value that does not fit a declared type."""
        text = cast_to(value, "CHAR") if self.family(value) != "bytes" else call("HEX", value.copy())
        message = self.concat([text_literal(f"a value does not fit {type}: "), text])
        return cast_to(self.refuse(message), self._target(type))

    def _target(self, type: ColumnType) -> str:
        """What CAST calls the type."""
        match type:
            case SmallInt() | Integer() | BigInt() | Boolean():
                return "SIGNED"
            case Float() | Double() | Date() | Timestamp() | TimestampTZ() | Numeric():
                return self.type_name(type)
            case Bytes():
                return "BINARY"
            case _:
                return "CHAR"

    def _shaped(self, value: exp.Expr, type: ColumnType, read: exp.Expr, shape: str | None = None) -> exp.Expression:
        """What is read of a text, which must have the shape of its type."""
        text = _trimmed(value)
        pattern = text_literal(rf"^(?:{shape or text_shape(type)})\z")
        alien = exp.EQ(this=call("REGEXP_INSTR", text, pattern), expression=whole_number(0))
        return choose((alien, self.misfit(value, type)), default=read)

    def _whole(self, value: exp.Expr, family: str, type: ColumnType) -> exp.Expression:
        if family == "truth":
            return _whole_value(value)
        most = _MOST[type.kind]
        if family == "whole":
            known = self.column_type(str(value.meta.get(KIND) or "")) if value.meta.get(KIND) else None
            fits = known is not None and _MOST.get(known.kind, 2**64) <= most
            return _whole_value(value) if fits else self._ranged(value, value, -most - 1, most, type)
        if family in ("float", "decimal"):
            number = cast_to(value, "DOUBLE") if family == "float" else value
            fraction = exp.NEQ(this=number.copy(), expression=call("FLOOR", number.copy()))
            digits = cast_to(cast_to(number, "CHAR"), "DECIMAL(65,0)")
            ranged = self._ranged(value, digits, -most - 1, most, type)
            return cast_to(choose((fraction, self.misfit(value, type)), default=ranged), "SIGNED")
        digits = cast_to(_trimmed(value), "DECIMAL(65,0)")
        ranged = self._ranged(value, digits, -most - 1, most, type)
        return cast_to(self._shaped(value, type, ranged), "SIGNED")

    def _ranged(self, value: exp.Expr, number: exp.Expr, low: int, high: int, type: ColumnType) -> exp.Expression:
        between = exp.Between(this=number.copy(), low=exp.Literal.number(low), high=exp.Literal.number(high))
        return choose((exp.Not(this=between), self.misfit(value, type)), default=number.copy())

    def _decimal(self, value: exp.Expr, family: str, type: Numeric) -> exp.Expression:
        known = self.column_type(str(value.meta.get(KIND) or "")) if value.meta.get(KIND) else None
        if isinstance(known, Numeric) and known == type:
            return _whole_value(value)
        given = value
        if family == "float":
            given = cast_to(cast_to(value, "DOUBLE"), "CHAR")
        elif family not in ("whole", "decimal", "truth"):
            given = _trimmed(value)
        # Rounded once, half away from zero, with more room in front than the type has.
        number = cast_to(given, f"DECIMAL(65,{type.scale})")
        bound = exp.Literal.number(f"1{'0' * (type.precision - type.scale)}")
        large = exp.GTE(this=call("ABS", number), expression=bound)
        fitting = choose((large, self.misfit(value, type)), default=number.copy())
        if family not in ("whole", "decimal", "truth", "float"):
            fitting = self._shaped(value, type, fitting)
        return cast_to(fitting, self._target(type))

    def _float(self, value: exp.Expr, family: str, type: ColumnType) -> exp.Expression:
        is_number = family in ("whole", "decimal", "truth", "float")
        number = cast_to(value if is_number else _trimmed(value), "DOUBLE")
        most = "3.4028235677973366e38" if isinstance(type, Float) else "1.7976931348623157e308"
        large = exp.GTE(this=call("ABS", number), expression=exp.Literal.number(most))
        bounded = choose((large, self.misfit(value, type)), default=number.copy())
        if is_number and isinstance(type, Double):
            return number
        return cast_to(bounded if is_number else self._shaped(value, type, bounded, _NUMBER), self._target(type))

    def _truth(self, value: exp.Expr, family: str) -> exp.Expression:
        if family in ("truth", "whole", "decimal", "float"):
            return exp.Paren(this=exp.NEQ(this=_whole_value(value), expression=whole_number(0)))
        meant = one_of(call("LOWER", _trimmed(value)), TRUE_WORDS)
        return self._shaped(value, Boolean(), exp.Paren(this=meant))

    def _moment(self, value: exp.Expr, family: str, type: ColumnType) -> exp.Expression:
        target = self._target(type)
        if family in ("day", "moment"):
            return cast_to(value, target)
        text = _trimmed(value)
        form = _DAY if isinstance(type, Date) else _UTC if isinstance(type, TimestampTZ) else _LOCAL
        read = call("COALESCE", filled(form, text), self.misfit(value, type))
        return cast_to(self._shaped(value, type, choose((_is_null(text), exp.null()), default=read)), target)


_NUMBER = str(text_shape(Numeric(1, 0)))
_MOST = {"small_int": 2**15 - 1, "integer": 2**31 - 1, "big_int": 2**63 - 1}
_FAMILIES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "YEAR", "SIGNED", "UNSIGNED"), "whole"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"), "DECIMAL": "decimal", "DATE": "day",
    **dict.fromkeys(("DATETIME", "TIMESTAMP"), "moment"),
    **dict.fromkeys(("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "BIT"), "bytes"),
}  # fmt: skip


def _family(kind: str) -> str:
    if kind.upper() in ("TINYINT(1)", "BOOLEAN"):
        return "truth"
    return _FAMILIES.get(re.split(r"[ (]", kind.upper(), maxsplit=1)[0], "text")


def _trimmed(value: exp.Expr) -> exp.Expression:
    return call("TRIM", cast_to(value, "CHAR"))


def _whole_value(value: exp.Expr) -> exp.Expression:
    return exp.Paren(this=value.copy())


def _is_null(value: exp.Expr) -> exp.Expression:
    return exp.Is(this=value.copy(), expression=exp.null())


def _first_characters(node: exp.Expr) -> exp.Expression:
    text, count = node.expressions[0], int(literal_text(node.expressions[1]))
    if count >= 0:
        return call("LEFT", text.copy(), whole_number(count))
    left = exp.Sub(this=call("CHAR_LENGTH", text.copy()), expression=whole_number(-count))
    return call("LEFT", text.copy(), call("GREATEST", left, whole_number(0)))


def _unsaid(what: str) -> UnsupportedError:
    return UnsupportedError(f"mysql has no exact form of {what}", hint="let Spark do it")


def _form(sql: str) -> exp.Expr:
    return parse_one(sql, read="mysql")


_TRUTH_TEXT = _form("CASE WHEN :x IS NULL THEN NULL WHEN :x THEN 'true' ELSE 'false' END")
_MOMENT_TEXT = _form(
    "CASE WHEN LOCATE('.', CAST(:x AS CHAR)) = 0 THEN CAST(:x AS CHAR) "
    "ELSE TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(:x AS CHAR))) END"
)
_DECODED = _form("CAST(CAST(:x AS CHAR CHARACTER SET utf8mb4) AS CHAR)")
_BROKEN = _form("NOT CAST(CAST(:x AS CHAR CHARACTER SET utf8mb4) AS BINARY) <=> CAST(:x AS BINARY)")
_DAY = _form("CAST(LEFT(:x, 10) AS DATE)")
_LOCAL_TIME = "CAST(CONCAT(LEFT(:x, 10), LEFT(REGEXP_REPLACE(SUBSTR(:x, 11), '(Z|[+-].*)$', ''), 16)) AS DATETIME(6))"
_LOCAL = _form(_LOCAL_TIME)
_OFFSET = "REGEXP_SUBSTR(SUBSTR(:x, 11), '[+-].*$')"
_UTC = _form(
    f"CASE WHEN {_OFFSET} = '' OR {_OFFSET} IS NULL THEN {_LOCAL_TIME} ELSE "
    f"{_LOCAL_TIME} + INTERVAL ((CASE LEFT({_OFFSET}, 1) WHEN '-' THEN 1 ELSE -1 END) "
    f"* (CAST(SUBSTR({_OFFSET}, 2, 2) AS SIGNED) * 60 "
    f"+ CASE WHEN CHAR_LENGTH({_OFFSET}) > 3 THEN CAST(RIGHT({_OFFSET}, 2) AS SIGNED) ELSE 0 END)) MINUTE END"
)
# A whole number has a point, numbers from 1e16 on and below 1e-4 have an exponent of two digits at least.
_DIGITS = "CAST(CAST(:x AS DOUBLE) AS CHAR)"
_SIGN = "CASE WHEN LEFT(CAST(CAST(:x AS DOUBLE) AS CHAR), 1) = '-' THEN '-' ELSE '' END"
_EXPONENT = f"SUBSTRING_INDEX({_DIGITS}, 'e-', -1)"
_BEHIND = f"SUBSTRING_INDEX({_DIGITS}, '.', -1)"
_SIGNIFICANT = f"TRIM(LEADING '0' FROM {_BEHIND})"
_SHARED_FLOAT = _form(
    f"CASE WHEN :x IS NULL THEN NULL "
    f"WHEN LOCATE('e-', {_DIGITS}) > 0 THEN CONCAT(SUBSTRING_INDEX({_DIGITS}, 'e', 1), 'e-', "
    f"LPAD({_EXPONENT}, GREATEST(2, CHAR_LENGTH({_EXPONENT})), '0')) "
    f"WHEN ABS(:x) >= 1e16 THEN REPLACE({_DIGITS}, 'e', 'e+') "
    f"WHEN ABS(:x) >= 1e15 THEN CASE WHEN :x = FLOOR(:x) "
    f"THEN CONCAT(CAST(CAST({_DIGITS} AS DECIMAL(65,0)) AS CHAR), '.0') "
    f"ELSE TRIM(TRAILING '0' FROM CAST(CAST({_DIGITS} AS DECIMAL(65,9)) AS CHAR)) END "
    f"WHEN ABS(:x) < 1e-4 AND :x <> 0 THEN CONCAT({_SIGN}, LEFT({_SIGNIFICANT}, 1), "
    f"CASE WHEN CHAR_LENGTH({_SIGNIFICANT}) > 1 THEN CONCAT('.', SUBSTR({_SIGNIFICANT}, 2)) ELSE '' END, 'e-', "
    f"LPAD(CAST(CHAR_LENGTH({_BEHIND}) - CHAR_LENGTH({_SIGNIFICANT}) + 1 AS CHAR), 2, '0')) "
    f"WHEN LOCATE('.', {_DIGITS}) > 0 THEN {_DIGITS} ELSE CONCAT({_DIGITS}, '.0') END"
)
