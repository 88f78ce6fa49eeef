"""Source rows into incoming rows: normalizers, row transforms, casts to declared types, event time, resume filter.

One query over the name `_source`, rendered for the database that holds the rows or for Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from ..backends.dialect import Dialect
from ..errors import SpecError, UnknownNameError
from ..spec.pipeline import Pipeline
from ..spec.row_transform import deduplicate_by
from ..spec.run import Bookmark
from ..spec.table import Column
from ..strategies.base import EVENT_TIME, strategy_for
from ..types import TimestampTZ
from .cleaning import SOURCE, cleaned_rows, native_sql
from .row_transform import mentioned_columns, transformed

__all__ = [
    "SOURCE",
    "assumed_names",
    "cleaned_query",
    "incoming_query",
    "is_native",
    "may_be_absent",
    "pushed_sql",
    "resume_sql",
    "table_query",
]

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
    known = {column.name.casefold() for column in columns}
    extra = _mentioned(pipeline, columns, dialect)
    if extra is None and not pipeline.column_map:
        return f"SELECT * FROM {relation}"
    event = pipeline.event_timestamp_column
    if event is not None:
        extra = {event: dialect.quote(event)} | (extra or {})
    shown += [text for name, text in (extra or {}).items() if name.casefold() not in known]
    return f"SELECT {', '.join(dict.fromkeys(shown))} FROM {relation}"


def incoming_query(
    pipeline: Pipeline,
    columns: Sequence[Column],
    available: Sequence[str],
    dialect: Dialect,
    *,
    after: Bookmark | None = None,
) -> exp.Select:
    """The wanted columns in their declared types, out of the rows called `_source`.

    `after` leaves out what earlier loads have brought, before the row transforms see it.
    """
    names = _matching_names(pipeline, columns, available)
    rows = cleaned_query(pipeline, columns, available, dialect, after=after)
    types = {column.name: column.type for column in columns}
    shown = [(name, name, kind) for name, kind in types.items()]
    event = pipeline.event_timestamp_column
    if event is not None:
        shown.append((EVENT_TIME, event if event in types else names[event], TimestampTZ()))
    # What a normalizer gives may be another type than what it was given.
    made = {column.name for column in columns if column.normalizers}
    casts = []
    for name, given, kind in shown:
        value = exp.column(given, quoted=True) if given in made else dialect.source_column(names.get(given, given))
        value.set("this", exp.to_identifier(given, quoted=True))
        casts.append(dialect.compared(dialect.cast(value, kind), kind).as_(name, quoted=True))
    return exp.select(*casts, copy=False).from_(rows.subquery(CLEANED, copy=False), copy=False)


def cleaned_query(
    pipeline: Pipeline,
    columns: Sequence[Column],
    available: Sequence[str],
    dialect: Dialect,
    *,
    after: Bookmark | None = None,
) -> exp.Select:
    """The wanted columns as normalizers and row transforms leave them, not yet in their declared types."""
    names = _matching_names(pipeline, columns, available)
    event = pipeline.event_timestamp_column
    carried = [] if event is None or event in {column.name for column in columns} else [names[event]]
    if pipeline.transforms_pre or native_sql(columns):
        carried = list(available)
    rows = cleaned_rows(columns, {c.name: names[c.name] for c in _taken(columns) if c.name in names}, carried, dialect)
    if not pipeline.transforms_pre:
        return rows
    if after is not None and pipeline.incremental_column is not None:
        column = pipeline.table.column(pipeline.incremental_column)
        kept = exp.select(exp.Star(), copy=False).from_(rows.subquery(CLEANED, copy=False), copy=False)
        rows = kept.where(_not_before(column, after, dialect, typed=False), copy=False)
    return transformed(pipeline, rows, [each.alias_or_name for each in _projection(columns, carried)])


def _projection(columns: Sequence[Column], carried: Sequence[str]) -> list[exp.Expr]:
    """What `cleaned_rows` gives: the columns, and what is carried beside them."""
    declared = {column.name.casefold() for column in columns}
    names = [column.name for column in columns] + [name for name in carried if name.casefold() not in declared]
    return [exp.column(name) for name in names]


def assumed_names(pipeline: Pipeline, columns: Sequence[Column], dialect: Dialect) -> list[str]:
    """The columns that the source must have: the declared ones, the event time, and what the transforms speak of."""
    names = dict.fromkeys(column.name for column in _taken(columns))
    if pipeline.event_timestamp_column is not None:
        names[pipeline.event_timestamp_column] = None
    declared = {column.name.casefold() for column in columns}
    mentioned = _mentioned(pipeline, columns, dialect) or {}
    return [*names, *(name for name in mentioned if name.casefold() not in declared and name not in names)]


def is_native(pipeline: Pipeline, columns: Sequence[Column]) -> bool:
    """Whether cleaning and transforms hold SQL in the words of the source, which only the source can run."""
    return bool(native_sql(columns)) or any(transform.native for transform in pipeline.transforms_pre)


def pushed_sql(
    source_sql: str, query: exp.Select, dialect: Dialect, bookmark: Bookmark | None, column: Column | None
) -> str:
    """The whole of a relation: the source's query, untouched, under our projection and resume filter."""
    rendered = dialect.render(query, {}, {})
    if bookmark is not None and column is not None:
        rendered = f"SELECT * FROM ({rendered}) AS _typed WHERE {resume_sql(column, bookmark, dialect)}"
    return f"WITH {dialect.quote(SOURCE)} AS ({source_sql}\n) {rendered}"


def resume_sql(column: Column, bookmark: Bookmark, dialect: Dialect, *, typed: bool = True) -> str:
    """The condition that keeps rows at or after the bookmark; NULL stays, to be refused by name instead of lost."""
    return dialect.render(_not_before(column, bookmark, dialect, typed=typed), {}, {})


def _not_before(column: Column, bookmark: Bookmark, dialect: Dialect, *, typed: bool) -> exp.Expr:
    value: exp.Expression = exp.column(column.name, quoted=True)
    if not typed:
        value = dialect.cast(value if column.normalizers else dialect.source_column(column.name), column.type)
    reached = dialect.literal(bookmark.value, column.type)
    return exp.or_(exp.GTE(this=value, expression=reached), value.copy().is_(exp.null()))


def _mentioned(pipeline: Pipeline, columns: Sequence[Column], dialect: Dialect) -> dict[str, str] | None:
    """The columns that the user's own SQL and the keys of transforms speak of; None where that cannot be told."""
    texts = [str(getattr(marker, "expression", "")) for _, marker in native_sql(columns)]
    texts += [text for transform in pipeline.transforms_pre for text in transform.native]
    found = mentioned_columns(texts, dialect.name)
    if found is None:
        return None
    found.pop("col", None)
    keys = (key for each in pipeline.transforms_pre if isinstance(each, deduplicate_by) for key in each.keys)
    return {key: dialect.quote(key) for key in keys} | found


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


def may_be_absent(pipeline: Pipeline, columns: Sequence[Column]) -> set[str]:
    """The columns that become NULL where the source has them not: nullable ones that the pipeline does not name.

    Where rows are matched with those that are there, NULL would wipe out what the table knows: none may be absent.
    """
    if pipeline.strict_schema or not strategy_for(pipeline.mode).fills_gaps:
        return set()
    named = {pipeline.event_timestamp_column, pipeline.incremental_column}
    for names in (pipeline.keys, pipeline.update_columns, pipeline.compare_columns):
        named.update(names or ())
    return {column.name for column in columns if column.nullable} - named


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
