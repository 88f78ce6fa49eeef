"""What a pipeline's record must fulfil: its schedule, its function, its options together, its columns and keys."""

from __future__ import annotations

import difflib
import inspect
import zoneinfo
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import SpecTypeError, UnknownNameError, UnsupportedError, nearest
from ..types import JSON, JSONB, UUID, Boolean, Bytes
from .cron import is_cron
from .declared import Declared
from .table import METADATA_NAMES, key_ladder

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
    if pipeline.mode in ("merge", "scd1", "scd2"):
        _check_keys(pipeline)


def handles_wanted(function: Callable[..., object]) -> int:
    """How many required arguments a function has that are no keywords."""
    return sum(_is_required(each) and each.kind is not each.KEYWORD_ONLY for each in _signature(function))


def check_schedule(declared: Declared, schedule: str | None, timezone: str | None) -> None:
    """The schedule can be cron, and the time zone exists."""
    if schedule is not None and schedule not in _MACROS and not is_cron(schedule):
        hint = "write five or six cron fields, such as '0 5 * * *'"
        if schedule.startswith("@"):
            hint = nearest("macro", schedule, _MACROS)
        raise declared.error(f"schedule={schedule!r} is not a cron text", hint=hint)
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


def _check_combination(pipeline: Pipeline) -> None:
    """Options that only some modes can honour."""
    scd2, merge = pipeline.mode == "scd2", pipeline.mode in ("merge", "scd1")
    rules = (
        ("incremental_column", pipeline.incremental_column is not None, pipeline.mode == "append", "append"),
        ("event_timestamp_column", pipeline.event_timestamp_column is not None, scd2, "scd2"),
        ("ttl", pipeline.ttl is not None, scd2, "scd2"),
        ("late_events", pipeline.late_events != "error", scd2, "scd2"),
        ("compare_columns", pipeline.compare_columns is not None, scd2 or merge, "scd2, merge or scd1"),
        ("update_columns", pipeline.update_columns is not None, merge, "merge or scd1"),
        ("keys", pipeline.keys is not None, scd2 or merge, "merge, scd1 or scd2"),
    )
    for keyword, given, possible, modes in rules:
        if given and not possible:
            raise pipeline.error(f"{keyword}= is for mode {modes}, not {pipeline.mode}", hint=f"leave {keyword}= out")
    if pipeline.late_events != "error" and pipeline.event_timestamp_column is None:
        raise pipeline.error("late_events= needs event_timestamp_column=", hint="name the column of the event time")
    if pipeline.update_columns is not None and pipeline.compare_columns is not None:
        problem = f"update_columns= and compare_columns= say the same thing for {pipeline.mode}"
        raise pipeline.error(problem, hint="keep update_columns=")


def _check_deletes(pipeline: Pipeline) -> None:
    """Each mode can handle deletes in one way, if at all."""
    deletes, mode = pipeline.handle_deletes, pipeline.mode
    if deletes is None:
        return
    if deletes not in ("hard", "soft"):
        hint = nearest("word", str(deletes), ("hard", "soft"))
        raise pipeline.error(f"handle_deletes={deletes!r} is not possible", kind=UnsupportedError, hint=hint)
    if mode in ("append", "truncate"):
        problem = f"handle_deletes= is for mode merge, scd1 or scd2, not {mode}"
        raise pipeline.error(problem, hint="leave handle_deletes= out")
    if deletes == "soft" and mode != "scd2":
        raise pipeline.error(
            f"{mode} cannot delete softly",
            kind=UnsupportedError,
            hint="use handle_deletes='hard', or mode='scd2', which keeps the history",
        )
    if deletes == "hard" and mode == "scd2":
        raise pipeline.error("scd2 keeps history and never deletes rows", hint="use handle_deletes='soft'")


def _check_columns(pipeline: Pipeline) -> None:
    """Every column that is named must be declared, and come from the source."""
    named = {
        "keys": pipeline.keys,
        "update_columns": pipeline.update_columns,
        "compare_columns": pipeline.compare_columns,
        "column_map": tuple(pipeline.column_map),
        "incremental_column": (pipeline.incremental_column,) if pipeline.incremental_column else (),
    }
    filled = METADATA_NAMES if pipeline.mode == "scd2" else ("_loaded_at", "_batch_id")
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
    if pipeline.incremental_column is not None:
        type = pipeline.table.column(pipeline.incremental_column).type  # noqa: A001 - a column's type
        if isinstance(type, Boolean | JSON | JSONB | Bytes | UUID):
            problem = f"incremental_column=: values of {pipeline.incremental_column!r} ({type}) do not grow"
            raise pipeline.error(problem, hint="choose a number, a date, an instant or a text that grows")


def _check_keys(pipeline: Pipeline) -> None:
    """There are keys, no key is a column that changes, and scd2 has something to compare."""
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
    event = pipeline.event_timestamp_column
    rest = [name for name in pipeline.table.column_names if name not in (*keys, *METADATA_NAMES, event)]
    compared = rest if pipeline.compare_columns is None else pipeline.compare_columns
    if pipeline.mode == "scd2" and not compared:
        raise pipeline.error("scd2 has no columns to compare", hint="declare a column beside the keys, or use merge")


def _signature(function: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _is_required(parameter: inspect.Parameter) -> bool:
    collects = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not collects
