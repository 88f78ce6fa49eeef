"""Source rows into incoming rows: normalizers, casts to the declared types, the event time, the resume filter.

One query over the name `_source`, rendered for the database that holds the rows or for Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from ..backends.dialect import Dialect
from ..errors import SpecError, UnknownNameError
from ..normalize import compose_chain
from ..spec.pipeline import Pipeline
from ..spec.run import Bookmark
from ..spec.table import Column
from ..strategies.base import EVENT_TIME
from ..types import TimestampTZ

__all__ = ["SOURCE", "incoming_query", "may_be_absent", "pushed_sql", "resume_sql", "table_query"]

SOURCE = "_source"
CLEANED = "_cleaned"


def table_query(pipeline: Pipeline, columns: Sequence[Column], dialect: Dialect, relation: str) -> str:
    """`SELECT` of the wanted columns from `source_table=`, each mapped one by its source name or expression.

    A value of `column_map=` is a column where it is one word, a text in double quotes or backticks, or words and spaces
    that are no SQL expression (``First Name``). Anything else is an expression in the source's dialect.
    """
    shown = []
    for column in _taken(columns):
        mapped = pipeline.column_map.get(column.name)
        if mapped is None:
            shown.append(dialect.quote(column.name))
        else:
            name = _mapped_name(mapped.strip(), dialect)
            source = mapped if name is None else dialect.quote(name)
            shown.append(f"{source} AS {dialect.quote(column.name)}")
    event = pipeline.event_timestamp_column
    if event is not None and event not in {column.name for column in columns}:
        shown.append(dialect.quote(event))
    return f"SELECT {', '.join(shown)} FROM {relation}"


def incoming_query(
    pipeline: Pipeline, columns: Sequence[Column], available: Sequence[str], dialect: Dialect
) -> exp.Select:
    """The wanted columns in their declared types, out of the rows called `_source`."""
    names = _matching_names(pipeline, columns, available)
    event = pipeline.event_timestamp_column
    absent = {column.name for column in _taken(columns)} - names.keys()
    cleaned = {
        column.name: _nothing(column) if column.name in absent else _value(column, names.get(column.name, column.name))
        for column in columns
    }
    if event is not None:
        cleaned[EVENT_TIME] = cleaned[event].copy() if event in cleaned else exp.column(names[event], quoted=True)
    types = {column.name: column.type for column in columns} | {EVENT_TIME: TimestampTZ()}
    shown = [dialect.cast(exp.column(name, quoted=True), types[name]).as_(name, quoted=True) for name in cleaned]
    inner = exp.select(*(_named(value, name) for name, value in cleaned.items()), copy=False)
    inner = inner.from_(exp.table_(SOURCE, quoted=True), copy=False)
    return exp.select(*shown, copy=False).from_(inner.subquery(CLEANED, copy=False), copy=False)


def pushed_sql(
    source_sql: str, query: exp.Select, dialect: Dialect, bookmark: Bookmark | None, column: Column | None
) -> str:
    """The whole of a relation: the source's query, untouched, under our projection and resume filter."""
    rendered = dialect.render(query, {}, {})
    if bookmark is not None and column is not None:
        rendered = f"SELECT * FROM ({rendered}) AS _typed WHERE {resume_sql(column, bookmark, dialect)}"
    return f"WITH {dialect.quote(SOURCE)} AS (\n{source_sql}\n) {rendered}"


def resume_sql(column: Column, bookmark: Bookmark, dialect: Dialect, *, typed: bool = True) -> str:
    """The condition that keeps rows at or after the bookmark; NULL stays, to be refused by name instead of lost."""
    value: exp.Expression = exp.column(column.name, quoted=True)
    if not typed:
        value = dialect.cast(value, column.type)
    reached = dialect.cast(exp.Literal.string(bookmark.value), column.type)
    return dialect.render(exp.or_(exp.GTE(this=value, expression=reached), value.copy().is_(exp.null())), {}, {})


def _taken(columns: Sequence[Column]) -> list[Column]:
    """The columns that come from the source; a derived one is computed from others."""
    return [column for column in columns if not column.is_derived]


def _mapped_name(text: str, dialect: Dialect) -> str | None:
    """The source column that a value of `column_map=` names; None where it is an expression."""
    if text.isidentifier():
        return text
    if re.fullmatch(r'"(?:[^"]|"")+"|`(?:[^`]|``)+`', text):
        return text[1:-1].replace(text[0] * 2, text[0])
    if not re.fullmatch(r"[\w ]+", text):
        return None
    try:
        parsed = parse_one(f"SELECT {text}", read=dialect.name).expressions
    except SqlglotError:
        return text
    # To SQL, two words are a column and its alias.
    return text if not parsed or isinstance(parsed[0], exp.Alias | exp.Column) else None


def _named(value: exp.Expr, name: str) -> exp.Expr:
    """The value under a name; a column never under its own, which Spark cannot always resolve."""
    return value if isinstance(value, exp.Column) and value.name == name else exp.alias_(value, name, quoted=True)


def _value(column: Column, source_name: str) -> exp.Expr:
    name = exp.column(source_name, quoted=True)
    if not column.normalizers:
        return name
    text = compose_chain(column.normalizers, name.sql("postgres"))
    return parse_one(text, read="postgres")


def _nothing(column: Column) -> exp.Expr:
    """What stands for a column that the source has not: NULL, cleaned like any other value."""
    null = exp.cast(exp.null(), "text")
    return parse_one(compose_chain(column.normalizers, null.sql("postgres")), read="postgres")


def may_be_absent(pipeline: Pipeline, columns: Sequence[Column]) -> set[str]:
    """The columns that become NULL where the source has them not: nullable ones that the pipeline does not name."""
    named = {pipeline.event_timestamp_column, pipeline.incremental_column}
    for names in (pipeline.keys, pipeline.update_columns, pipeline.compare_columns):
        named.update(names or ())
    return {column.name for column in columns if column.nullable and not pipeline.strict_schema} - named


def _matching_names(pipeline: Pipeline, columns: Sequence[Column], available: Sequence[str]) -> Mapping[str, str]:
    """Each wanted column with the name the source gives it: exactly, or differing in case alone."""
    folded: dict[str, list[str]] = {}
    for name in available:
        folded.setdefault(name.casefold(), []).append(name)
    wanted = [column.name for column in _taken(columns)]
    if pipeline.event_timestamp_column is not None and pipeline.event_timestamp_column not in wanted:
        wanted.append(pipeline.event_timestamp_column)
    names = {}
    for name in wanted:
        found = [name] if name in available else folded.get(name.casefold(), [])
        if not found and name in may_be_absent(pipeline, columns):
            continue
        if not found:
            raise UnknownNameError(
                "column", name, known=available, where=f"the source of pipeline {pipeline.name!r}",
                declared_at=pipeline.declared_at,
            )  # fmt: skip
        if len(found) > 1:
            raise SpecError(
                f"the source of pipeline {pipeline.name!r} has several columns for {name!r}: {', '.join(found)}",
                declared_at=pipeline.declared_at,
            )
        names[name] = found[0]
    return names
