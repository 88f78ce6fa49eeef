"""Arrow batches on their way into MySQL: as text for LOAD DATA, or as rows for INSERT."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..errors import CheckError
from ..types import (
    JSON,
    JSONB,
    Boolean,
    Bytes,
    ColumnType,
    Date,
    Double,
    Float,
    Numeric,
    String,
    Text,
    Timestamp,
    TimestampTZ,
)
from .arrow_files import parquet_batches
from .arrow_types import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["LOAD_FORMAT", "batches", "field_kind", "rows_of", "sent", "written"]

BATCH_ROWS = 65_536
LOAD_FORMAT = r"CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n'"
"""The form of the text that `written` makes."""


def batches(
    folder: Path, types: Mapping[str, ColumnType], constants: Mapping[str, object] = MappingProxyType({})
) -> Iterator[pa.RecordBatch]:
    """The rows of the Parquet files in `folder`, for columns of these types.

    A column of `constants` has that value in every row and is none of the files.
    """
    import pyarrow as pa

    read = [name for name in types if name not in constants]
    fixed = {name: pa.scalar(value, arrow_type(types[name])) for name, value in constants.items()}
    for batch in parquet_batches(sorted(folder.glob("*.parquet")), BATCH_ROWS, read):
        columns = [pa.repeat(fixed[name], batch.num_rows) if name in fixed else batch.column(name) for name in types]
        _refuse_endless(columns, types)
        yield pa.RecordBatch.from_arrays(columns, list(types))


def written(rows: Iterator[pa.RecordBatch], types: Mapping[str, ColumnType]) -> Iterator[bytes]:
    """The batches as text in `LOAD_FORMAT`; bytes are given as hexadecimal digits."""
    import pyarrow.compute as pc

    for batch in rows:
        if not batch.num_rows:
            continue
        columns = [_as_text(values, kind) for values, kind in zip(batch.columns, types.values(), strict=True)]
        lines = pc.binary_join_element_wise(*columns, "\t", null_handling="replace", null_replacement="\\N")
        yield _characters(pc.binary_join_element_wise(lines, "", "\n"))


def rows_of(batch: pa.RecordBatch, types: Mapping[str, ColumnType]) -> list[tuple[object, ...]]:
    """The rows of a batch as a driver takes them."""
    columns = []
    for values, kind in zip(batch.columns, types.values(), strict=True):
        plain = values if isinstance(kind, Bytes) else _raw_text(values, kind)
        columns.append(plain.to_pylist())
    return list(zip(*columns, strict=True))


def sent(chunks: Iterator[bytes], take: Callable[[str], int]) -> int:
    """Let `take` read the chunks from the file that it is given the name of, while they are made; gives its answer.

    What goes wrong while they are made is raised before what `take` makes of it.
    """
    reading, writing = os.pipe()
    failures: list[Exception] = []

    def give() -> None:
        try:
            with os.fdopen(writing, "wb") as pipe:
                for chunk in chunks:
                    pipe.write(chunk)
        except BrokenPipeError:
            pass  # nobody reads any more, and the reader says why
        except Exception as error:  # noqa: BLE001 - raised again where it is heard
            failures.append(error)

    giver = threading.Thread(target=give, name="ematix-load-data")
    giver.start()
    try:
        return take(f"/dev/fd/{reading}")
    finally:
        os.close(reading)
        giver.join()
        if failures:
            raise failures[0]


def field_kind(field: Any) -> str:
    """The type of a column of a result in MySQL's words; empty where it tells none."""
    name = _FIELDS.get(field.type_code, "")
    if field.type_code == _TINY and field.length == 1:
        return "tinyint(1)"
    if name == "decimal":
        signs = (1 if field.scale else 0) + (0 if field.flags & _UNSIGNED else 1)
        return f"decimal({min(field.length - signs, 65)},{field.scale})"
    if name in ("datetime", "timestamp"):
        return f"{name}({min(field.scale, 6)})"
    if field.type_code in _TEXTS:
        if field.charsetnr == _BINARY:
            return "longblob" if name == "longtext" else "varbinary"
        return name if name == "longtext" else f"varchar({max(1, field.length // 4)})"
    return f"{name} unsigned" if name.endswith("int") and field.flags & _UNSIGNED else name


_TINY, _UNSIGNED, _BINARY = 1, 32, 63
_FIELDS = {
    0: "decimal", 1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 7: "timestamp", 8: "bigint",
    9: "mediumint", 10: "date", 11: "time", 12: "datetime", 13: "year", 15: "varchar", 16: "bit", 245: "json",
    246: "decimal", 247: "varchar", 248: "varchar", 249: "longtext", 250: "longtext", 251: "longtext",
    252: "longtext", 253: "varchar", 254: "varchar",
}  # fmt: skip
_TEXTS = (15, 247, 248, 249, 250, 251, 252, 253, 254)


def _refuse_endless(columns: Sequence[pa.Array], types: Mapping[str, ColumnType]) -> None:
    import pyarrow.compute as pc

    for values, (name, kind) in zip(columns, types.items(), strict=True):
        if isinstance(kind, Float | Double) and pc.any(pc.invert(pc.is_finite(values))).as_py():
            raise CheckError(
                f"column {name!r} holds NaN or an infinite number, which MySQL cannot keep",
                hint="nothing was written; make it NULL in the source query",
            )


def _as_text(values: pa.Array, kind: ColumnType) -> pa.Array:
    """The values as LOAD DATA reads them."""
    import pyarrow.compute as pc

    if isinstance(kind, Bytes):
        return _hexadecimal(values)
    text = _raw_text(values, kind)
    if not isinstance(kind, Text | String | JSON | JSONB):
        return text
    for sign, escaped in _ESCAPES:
        if pc.any(pc.match_substring(text, sign)).as_py():
            text = pc.replace_substring(text, sign, escaped)
    return text


_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\0", "\\0"))


def _raw_text(values: pa.Array, kind: ColumnType) -> pa.Array:
    import pyarrow as pa

    match kind:
        case Boolean():
            values = values.cast(pa.int8())
        case Timestamp() | TimestampTZ():
            values = values.cast(pa.timestamp("us", getattr(values.type, "tz", None)), safe=False)
            values = values.cast(pa.timestamp("us"))
        case Float():
            # With all digits: the shortest text of the largest number says a larger one.
            values = values.cast(pa.float32()).cast(pa.float64())
        case Double() | Numeric() | Date():
            values = values.cast(arrow_type(kind))
    return values.cast(pa.string())


def _hexadecimal(values: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pa.concat_arrays([values.cast(pa.binary())])
    offsets = pa.Array.from_buffers(pa.int32(), len(plain) + 1, [None, plain.buffers()[1]], offset=plain.offset)
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    digits = (plain.buffers()[2] or pa.py_buffer(b"")).slice(start, end - start).hex()
    doubled = pc.multiply(pc.subtract(offsets, start), 2).cast(pa.int32())
    text = pa.StringArray.from_buffers(len(plain), doubled.buffers()[1], pa.py_buffer(digits))
    return pc.if_else(pc.is_valid(plain), text, pa.scalar(None, pa.string()))


def _characters(lines: pa.Array) -> bytes:
    """All texts of an array, one after the other."""
    import pyarrow as pa

    offsets = pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, lines.buffers()[1]], offset=lines.offset)
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    return bytes(lines.buffers()[2].slice(start, end - start).to_pybytes())
