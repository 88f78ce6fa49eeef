"""The columns that a source gives against the declared ones: what is missing, what is too much, what may not fit."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from ..backends.base import QueryColumn
from ..backends.dialect import Dialect
from ..errors import CheckError
from ..normalize import compose_chain
from ..spec.table import Column
from ..types import (
    JSON,
    JSONB,
    UUID,
    BigInt,
    Boolean,
    Bytes,
    ColumnType,
    Date,
    Double,
    Float,
    Integer,
    Numeric,
    SmallInt,
    String,
    Text,
    Timestamp,
    TimestampTZ,
)
from .plan import Plan
from .schema import is_wider
from .transform import may_be_absent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["check_columns", "frame_columns", "is_safe", "kinds_of", "types_of"]


def frame_columns(frame: DataFrame) -> tuple[QueryColumn, ...]:
    """The columns of a Spark frame."""
    return tuple(QueryColumn(name, kind) for name, kind in frame.dtypes)


def kinds_of(columns: Iterable[QueryColumn]) -> dict[str, str]:
    """The types of columns in the words of the system that gives them."""
    return {column.name: column.type for column in columns}


def types_of(columns: Iterable[QueryColumn], dialect: Dialect) -> dict[str, ColumnType]:
    """The types of columns, as far as the system knows them and the catalogue has them."""
    known = {column.name: dialect.column_type(column.type) for column in columns}
    return {name: kind for name, kind in known.items() if kind is not None}


def check_columns(plan: Plan, names: Sequence[str], types: Mapping[str, ColumnType]) -> None:
    """Refuse a source that is not what `strict_schema=True` asks for; otherwise say which columns become NULL.

    `names` are the source's columns, `types` the types of those that have one of the catalogue.
    """
    pipeline = plan.pipeline
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise CheckError(
            f"pipeline {pipeline.name!r}: the source gives several columns of one name: {', '.join(map(repr, twice))}",
            hint="name them apart in the source query, for example with AS",
            declared_at=pipeline.declared_at,
        )
    if pipeline.strict_schema:
        found = list(_differences(plan, names, types))
        if found:
            lines = "".join(f"\n  {line}" for line in found)
            raise CheckError(
                f"pipeline {pipeline.name!r}: the source is not what strict_schema= asks for:{lines}",
                hint="nothing was written; change the source or the declaration, or leave strict_schema= out",
                declared_at=pipeline.declared_at,
            )
        return
    given = {name.casefold() for name in names}
    allowed = may_be_absent(pipeline, plan.transform.columns)
    absent = [
        column.name
        for column in plan.transform.columns
        if column.name in allowed and not column.is_derived and column.name.casefold() not in given
    ]
    if absent:
        shown = ", ".join(map(repr, absent))
        text = f"pipeline {pipeline.name!r}: the source has no {shown}, so that is NULL; it has {', '.join(names)}"
        warnings.warn(text, UserWarning, stacklevel=2)


def _differences(plan: Plan, names: Sequence[str], types: Mapping[str, ColumnType]) -> Iterator[str]:
    given = {name.casefold(): name for name in names}
    used = set() if plan.transform.event_time is None else {plan.transform.event_time.casefold()}
    for column in plan.transform.columns:
        used |= _inputs(column)
        source = given.get(column.name.casefold())
        kind = None if source is None or column.normalizers else types.get(source)
        if source is None and not column.is_derived:
            yield f"column {column.name!r} is declared, and the source has it not"
        elif kind is not None and not is_safe(kind, column.type):
            yield f"column {column.name!r} has type {kind} in the source, declared is {column.type}"
    yield from (f"column {name!r} is in the source but not declared" for key, name in given.items() if key not in used)


def _inputs(column: Column) -> set[str]:
    """The columns of the source that a declared one is made of, folded."""
    if not column.normalizers:
        return {column.name.casefold()}
    own = exp.column(column.name, quoted=True).sql("postgres")
    try:
        value = parse_one(compose_chain(column.normalizers, own), read="postgres")
    except SqlglotError:  # SQL in the words of the source: what it speaks of cannot be told
        return {column.name.casefold()}
    return {each.name.casefold() for each in value.find_all(exp.Column)}


def is_safe(source: ColumnType, declared: ColumnType) -> bool:
    """Whether a column of the source's type fits the declared one by its type.

    Kinds of text count as one: their form and length are seen in the values, and checked there by every load.
    """
    if source == declared or is_wider(source, declared):
        return True
    match source, declared:
        case Text() | String() | JSON() | JSONB() | UUID(), Text() | String() | JSON() | JSONB() | UUID():
            return True
        case SmallInt() | Integer() | BigInt(), Numeric(precision, scale):
            return precision - scale >= _DIGITS[source.kind]
        case (SmallInt() | Integer(), Double()) | (SmallInt(), Float()):
            return True
        case (Date(), Timestamp() | TimestampTZ()) | (Timestamp(), TimestampTZ()):
            return True
        case _, Text():
            return not isinstance(source, Bytes | Boolean)
        case _:
            return False


_DIGITS = {"small_int": 5, "integer": 10, "big_int": 19}
