"""What a pipeline's record must fulfil: its schedule, its function, its options together, its columns and keys."""

from __future__ import annotations

import difflib
import inspect
import zoneinfo
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from ..errors import SpecTypeError, UnknownNameError, UnsupportedError, nearest
from ..types import (
    JSON,
    JSONB,
    UUID,
    BigInt,
    Boolean,
    Bytes,
    Column,
    Date,
    Double,
    Float,
    Integer,
    Numeric,
    SmallInt,
    Timestamp,
    TimestampTZ,
)
from .cron import cron_problem
from .declared import Declared
from .modes import mode_facts, modes_with
from .table import DELETED, METADATA_NAMES, key_ladder

if TYPE_CHECKING:
    from .pipeline import Pipeline

__all__ = ["check_pipeline", "check_schedule", "handles_wanted"]

_MACROS = ("@annually", "@daily", "@hourly", "@midnight", "@monthly", "@weekly", "@yearly")


def check_pipeline(pipeline: Pipeline) -> None:
    """SpecError for the first thing that cannot be right."""
    check_schedule(pipeline, pipeline.schedule, pipeline.timezone)
    _check_function(pipeline)
    _check_combination(pipeline)
    _check_deletes(pipeline)
    _check_columns(pipeline)
    _check_incremental(pipeline)
    _check_duplicates(pipeline)
    if mode_facts(pipeline.mode).needs_keys:
        _check_keys(pipeline)


def handles_wanted(function: Callable[..., object]) -> int:
    """How many required arguments a function has that are no keywords."""
    return sum(_is_required(each) and each.kind is not each.KEYWORD_ONLY for each in _signature(function))


def check_schedule(declared: Declared, schedule: str | None, timezone: str | None) -> None:
    """The schedule can be cron, and the time zone exists."""
    if schedule is not None and schedule not in _MACROS:
        if schedule.startswith("@"):
            raise declared.error(f"schedule={schedule!r} is not a cron text", hint=nearest("macro", schedule, _MACROS))
        if problem := cron_problem(schedule):
            hint = "write minute, hour, day of the month, month and day of the week, such as '0 5 * * *'"
            raise declared.error(f"schedule={schedule!r} is not a cron text: {problem}", hint=hint)
    if timezone is None:
        return
    if schedule is None:
        raise declared.error("timezone= belongs to schedule=", hint="pass schedule= too, or leave timezone= out")
    try:
        zoneinfo.ZoneInfo(timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        close = difflib.get_close_matches(timezone, zoneinfo.available_timezones(), n=1)
        hint = f"did you mean {close[0]!r}?" if close else "write a name such as 'Europe/Berlin' or 'UTC'"
        raise declared.error(f"there is no time zone {timezone!r}", hint=hint) from None


def _check_function(pipeline: Pipeline) -> None:
    shapes = "it may take none, (source) or (source, target)"
    try:
        signature = _signature(pipeline.function)
    except (TypeError, ValueError):
        raise pipeline.error(f"{pipeline.function!r} is not a function", kind=SpecTypeError, hint=shapes) from None
    for parameter in signature:
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise pipeline.error(f"the function takes *{parameter.name}", kind=SpecTypeError, hint=shapes)
        if parameter.kind is parameter.KEYWORD_ONLY and _is_required(parameter):
            problem = f"nobody gives the function its keyword {parameter.name!r}"
            raise pipeline.error(problem, kind=SpecTypeError, hint="add a default")
    if pipeline.parameters > 2:
        raise pipeline.error(f"the function takes {pipeline.parameters} arguments", kind=SpecTypeError, hint=shapes)
    if pipeline.parameters == 0 and pipeline.source_table is None:
        raise pipeline.error(
            "a function without arguments needs source_table=",
            kind=SpecTypeError,
            hint="write def name(source): return 'SELECT …', or pass source_table='schema.table'",
        )


_KEYED = modes_with(lambda facts: facts.needs_keys)
_MODES_OF: Mapping[str, tuple[str, ...]] = {
    "incremental_column": modes_with(lambda facts: not facts.replaces),
    **dict.fromkeys(("event_timestamp_column", "ttl", "late_events"), modes_with(lambda facts: facts.keeps_history)),
    **dict.fromkeys(("on_duplicate", "on_duplicate_order_by", "compare_columns", "keys"), _KEYED),
    "update_columns": modes_with(lambda facts: facts.updates),
}
"""Options that only some modes can honour."""


def _check_combination(pipeline: Pipeline) -> None:
    for keyword, modes in _MODES_OF.items():
        _check_mode(pipeline, keyword, modes)
    if pipeline.late_events != "error" and pipeline.event_timestamp_column is None:
        raise pipeline.error("late_events= needs event_timestamp_column=", hint="name the column of the event time")
    if pipeline.update_columns is not None and pipeline.compare_columns is not None:
        problem = f"update_columns= and compare_columns= say the same thing for {pipeline.mode}"
        raise pipeline.error(problem, hint="keep update_columns=")


def _check_mode(pipeline: Pipeline, keyword: str, modes: tuple[str, ...]) -> None:
    # An empty list asks for nothing, which every mode can do.
    if getattr(pipeline, keyword) not in (None, "error", ()) and pipeline.mode not in modes:
        problem = f"{keyword}= is for mode {_either(modes)}, not {pipeline.mode}"
        raise pipeline.error(problem, hint=f"leave {keyword}= out")


def _either(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _check_deletes(pipeline: Pipeline) -> None:
    """scd2 closes versions and never deletes rows; a merge can do either."""
    deletes = pipeline.handle_deletes
    if deletes not in (None, "hard", "soft"):
        hint = nearest("word", str(deletes), ("hard", "soft"))
        raise pipeline.error(f"handle_deletes={deletes!r} is not possible", kind=UnsupportedError, hint=hint)
    _check_mode(pipeline, "handle_deletes", modes_with(lambda facts: facts.deletes))
    possible = mode_facts(pipeline.mode).deletes
    if deletes is not None and deletes not in possible:
        problem = f"{pipeline.mode} keeps history and never deletes rows"
        raise pipeline.error(problem, hint=f"use handle_deletes={possible[0]!r}")


def _check_incremental(pipeline: Pipeline) -> None:
    """What a load that reads a part of the source can do, and how far back it may look."""
    column, lookback = pipeline.incremental_column, pipeline.lookback
    if lookback is not None and column is None:
        raise pipeline.error("lookback= needs incremental_column=", hint="name the column that the bookmark stands on")
    if column is None:
        return
    for keyword in ("handle_deletes", "ttl"):
        if getattr(pipeline, keyword) is not None:
            raise pipeline.error(
                f"{keyword}= and incremental_column= exclude each other: a part of the source cannot tell which keys "
                "have vanished",
                hint=f"leave {keyword}= out, or read the whole source without incremental_column=",
            )
    if lookback is None:
        return
    if not mode_facts(pipeline.mode).needs_keys:
        raise pipeline.error(
            f"lookback= is for mode {_either(_KEYED)}: {pipeline.mode} would add the rows that it reads again a second "
            "time",
            hint="leave lookback= out, or use mode='merge'",
        )
    _check_lookback(pipeline, pipeline.table.column(column), lookback)


def _check_lookback(pipeline: Pipeline, column: Column, lookback: timedelta | Decimal) -> None:
    """It is of a kind that can be taken from the column's values."""
    wanted = None
    if isinstance(column.type, Timestamp | TimestampTZ):
        wanted = None if isinstance(lookback, timedelta) else "a length of time, such as '10m'"
    elif isinstance(column.type, Date):
        whole = isinstance(lookback, timedelta) and not lookback % timedelta(days=1)
        wanted = None if whole else "whole days, such as '2d'"
    elif isinstance(column.type, SmallInt | Integer | BigInt):
        whole = isinstance(lookback, Decimal) and lookback == lookback.to_integral_value()
        wanted = None if whole else "a whole number"
    elif isinstance(column.type, Numeric | Float | Double):
        wanted = None if isinstance(lookback, Decimal) else "a number"
    else:
        hint = "leave lookback= out, or choose a column of numbers, days or instants"
        raise pipeline.error(f"lookback=: nothing can be taken from {column.name!r} ({column.type})", hint=hint)
    if wanted is not None:
        raise pipeline.error(f"lookback= does not fit {column.name!r} ({column.type})", hint=f"write {wanted}")


def _check_duplicates(pipeline: Pipeline) -> None:
    """Which of several rows counts is said by a column, never by chance."""
    policy, column = pipeline.on_duplicate, pipeline.on_duplicate_order_by
    if policy == "error":
        if column is not None:
            hint = "pass on_duplicate='last' or 'first' too"
            raise pipeline.error("on_duplicate_order_by= chooses between rows, which on_duplicate= asks for", hint=hint)
        return
    if pipeline.event_timestamp_column is not None:
        raise pipeline.error(
            f"on_duplicate={policy!r} has no meaning with event_timestamp_column=: every event of a key applies",
            hint="leave on_duplicate= out, or keep one event per key with transforms_pre=[deduplicate_by(…)]",
        )
    if column is None:
        hint = "name the column that says which row is the last: on_duplicate_order_by='updated_at'"
        raise pipeline.error(f"on_duplicate={policy!r} needs on_duplicate_order_by=", hint=hint)


_ORDERING = ("incremental_column", "on_duplicate_order_by")
"""Options that name a column whose values are told apart by which is the greater."""


def _check_columns(pipeline: Pipeline) -> None:
    """Every column that is named must be declared, and come from the source."""
    named = {
        "keys": pipeline.keys,
        "update_columns": pipeline.update_columns,
        "compare_columns": pipeline.compare_columns,
        "column_map": tuple(pipeline.column_map),
        **{keyword: (name,) for keyword in _ORDERING if (name := getattr(pipeline, keyword)) is not None},
    }
    filled = METADATA_NAMES if mode_facts(pipeline.mode).keeps_history else ("_loaded_at", "_batch_id")
    if pipeline.handle_deletes == "soft":
        filled = (*filled, DELETED)
    for keyword, name in ((keyword, name) for keyword, names in named.items() for name in names or ()):
        if name not in pipeline.table.column_names:
            raise UnknownNameError(
                "column",
                name,
                known=pipeline.table.column_names,
                where=f"pipeline {pipeline.name!r}: {keyword}=: table {pipeline.table.qualified_name!r}",
                declared_at=pipeline.declared_at,
            )
        if name in filled or (keyword == "column_map" and pipeline.table.column(name).is_derived):
            raise pipeline.error(f"{keyword}=: the column {name!r} does not come from the source", hint="leave it out")
        type = pipeline.table.column(name).type  # noqa: A001 - a column's type
        if keyword in _ORDERING and isinstance(type, Boolean | JSON | JSONB | Bytes | UUID):
            problem = f"{keyword}=: values of {name!r} ({type}) do not grow"
            raise pipeline.error(problem, hint="choose a number, a date, an instant or a text that grows")


def _check_keys(pipeline: Pipeline) -> None:
    """There are keys, no key is a column that changes, and a history has something to compare."""
    if pipeline.keys == ():
        hint = "name columns, or leave it out and declare __merge_keys__, a natural_key() or a pk()"
        raise pipeline.error("keys= names no column", hint=hint)
    with pipeline.named_errors():
        keys = key_ladder(pipeline.table, pipeline.keys, pipeline=pipeline.name).names
    for name in (*(pipeline.update_columns or ()), *(pipeline.compare_columns or ())):
        if name in keys:
            keyword = "compare_columns" if pipeline.update_columns is None else "update_columns"
            hint = "a key identifies a row and never changes"
            raise pipeline.error(f"{keyword}=: {name!r} is a key ({', '.join(keys)})", hint=hint)
    if pipeline.on_duplicate_order_by in keys:
        hint = "name a column in which the rows of one key differ"
        raise pipeline.error(f"on_duplicate_order_by=: {pipeline.on_duplicate_order_by!r} is a key", hint=hint)
    event = pipeline.event_timestamp_column
    rest = [name for name in pipeline.table.column_names if name not in (*keys, *METADATA_NAMES, event)]
    compared = rest if pipeline.compare_columns is None else pipeline.compare_columns
    if mode_facts(pipeline.mode).keeps_history and not compared:
        hint = "declare a column beside the keys, or use merge"
        raise pipeline.error(f"{pipeline.mode} has no columns to compare", hint=hint)


def _signature(function: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _is_required(parameter: inspect.Parameter) -> bool:
    collects = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not collects
