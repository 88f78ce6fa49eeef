"""Rows in and out of PostgreSQL as Arrow batches: binary COPY both ways, one batch in memory at a time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..errors import CheckError
from ..types import JSON, JSONB, UUID, ColumnType, Numeric, String, Text
from .arrow_files import parquet_batches
from .arrow_types import arrow_type
from .base import QueryColumn
from .dialect import Dialect
from .optional import optional
from .progress import Tally

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["carried_sql", "copy_out", "encoded"]

BATCH_ROWS = 65_536
MOST_DIGITS = 38
EARLIEST_DAY = -2_440_588
"""The first day that PostgreSQL knows, counted from 1970."""
DAY_MICROSECONDS = 86_400 * 10**6


def encoded(
    folder: Path,
    types: Mapping[str, ColumnType],
    tally: Tally,
    constants: Mapping[str, object] = MappingProxyType({}),
    *,
    without_zeros: bool = False,
) -> Iterator[bytes]:
    """The rows of the Parquet files in `folder` as binary COPY, for columns of exactly these types.

    A column of `constants` has that value in every row and is none of the files. Zero bytes in text are refused, or
    left out.
    """
    import pyarrow as pa

    pgpq, builders, schemas = (optional(name, extra="postgres") for name in ("pgpq", "pgpq.encoders", "pgpq.schema"))
    schema = pa.schema([(name, _wire_type(kind)) for name, kind in types.items()])
    encoders = {field.name: pgpq.ArrowToPostgresBinaryEncoder.infer_encoder(field) for field in schema}
    for name, kind in types.items():
        if isinstance(kind, JSONB):
            encoders[name] = builders.StringEncoderBuilder.new_with_output(schema.field(name), schemas.Jsonb())
    encoder = pgpq.ArrowToPostgresBinaryEncoder.new_with_encoders(schema, encoders)
    read = [name for name in types if name not in constants]
    fixed = {name: _constant(value, types[name]) for name, value in constants.items()}
    yield encoder.write_header()
    for batch in tally.batches(parquet_batches(sorted(folder.glob("*.parquet")), BATCH_ROWS, read)):
        columns = [
            pa.repeat(fixed[name], batch.num_rows)
            if name in fixed
            else _wired(batch.column(name), name, kind, without_zeros=without_zeros)
            for name, kind in types.items()
        ]
        yield encoder.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    yield encoder.finish()


def carried_sql(columns: Sequence[QueryColumn], dialect: Dialect, sql: str) -> str:
    """The query with columns in the types that Arrow carries; all others travel as text."""
    shown = []
    for column in columns:
        name = dialect.quote(column.name)
        kind = dialect.column_type(column.type)
        plain = kind is not None and not isinstance(kind, Numeric | JSON | JSONB | UUID)
        plain = plain and not column.type.startswith("character(")  # whose blanks at the end are not part of the value
        shown.append(name if plain else f"CAST({name} AS TEXT) AS {name}")
    return f"SELECT {', '.join(shown)} FROM ({sql}\n) AS _source"


def copy_out(
    reader: pa.RecordBatchReader,
    file: Path,
    columns: Sequence[QueryColumn],
    dialect: Dialect,
    written: Callable[[pa.RecordBatch], object],
) -> None:
    """Write the batches of a query that `carried_sql` made, as Parquet; decimals get their type back.

    Each batch that is in the file is handed to `written`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = []
    for field, column in zip(reader.schema, columns, strict=True):
        kind = dialect.column_type(column.type)
        exact = isinstance(kind, Numeric) and kind.precision <= MOST_DIGITS
        fields.append((column.name, arrow_type(kind) if exact and kind is not None else field.type))
    schema = pa.schema(fields)
    with pq.ParquetWriter(str(file), schema, compression="zstd", compression_level=1) as writer:
        for batch in reader:
            arrays = [_read(values, field) for values, field in zip(batch.columns, schema, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            written(batch)


def _constant(value: object, kind: ColumnType) -> pa.Scalar:
    import pyarrow as pa

    wire = uuid.UUID(str(value)).bytes if isinstance(kind, UUID) else value
    return pa.scalar(wire, _wire_type(kind))


def _wire_type(kind: ColumnType) -> pa.DataType:
    import pyarrow as pa

    return pa.binary(16) if isinstance(kind, UUID) else arrow_type(kind)


def _wired(values: pa.Array, name: str, kind: ColumnType, *, without_zeros: bool) -> pa.Array:
    """The values in the form that PostgreSQL takes, which has no text with a zero byte."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(kind, Text | String | JSON | JSONB):
        found = pc.any(pc.match_substring(values, "\0")).as_py()
        if found and not without_zeros:
            raise CheckError(
                f"column {name!r} holds a text with a zero byte, which PostgreSQL cannot keep",
                hint="nothing was written; remove it in the source query, or let every load do so: "
                'zero_bytes = "remove" of the connection',
            )
        values = pc.replace_substring(values, "\0", "") if found else values
    if isinstance(kind, UUID):
        return _uuid_bytes(values)
    return values.cast(_wire_type(kind), safe=not pa.types.is_timestamp(values.type))


def _uuid_bytes(values: pa.Array) -> pa.Array:
    """Texts of 32 hexadecimal digits and four lines as the 16 bytes they mean."""
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = pc.replace_substring(values, "-", "")
    raw = bytes.fromhex("".join(digits.drop_null().to_pylist()))
    dense: Any = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(raw) // 16, [None, pa.py_buffer(raw)])
    if values.null_count == 0:
        return dense
    at = pc.cumulative_sum(pc.cast(pc.is_valid(values), pa.int64()))
    return dense.take(pc.if_else(pc.is_valid(values), pc.subtract(at, 1), pa.scalar(None, pa.int64())))


def _read(values: pa.Array, field: pa.Field) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pa.types.is_decimal(field.type):
        if pc.any(pc.match_substring_regex(values, "^(NaN|-?Infinity)$")).as_py():
            raise CheckError(
                f"column {field.name!r} holds NaN or Infinity, which a decimal cannot say",
                hint="cast it in the source query, for example to double precision",
            )
        return values.cast(field.type)
    if pa.types.is_temporal(field.type) and len(values) > values.null_count:
        is_date = pa.types.is_date32(values.type)
        earliest = pc.min(values.cast(pa.int32() if is_date else pa.int64())).as_py()
        # The driver counts from another day than PostgreSQL, and what is then too large comes out far below zero.
        if earliest < (EARLIEST_DAY if is_date else EARLIEST_DAY * DAY_MICROSECONDS):
            raise CheckError(
                f"column {field.name!r} holds a time without end (infinity) or after the year 294246, "
                "which only PostgreSQL can say",
                hint="replace it in the source query, for example by NULL: nullif(" + field.name + ", 'infinity')",
            )
    return values.cast(field.type)
