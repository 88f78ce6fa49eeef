"""Frames in and out of a connection: a query as Arrow or as a Spark frame, a frame loaded like a pipeline's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Required, TypedDict, cast

from ..backends.arrow_files import column_types, find_rows, frame_reader
from ..backends.base import Backend
from ..backends.frames import spark_types
from ..errors import SpecError, SpecTypeError
from ..events import Bus
from ..spec.declared import Declared
from ..spec.infer import infer_table
from ..spec.keywords import DriftPolicy, Mode, check_keywords
from ..spec.origin import Origin, declared_at
from ..spec.pipeline import Pipeline, build_pipeline
from ..spec.place import Query, Rows, TableRef
from ..spec.table import METADATA_NAMES, ManagedTable, Table
from ..types import ColumnType
from .plan import build_plan
from .result import RunResult
from .run import Systems, run_plan
from .session import check_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FrameLoad", "FrameOptions", "read_arrow", "read_spark", "rows_of_frame", "write_frame"]


class FrameOptions(TypedDict, total=False):
    """The keywords of `write_df` and `write_spark_df`, which mean what they mean for pipelines."""

    mode: Required[Mode]
    target: type[ManagedTable] | None
    """The declared table; without it the frame describes the table."""
    keys: Sequence[str] | None
    update_columns: Sequence[str] | None
    compare_columns: Sequence[str] | None
    event_timestamp_column: str | None
    on_drift: DriftPolicy | None


@dataclass(frozen=True, kw_only=True)
class FrameLoad:
    """What a caller asks for: a frame into a table."""

    caller: str
    """The function that was called; with the table it names the load in the run history."""
    table: TableRef
    target: type[ManagedTable] | None
    """The declared table; None lets the frame describe it."""
    options: Mapping[str, object]
    """Keywords of a pipeline: the mode, keys and so on."""

    @classmethod
    def of(cls, caller: str, qualified_name: str, options: FrameOptions) -> FrameLoad:
        """What a call of `caller` asks for; an unknown keyword suggests the nearest."""
        check_keywords(Declared(name=caller, declared_at=declared_at()), options, FrameOptions.__annotations__)
        rest: dict[str, object] = {key: value for key, value in options.items() if key != "target"}
        return cls(caller=caller, table=TableRef.parse(qualified_name), target=options.get("target"), options=rest)


def read_arrow(backend: Backend, sql: str) -> pa.Table:
    """The rows of a query, which the connection's own system runs."""
    with backend.workshop.bench():
        return backend.read_arrow(Query(sql))


def read_spark(backend: Backend, spark: SparkSession, sql: str) -> DataFrame:
    """The rows of a query as of now, as a frame of the session."""
    check_session(spark, backend.jars)
    with backend.workshop.shelf(spark):
        return backend.read(Query(sql))


def rows_of_frame(frame: object, caller: str, wanted: str, *, spark: bool) -> Rows:
    """The frame as rows, or SpecTypeError where it is none of the `wanted` ones."""
    rows = find_rows(frame)
    if rows is None or rows.is_spark is not spark:
        raise SpecTypeError(
            f"{caller} takes {wanted}, not {type(frame).__name__}", hint=_OTHER_DOOR[spark] if rows else None
        )
    return rows


_OTHER_DOOR = {
    True: "write_df of ematix_flow.df takes pandas, polars and Arrow frames",
    False: "write_spark_df of ematix_flow.spark takes Spark frames",
}


def write_frame(backend: Backend, rows: Rows, load: FrameLoad) -> RunResult:
    """Load a frame: all of it or nothing, recorded like a run.

    A declared table must find all its columns in the frame. A table that the frame describes gets no columns but the
    frame's own (and those of a history), and its primary key is `keys=`; where it exists, its types count.
    """
    place = declared_at()
    if not rows.is_spark:
        rows = replace(rows, frame=frame_reader(rows))
    types = spark_types(cast("DataFrame", rows.frame)) if rows.is_spark else column_types(rows)
    options = {name: value for name, value in load.options.items() if value is not None}
    if load.target is None:
        table = _described(backend, types, load, place)
        # What the table has and the frame has not stays as it is.
        options.setdefault("on_drift", "ignore")
    else:
        table = _declared(load.target, types, load, place)
    pipeline = _pipeline(backend, table, load, options, place)
    plan = build_plan(pipeline, backend, backend, rows, stamps=load.target is not None)
    return run_plan(plan, Systems(backend, backend, backend.workshop, Bus()))


def _pipeline(
    backend: Backend, table: Table, load: FrameLoad, options: Mapping[str, object], place: Origin | None
) -> Pipeline:
    named = {"name": f"{load.caller}:{table.qualified_name}", "target_connection": backend.connection.name}
    return build_pipeline(_no_source, {**options, **named, "target": table}, place)


def _no_source(source: object) -> None:
    """The function of a load that brings its rows along."""


def _declared(target: object, types: Mapping[str, ColumnType], load: FrameLoad, place: Origin | None) -> Table:
    if not (isinstance(target, type) and issubclass(target, ManagedTable)):
        raise SpecTypeError(f"{load.caller}: target= must be a table class, not {target!r}", declared_at=place)
    table = target._table()
    given = {name.casefold() for name in types}
    wanted = [each.name for each in table.columns if not each.is_derived and each.name not in METADATA_NAMES]
    missing = [name for name in wanted if name.casefold() not in given]
    if missing:
        raise SpecError(
            f"{load.caller}: the frame has no column for {', '.join(map(repr, missing))} of {table.qualified_name}",
            hint=f"the frame has {', '.join(types)}",
            declared_at=place,
        )
    return table


def _described(backend: Backend, types: Mapping[str, ColumnType], load: FrameLoad, place: Origin | None) -> Table:
    keys = load.options.get("keys") or ()
    if isinstance(keys, str):
        raise SpecTypeError(f"{load.caller}: keys= takes a list of column names, not {keys!r}", declared_at=place)
    names = [str(name) for name in cast("list[str]", keys)]
    if load.options.get("mode") in ("merge", "scd1", "scd2") and not names:
        raise SpecError(
            f"{load.caller}: mode {load.options['mode']} needs keys",
            hint="give keys=[…], or target= with a declared table",
            declared_at=place,
        )
    actual = backend.columns(load.table)
    known = {} if actual is None else {each.name.casefold(): each for each in actual.columns}
    kept = {}
    for name, type in types.items():  # noqa: A001 - a column's type
        existing = known.get(name.casefold())
        spelled = name if existing is None or name in names else existing.name
        kept[spelled] = type if existing is None or existing.type is None else existing.type
    return infer_table(load.table, kept, names, declared_at=place)
