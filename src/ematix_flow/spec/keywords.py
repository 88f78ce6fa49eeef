"""The keywords of `@ematix.pipeline`: which there are, what each takes, and their values as the record wants them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, TypedDict, get_args

from ..errors import SpecTypeError, UnsupportedError, nearest
from .connection import Connection
from .duration import parse_duration
from .place import TableRef
from .post import build_steps
from .row_transform import RowTransform, is_pipeline_transform

if TYPE_CHECKING:
    from .declared import Declared
    from .fan_out import Target
    from .table import ManagedTable, Table

__all__ = [
    "LATER",
    "MODES",
    "DriftPolicy",
    "DuplicatePolicy",
    "ForcedPath",
    "LatePolicy",
    "Mode",
    "PipelineFunction",
    "PipelineOptions",
    "TargetOptions",
    "check_keywords",
    "plain_values",
]

Mode = Literal["append", "truncate", "merge", "scd1", "scd2"]
MODES: tuple[str, ...] = get_args(Mode)
DriftPolicy = Literal["error", "warn", "ignore", "evolve", "add_columns"]
LatePolicy = Literal["error", "ignore", "insert"]
DuplicatePolicy = Literal["error", "last", "first"]
ForcedPath = Literal["same_db", "cross_db", "pushed", "copied", "spark"]
"""How rows must go: `same_db` is another word for `pushed`, `cross_db` leaves open how they leave the database."""
PipelineFunction = Callable[..., object]


class TargetOptions(TypedDict, total=False):
    """The keywords of `ematix.target`: what each load may have for itself."""

    mode: Mode
    target_connection: str | Connection | None
    column_map: Mapping[str, str] | None
    keys: Sequence[str] | None
    update_columns: Sequence[str] | None
    compare_columns: Sequence[str] | None
    event_timestamp_column: str | None
    handle_deletes: Literal["hard", "soft"] | None
    incremental_column: str | None
    lookback: timedelta | str | float | Decimal | None
    on_duplicate: DuplicatePolicy
    on_duplicate_order_by: str | None
    on_drift: DriftPolicy
    force_path: ForcedPath | None
    ttl: timedelta | str | float | None
    late_events: LatePolicy
    allow_empty_source: bool
    strict_schema: bool
    transforms_pre: Sequence[RowTransform] | None
    transforms_post: Sequence[object] | None
    continue_on_failure_post: bool
    # Documented spellings of the same things.
    incremental: bool
    watermark_column: str | None
    ttl_seconds: float | None


class PipelineOptions(TargetOptions, total=False):
    """The keywords of `@ematix.pipeline`; one list for the decorator and its function twins."""

    target: type[ManagedTable] | Table
    targets: Sequence[Target] | None
    name: str
    schedule: str | None
    timezone: str | None
    source_connection: str | Connection | None
    source_table: str | None
    continue_on_failure: bool
    continue_on_target_failure: bool


LATER = {
    "depends_on": "dependencies between pipelines",
    "upstream_freshness_secs": "dependencies between pipelines",
    "retry": "retries",
    "expectations": "data quality",
    "on_quality_failure": "data quality",
    "freshness_sla": "freshness",
    "freshness_column": "freshness",
    "alert_on_quality_warn": "data quality",
}
"""Documented keywords that this version refuses instead of ignoring."""


def check_keywords(declared: Declared, options: Mapping[str, object], known: Collection[str] | None = None) -> None:
    """Every keyword is one of `known` (all of them where none are named), with a value of its kind."""
    known = PipelineOptions.__annotations__ if known is None else known
    for keyword, value in options.items():
        if keyword in LATER:
            problem = f"{keyword}= ({LATER[keyword]}) is not part of this version"
            hint = "remove the keyword; nothing documented is silently ignored"
            raise declared.error(problem, kind=UnsupportedError, hint=hint)
        if keyword not in known:
            hint = nearest("keyword", keyword, known)
            raise declared.error(f"there is no keyword {keyword!r}", kind=SpecTypeError, hint=hint)
        expected, shown = _KINDS.get(keyword, (object, ""))
        if value is not None and not isinstance(value, expected):
            # The type and not the value, which may hold a secret.
            problem = f"{keyword}= cannot be a {type(value).__name__}"
            raise declared.error(problem, kind=SpecTypeError, hint=f"pass {shown}")


_FLAGS = (
    "allow_empty_source",
    "strict_schema",
    "continue_on_failure",
    "continue_on_failure_post",
    "continue_on_target_failure",
    "incremental",
)
_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    **dict.fromkeys(("name", "schedule", "timezone"), (str, "a text")),
    **dict.fromkeys(("source_connection", "target_connection"), ((str, Connection), "a connection or its name")),
    **dict.fromkeys(
        ("event_timestamp_column", "incremental_column", "watermark_column", "on_duplicate_order_by"),
        (str, "a column's name"),
    ),
    **dict.fromkeys(_FLAGS, (bool, "True or False")),
    "source_table": ((str, TableRef), "'schema.table'"),
    "column_map": (Mapping, "a mapping of declared columns to columns or expressions of the source"),
    "ttl_seconds": ((int, float), "a number of seconds"),
}


def plain_values(declared: Declared, options: Mapping[str, object]) -> dict[str, object]:
    """Keywords of one load as the record wants them: synonyms merged, texts parsed, closed words checked."""
    given = {key: value for key, value in options.items() if key not in _NOT_A_LOADS and value is not None}
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


_NOT_A_LOADS = ("target", "targets", "name", "continue_on_failure", "continue_on_target_failure")
"""Keywords that a load's record has in another form, or not at all."""

_CLOSED: Mapping[str, tuple[str, ...]] = {
    "mode": MODES,
    "force_path": get_args(ForcedPath),
    "on_drift": get_args(DriftPolicy),
    "late_events": get_args(LatePolicy),
    "on_duplicate": get_args(DuplicatePolicy),
}


# What other tools call the modes.
_SYNONYMS = {
    "insert": "append", "overwrite": "truncate", "replace": "truncate", "full_refresh": "truncate", "full": "truncate",
    "upsert": "merge", "update": "merge", "incremental": "append", "history": "scd2", "snapshot": "scd2",
}  # fmt: skip


def _meant(keyword: str, word: str) -> str | None:
    meant = _SYNONYMS.get(word.casefold()) if keyword == "mode" else None
    return f"mode={meant!r} does that" if meant else None


def _rename(declared: Declared, given: dict[str, object], old: str, new: str) -> None:
    if old not in given:
        return
    if new in given:
        raise declared.error(f"{old}= and {new}= say the same thing", kind=SpecTypeError, hint=f"keep {new}=")
    given[new] = given.pop(old)


def _names(declared: Declared, keyword: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise declared.error(f"{keyword}= takes a list of column names, not {value!r}", kind=SpecTypeError)
    twice = next((name for position, name in enumerate(value) if name in value[:position]), None)
    if twice is not None:
        raise declared.error(f"{keyword}= names the column {twice!r} twice", hint="name each column once")
    return tuple(value)


def _mapping(declared: Declared, keyword: str, value: Mapping[object, object]) -> dict[str, str]:
    mapped: dict[str, str] = {}
    for name, source in value.items():
        if not isinstance(name, str) or not isinstance(source, str):
            raise declared.error(f"{keyword}= maps text to text, not {name!r} to {source!r}", kind=SpecTypeError)
        if not source.strip():
            raise declared.error(f"{keyword}= maps {name!r} to nothing", hint="name a column of the source")
        mapped[name] = source
    return mapped


def _ttl(declared: Declared, keyword: str, value: str | float | timedelta) -> timedelta:
    duration = parse_duration(value)
    if duration <= timedelta(0):
        raise declared.error(f"{keyword}= must be above zero, not {value!r}", hint="leave it out to keep versions open")
    return duration


def _lookback(declared: Declared, keyword: str, value: str | float | Decimal | timedelta) -> timedelta | Decimal:
    """A length of time, or a number where one was given."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal | timedelta):
        hint = "write a length of time such as '10m', or a number for a column of numbers"
        raise declared.error(f"{keyword}= cannot be a {type(value).__name__}", kind=SpecTypeError, hint=hint)
    length = parse_duration(value) if isinstance(value, str | timedelta) else Decimal(str(value))
    zero = timedelta(0) if isinstance(length, timedelta) else 0
    if not (isinstance(length, timedelta) or length.is_finite()) or length <= zero:  # type: ignore[operator]
        raise declared.error(f"{keyword}= must be above zero, not {value!r}", hint="leave it out to read no row again")
    return length


def _transforms(declared: Declared, keyword: str, value: object) -> tuple[RowTransform, ...]:
    entries = (value,) if is_pipeline_transform(value) else value
    if not isinstance(entries, list | tuple):
        raise declared.error(f"{keyword}= takes a list of transforms, not a {type(value).__name__}", kind=SpecTypeError)
    for position, entry in enumerate(entries):
        if not is_pipeline_transform(entry):
            shown = getattr(entry, "__name__", None) or repr(entry)
            hint = "use deduplicate_by(…), filter_where(…), limit(…) or sample_pct(…) of ematix_flow.transforms"
            raise declared.error(f"{keyword}[{position}] is no transform: {shown}", kind=SpecTypeError, hint=hint)
    return tuple(entries)


_CONVERSIONS: Mapping[str, Callable[..., object]] = {
    "transforms_pre": _transforms,
    "on_drift": lambda _, __, value: "evolve" if value == "add_columns" else value,
    **dict.fromkeys(("keys", "update_columns", "compare_columns"), _names),
    **dict.fromkeys(("source_connection", "target_connection"), lambda _, __, value: getattr(value, "name", value)),
    "column_map": _mapping,
    "source_table": lambda _, __, value: value if isinstance(value, TableRef) else TableRef.parse(value),
    "transforms_post": build_steps,
    "ttl": _ttl,
    "lookback": _lookback,
}
