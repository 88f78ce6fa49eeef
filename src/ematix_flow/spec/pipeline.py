"""What a user declares of a pipeline: where its rows come from, which table they go to, and how."""

from __future__ import annotations

import difflib
import inspect
import re
import zoneinfo
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, TypedDict, get_args

from ..errors import SpecError, SpecTypeError, UnknownNameError, UnsupportedError, nearest
from .connection import Connection
from .duration import parse_duration
from .origin import Origin
from .place import TableRef
from .row_transform import RowTransform, is_pipeline_transform
from .table import METADATA_NAMES, ManagedTable, Table, key_ladder

__all__ = [
    "MODES",
    "DriftPolicy",
    "ForcedPath",
    "LatePolicy",
    "Mode",
    "Pipeline",
    "PipelineFunction",
    "PipelineOptions",
    "build_pipeline",
]

Mode = Literal["append", "truncate", "merge", "scd1", "scd2"]
MODES: tuple[str, ...] = get_args(Mode)
DriftPolicy = Literal["error", "warn", "evolve"]
LatePolicy = Literal["error", "ignore", "insert"]
ForcedPath = Literal["same_db", "cross_db"]
PipelineFunction = Callable[..., object]


class PipelineOptions(TypedDict, total=False):
    """The keywords of `@ematix.pipeline`; one list for the decorator and its function twins."""

    target: type[ManagedTable]
    mode: Mode
    name: str
    schedule: str | None
    timezone: str | None
    source_connection: str | Connection | None
    target_connection: str | Connection | None
    source_table: str | None
    column_map: Mapping[str, str] | None
    keys: Sequence[str] | None
    update_columns: Sequence[str] | None
    compare_columns: Sequence[str] | None
    event_timestamp_column: str | None
    handle_deletes: Literal["hard", "soft"] | None
    incremental_column: str | None
    on_drift: DriftPolicy
    force_path: ForcedPath | None
    ttl: timedelta | str | float | None
    late_events: LatePolicy
    allow_empty_source: bool
    transforms_pre: Sequence[RowTransform] | None
    # Documented spellings of the same things.
    incremental: bool
    watermark_column: str | None
    ttl_seconds: float | None


LATER = {
    "targets": "several targets in one pipeline",
    "continue_on_failure": "several targets in one pipeline",
    "continue_on_target_failure": "several targets in one pipeline",
    "transforms_post": "steps after the load",
    "continue_on_failure_post": "steps after the load",
    "depends_on": "dependencies between pipelines",
    "upstream_freshness_secs": "dependencies between pipelines",
    "retry": "retries",
    "expectations": "data quality",
    "on_quality_failure": "data quality",
    "freshness_sla": "freshness",
    "freshness_column": "freshness",
    "alert_on_quality_warn": "data quality",
    "strict_schema": "strict schemas",
}
"""Documented keywords that this version refuses instead of ignoring."""


@dataclass(frozen=True, kw_only=True)
class _Declared:
    """A pipeline's name and where it was declared; errors about it say both."""

    name: str
    declared_at: Origin | None = field(default=None, compare=False)

    def error(self, problem: str, *, kind: type[SpecError] = SpecError, hint: str | None = None) -> SpecError:
        """An error about this pipeline, with the place of its declaration."""
        return kind(f"pipeline {self.name!r}: {problem}", hint=hint, declared_at=self.declared_at)

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Errors of declarations that leave the block name this pipeline, and its place where they have none."""
        try:
            yield
        except SpecError as error:
            if f"pipeline {self.name!r}" not in error.message:
                error.message = f"pipeline {self.name!r}: {error.message}"
            error.declared_at = error.declared_at or self.declared_at
            raise


@dataclass(frozen=True, kw_only=True)
class Pipeline(_Declared):
    """A bounded load of one source into one table."""

    function: PipelineFunction = field(compare=False)
    table: Table
    mode: Mode
    schedule: str | None = None
    timezone: str | None = None
    source_connection: str | None = None
    target_connection: str = "default"
    source_table: TableRef | None = None
    column_map: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] | None = None
    update_columns: tuple[str, ...] | None = None
    compare_columns: tuple[str, ...] | None = None
    event_timestamp_column: str | None = None
    handle_deletes: Literal["hard", "soft"] | None = None
    incremental_column: str | None = None
    on_drift: DriftPolicy = "error"
    force_path: ForcedPath | None = None
    ttl: timedelta | None = None
    late_events: LatePolicy = "error"
    allow_empty_source: bool = False
    transforms_pre: tuple[RowTransform, ...] = ()

    @property
    def parameters(self) -> int:
        """How many handles the function wants: 0, 1 (the source) or 2 (source and target).

        A parameter with a default is the function's own and no handle.
        """
        return sum(_is_required(each) and each.kind is not each.KEYWORD_ONLY for each in _signature(self.function))


def build_pipeline(function: PipelineFunction, options: Mapping[str, object], declared_at: Origin | None) -> Pipeline:
    """The record of a decorated function, or the first thing that is wrong with it."""
    name = options.get("name") or getattr(function, "__name__", None) or "pipeline"
    declared = _Declared(name=str(name), declared_at=declared_at)
    _check_keywords(declared, options)
    target = options.get("target")
    if target is None:
        raise declared.error("it has no target", kind=SpecTypeError, hint="pass target=YourTable")
    if not (isinstance(target, type) and issubclass(target, ManagedTable)):
        hint = "decorate the class with @ematix.table(schema=…)"
        raise declared.error(f"target= must be a table class, not {target!r}", kind=SpecTypeError, hint=hint)
    with declared.named_errors():
        table = target._table()
        values = _plain_values(declared, options)
    pipeline = Pipeline(name=declared.name, declared_at=declared_at, function=function, table=table, **values)  # type: ignore[arg-type]
    _check_schedule(pipeline)
    _check_function(pipeline)
    _check_combination(pipeline)
    _check_columns(pipeline)
    if pipeline.mode in ("merge", "scd1", "scd2"):
        _check_keys(pipeline)
    return pipeline


def _check_keywords(declared: _Declared, options: Mapping[str, object]) -> None:
    for keyword, value in options.items():
        if keyword in LATER:
            problem = f"{keyword}= ({LATER[keyword]}) is not part of this version"
            hint = "remove the keyword; nothing documented is silently ignored"
            raise declared.error(problem, kind=UnsupportedError, hint=hint)
        if keyword not in PipelineOptions.__annotations__:
            hint = nearest("keyword", keyword, PipelineOptions.__annotations__)
            raise declared.error(f"there is no keyword {keyword!r}", kind=SpecTypeError, hint=hint)
        expected, shown = _KINDS.get(keyword, (object, ""))
        if value is not None and not isinstance(value, expected):
            # The type and not the value, which may hold a secret.
            problem = f"{keyword}= cannot be a {type(value).__name__}"
            raise declared.error(problem, kind=SpecTypeError, hint=f"pass {shown}")


_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    **dict.fromkeys(("name", "schedule", "timezone"), (str, "a text")),
    **dict.fromkeys(("source_connection", "target_connection"), ((str, Connection), "a connection or its name")),
    **dict.fromkeys(("event_timestamp_column", "incremental_column", "watermark_column"), (str, "a column's name")),
    **dict.fromkeys(("allow_empty_source", "incremental"), (bool, "True or False")),
    "source_table": ((str, TableRef), "'schema.table'"),
    "column_map": (Mapping, "a mapping of declared columns to columns or expressions of the source"),
    "ttl_seconds": ((int, float), "a number of seconds"),
}


def _plain_values(declared: _Declared, options: Mapping[str, object]) -> dict[str, object]:
    """Keywords as the record wants them: synonyms merged, texts parsed, closed words checked."""
    given = {key: value for key, value in options.items() if key not in ("target", "name") and value is not None}
    incremental = given.pop("incremental", None)
    _rename(declared, given, "watermark_column", "incremental_column")
    _rename(declared, given, "ttl_seconds", "ttl")
    if incremental is not None and incremental != ("incremental_column" in given):
        problem = "needs" if incremental else "contradicts"
        raise declared.error(f"incremental={incremental} {problem} watermark_column=", kind=SpecTypeError)
    if "mode" not in given:
        raise declared.error("it has no mode", kind=SpecTypeError, hint=f"pass mode=, one of {', '.join(MODES)}")
    for keyword, allowed in _CLOSED.items():
        if keyword in given and given[keyword] not in allowed:
            hint = _meant(keyword, str(given[keyword])) or nearest(keyword, str(given[keyword]), allowed)
            raise declared.error(f"{keyword}={given[keyword]!r} is not possible", kind=UnsupportedError, hint=hint)
    for keyword, convert in _CONVERSIONS.items():
        if keyword in given:
            given[keyword] = convert(declared, keyword, given[keyword])
    return given


_CLOSED: Mapping[str, tuple[str, ...]] = {
    "mode": MODES,
    "on_drift": get_args(DriftPolicy),
    "late_events": get_args(LatePolicy),
    "force_path": get_args(ForcedPath),
    "handle_deletes": ("hard", "soft"),
}


# What other tools call the modes.
_SYNONYMS = {
    "insert": "append", "overwrite": "truncate", "replace": "truncate", "full_refresh": "truncate", "full": "truncate",
    "upsert": "merge", "update": "merge", "incremental": "append", "history": "scd2", "snapshot": "scd2",
}  # fmt: skip


def _meant(keyword: str, word: str) -> str | None:
    meant = _SYNONYMS.get(word.casefold()) if keyword == "mode" else None
    return f"mode={meant!r} does that" if meant else None


def _rename(declared: _Declared, given: dict[str, object], old: str, new: str) -> None:
    if old not in given:
        return
    if new in given:
        raise declared.error(f"{old}= and {new}= say the same thing", kind=SpecTypeError, hint=f"keep {new}=")
    given[new] = given.pop(old)


def _names(declared: _Declared, keyword: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise declared.error(f"{keyword}= takes a list of column names, not {value!r}", kind=SpecTypeError)
    twice = next((name for position, name in enumerate(value) if name in value[:position]), None)
    if twice is not None:
        raise declared.error(f"{keyword}= names the column {twice!r} twice", hint="name each column once")
    return tuple(value)


def _mapping(declared: _Declared, keyword: str, value: Mapping[object, object]) -> dict[str, str]:
    mapped: dict[str, str] = {}
    for name, source in value.items():
        if not isinstance(name, str) or not isinstance(source, str):
            raise declared.error(f"{keyword}= maps text to text, not {name!r} to {source!r}", kind=SpecTypeError)
        if not source.strip():
            raise declared.error(f"{keyword}= maps {name!r} to nothing", hint="name a column of the source")
        mapped[name] = source
    return mapped


def _transforms(declared: _Declared, keyword: str, value: object) -> tuple[RowTransform, ...]:
    entries = (value,) if is_pipeline_transform(value) else value
    if not isinstance(entries, list | tuple):
        raise declared.error(f"{keyword}= takes a list of transforms, not a {type(value).__name__}", kind=SpecTypeError)
    for position, entry in enumerate(entries):
        if not is_pipeline_transform(entry):
            shown = getattr(entry, "__name__", None) or repr(entry)
            hint = "use deduplicate_by(…), filter_where(…), limit(…) or sample_pct(…) of ematix_flow.transforms"
            raise declared.error(f"{keyword}[{position}] is no transform: {shown}", kind=SpecTypeError, hint=hint)
    return tuple(entries)


def _ttl(declared: _Declared, keyword: str, value: str | float | timedelta) -> timedelta:
    duration = parse_duration(value)
    if duration <= timedelta(0):
        raise declared.error(f"{keyword}= must be above zero, not {value!r}", hint="leave it out to keep versions open")
    return duration


_CONVERSIONS: Mapping[str, Callable[..., object]] = {
    **dict.fromkeys(("keys", "update_columns", "compare_columns"), _names),
    **dict.fromkeys(("source_connection", "target_connection"), lambda _, __, value: getattr(value, "name", value)),
    "column_map": _mapping,
    "source_table": lambda _, __, value: value if isinstance(value, TableRef) else TableRef.parse(value),
    "transforms_pre": _transforms,
    "ttl": _ttl,
}

_MACROS = ("@annually", "@daily", "@hourly", "@midnight", "@monthly", "@weekly", "@yearly")
_NAMED = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat"
_CRON = re.compile(rf"(?:[\d*/,?#LW-]|{_NAMED})+(?:\s+(?:[\d*/,?#LW-]|{_NAMED})+){{4,5}}", re.IGNORECASE)


def _check_schedule(pipeline: Pipeline) -> None:
    """The schedule looks like cron, and the time zone exists."""
    schedule, timezone = pipeline.schedule, pipeline.timezone
    if schedule is not None and schedule not in _MACROS and not _CRON.fullmatch(schedule.strip()):
        hint = "write five or six cron fields, such as '0 5 * * *'"
        if schedule.startswith("@"):
            hint = nearest("macro", schedule, _MACROS)
        raise pipeline.error(f"schedule={schedule!r} is not a cron text", hint=hint)
    if timezone is None:
        return
    if schedule is None:
        raise pipeline.error("timezone= belongs to schedule=", hint="pass schedule= too, or leave timezone= out")
    try:
        zoneinfo.ZoneInfo(timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        close = difflib.get_close_matches(timezone, zoneinfo.available_timezones(), n=1)
        hint = f"did you mean {close[0]!r}?" if close else "write a name such as 'Europe/Berlin' or 'UTC'"
        raise pipeline.error(f"there is no time zone {timezone!r}", hint=hint) from None


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
    if pipeline.column_map and pipeline.source_table is None:
        raise pipeline.error("column_map= belongs to source_table=", hint="pass source_table='schema.table'")


def _check_combination(pipeline: Pipeline) -> None:
    """Options that only some modes can honour."""
    scd2, merge = pipeline.mode == "scd2", pipeline.mode in ("merge", "scd1")
    rules = (
        ("event_timestamp_column", pipeline.event_timestamp_column is not None, scd2, "scd2"),
        ("ttl", pipeline.ttl is not None, scd2, "scd2"),
        ("late_events", pipeline.late_events != "error", scd2, "scd2"),
        ("compare_columns", pipeline.compare_columns is not None, scd2 or merge, "scd2, merge or scd1"),
        ("update_columns", pipeline.update_columns is not None, merge, "merge or scd1"),
        ("keys", pipeline.keys is not None, scd2 or merge, "merge, scd1 or scd2"),
        ("handle_deletes", pipeline.handle_deletes is not None, scd2 or merge, "merge, scd1 or scd2"),
        ("incremental_column", pipeline.incremental_column is not None, pipeline.mode == "append", "append"),
    )
    for keyword, given, possible, modes in rules:
        if given and not possible:
            raise pipeline.error(f"{keyword}= is for mode {modes}, not {pipeline.mode}", hint=f"leave {keyword}= out")
    if pipeline.late_events != "error" and pipeline.event_timestamp_column is None:
        raise pipeline.error("late_events= needs event_timestamp_column=", hint="name the column of the event time")
    if pipeline.update_columns is not None and pipeline.compare_columns is not None:
        problem = f"update_columns= and compare_columns= say the same thing for {pipeline.mode}"
        raise pipeline.error(problem, hint="keep update_columns=")
    if merge and pipeline.handle_deletes == "soft":
        raise pipeline.error(
            f"{pipeline.mode} cannot delete softly",
            kind=UnsupportedError,
            hint="use handle_deletes='hard', or mode='scd2', which keeps the history",
        )
    if scd2 and pipeline.handle_deletes == "hard":
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


def _signature(function: PipelineFunction) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _is_required(parameter: inspect.Parameter) -> bool:
    collects = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not collects
