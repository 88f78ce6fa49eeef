"""Strategy queries and users' SQL evaluated by Spark, for the systems that have no query engine of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from ..errors import BackendError, CheckError, SpecError
from ..spec.place import TableRef
from ..spec.run import Commit
from ..spec.table import Column
from ..strategies.base import TARGET
from ..types import JSON, ColumnType, Text
from .base import Actual, ActualColumn, SchemaChange, run_values
from .spark_dialect import SparkDialect
from .sql_text import replace_tables

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "SPARK",
    "FrameQueries",
    "Tally",
    "arrow_frame",
    "conform",
    "evolved",
    "mentions",
    "null_rules",
    "plain_frame",
    "query_frame",
    "refuse_repeated",
    "repeated",
    "schema_ddl",
    "spark_types",
    "stored_table",
    "type_ddl",
]

SPARK = SparkDialect()


class FrameQueries:
    """A strategy's queries over named frames."""

    def __init__(self, spark: SparkSession, commit: Commit, types: Mapping[str, ColumnType]) -> None:
        self.spark = spark
        self._values = run_values(commit, SPARK, types)
        self._types = types
        self._frames: dict[str, DataFrame] = {}

    def bind(self, name: str, frame: DataFrame) -> None:
        """Let `frame` answer to `name` from here on."""
        self._frames[name] = frame

    def knows(self, name: str) -> bool:
        """Whether a frame answers to `name`."""
        return name in self._frames

    def frame(self, query: exp.Query) -> DataFrame:
        """The rows of `query`, not evaluated yet."""
        bound = query.copy()
        used: dict[str, DataFrame] = {}
        for table in list(bound.find_all(exp.Table)):
            if not table.db and table.name in self._frames:
                used[table.name] = self._frames[table.name]
                place = exp.table_(f"{_PLACE}{table.name}", quoted=True)
                table.replace(exp.alias_(place, table.alias or table.name, table=True))
        return _bound(self.spark, SPARK.render(bound, self._values, self._types), used)

    def rows(self, query: exp.Query) -> Sequence[tuple[object, ...]]:
        """The rows of a small query."""
        with _without_constraints(self.spark):
            return [tuple(row) for row in self.frame(query).collect()]

    def save(self, query: exp.Query, path: str) -> DataFrame:
        """The rows of `query`, evaluated once into Parquet."""
        with _without_constraints(self.spark):
            frame = self.frame(query)
            frame.write.parquet(path)
        return self.spark.read.schema(frame.schema).parquet(path)

    def arrow(self, query: exp.Query) -> pa.Table:
        """The rows of `query`, evaluated."""
        with _without_constraints(self.spark):
            return self.frame(query).toArrow()


_PLACE = "_ematix_"
_planning = threading.Lock()


@contextmanager
def _without_constraints(spark: SparkSession) -> Iterator[None]:
    """Plan without inferring constraints: for a query that compares many columns that takes minutes."""
    name = "spark.sql.constraintPropagation.enabled"
    with _planning:  # the setting is the session's, which other threads share
        before = spark.conf.get(name)
        spark.conf.set(name, "false")
        try:
            yield
        finally:
            spark.conf.set(name, str(before))


def _bound(spark: SparkSession, sql: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of a query in which each frame is named by its place."""
    if not frames:
        return spark.sql(sql)
    # Spark puts frames in the place of names in braces; other braces are doubled to stay what they are.
    text = sql.replace("{", "{{").replace("}", "}}")
    for name in frames:
        text = text.replace(SPARK.quote(_PLACE + name), f"{{{name}}}")
    return spark.sql(text, None, **frames)


@dataclass
class Tally:
    """Counts rows, and rows that break a rule, while Spark writes them; costs no pass of its own."""

    rules: Mapping[str, str]
    """What to say of rows that break a rule, and the SQL condition that they meet."""
    _observation: Observation | None = None
    _counted: Mapping[str, int] | None = None

    def watch(self, frame: DataFrame) -> DataFrame:
        """The same rows, counted when they are evaluated."""
        from pyspark.sql import Observation

        self._observation = Observation()
        return frame.observe(self._observation, *self._counters())

    def count(self, frame: DataFrame, label: str) -> dict[str, int]:
        """Count the rows now, in a pass of their own; gives how many there are of each label."""
        found = [row.asDict() for row in frame.groupBy(SPARK.quote(label)).agg(*self._counters()).collect()]
        names = ("_rows", *(f"_{i}" for i in range(len(self.rules))))
        self._counted = {name: sum(row[name] for row in found) for name in names}
        return {str(row[label]): int(row["_rows"]) for row in found}

    def rows(self) -> int:
        """How many rows there were."""
        return int(self._counts()["_rows"])

    def check(self, owner: str) -> None:
        """Raise CheckError where rows broke a rule."""
        counts = self._counts()
        for i, offence in enumerate(self.rules):
            if number := int(counts[f"_{i}"]):
                raise CheckError(
                    f"{owner}: {number} {'row has' if number == 1 else 'rows have'} {offence}",
                    hint="nothing was written; change the source query or the table's declaration",
                )

    def _counters(self) -> list[SparkColumn]:
        from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

        broken = [F.count_if(F.expr(condition)).alias(f"_{i}") for i, condition in enumerate(self.rules.values())]
        return [F.count(F.lit(1)).alias("_rows"), *broken]

    def _counts(self) -> Mapping[str, int]:
        if self._counted is not None:
            return self._counted
        assert self._observation is not None
        return self._observation.get


def null_rules(columns: Iterable[Column]) -> dict[str, str]:
    """The rules of columns that may not be NULL, for systems that enforce nothing themselves."""
    return {
        f"NULL in the column {column.name!r}, which may not be NULL": f"{SPARK.quote(column.name)} IS NULL"
        for column in columns
        if not column.nullable
    }


def schema_ddl(columns: Iterable[Column]) -> str:
    """The columns in the words of Spark's schemas."""
    return ", ".join(f"{SPARK.quote(column.name)} {type_ddl(column.type)}" for column in columns)


def type_ddl(type: ColumnType) -> str:
    """The type that Spark keeps a declared one as: it has no text of limited length."""
    return SPARK.type_name(SPARK.stored_type(type))


def conform(frame: DataFrame, columns: Iterable[Column], given: Mapping[str, ColumnType]) -> DataFrame:
    """The frame in exactly these columns and types; `given` are the types it has, absent columns become NULL."""
    shown = []
    for column in columns:
        value: exp.Expression = exp.column(column.name, quoted=True)
        if column.name not in given:
            value = SPARK.convert(exp.null(), type_ddl(column.type))
        elif SPARK.stored_type(given[column.name]) != SPARK.stored_type(column.type):
            value = SPARK.cast(value, column.type)
        shown.append(f"{value.sql(SPARK.name)} AS {SPARK.quote(column.name)}")
    return frame.selectExpr(*shown)


def arrow_frame(spark: SparkSession, rows: pa.Table, schema: str | StructType) -> DataFrame:
    """Arrow rows as a frame."""
    # Spark takes an empty batch for the end of the rows.
    filled = [batch for batch in rows.to_batches() if batch.num_rows]
    return spark.createDataFrame(type(rows).from_batches(filled, rows.schema), schema)


def plain_frame(frame: DataFrame) -> DataFrame:
    """The frame with its lists, maps and structs as JSON text."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    nested = {
        each.name: F.to_json(frame[SPARK.quote(each.name)], {"ignoreNullFields": "false"})
        for each in frame.schema.fields
        if each.dataType.typeName() in _NESTED
    }
    return frame.withColumns(nested) if nested else frame


_NESTED = ("array", "map", "struct", "variant")


def spark_types(frame: DataFrame) -> dict[str, ColumnType]:
    """The types that keep the columns of a Spark frame; those of `_NESTED` are JSON."""
    types: dict[str, ColumnType] = {}
    for each in frame.schema.fields:
        kind = each.dataType.simpleString()
        known = SPARK.column_type(kind)
        if each.dataType.typeName() in _NESTED:
            known = JSON()
        elif kind == "void":
            known = Text()
        if known is None:
            raise SpecError(
                f"column {each.name!r} has the Spark type {kind}, which no column type keeps",
                hint="make it a number or a text in the frame",
            )
        types[each.name] = known
    return types


def stored_table(columns: Sequence[Column], unique: tuple[tuple[str, ...], ...] | None) -> Actual:
    """A table as it was declared, for systems that remember the declaration."""
    shown = (ActualColumn(each.name, each.type, str(each.type), each.nullable, each.primary_key) for each in columns)
    return Actual(tuple(shown), unique, keyed=any(each.primary_key for each in columns))


def evolved(columns: Sequence[Column], change: SchemaChange) -> tuple[Column, ...]:
    """The columns after the change; rows that are there are read as the new types say."""
    known = {column.name for column in columns}
    added = [change.table.column(name) for name in change.add if name not in known]
    widened = {name: change.table.column(name).type for name in change.widen}
    return (*(_typed(each, widened.get(each.name, each.type)) for each in columns), *added)


def _typed(column: Column, type: ColumnType) -> Column:
    return Column(type, column.nullable, column.primary_key, column.name, column.normalizers)


def repeated(rows: exp.Query, group: Sequence[str], *, with_target: bool) -> exp.Query:
    """The values of a unique group that would stand several times, as text; up to six."""
    names = [exp.column(name, quoted=True) for name in group]
    whole: exp.Query = exp.select(*names).from_(rows.copy().subquery("_new"))
    if with_target:
        whole = exp.union(whole, exp.select(*names).from_(exp.table_(TARGET, quoted=True)), distinct=False)
    shown = [exp.cast(name.copy(), "string").as_(name.name, quoted=True) for name in names]
    found = exp.select(*shown).from_(whole.subquery("_all")).group_by(*names)
    found = found.where(*(exp.Not(this=exp.Is(this=name.copy(), expression=exp.null())) for name in names))
    return found.having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))).limit(6)


def refuse_repeated(table: str, group: Sequence[str], offences: Sequence[Sequence[object]]) -> None:
    """Raise CheckError where values of a unique group would stand several times."""
    if offences:
        shown = "; ".join(", ".join(str(value) for value in row) for row in offences[:5])
        raise CheckError(
            f"{table}: several rows would have one ({', '.join(group)}), which is unique: "
            f"{shown}{'; …' if len(offences) > 5 else ''}",
            hint="nothing was written; keep one of them in the source query",
        )


def mentions(query: exp.Query, name: str) -> bool:
    """Whether a strategy's query looks at the table called `name`."""
    return any(table.name == name and not table.db for table in query.find_all(exp.Table))


def query_frame(spark: SparkSession, sql: str, frame_of: Callable[[TableRef], DataFrame]) -> DataFrame:
    """The rows of a user's query in Spark's dialect; its text stays as written but for the names of the tables."""
    _check_query(sql)
    names: dict[TableRef, str] = {}

    def place(schema: str, name: str) -> str:
        if not schema:
            raise SpecError(f"the query reads {name}", hint="write tables as schema.table")
        return SPARK.quote(_PLACE + names.setdefault(TableRef(schema, name), f"t{len(names)}"))

    text = replace_tables(sql, SPARK.name, place)
    return _bound(spark, text, {name: frame_of(ref) for ref, name in names.items()})


def _check_query(sql: str) -> None:
    try:
        trees = [tree for tree in parse(sql, read=SPARK.name) if tree is not None]
    except SqlglotError as error:
        raise BackendError(f"the query cannot be read: {error}", hint="write it in Spark's dialect") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise SpecError("a source is one SELECT", hint="leave out other statements")
    for table in trees[0].find_all(exp.Table):
        if table.catalog:
            raise SpecError(f"the query reads {table.sql(SPARK.name)}", hint="write tables as schema.table")
