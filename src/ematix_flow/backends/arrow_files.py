"""Data frames of this process as Arrow batches, and as the Parquet files in which rows travel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import SpecError, SpecTypeError
from ..spec.place import Rows
from ..types import ColumnType
from .arrow_types import column_type, portable_column, portable_type

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["column_types", "find_rows", "frame_reader", "parquet_batches", "parquet_types", "write_rows"]

GROUP_ROWS, GROUP_BYTES = 65_536, 16 * 2**20
"""How much is in memory at a time."""
_READ_BYTES = 2**20


def find_rows(value: object) -> Rows | None:
    """The value as rows at hand, where it is a frame of Spark, pandas, polars or Arrow; loads none of them."""
    for cls in type(value).__mro__:
        package, _, _ = cls.__module__.partition(".")
        if cls.__module__.startswith("pyspark.sql") and cls.__name__ == "DataFrame":
            return Rows(value, "Spark DataFrame", is_spark=True)
        if (package, cls.__name__) in _FRAMES:
            return Rows(value, f"{package} {cls.__name__}", is_stream=cls.__name__ == "RecordBatchReader")
    if hasattr(value, "__arrow_c_stream__"):
        return Rows(value, f"stream of Arrow batches ({type(value).__name__})", is_stream=True)
    return None


_FRAMES = {
    ("pandas", "DataFrame"),
    ("polars", "DataFrame"),
    ("polars", "LazyFrame"),
    ("pyarrow", "Table"),
    ("pyarrow", "RecordBatch"),
    ("pyarrow", "RecordBatchReader"),
}


def frame_reader(rows: Rows) -> pa.RecordBatchReader:
    """The rows as Arrow batches; a named index of pandas becomes columns, an index without a name is left out."""
    import pyarrow as pa

    frame: Any = rows.frame
    if isinstance(frame, pa.RecordBatchReader):
        return frame
    try:
        match rows.kind:
            case "pandas DataFrame":
                named = any(name is not None for name in frame.index.names)
                return pa.Table.from_pandas(frame, preserve_index=named).to_reader(GROUP_ROWS)
            case "polars LazyFrame":
                return pa.RecordBatchReader.from_stream(frame.collect())
            case "pyarrow Table":
                return frame.to_reader(GROUP_ROWS)
            case "pyarrow RecordBatch":
                return pa.Table.from_batches([frame]).to_reader()
            case _:
                return pa.RecordBatchReader.from_stream(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SpecTypeError(
            f"the {rows.kind} cannot be read as a table: {error}",
            hint="give each column one name and values of one type",
        ) from error


def column_types(rows: Rows) -> Mapping[str, ColumnType]:
    """The columns of a frame that `frame_reader` has opened, and the types that keep them."""
    schema: pa.Schema = cast("pa.RecordBatchReader", rows.frame).schema
    _check_names(schema.names, rows)
    return {each.name: column_type(each.type, each.name) for each in schema}


def write_rows(rows: Rows, folder: Path) -> Mapping[str, ColumnType]:
    """Write the rows into `folder` as Parquet, batch by batch; gives the columns and the types that keep them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    reader = frame_reader(rows)
    types = column_types(replace(rows, frame=reader))
    schema = pa.schema([(each.name, portable_type(each.type, each.name)) for each in reader.schema])
    with pq.ParquetWriter(str(folder / "rows.parquet"), schema) as writer:
        for table in _groups(_portable(reader, schema), schema):
            writer.write_table(table)
    return types


def parquet_batches(
    files: Iterable[Path], batch_rows: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of Parquet files, batch by batch."""
    import pyarrow.parquet as pq

    for file in files:
        # Read ahead, the reader would hold more the larger the file is.
        with pq.ParquetFile(file, pre_buffer=False, buffer_size=_READ_BYTES) as rows:
            yield from rows.iter_batches(batch_rows, columns=columns, use_threads=False)


def parquet_types(folder: Path) -> dict[str, ColumnType]:
    """The columns of the Parquet files in a folder, and the types that keep them."""
    import pyarrow.parquet as pq

    schema = pq.read_schema(next(iter(sorted(folder.glob("*.parquet")))))
    return {each.name: column_type(each.type, each.name) for each in schema}


def _check_names(names: list[str], rows: Rows) -> None:
    if not names:
        raise SpecError(f"the {rows.kind} has no columns")
    seen: dict[str, str] = {}
    for name in names:
        if name.casefold() in seen:
            raise SpecError(
                f"the {rows.kind} has the columns {seen[name.casefold()]!r} and {name!r}",
                hint="names that differ only in case are one column on most systems: rename one",
            )
        seen[name.casefold()] = name


def _portable(reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in reader:
        columns = [
            portable_column(values, name) for values, name in zip(batch.columns, batch.schema.names, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Batches put together until they are worth a row group of their own."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(waiting, schema)
            waiting, rows, size = [], 0, 0
    yield pa.Table.from_batches(waiting, schema)
