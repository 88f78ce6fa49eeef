"""Rows between SQLite files and Parquet files as Arrow batches, by the ADBC driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CheckError
from .arrow_files import parquet_batches
from .optional import optional
from .progress import Tally

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["copy_in", "copy_out"]

BATCH_ROWS = 65_536


def copy_out(source: Path, target: Path, classes: Mapping[str, set[str]], tally: Tally) -> None:
    """Write the table `rows` of a SQLite file as Parquet; `classes` says which storage classes each column holds."""
    import pyarrow.parquet as pq

    driver = optional("adbc_driver_sqlite.dbapi", extra="sqlite")
    probe = ", ".join(_PROBE[_storage(held)] for held in classes.values())
    shown = ", ".join(f"{_shown(name, held)} AS {_quote(name)}" for name, held in classes.items())
    with driver.connect(str(source)) as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
        # The driver takes its types from the first rows, which may all be NULL: a typed row goes before them.
        cursor.execute(f"SELECT {probe} UNION ALL SELECT {shown} FROM rows")
        reader = cursor.fetch_record_batch()
        schema = _renamed(reader.schema, list(classes))
        with pq.ParquetWriter(str(target), schema) as writer:
            for batch in tally.batches(_without_first(reader)):
                writer.write_batch(batch.rename_columns(list(classes)))
    tally.end()


def copy_in(folder: Path, target: Path, table: str, tally: Tally) -> None:
    """Fill a new table of a new SQLite file with the Parquet files in `folder`, one row group in memory at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    driver = optional("adbc_driver_sqlite.dbapi", extra="sqlite")
    files = sorted(folder.glob("*.parquet"))
    schema = pa.schema([each.with_type(_stored(each.type)) for each in pq.read_schema(files[0])])
    refused: list[CheckError] = []
    batches = _storable(tally.batches(parquet_batches(files, BATCH_ROWS)), schema, refused)
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    with driver.connect(str(target), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode = OFF")
        cursor.execute("PRAGMA synchronous = OFF")
        cursor.execute("BEGIN")
        try:
            cursor.adbc_ingest(table, reader, mode="create")
        except driver.Error:
            if refused:
                raise refused[0] from None  # the driver would only quote it
            raise
        cursor.execute("COMMIT")
    tally.end()


def _stored(type: pa.DataType) -> pa.DataType:
    """The Arrow type that SQLite keeps another one as."""
    import pyarrow as pa

    if pa.types.is_boolean(type):
        return pa.int64()
    if pa.types.is_temporal(type) or pa.types.is_decimal(type):
        return pa.string()  # instants as text of fixed width, which sorts
    return pa.float64() if pa.types.is_floating(type) else type


def _storable(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, refused: list[CheckError]
) -> Iterator[pa.RecordBatch]:
    """The batches in the types that SQLite keeps; what it cannot keep ends them and is added to `refused`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        columns = []
        for column, wanted in zip(batch.columns, schema, strict=True):
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                refused.append(CheckError(f"column {wanted.name!r}: SQLite cannot keep NaN", hint="make it NULL"))
                raise refused[0]
            bare = column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column
            columns.append(bare.cast(wanted.type))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


_PROBE = {"integer": "0", "real": "0.5", "text": "''", "blob": "x''"}


def _storage(held: set[str]) -> str:
    """The one storage class a column travels in."""
    if "blob" in held:
        return "blob"
    if not held or "text" in held:
        return "text"
    return "real" if "real" in held else "integer"


def _shown(name: str, held: set[str]) -> str:
    column = _quote(name)
    storage = _storage(held)
    if storage == "text" and "real" in held:
        return f"CASE typeof({column}) WHEN 'real' THEN printf('%!.17g', {column}) ELSE CAST({column} AS TEXT) END"
    if held <= {storage}:
        return f"CAST({column} AS {storage})" if not held else column
    return f"CAST({column} AS {storage})"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _renamed(schema: pa.Schema, names: list[str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])


def _without_first(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    first = True
    for batch in reader:
        yield batch.slice(1) if first else batch
        first = False
