"""Finds what would stop a pipeline, without running it: columns, casts, the target, and the steps after the load.

The source's own engine, or Spark where rows travel, analyses every query; no row is read and none is written.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

from sqlglot import exp

from ..backends.arrow_files import parquet_types
from ..backends.base import Attach, Backend
from ..backends.dialect import Dialect
from ..backends.frames import SPARK
from ..backends.spark_errors import spark_errors
from ..backends.workshop import Workshop
from ..errors import BackendError, FlowError
from ..spec.pipeline import Pipeline
from ..spec.place import Query, Rows, TableRef
from ..spec.post import SqlStep, step_name
from ..spec.redaction import without_secrets
from ..spec.table import Column
from ..strategies.base import EVENT_TIME, INCOMING, TARGET
from ..types import ColumnType, TimestampTZ
from .columns import frame_columns, kinds_of, types_of
from .plan import Plan, only_cast
from .post import step_problems
from .relation import cleaned_place
from .schema import plan_schema
from .transform import SOURCE, incoming_query, pushed_sql

__all__ = ["Findings", "ValidateResult", "validate_plan", "validate_steps"]


@dataclass(frozen=True)
class ValidateResult:
    """What would stop a pipeline, or that nothing would."""

    pipeline_name: str
    ok: bool
    source_sql: str | None
    """What the source is asked for; None where it is asked for files, or could not be learnt."""
    errors: tuple[str, ...] = ()
    target_connection_name: str = ""
    notes: tuple[str, ...] = ()
    """What could not be looked at, and differences that the pipeline accepts."""

    def to_dict(self) -> dict[str, object]:
        """The answer as a dictionary."""
        return asdict(self)


@dataclass
class Findings:
    """Problems and notes, gathered one after the other."""

    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """An error of ours that leaves the block is a finding."""
        try:
            yield
        except FlowError as error:
            self.refuse(error)

    def refuse(self, error: FlowError) -> None:
        """Take an error in, once."""
        text = without_secrets(error.message if error.hint is None else f"{error.message} (hint: {error.hint})")
        if text not in self.errors:
            self.errors.append(text)


@dataclass(frozen=True)
class _Analysis:
    """Where queries over the source's rows are analysed."""

    plan: Plan
    """What is left of the plan for whoever analyses."""
    names: Sequence[str]
    types: Mapping[str, ColumnType]
    """The types of the columns, where they are known."""
    source_sql: str
    dialect: Dialect
    backend: Backend | None
    """The database that analyses; None is Spark."""
    attach: Attach | None
    """What the database must do before."""
    workshop: Workshop

    def complaint(self, pipeline: Pipeline, columns: Sequence[Column]) -> BackendError | None:
        """What the engine says against these columns in their declared types."""
        query = incoming_query(pipeline, columns, self.names, self.dialect)
        sql = pushed_sql(self.source_sql, query, self.dialect, None, None)
        try:
            if self.backend is not None:
                self.backend.evaluate(f"EXPLAIN {sql}", attach=self.attach)
            else:
                with spark_errors():
                    self.workshop.spark().sql(sql)
        except BackendError as error:
            return error
        return None


def validate_plan(plan: Plan, source: Backend, target: Backend, workshop: Workshop, findings: Findings) -> None:
    """Analyse the source, the casts and the target's statements of a plan."""
    with workshop.bench(), target.hold(), findings.gathered(), spark_errors():
        _validate_target(plan, target, findings)
        with _analysis(plan, source, target, workshop, findings) as analysis:
            if analysis is not None:
                _validate_columns(analysis, findings)


@contextmanager
def _analysis(
    plan: Plan, source: Backend, target: Backend, workshop: Workshop, findings: Findings
) -> Iterator[_Analysis | None]:
    if plan.path == "same_db" and plan.read.sql is not None:
        source_sql = target.user_sql(plan.read.sql)
        given = target.query_columns(plan.read.sql)
        dialect = target.dialect.knowing(kinds_of(given))
        names = [column.name for column in given]
        yield _Analysis(plan, names, types_of(given, dialect), source_sql, dialect, target, None, workshop)
        return
    place = plan.read.place
    if isinstance(place, Rows):
        findings.notes.append("the rows come from the function itself and were not looked at")
        yield None
        return
    if plan.read.sql is not None:
        asked = plan.read.sql
        if plan.transform.at_source:
            asked, plan = cleaned_place(plan, source, None).sql, only_cast(plan)
        # The source knows its columns without giving a single row.
        place = Query(f"SELECT * FROM ({source.user_sql(asked)}\n) AS {source.dialect.quote(SOURCE)} LIMIT 0")
    if plan.way == "copied":
        folder = workshop.folder("looked_at")
        known = source.export_rows(place, folder)
        types = {**parquet_types(folder), **known}
        brought = target.bring(folder)
        dialect = target.dialect.knowing(brought.kinds)
        yield _Analysis(plan, list(types), types, brought.sql, dialect, target, brought.attach, workshop)
        return
    frame = source.read(place)
    given = frame_columns(frame)
    spoken = SPARK.knowing(kinds_of(given))
    view = f"{SOURCE}_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(view)
    try:
        source_sql, types = f"SELECT * FROM {spoken.quote(view)}", types_of(given, spoken)
        yield _Analysis(plan, frame.columns, types, source_sql, spoken, None, None, workshop)
    finally:
        frame.sparkSession.catalog.dropTempView(view)


def _validate_columns(analysis: _Analysis, findings: Findings) -> None:
    """Every column that the source lacks, and every one whose declared type the source's can never be."""
    plan = analysis.plan
    found = [column for column in plan.transform.columns if _has_column(plan, column, analysis, findings)]
    hopeless = [text for column in found if (text := _hopeless(column, analysis.types)) is not None]
    findings.errors += hopeless
    bare = replace(plan.pipeline, event_timestamp_column=None)
    event = plan.pipeline.event_timestamp_column
    if event is not None and event not in {column.name for column in plan.transform.columns}:
        with findings.gathered():
            incoming_query(plan.pipeline, (), analysis.names, analysis.dialect)
    whole = analysis.complaint(bare, found) if found and not hopeless else None
    if whole is None:
        return
    single = [(column, analysis.complaint(bare, (column,))) for column in found]
    misfits = [(column, error) for column, error in single if error is not None]
    if not misfits or (len(misfits) == len(found) > 1):
        findings.refuse(whole)
    else:
        findings.errors += [
            without_secrets(f"column {column.name!r} cannot become {column.type}: {error.message}")
            for column, error in misfits
        ]


_FAMILIES = {
    **dict.fromkeys(("small_int", "integer", "big_int", "float", "double", "numeric"), "number"),
    **dict.fromkeys(("date", "timestamp", "timestamp_tz"), "time"),
    "boolean": "boolean",
    "uuid": "uuid",
    "bytes": "bytes",
}
_NEVER = {
    "number": {"time", "uuid"},
    "boolean": {"time", "uuid"},
    "time": {"number", "boolean", "uuid"},
    "uuid": {"number", "boolean", "time"},
    "bytes": {"number", "boolean", "time"},
}
"""Per family of types, those that none of its values can become, whatever the system."""


def _hopeless(column: Column, types: Mapping[str, ColumnType]) -> str | None:
    """Why no value of the source's column can become the declared type."""
    folded = {name.casefold(): known for name, known in types.items()}
    given = types.get(column.name) or folded.get(column.name.casefold())
    if given is None or column.normalizers:
        return None
    if _FAMILIES.get(column.type.kind) not in _NEVER.get(_FAMILIES.get(given.kind, ""), ()):
        return None
    return f"column {column.name!r} cannot become {column.type}: the source gives {given}"


def _has_column(plan: Plan, column: Column, analysis: _Analysis, findings: Findings) -> bool:
    before = len(findings.errors)
    with findings.gathered():
        incoming_query(replace(plan.pipeline, event_timestamp_column=None), (column,), analysis.names, analysis.dialect)
    return len(findings.errors) == before


def _validate_target(plan: Plan, target: Backend, findings: Findings) -> None:
    """The table as it is takes the rows, and the strategy's query means something there."""
    load = plan.load
    ref = TableRef(load.table.schema, load.table.name)
    with findings.gathered():
        findings.errors += target.obstacles(ref)
    with findings.gathered():
        actual = target.columns(ref)
        _, drift = plan_schema(load.table, load.intent.keys, actual, target, plan.pipeline.on_drift)
        verb = "will change" if plan.pipeline.on_drift == "evolve" else "differs"
        findings.notes += [f"table {ref} {verb}: {line}" for line in drift]
        if actual is None:
            findings.notes.append(f"table {ref} does not exist yet; the first run creates it")
        if target.can.pushed and not drift:
            types = {column.name: column.type for column in load.table.columns}
            existing = None if actual is None else target.compared_table(load.table)
            query = _standing_in(plan, existing, types, target.dialect)
            now = datetime.now(UTC)
            values = {"now": now, "run_id": str(uuid.uuid4()), "expired_before": now}
            target.evaluate(f"EXPLAIN {target.dialect.render(query, values, types)}")


def _standing_in(
    plan: Plan, existing: exp.Table | exp.Subquery | None, types: dict[str, ColumnType], dialect: Dialect
) -> exp.Query:
    """The strategy's query over the real table and an empty `incoming` of the declared types."""
    intent = plan.load.intent
    incoming = {name: types[name] for name in intent.columns}
    if intent.event_time:
        incoming[EVENT_TIME] = TimestampTZ()
    query = plan.load.change.rows.copy()
    for table in list(query.find_all(exp.Table)):
        alias = table.alias or table.name
        if table.db or table.name not in (INCOMING, TARGET):
            continue
        if table.name == TARGET and existing is not None:
            table.replace(exp.alias_(existing.copy(), alias, table=True))
        else:
            columns = incoming if table.name == INCOMING else types
            table.replace(_empty(columns, existing, dialect).subquery(alias))
    return query


def _empty(columns: dict[str, ColumnType], existing: exp.Table | exp.Subquery | None, dialect: Dialect) -> exp.Select:
    """No rows of these columns, which have the very types of the table where that exists."""
    if existing is None:
        shown = [dialect.cast(exp.null(), kind).as_(name, quoted=True) for name, kind in columns.items()]
        return exp.select(*shown)
    kept = [
        dialect.cast(exp.null(), kind).as_(name, quoted=True) if name == EVENT_TIME else exp.column(name, quoted=True)
        for name, kind in columns.items()
    ]
    return exp.select(*kept).from_(exp.alias_(existing.copy(), "_kept", table=True)).where(exp.false())


_ANALYSED = re.compile(
    r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*(select|with|insert|update|delete|merge|values)\b", re.I | re.S
)
"""Statements that every database explains without running them."""


def validate_steps(pipeline: Pipeline, target: Backend, known: Collection[str], findings: Findings) -> None:
    """Analyse the SQL of the steps after the load; functions cannot be looked into."""
    problems = dict(step_problems(pipeline, target, known))
    exists = False
    with findings.gathered():
        exists = target.columns(TableRef(pipeline.table.schema, pipeline.table.name)) is not None
    for index, step in enumerate(pipeline.transforms_post):
        name = step_name(index, step)
        if index in problems:
            findings.refuse(problems[index])
        elif isinstance(step, SqlStep) and _ANALYSED.match(step.sql):
            _validate_statement(name, step.sql, pipeline, target, findings, exists)
        else:
            reasons = {"sql": "a statement that can only be run", "callable": "a function"}
            findings.notes.append(f"step {name} was skipped: it is {reasons.get(step.kind, 'a reference')}")


def _validate_statement(
    name: str, sql: str, pipeline: Pipeline, target: Backend, findings: Findings, exists: bool
) -> None:
    try:
        with target.hold():
            target.evaluate(f"EXPLAIN {target.user_sql(sql)}")
    except FlowError as error:
        # Before the first load there is nothing that the statement could find.
        if exists or pipeline.table.name.casefold() not in error.message.casefold():
            findings.errors.append(without_secrets(f"step {name}: {error.message}"))
        else:
            findings.notes.append(f"step {name} was not analysed: its table does not exist yet")
