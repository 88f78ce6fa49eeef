"""From a declared pipeline to the steps of one run. Pure: nothing is opened, nothing is asked.

`run.py` runs the steps, `explain.py` prints the same ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal

from ..backends.base import Backend
from ..errors import MissingSourceError, SpecError, UnsupportedError
from ..spec.duration import format_duration
from ..spec.pipeline import Pipeline
from ..spec.place import Place, Query, Rows, TableRef
from ..spec.post import PostStep
from ..spec.row_transform import RowTransform
from ..spec.table import METADATA_NAMES, Column, Keys, Table, key_ladder
from ..strategies.base import Change, Intent, Strategy, strategy_for
from .cleaning import native_sql
from .schema import augment
from .transform import SOURCE, assumed_names, cleaned_query, is_native, table_query

__all__ = [
    "After", "Load", "Path", "Plan", "PlannedLoad", "Read", "Step", "Transform", "Way", "build_plan",
    "only_cast", "plan_load",
]  # fmt: skip

Path = Literal["same_db", "cross_db"]
"""The documented names: inside one database, or out of it."""
Way = Literal["pushed", "copied", "spark"]
"""How rows go: never out of their database, from one system to another without Spark, or through Spark."""


@dataclass(frozen=True)
class Read:
    """Take the source's rows."""

    connection: str
    kind: str
    place: Place | Rows
    sql: str | None
    """The query the source runs; None where files or the rows of a frame are read whole."""


@dataclass(frozen=True)
class Transform:
    """Normalize and cast them to the declared columns."""

    columns: tuple[Column, ...]
    event_time: str | None
    rows: tuple[RowTransform, ...] = ()
    at_source: bool = False
    """The source cleans and transforms, because SQL in its own words is part of that; Spark only casts."""


@dataclass(frozen=True)
class Load:
    """Bring them into the target, in one unit of work."""

    connection: str
    kind: str
    table: Table
    """Declared and added columns."""
    strategy: Strategy
    intent: Intent
    change: Change


@dataclass(frozen=True)
class After:
    """Run what the user wants done once the load is committed."""

    steps: tuple[PostStep, ...]


Step = Read | Transform | Load | After


@dataclass(frozen=True)
class PlannedLoad:
    """A load, which keys it goes by, and how the compared columns were chosen."""

    load: Load
    keys: Keys | None
    compare_reason: str | None


@dataclass(frozen=True)
class Plan:
    """The ordered work for one run of one pipeline."""

    pipeline: Pipeline
    read: Read
    transform: Transform
    load: Load
    way: Way
    path_reason: str
    keys: Keys | None
    compare_reason: str | None
    notes: tuple[str, ...] = field(default=())

    @property
    def path(self) -> Path:
        """The documented name of the way."""
        return "same_db" if self.way == "pushed" else "cross_db"

    @property
    def steps(self) -> tuple[Step, ...]:
        """Read, transform, load, and what comes after."""
        after = (After(self.pipeline.transforms_post),) if self.pipeline.transforms_post else ()
        return (self.read, self.transform, self.load, *after)


def build_plan(
    pipeline: Pipeline, source: Backend, target: Backend, returned: Place | Rows | None, *, stamps: bool = True
) -> Plan:
    """The plan of one run; `returned` is what the pipeline's function gave.

    Without `stamps`, a mode that keeps no history leaves the table's columns alone.
    """
    planned = plan_load(pipeline, target, stamps=stamps)
    load, keys = planned.load, planned.keys
    columns = tuple(column for column in pipeline.table.columns if column.name in load.intent.columns)
    if keys is not None and keys.warning is not None:
        warnings.warn(keys.warning, UserWarning, stacklevel=2)
    read = _read(pipeline, columns, source, returned)
    way, reason = _way(pipeline, source, target, read, columns)
    at_source = way != "pushed" and _is_cleaned_by(source, pipeline, columns, read)
    return Plan(
        pipeline=pipeline,
        read=read,
        transform=Transform(columns, pipeline.event_timestamp_column, pipeline.transforms_pre, at_source),
        load=load,
        way=way,
        path_reason=reason,
        keys=keys,
        compare_reason=planned.compare_reason,
        notes=(
            *((keys.warning,) if keys and keys.warning else ()),
            *_native_notes(columns, read),
            *_incremental_notes(pipeline),
        ),
    )


def plan_load(pipeline: Pipeline, target: Backend | None, *, stamps: bool = True) -> PlannedLoad:
    """What can be said of the load alone, whatever its rows are; without a `target` nothing depends on its system."""
    strategy = strategy_for(pipeline.mode, stamps=stamps, deletes=pipeline.handle_deletes)
    if target is not None:
        _check_capable(pipeline, target, strategy)
    added = {added.name for added in strategy.adds}
    columns = tuple(column for column in pipeline.table.columns if column.name not in added)
    with pipeline.named_errors():
        table = augment(pipeline.table, strategy)
        keys = key_ladder(pipeline.table, pipeline.keys, pipeline=pipeline.name) if strategy.facts.needs_keys else None
        enforced = target is not None and target.can.enforces_keys
        intent, compare_reason = _intent(pipeline, strategy, table, columns, keys, check_keys=not enforced)
        strategy.check(intent)
    name, kind = pipeline.target_connection, "system not known"
    if target is not None:
        name, kind = target.connection.name, target.connection.kind
    return PlannedLoad(Load(name, kind, table, strategy, intent, strategy.change(intent)), keys, compare_reason)


def only_cast(plan: Plan) -> Plan:
    """What is left of a plan for Spark where the source has cleaned and transformed its rows already."""
    columns = tuple(replace(column, normalizers=()) for column in plan.transform.columns)
    pipeline = replace(plan.pipeline, transforms_pre=())
    return replace(plan, pipeline=pipeline, transform=replace(plan.transform, columns=columns, rows=()))


def _check_capable(pipeline: Pipeline, target: Backend, strategy: Strategy) -> None:
    if strategy.change_type not in target.can.changes:
        raise pipeline.error(
            f"mode {pipeline.mode} cannot load into connection {target.connection.name!r} ({target.connection.kind})",
            kind=UnsupportedError,
            hint=target.can.instead,
        )
    longest = target.can.name_bytes
    names = (pipeline.table.schema, pipeline.table.name, *pipeline.table.column_names)
    for name in names if longest is not None else ():
        if len(name.encode()) > (longest or 0):
            raise pipeline.error(
                f"{target.connection.kind} cuts names after {longest} bytes, and {name!r} is longer",
                kind=UnsupportedError,
                hint="give it a shorter name",
            )


def _intent(
    pipeline: Pipeline,
    strategy: Strategy,
    table: Table,
    columns: tuple[Column, ...],
    keys: Keys | None,
    *,
    check_keys: bool,
) -> tuple[Intent, str | None]:
    names = tuple(column.name for column in columns)
    key_names = keys.names if keys else ()
    rest = tuple(name for name in names if name not in key_names and name not in METADATA_NAMES)
    update: tuple[str, ...] = ()
    compare: tuple[str, ...] = ()
    reason = None
    if strategy.facts.updates:
        explicit = pipeline.update_columns if pipeline.update_columns is not None else pipeline.compare_columns
        update, reason = _chosen(explicit, rest)
    elif strategy.facts.keeps_history:
        # The event time says when a version began; by itself it is no change.
        derived = tuple(name for name in rest if name != pipeline.event_timestamp_column)
        compare, reason = _chosen(pipeline.compare_columns, derived)
    intent = Intent(
        columns=names,
        types={column.name: column.type for column in table.columns},
        keys=key_names,
        update=update,
        compare=compare,
        deletes=pipeline.handle_deletes,
        event_time=pipeline.event_timestamp_column is not None,
        event_column=pipeline.event_timestamp_column or "event_ts",
        late=pipeline.late_events,
        ttl=pipeline.ttl,
        allow_empty_source=pipeline.allow_empty_source,
        primary_key=pipeline.table.primary_key,
        check_keys=check_keys,
        required=tuple(column.name for column in columns if not column.nullable),
        incremental=pipeline.incremental_column,
        on_duplicate=pipeline.on_duplicate,
        order_by=pipeline.on_duplicate_order_by,
    )
    return intent, reason


def _chosen(explicit: tuple[str, ...] | None, derived: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    return (derived, "auto-derived") if explicit is None else (explicit, "explicit")


def _read(pipeline: Pipeline, columns: tuple[Column, ...], source: Backend, returned: Place | Rows | None) -> Read:
    place = returned if returned is not None else pipeline.source_table
    if place is None:
        raise pipeline.error(
            "the function returned nothing and there is no source_table=",
            kind=MissingSourceError,
            hint="return the SQL of the source, or pass source_table='schema.table'",
        )
    sql = place.sql if isinstance(place, Query) else None
    if sql is not None and pipeline.column_map:
        relation = f"({source.user_sql(sql)}\n) AS {source.dialect.quote(SOURCE)}"
        sql = table_query(pipeline, columns, source.dialect, relation)
    if isinstance(place, TableRef):
        relation = source.relation_sql(place)
        sql = table_query(pipeline, columns, source.dialect, relation)
    return Read(source.connection.name, source.connection.kind, place, sql)


def _native_notes(columns: tuple[Column, ...], read: Read) -> list[str]:
    """SQL that nobody has checked, by column."""
    return [
        f"column {column.name!r} holds SQL in the words of {read.kind}: {marker!r}"
        for column, marker in native_sql(columns)
    ]


def _incremental_notes(pipeline: Pipeline) -> list[str]:
    """Where a load that goes on begins to read."""
    back = pipeline.lookback
    if back is None:
        return []
    shown = format_duration(back) if isinstance(back, timedelta) else f"{back}"
    return [f"reads again what lies up to {shown} before the bookmark on {pipeline.incremental_column!r}"]


def _is_cleaned_by(source: Backend, pipeline: Pipeline, columns: tuple[Column, ...], read: Read) -> bool:
    """Whether the source itself has to clean: only it can run SQL in its own words."""
    if not source.can.pushed or read.sql is None or not is_native(pipeline, columns):
        return False
    if missing := _missing(source, pipeline, columns):
        raise pipeline.error(
            f"the source ({read.connection}, {read.kind}) must clean, because sql(), derive() or a transform holds SQL "
            f"in its words, and it has no exact form of {', '.join(missing)}",
            kind=UnsupportedError,
            hint="put that SQL into the source query instead",
        )
    return True


def _missing(system: Backend, pipeline: Pipeline, columns: tuple[Column, ...]) -> tuple[str, ...]:
    """What the cleaning needs and the system cannot say exactly."""
    with pipeline.named_errors():
        return system.dialect.missing(
            cleaned_query(pipeline, columns, assumed_names(pipeline, columns, system.dialect), system.dialect)
        )


def _way(
    pipeline: Pipeline, source: Backend, target: Backend, read: Read, columns: tuple[Column, ...]
) -> tuple[Way, str]:
    """The shortest way that keeps the meaning, and why it is that one."""
    hindered = {
        "pushed": _not_pushed(pipeline, source, target, read, columns),
        "copied": _not_copied(pipeline, source, target, read, columns),
        "spark": None,
    }
    forced = _FORCED.get(pipeline.force_path or "")
    if forced is not None:
        problem = hindered[forced]
        if problem is not None:
            message = f"force_path={pipeline.force_path!r} but {problem.text}"
            raise pipeline.error(message, kind=problem.kind, hint=problem.hint)
        return forced, "force_path="
    at_hand = isinstance(read.place, Rows)
    if hindered["pushed"] is None and pipeline.force_path is None:
        return "pushed", "pushed: source and target are one database, so the rows never leave it"
    if hindered["copied"] is None:
        if pipeline.force_path is not None:
            return "copied", "force_path="
        given = "the rows of the frame" if at_hand else "the rows that the source writes down"
        return "copied", f"copied: the target reads {given} by itself, without Spark"
    if pipeline.force_path is not None:
        return "spark", "force_path="
    if hindered["copied"].kind is UnsupportedError:
        return "spark", f"spark: {hindered['copied'].text}"
    return "spark", f"spark: {'the rows of the frame' if at_hand else 'the rows'} are moved by Spark"


_FORCED: Mapping[str, Way] = {"same_db": "pushed", "pushed": "pushed", "copied": "copied", "spark": "spark"}


@dataclass(frozen=True)
class _Hindrance:
    """Why rows cannot go one way."""

    text: str
    hint: str
    kind: type[SpecError] = SpecError


def _not_pushed(
    pipeline: Pipeline, source: Backend, target: Backend, read: Read, columns: tuple[Column, ...]
) -> _Hindrance | None:
    at_hand = isinstance(read.place, Rows)
    if at_hand or not (target.can.pushed and target.same_system(source)):
        given = read.place if at_hand else f"the source ({read.connection}, {read.kind})"
        return _Hindrance(
            f"{given} and the target ({target.connection.name}, {target.connection.kind}) are not one database",
            "leave force_path= out, or read from the target's own database",
        )
    return _inexact(target, pipeline, columns)


def _not_copied(
    pipeline: Pipeline, source: Backend, target: Backend, read: Read, columns: tuple[Column, ...]
) -> _Hindrance | None:
    hint = "leave force_path= out, and Spark moves the rows"
    place = read.place
    if isinstance(place, Rows) and place.is_spark:
        return _Hindrance(f"{place} belongs to Spark", hint)
    if not isinstance(place, Rows) and (read.sql is None or not source.can.exports):
        return _Hindrance(f"the source ({read.connection}, {read.kind}) gives its rows to Spark alone", hint)
    if not target.can.takes_frames:
        where = f"({target.connection.name}, {target.connection.kind})"
        return _Hindrance(f"the target {where} takes rows from elsewhere through Spark alone", hint)
    if not isinstance(place, Rows) and source.can.pushed and is_native(pipeline, columns):
        return None  # the source cleans
    return _inexact(target, pipeline, columns)


def _inexact(system: Backend, pipeline: Pipeline, columns: tuple[Column, ...]) -> _Hindrance | None:
    missing = _missing(system, pipeline, columns)
    if not missing:
        return None
    return _Hindrance(
        f"{system.connection.kind} has no exact form of {', '.join(missing)}",
        "leave force_path= out, and Spark cleans the rows",
        UnsupportedError,
    )
