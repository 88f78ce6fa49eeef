"""Rows of a Spark frame on a cluster: each task brings its own into a table of its own, beside the bookkeeping.

Attempts that fail, or lose to another one, leave tables that nobody reads: only those that Spark reports count. All
tables with the id of the run are dropped when it ends, those of a run that was killed when the next one begins.
"""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..config import environment
from ..errors import (
    BackendError,
    CheckError,
    ConfigError,
    ConflictError,
    ConnectError,
    FlowError,
    SessionError,
    UnsupportedError,
)
from ..spec.place import TableRef
from ..spec.table import Table
from ..types import ColumnType, Text
from .base import Pushed
from .workshop import Workshop

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from .server import ServerBackend
    from .server_connection import ServerConnection
    from .sql_connection import SqlConnection

__all__ = ["Errand", "errand_of", "staged", "staging_frame", "table_name"]

WRITERS = 64
"""How many tasks may write at once: a server has connections for about a hundred."""
ANSWER = "name string, rows long, kind string, problem string, hint string"
"""What a task tells: the table that it made and its number of rows, or what went wrong."""


@dataclass(frozen=True)
class Errand:
    """What a task must know. It holds secrets, so that it travels by broadcast: no plan and no log shows those."""

    connection: ServerConnection
    run_id: str
    columns: str
    """The columns of a table as a statement that creates it says them."""
    types: Mapping[str, ColumnType]
    keys: tuple[str, ...]
    tries: int
    """How often Spark lets a task fail before it gives up."""


def errand_of(backend: ServerBackend, frame: DataFrame, table: Table, run_id: str) -> Errand:
    """What the tasks of a frame must know to bring its rows in."""
    columns, types = backend.staging_columns(table, frame.columns)
    keys = tuple(name for name in table.primary_key if name in types)
    tries = int(frame.sparkSession.sparkContext.getConf().get("spark.task.maxFailures", "4") or 4)
    return Errand(backend.connection, run_id, columns, types, keys, tries)


def table_name(run_id: str, partition: int, attempt: int) -> str:
    """The table of one attempt at one partition of a run."""
    return f"stage_{run_id.replace('-', '')}_{partition}_{attempt}"


_NAME = re.compile(r"stage_([0-9a-f]{32})_\d+_\d+")


@contextmanager
def staged(backend: ServerBackend, frame: DataFrame, table: Table, run_id: str) -> Iterator[Pushed]:
    """The rows of a frame as a query over the tables that tasks have filled; the tables last as long as the block."""
    with backend.session() as connection:
        with backend.transaction(connection):
            backend.ensure_schema(connection, backend.bookkeeping_schema)
        _drop_orphans(backend, connection)
    try:
        brought = _bring(backend, frame, table, run_id)
        tables = (backend.relation_sql(TableRef(backend.bookkeeping_schema, name)) for name in brought)
        sql = " UNION ALL ".join(f"SELECT * FROM {name}" for name in tables)
        yield Pushed(sql, once=True, attach=partial(_check, sql, sum(brought.values())))
    finally:
        # What stays behind is dropped by a later run, and no reason for this one to fail.
        with suppress(FlowError), backend.session(fresh=True) as connection:
            names = [name for name, owner in _found(backend, connection).items() if owner == run_id]
            _drop(backend, connection, names)


def _check(sql: str, rows: int, connection: SqlConnection) -> None:
    """A server that went down meanwhile may have emptied tables: PostgreSQL keeps no log of these."""
    found = int(str(connection.execute(f"SELECT COUNT(*) FROM (\n{sql}\n) AS _staged").fetchall()[0][0]))
    if found != rows:
        raise ConflictError(
            f"the workers of Spark brought {rows} rows to the server, and {found} are there",
            hint="the server may have gone down meanwhile; nothing was written, run again",
        )


def _bring(backend: ServerBackend, frame: DataFrame, table: Table, run_id: str) -> dict[str, int]:
    """Let the tasks do their work; gives the tables that count, one at least, and the number of rows of each."""
    from pyspark.errors import PySparkException

    errand = errand_of(backend, frame, table, run_id)
    sent = frame.sparkSession.sparkContext.broadcast(errand)
    try:
        answers = staging_frame(frame, sent).collect()
    except PySparkException as error:
        if "No module named 'ematix_flow'" in str(error):
            raise SessionError(
                "the workers of Spark have no ematix_flow: the Python that they run is another one",
                hint=f"install {_package(backend)} there, and let PYSPARK_PYTHON name that Python before Spark starts",
            ) from error
        raise
    finally:
        sent.destroy()
    for answer in answers:
        if answer.problem is not None:
            raise _problem(answer.kind, answer.problem, answer.hint)
    if answers:
        return {answer.name: answer.rows for answer in answers}
    with tempfile.TemporaryDirectory() as folder:
        nothing = table_name(run_id, 0, 0)
        return {nothing: _fill(backend, nothing, errand, Path(folder))}


def staging_frame(frame: DataFrame, errand: Broadcast[Errand]) -> DataFrame:
    """A frame that, when it is collected, brings the rows of another one in, and tells the tables."""

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _stage(errand.value, batches)

    return frame.coalesce(WRITERS).mapInArrow(stage, ANSWER)


def _stage(errand: Errand, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The work of one task; on a worker of Spark."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    # In a folder of Spark's: what a task that was killed leaves there goes with the others of its application.
    place = (environment("SPARK_LOCAL_DIRS") or "").partition(",")[0] or None
    with tempfile.TemporaryDirectory(prefix="ematix-flow-stage-", dir=place) as folder:
        if not _written(batches, Path(folder)):
            return
        name = table_name(errand.run_id, task.partitionId(), task.taskAttemptId())
        answer = dict.fromkeys(("name", "rows", "kind", "problem", "hint")) | {"name": name}
        try:
            # Made anew, a connection lets this process know its secrets, and hide them.
            backend = replace(errand.connection).open(Workshop(_no_spark))
            answer["rows"] = _fill(backend, name, errand, Path(folder))
        except FlowError as error:
            if error.transient and task.attemptNumber() + 1 < errand.tries:
                # Without its cause, whose text is the driver's own.
                raise type(error)(error.message) from None
            # Another attempt would fail alike, and Spark would bury the reason.
            answer |= {"kind": type(error).__name__, "problem": error.message, "hint": error.hint}
    yield _batch(answer)


def _batch(answer: Mapping[str, object]) -> pa.RecordBatch:
    import pyarrow as pa

    types = {"name": pa.string(), "rows": pa.int64(), "kind": pa.string(), "problem": pa.string(), "hint": pa.string()}
    return pa.RecordBatch.from_pylist([dict(answer)], pa.schema(types.items()))


def _written(batches: Iterable[pa.RecordBatch], folder: Path) -> bool:
    """Write the batches down as Parquet; tells whether there are rows."""
    import pyarrow.parquet as pq

    writer = None
    try:
        for batch in batches:
            if batch.num_rows and writer is None:
                # Without Arrow's own schema the files are as Spark writes them, instants in UTC.
                writer = pq.ParquetWriter(str(folder / "rows.parquet"), batch.schema, store_schema=False)
            if batch.num_rows and writer is not None:
                writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()
    return writer is not None


def _fill(backend: ServerBackend, name: str, errand: Errand, folder: Path) -> int:
    """Make a table of the rows in `folder`, all or none; gives their number."""
    table = backend.relation_sql(TableRef(backend.bookkeeping_schema, name))
    with backend.session() as connection, backend.transaction(connection):
        connection.execute(f"{backend.CREATE_STAGING} {table} ({errand.columns})")
        rows = backend.fill(connection, table, folder, errand.types)
        backend.settle(connection, table, errand.keys)
    return rows


def _drop_orphans(backend: ServerBackend, connection: SqlConnection) -> None:
    """Drop what runs that are over have left; a run that nobody knows may be a dry run under way."""
    with suppress(FlowError):
        found = _found(backend, connection)
        over = set(backend.ledger.ended(connection, sorted(set(found.values()))))
        _drop(backend, connection, [name for name, run_id in found.items() if run_id in over])


def _found(backend: ServerBackend, connection: SqlConnection) -> dict[str, str]:
    """The tables of tasks that are there, each with the id of its run."""
    schema = backend.dialect.literal(backend.bookkeeping_schema, Text()).sql(backend.dialect.name)
    rows = connection.execute(f"SELECT table_name FROM information_schema.tables WHERE table_schema = {schema}")
    names = (_NAME.fullmatch(str(row[0])) for row in rows.fetchall())
    return {name[0]: str(uuid.UUID(name[1])) for name in names if name is not None}


def _drop(backend: ServerBackend, connection: SqlConnection, names: Iterable[str]) -> None:
    for name in names:
        table = backend.relation_sql(TableRef(backend.bookkeeping_schema, name))
        connection.execute(f"DROP TABLE IF EXISTS {table}")


def _problem(kind: str, message: str, hint: str | None) -> FlowError:
    """What a task could not do, as this process would say it."""
    known = {
        each.__name__: each
        for each in (BackendError, CheckError, ConfigError, ConflictError, ConnectError, UnsupportedError)
    }
    if kind in known:
        return known[kind](message, hint=hint)
    return BackendError(f"on a worker of Spark: {message}", hint=hint)


def _package(backend: ServerBackend) -> str:
    return f"'ematix-flow-spark[{backend.connection.kind}]'"


def _no_spark() -> NoReturn:
    raise RuntimeError("a task of Spark starts no Spark")
