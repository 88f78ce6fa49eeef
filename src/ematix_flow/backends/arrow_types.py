"""Column types and Arrow types: which declared type an Arrow column is, and the plain form in which it travels."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import date, datetime, time
from functools import cache
from typing import TYPE_CHECKING

from ..errors import CheckError, SpecError
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

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["arrow_type", "column_type", "portable_column", "portable_type"]

MOST_DIGITS = 38
"""Decimals of more digits travel as text: neither DuckDB nor Spark has them."""


def column_type(type: pa.DataType, name: str) -> ColumnType:
    """The declared type that keeps every value of an Arrow column called `name`.

    Lists, structs and maps are JSON. Durations and intervals are refused, because no column type keeps them.
    """
    import pyarrow as pa

    if isinstance(type, pa.BaseExtensionType):
        if type.extension_name in _EXTENSIONS:
            return _EXTENSIONS[type.extension_name]
        raise _homeless(name, type)  # what its values mean is its own secret
    bare = _bare(type)
    if bare.id in _plain():
        return _plain()[bare.id]
    if pa.types.is_decimal(bare):
        precision, scale = max(bare.precision, bare.scale, bare.precision - bare.scale), max(0, bare.scale)
        return Numeric(precision, scale) if precision <= MOST_DIGITS else Text()
    if pa.types.is_timestamp(bare):
        return Timestamp() if bare.tz is None else TimestampTZ()
    if pa.types.is_nested(bare):
        return JSON()
    raise _homeless(name, type)


def portable_type(type: pa.DataType, name: str) -> pa.DataType:
    """The type that an Arrow column travels in: one that Parquet carries and every system reads."""
    return arrow_type(column_type(type, name))


def portable_column(values: pa.Array, name: str) -> pa.Array:
    """The same values in the type they travel in; instants are cut to the microsecond."""
    import pyarrow as pa

    wanted = portable_type(values.type, name)
    if isinstance(values.type, pa.BaseExtensionType) and values.type.extension_name == "arrow.uuid":
        return pa.array([None if each is None else str(each) for each in values.to_pylist()], wanted)
    plain = _unpacked(values)
    if pa.types.is_nested(plain.type):
        return pa.array([_document(each, name) for each in plain.to_pylist(maps_as_pydicts="strict")], wanted)
    return plain.cast(wanted, safe=not pa.types.is_timestamp(plain.type))


def arrow_type(type: ColumnType) -> pa.DataType:
    """The Arrow type that keeps a declared one."""
    import pyarrow as pa

    match type:
        case Numeric(precision, scale):
            return pa.decimal128(precision, scale)
        case Timestamp():
            return pa.timestamp("us")
        case TimestampTZ():
            return pa.timestamp("us", tz="UTC")
        case _:
            return pa.type_for_alias(_ARROW_NAMES.get(type.kind, "string"))


_ARROW_NAMES = {
    "small_int": "int16",
    "integer": "int32",
    "big_int": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "bool",
    "date": "date32",
    "bytes": "binary",
}
_EXTENSIONS: Mapping[str, ColumnType] = {"arrow.uuid": UUID(), "arrow.json": JSON(), "arrow.bool8": Boolean()}


@cache
def _plain() -> Mapping[int, ColumnType]:
    """The types without parameters, by the number that Arrow gives them."""
    import pyarrow as pa

    return {
        pa.int8().id: SmallInt(), pa.uint8().id: SmallInt(), pa.int16().id: SmallInt(), pa.uint16().id: Integer(),
        pa.int32().id: Integer(), pa.uint32().id: BigInt(), pa.int64().id: BigInt(), pa.uint64().id: Numeric(20, 0),
        pa.float16().id: Float(), pa.float32().id: Float(), pa.float64().id: Double(), pa.bool_().id: Boolean(),
        pa.null().id: Text(), pa.string().id: Text(), pa.large_string().id: Text(), pa.string_view().id: Text(),
        pa.date32().id: Date(), pa.date64().id: Date(), pa.time32("s").id: Text(), pa.time64("us").id: Text(),
        pa.binary().id: Bytes(), pa.large_binary().id: Bytes(), pa.binary_view().id: Bytes(),
        pa.binary(1).id: Bytes(),
    }  # fmt: skip


def _bare(type: pa.DataType) -> pa.DataType:
    """The type of the values themselves, however they are packed."""
    import pyarrow as pa

    if pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
        return _bare(type.value_type)
    return type


def _unpacked(values: pa.Array) -> pa.Array:
    """The values themselves, however they are packed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(values.type, pa.BaseExtensionType):
        return _unpacked(values.storage)
    if pa.types.is_dictionary(values.type):
        # Arrow cannot pick out of views, which is how polars keeps its categories.
        words = _unpacked(values.dictionary)
        return words.cast(pa.string() if pa.types.is_string_view(words.type) else words.type).take(values.indices)
    return _unpacked(pc.run_end_decode(values)) if pa.types.is_run_end_encoded(values.type) else values


def _homeless(name: str, type: pa.DataType) -> SpecError:
    return SpecError(
        f"column {name!r} has the Arrow type {type}, which no column type keeps",
        hint="make it a number or a text, for example the seconds of a duration",
    )


def _document(value: object, name: str) -> str | None:
    if value is None:
        return None
    try:
        return json.dumps(value, default=_json_value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise CheckError(
            f"column {name!r} holds a nested value that JSON cannot say: {error}",
            hint="replace it in the frame, for example NaN by None",
        ) from error


def _json_value(value: object) -> object:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return str(value)
