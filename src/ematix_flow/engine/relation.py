"""Incoming rows as a relation: a query for the target's own database or a Spark frame; and what did not fit in them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from sqlglot import exp

from ..backends.arrow_files import parquet_types, write_rows
from ..backends.base import Backend, Frame, Piped, Pushed, Relation, Spooled
from ..backends.dialect import Dialect
from ..backends.frames import SPARK, plain_frame
from ..backends.spark_errors import spark_errors
from ..backends.workshop import Workshop
from ..errors import BackendError
from ..spec.place import Place, Query, Rows
from ..spec.run import Bookmark
from ..spec.table import Column
from ..types import ColumnType, String, Text
from .columns import check_columns, frame_columns, kinds_of, types_of
from .plan import Plan, only_cast
from .transform import SOURCE, cleaned_query, incoming_query, pushed_sql, resume_sql

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

__all__ = ["Incoming", "cleaned_place", "copied_rows", "frame_rows", "pushed_rows", "spark_rows"]


@dataclass(frozen=True)
class Incoming:
    """The source's rows, ready to be taken in, and asked about again when that fails."""

    relation: Relation
    plan: Plan
    names: Sequence[str]
    """The columns the source gives."""
    source_sql: str
    dialect: Dialect
    evaluate: Callable[[str], Sequence[Sequence[object]]]
    """Gives the few rows of a query where the rows are."""

    def misfit(self) -> tuple[Column, str] | None:
        """The first column that holds a value its declared type cannot take, and what the system says of it.

        The keys of the rows with that value stand behind it, where the system names the value.
        """
        columns = self.plan.transform.columns
        if self._complaint(columns) is None:
            return None
        complaints = [(column, self._complaint((column,))) for column in columns]
        misfits = [(column, message) for column, message in complaints if message is not None]
        # Where every column complains, it is the rows that cannot be read, and no column is to blame.
        if not misfits or (len(misfits) == len(columns) and len(columns) > 1):
            return None
        column, message = misfits[0]
        return column, message + self._whereabouts(column, message)

    def _whereabouts(self, column: Column, message: str) -> str:
        """The keys of up to three rows with the value that the message ends with; nothing where that finds none."""
        keys = [each.name for each in self.plan.transform.columns if each.primary_key and each.name in self.names]
        condition, most = self._condition(column, message)
        if condition is None or not keys or column.name not in self.names:
            return ""
        shown = [self.dialect.text(exp.column(name, quoted=True), Text()) for name in (column.name, *keys)]
        listed = ", ".join(each.sql(self.dialect.name) for each in shown)
        source = f"({self.source_sql}\n) AS {self.dialect.quote(SOURCE)}"
        try:
            rows = self.evaluate(f"SELECT {listed} FROM {source} WHERE {condition.sql(self.dialect.name)} LIMIT {most}")
        except BackendError:
            return ""
        places = [", ".join(f"{key}={value}" for key, value in zip(keys, row[1:], strict=True)) for row in rows]
        value = "" if not rows or str(rows[0][0]) in message else f": {_short(str(rows[0][0]))}"
        return f"{value} ({'; '.join(places)})" if places else ""

    def _condition(self, column: Column, message: str) -> tuple[exp.Expr | None, int]:
        """What finds the rows of a value that does not fit, and how many of them to look for."""
        value = exp.column(column.name, quoted=True)
        found = re.search(r"does not fit .+?: (.*)$", message.partition("\n")[0])
        if found is None:
            # A normalizer may have made another value of it, so that only the message could say which.
            return None if column.normalizers else self.dialect.misses(value, column.type), 1
        # Some systems put a text into quotes.
        values = {found[1], re.sub(r"""^(['"])(.*)\1$""", r"\2", found[1])}
        return self.dialect.text(value, Text()).isin(*sorted(values)), 3

    def _complaint(self, columns: Sequence[Column]) -> str | None:
        """What the system says when it must give these columns; None where it gives them."""
        # A value that a transform leaves out may be the one that does not fit, so the transforms stay.
        pipeline = replace(self.plan.pipeline, event_timestamp_column=None)
        query = incoming_query(pipeline, columns, self.names, self.dialect)
        sql = pushed_sql(self.source_sql, query, self.dialect, None, None)
        counts = ", ".join(f"COUNT({self.dialect.quote(column.name)})" for column in columns)
        try:
            self.evaluate(f"SELECT {counts} FROM ({sql}\n) AS _probe")
        except BackendError as error:
            return error.message
        return None


def _short(value: str) -> str:
    return value if len(value) <= 80 else f"{value[:80]}…"


def pushed_rows(plan: Plan, target: Backend, bookmark: Bookmark | None, *, once: bool) -> Incoming:
    """Rows that the target's own database reads."""
    assert plan.read.sql is not None
    given = target.query_columns(plan.read.sql)
    source_sql, dialect = target.user_sql(plan.read.sql), target.dialect.knowing(kinds_of(given))
    names = tuple(column.name for column in given)
    check_columns(plan, names, types_of(given, dialect))
    sql = _incoming_sql(plan, names, source_sql, dialect, bookmark)
    return Incoming(Pushed(sql, once=once), plan, names, source_sql, dialect, target.evaluate)


def spark_rows(plan: Plan, source: Backend, bookmark: Bookmark | None) -> Incoming:
    """Rows that the source gives to Spark, which makes the declared columns of them."""
    if plan.transform.at_source:
        # The source has left out what earlier loads have brought, too.
        return _moved(only_cast(plan), source.read(cleaned_place(plan, source, bookmark)), None, source.workshop)
    return _moved(plan, source.read(_place(plan, source, bookmark)), bookmark, source.workshop)


def copied_rows(plan: Plan, source: Backend, target: Backend, bookmark: Bookmark | None, *, once: bool) -> Incoming:
    """Rows that the source writes down as Parquet and the target reads by itself."""
    folder = target.workshop.folder("copied")
    place: Place
    if plan.transform.at_source:
        place, plan, bookmark = cleaned_place(plan, source, bookmark), only_cast(plan), None
    else:
        place = _place(plan, source, bookmark)
    types = source.piped_types(place.sql, target) if isinstance(place, Query) else {}
    if types and bookmark is None and _is_declared(plan, types):
        assert isinstance(place, Query)
        sql = source.user_sql(place.sql)
        check_columns(plan, tuple(types), types)
        return Incoming(Piped(source, sql), plan, tuple(types), sql, source.dialect, source.evaluate)
    known = source.export_rows(place, folder)
    return _brought(plan, target, folder, {**parquet_types(folder), **known}, bookmark, once=once)


def frame_rows(plan: Plan, target: Backend, bookmark: Bookmark | None, *, once: bool) -> Incoming:
    """Rows of a frame: Spark's own go as they are, all others wait as Parquet for the target or for Spark."""
    rows = plan.read.place
    assert isinstance(rows, Rows)
    if rows.is_spark:
        return _moved(plan, plain_frame(cast("DataFrame", rows.frame)), bookmark, target.workshop)
    folder = target.workshop.exchange("rows") if plan.way == "spark" else target.workshop.folder("rows")
    types = write_rows(rows, folder)
    if plan.way == "spark":
        spark = target.workshop.spark()
        return _moved(plan, spark.read.parquet(str(folder)), bookmark, target.workshop)
    return _brought(plan, target, folder, types, bookmark, once=once)


def _brought(
    plan: Plan, target: Backend, folder: Path, types: Mapping[str, ColumnType], bookmark: Bookmark | None, *, once: bool
) -> Incoming:
    """Parquet files of which the target makes the declared columns, where they have not got them already."""
    names = tuple(types)
    check_columns(plan, names, types)
    brought = target.bring(folder)
    dialect = target.dialect.knowing(brought.kinds)
    relation: Relation
    if target.can.takes_typed and bookmark is None and _is_declared(plan, types):
        relation = Spooled(folder)
    else:
        sql = _incoming_sql(plan, names, brought.sql, dialect, bookmark)
        relation = Pushed(sql, once, brought.attach)
    return Incoming(relation, plan, names, brought.sql, dialect, partial(target.evaluate, attach=brought.attach))


def _is_declared(plan: Plan, types: Mapping[str, ColumnType]) -> bool:
    """Whether rows have the declared columns and no others, each in its type."""
    transform = plan.transform
    if transform.rows or plan.pipeline.event_timestamp_column is not None:
        return False
    if any(column.normalizers for column in transform.columns):
        return False
    declared = {column.name: column.type for column in transform.columns}
    return declared.keys() == types.keys() and all(_is_same(types[name], kind) for name, kind in declared.items())


def _is_same(given: ColumnType, declared: ColumnType) -> bool:
    """Whether values of one type are values of the other as they are."""
    return given == declared or (isinstance(given, String) and isinstance(declared, Text))


def _moved(plan: Plan, frame: DataFrame, bookmark: Bookmark | None, workshop: Workshop) -> Incoming:
    """Rows of which Spark makes the declared columns."""
    given = frame_columns(frame)
    dialect = SPARK.knowing(kinds_of(given))
    check_columns(plan, frame.columns, types_of(given, dialect))
    view = f"{SOURCE}_{uuid.uuid4().hex}"
    source_sql = f"SELECT * FROM {dialect.quote(view)}"
    sql = _incoming_sql(plan, frame.columns, source_sql, dialect, bookmark)
    with _named(frame, view):
        rows = frame.sparkSession.sql(sql)
    if any(transform.is_random for transform in plan.transform.rows):
        rows = _kept(rows, workshop)

    def evaluate(text: str) -> Sequence[Sequence[object]]:
        with _named(frame, view), spark_errors():
            return frame.sparkSession.sql(text).collect()

    return Incoming(Frame(rows), plan, frame.columns, source_sql, dialect, evaluate)


def _incoming_sql(
    plan: Plan, names: Sequence[str], source_sql: str, dialect: Dialect, bookmark: Bookmark | None
) -> str:
    """The whole query; earlier loads' rows are left out before row transforms see them, where there are some."""
    query = incoming_query(plan.pipeline, plan.transform.columns, names, dialect, after=bookmark)
    return pushed_sql(source_sql, query, dialect, None if plan.transform.rows else bookmark, _resumed(plan))


def cleaned_place(plan: Plan, source: Backend, bookmark: Bookmark | None) -> Query:
    """The source's rows, cleaned and transformed by itself."""
    assert plan.read.sql is not None
    given = source.query_columns(plan.read.sql)
    dialect = source.dialect.knowing(kinds_of(given))
    names = [column.name for column in given]
    rows = cleaned_query(plan.pipeline, plan.transform.columns, names, dialect, after=bookmark)
    return Query(pushed_sql(source.user_sql(plan.read.sql), rows, dialect, None, None))


def _kept(rows: DataFrame, workshop: Workshop) -> DataFrame:
    """The rows as they are this once: Spark would choose again whenever they are looked at."""
    folder = str(workshop.exchange("chosen"))
    rows.write.mode("overwrite").parquet(folder)
    return workshop.spark().read.schema(rows.schema).parquet(folder)


@contextmanager
def _named(frame: DataFrame, view: str) -> Iterator[None]:
    """Let the frame answer to a name while a query is made of it; a session must not gather names."""
    frame.createOrReplaceTempView(view)
    try:
        yield
    finally:
        frame.sparkSession.catalog.dropTempView(view)


def _resumed(plan: Plan) -> Column | None:
    name = plan.pipeline.incremental_column
    return None if name is None else plan.pipeline.table.column(name)


def _place(plan: Plan, source: Backend, bookmark: Bookmark | None) -> Place:
    """What to read; the source leaves out what earlier loads have brought, where it knows the column as it is."""
    if plan.read.sql is None:
        assert not isinstance(plan.read.place, Rows)
        return plan.read.place
    column = _resumed(plan)
    if bookmark is None or column is None or column.normalizers:
        return Query(plan.read.sql)
    given = source.query_columns(plan.read.sql) if source.can.pushed else ()
    dialect = source.dialect.knowing(kinds_of(given))
    condition = resume_sql(column, bookmark, dialect, typed=False)
    return Query(
        f"SELECT * FROM ({source.user_sql(plan.read.sql)}\n) AS {source.dialect.quote(SOURCE)} WHERE {condition}"
    )
