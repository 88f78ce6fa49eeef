"""A pipeline with several targets: one function, and an ordinary load for each table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Unpack

from ..errors import SpecError, SpecTypeError
from .connection import Connection
from .declared import Declared
from .keywords import PipelineFunction, TargetOptions, check_keywords
from .origin import Origin
from .pipeline import Pipeline, build_load, target_table
from .pipeline_checks import check_schedule
from .table import ManagedTable

__all__ = ["FanOut", "Target", "build_declaration"]


@dataclass(frozen=True, init=False)
class Target:
    """One target of a pipeline: its table, and the options that are its own.

    Which options go together is checked by the pipeline.
    """

    table: type[ManagedTable]
    options: Mapping[str, object]

    def __init__(
        self,
        table: type[ManagedTable],
        connection: str | Connection | None = None,
        **options: Unpack[TargetOptions],
    ) -> None:
        """The target `table`; `connection` is a shorter name of `target_connection`."""
        declared = Declared(name=getattr(table, "__name__", repr(table)))
        own: dict[str, object] = {**options}
        try:
            if connection is not None:
                _add_connection(declared, own, connection)
            target_table(declared, "the first argument", table)
            check_keywords(declared, own, TargetOptions.__annotations__)
        except SpecError as error:
            error.message = error.message.replace(declared.title, "ematix.target", 1)
            raise
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "options", own)


@dataclass(frozen=True, kw_only=True)
class FanOut(Declared):
    """A bounded load of one source into several tables; its parts are ordinary pipelines."""

    function: PipelineFunction = field(compare=False)
    parts: tuple[Pipeline, ...]
    schedule: str | None = None
    timezone: str | None = None
    continue_on_failure: bool = False

    def label(self, part: Pipeline) -> str:
        """What results call a part: its table, with the connection where two parts load equal names."""
        return part.name.removeprefix(f"{self.name}::")


def build_declaration(
    function: PipelineFunction, options: Mapping[str, object], declared_at: Origin | None
) -> Pipeline | FanOut:
    """The record of a decorated function: a load, or several."""
    name = options.get("name") or getattr(function, "__name__", None) or "pipeline"
    declared = Declared(name=str(name), declared_at=declared_at)
    check_keywords(declared, options)
    one, several = options.get("target"), options.get("targets")
    if one is not None and several is not None:
        raise declared.error("target= and targets= exclude each other", kind=SpecTypeError, hint="keep one of them")
    if several is not None:
        return _build_fan_out(declared, function, options, several)
    if one is None:
        hint = "pass target=YourTable, or targets=[ematix.target(YourTable, mode=…), …]"
        raise declared.error("it has no target", kind=SpecTypeError, hint=hint)
    if options.get("continue_on_failure") or options.get("continue_on_target_failure"):
        hint = "leave it out; continue_on_failure_post= is for steps after the load"
        raise declared.error("continue_on_failure= is for several targets=", hint=hint)
    return build_load(declared, function, options)


def _add_connection(declared: Declared, options: dict[str, object], connection: str | Connection) -> None:
    if connection == "":
        raise declared.error("connection= is empty", hint="name a connection, or leave it out")
    if options.get("target_connection") is not None:
        problem = "connection= and target_connection= say the same thing"
        raise declared.error(problem, kind=SpecTypeError, hint="keep one of them")
    options["target_connection"] = connection


def _build_fan_out(
    declared: Declared, function: PipelineFunction, options: Mapping[str, object], several: object
) -> FanOut:
    targets = _targets(declared, several)
    common = {key: value for key, value in options.items() if key not in ("name", "targets", "target")}
    schedule, timezone = common.pop("schedule", None), common.pop("timezone", None)
    check_schedule(declared, schedule, timezone)  # type: ignore[arg-type]
    continues = _continues(declared, common)
    merged = [_merged(common, target) for target in targets]
    names = _part_names(declared, targets, merged)
    parts = tuple(
        build_load(Declared(name=name, declared_at=declared.declared_at), function, each)
        for name, each in zip(names, merged, strict=True)
    )
    _check_connections(declared, parts)
    return FanOut(
        name=declared.name,
        declared_at=declared.declared_at,
        function=function,
        parts=parts,
        schedule=schedule,  # type: ignore[arg-type]
        timezone=timezone,  # type: ignore[arg-type]
        continue_on_failure=continues,
    )


def _targets(declared: Declared, several: object) -> Sequence[Target]:
    hint = "pass targets=[ematix.target(YourTable, mode=…), …]"
    if isinstance(several, str) or not isinstance(several, Sequence):
        raise declared.error("targets= takes a list", kind=SpecTypeError, hint=hint)
    if not several:
        raise declared.error("targets= is empty", kind=SpecTypeError, hint=hint)
    for entry in several:
        if not isinstance(entry, Target):
            problem = f"targets= has a {getattr(entry, '__name__', type(entry).__name__)} in it"
            raise declared.error(problem, kind=SpecTypeError, hint=hint)
    return several


def _continues(declared: Declared, common: dict[str, object]) -> bool:
    """Whether a failed target leaves the others alone; the keyword has two spellings."""
    spelled = [common.pop(key, None) for key in ("continue_on_failure", "continue_on_target_failure")]
    given = {value for value in spelled if value is not None}
    if len(given) > 1:
        problem = "continue_on_failure= and continue_on_target_failure= contradict each other"
        raise declared.error(problem, kind=SpecTypeError, hint="keep continue_on_failure=")
    return True in given


# Two spellings of one thing: a target's own spelling puts the pipeline's other one aside.
_SPELLINGS = (
    {"incremental_column", "watermark_column", "incremental"},
    {"ttl", "ttl_seconds"},
    {"update_columns", "compare_columns"},
)


def _merged(common: Mapping[str, object], target: Target) -> dict[str, object]:
    own = target.options.keys()
    hidden = {keyword for spelled in _SPELLINGS if spelled & own for keyword in spelled}
    kept = {key: value for key, value in common.items() if key not in hidden}
    return {**kept, **target.options, "target": target.table}


def _part_names(declared: Declared, targets: Sequence[Target], merged: Sequence[Mapping[str, object]]) -> list[str]:
    """`<pipeline>::<schema>.<table>`, with the connection where two targets have equal names in different ones."""
    tables = [target_table(declared, "a target", target.table).qualified_name for target in targets]
    places = []
    for options in merged:
        connection = options.get("target_connection") or "default"
        places.append(str(getattr(connection, "name", connection)))
    twice = [f"{table} on {place}" for (table, place), n in Counter(zip(tables, places, strict=True)).items() if n > 1]
    if twice:
        raise declared.error(f"two targets are one table: {', '.join(twice)}", hint="name each table once")
    shared = {table for table, count in Counter(tables).items() if count > 1}
    return [
        f"{declared.name}::{table}@{place}" if table in shared else f"{declared.name}::{table}"
        for table, place in zip(tables, places, strict=True)
    ]


def _check_connections(declared: Declared, parts: Sequence[Pipeline]) -> None:
    """The function is called once, so there is one source; and one target, if it wants to see that."""
    places = sorted({part.target_connection for part in parts})
    if len(places) == 1:
        return
    shown = ", ".join(places)
    if parts[0].source_connection is None:
        problem = f"its targets are in several connections ({shown}), so the source is in doubt"
        raise declared.error(problem, hint="pass source_connection=")
    if parts[0].parameters > 1:
        problem = f"its function wants to see the target, and the targets are in several connections ({shown})"
        raise declared.error(problem, kind=SpecTypeError, hint="let the function take (source) alone")
