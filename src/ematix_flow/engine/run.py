"""Runs the steps of a plan: read, transform, load; one instant, one token, one commit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

from ..backends.base import Backend, SchemaChange
from ..backends.base import Load as OpenLoad
from ..backends.owner import current_owner
from ..backends.progress import Moved
from ..backends.retry import pauses
from ..backends.spark_errors import spark_errors
from ..backends.workshop import Workshop
from ..errors import BackendError, CheckError, ConflictError, FlowError
from ..events import Bus, RunFinished, RunRetried, RunStarted, StepFinished, StepProgress, StepStarted
from ..spec.pipeline import Pipeline
from ..spec.place import Rows, TableRef
from ..spec.redaction import failure_text
from ..spec.run import Bookmark, Commit, Run, instant_text
from ..strategies.base import Append, Intent
from .bookmark import check_bookmark, reached_query, read_from
from .plan import Plan
from .post import StepScope
from .relation import Incoming, copied_rows, frame_rows, pushed_rows, spark_rows
from .result import RunResult, rows_of
from .schema import plan_schema, warn_of_drift

__all__ = ["After", "Systems", "record_failure", "run_plan"]

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between tries of a load."""


@dataclass(frozen=True)
class Systems:
    """What a run works with."""

    source: Backend
    target: Backend
    workshop: Workshop
    bus: Bus


After = Callable[[RunResult, StepScope], None]
"""What to do once the load is committed."""


def run_plan(
    plan: Plan,
    systems: Systems,
    *,
    now: datetime | None = None,
    token: str | None = None,
    dry_run: bool = False,
    after: After | None = None,
) -> RunResult:
    """Run the plan; the rows, the bookmark and the record become visible together or not at all.

    What comes `after` is no part of that: the load stays whatever becomes of it. A dry run leaves it out.
    """
    execution = _Execution(plan, systems, now or datetime.now(UTC), token, dry_run)
    return execution.run(None if dry_run else after)


def record_failure(pipeline: Pipeline, target: Backend, error: FlowError) -> None:
    """Record a run that failed before there was a plan."""
    now = datetime.now(UTC)
    run = _begun(pipeline, "", str(uuid.uuid4()), now)
    try:
        target.ledger.start(run)
        target.ledger.end(run.with_outcome("failed", now, error=failure_text(error)))
    except FlowError as second:
        error.add_note(f"The failed run could not be recorded either: {second.message}")


def _begun(pipeline: Pipeline, path: str, run_id: str, now: datetime) -> Run:
    """The record of a run that begins."""
    table = pipeline.table
    return Run(
        run_id=run_id,
        pipeline=pipeline.name,
        schema=table.schema,
        table=table.name,
        mode=pipeline.mode,
        path=path,
        started_at=now,
        owner=current_owner(),
    )


class _Execution:
    """One execution of one plan."""

    def __init__(self, plan: Plan, systems: Systems, now: datetime, token: str | None, dry_run: bool) -> None:
        self.plan, self.systems, self.dry_run = plan, systems, dry_run
        self.pipeline, self.target = plan.pipeline, systems.target
        self.run_id = str(uuid.uuid4())
        self.started_at = now
        self.ref = TableRef(plan.load.table.schema, plan.load.table.name)
        # Two pipelines may be given the same token, the day for example: it is theirs alone.
        self.token = f"{self.pipeline.name}/{self.ref}/{token or self.run_id}"
        self.drift: tuple[str, ...] = ()
        self.bookmark: Bookmark | None = None
        self.before: datetime | None = None
        """When the pipeline committed last, before this run looked at the source."""
        self.record = _begun(self.pipeline, plan.path, self.run_id, now)
        self.finished: Run | None = None
        """What a try handed over to be committed; whether it was is not known where the answer was lost."""
        self._has_asked = self._is_recorded = self._has_looked = False

    def run(self, after: After | None) -> RunResult:
        """The documented outcome, or the error after its record was written."""
        self._publish(RunStarted, mode=self.pipeline.mode, path=self.plan.path, way=self.plan.way)
        try:
            result = self._try_until_done()
        except BaseException as error:
            if isinstance(error, BackendError | CheckError):
                self._place(error)
            self._fail(self.record, error)
            raise
        self._finish(result, after)
        return result

    def _try_until_done(self) -> RunResult:
        """Try again, with the same token, what something passing has stopped; rows that come only once are lost."""
        is_lost = getattr(self.plan.read.place, "is_stream", False)
        attempts = 1 if is_lost else 1 + max(self.target.load_retries, self.systems.source.load_retries)
        waits = pauses(FIRST_PAUSE, LONGEST_PAUSE)
        for attempt in range(2, attempts + 1):
            try:
                return self._try()
            except BackendError as error:
                if not error.passing:
                    raise
                pause, text = next(waits), failure_text(error)
                self._publish(RunRetried, attempt=attempt, attempts=attempts, pause=pause, error=text)
                time.sleep(pause)
        return self._try()

    def _try(self) -> RunResult:
        # Rows that come through Spark take their time: the target stays free until they are there.
        held = self.target.hold() if self.plan.path == "same_db" else nullcontext()
        with held, self.systems.workshop.bench(), spark_errors():
            self._start()
            if not self._has_looked:
                # The pipeline's function has run once: what others commit between two tries overtakes it as well.
                self.before, self._has_looked = self._last_load(), True
            self.bookmark = self._read_bookmark()
            self.record = replace(self.record, bookmark_before=self.bookmark.value if self.bookmark else None)
            return self._load(self.record)

    def _start(self) -> None:
        """Record that the run began, once; the answer to an earlier try may have been lost."""
        if self.dry_run or self._is_recorded:
            return
        if not (self._has_asked and self.target.ledger.find(self.record)):
            self._has_asked = True
            self.target.ledger.start(self.record)
        self._is_recorded = True

    def _finish(self, result: RunResult, after: After | None) -> None:
        """Do what comes after the load; its failure is the run's, and undoes nothing."""
        try:
            if after is not None:
                after(result, self._step)
        except BaseException as error:
            self._publish(RunFinished, status="failed", error=_in_words(error))
            raise
        self._publish(RunFinished, status=str(result["status"]))

    def _load(self, run: Run) -> RunResult:
        with self._step("read"):
            incoming = self._incoming()
        commit = self._commit(run)
        finished = None
        try:
            with (
                self._step("load"),
                spark_errors(),
                self.target.load(incoming.relation, self.plan.load.table, commit) as opened,
            ):
                if not opened.replayed:
                    self._refuse_overtaken(commit)
                    finished = self._change(opened, run, self._schema())
        except BackendError as error:
            self._name_misfit(incoming, error)
            raise
        if finished is None:
            # Recorded only now: the load held the table until it ended.
            return self._replayed(run)
        return self._result(finished, finished.rows, status="dry_run" if self.dry_run else "success")

    def _refuse_overtaken(self, commit: Commit) -> None:
        """What was read before the load held the table may be old: then newer rows stay, and this run gives way."""
        ledger = self.target.ledger
        last = ledger.last_instant(self.ref)
        moved = self.pipeline.incremental_column is not None and ledger.bookmark(self.pipeline.name) != self.bookmark
        if moved or self._last_load() != self.before or (last is not None and last >= commit.now):
            raise ConflictError(
                f"pipeline {self.pipeline.name!r}: another load into {self.ref} committed first",
                hint="run again: the load starts from what the other one left",
                declared_at=self.pipeline.declared_at,
            )

    def _last_load(self) -> datetime | None:
        """When this pipeline committed last; no matter where the load itself reads, or the caller brings the rows."""
        if self.plan.way == "pushed" or isinstance(self.plan.read.place, Rows):
            return None
        return self.target.ledger.last_instant(self.ref, pipeline=self.pipeline.name)

    def _schema(self) -> SchemaChange | None:
        load = self.plan.load
        actual = self.target.columns(self.ref)
        policy = self.pipeline.on_drift
        schema, self.drift = plan_schema(load.table, load.intent.keys, actual, self.target, policy)
        if self.drift and policy == "warn":
            warn_of_drift(load.table, self.drift)
        if policy == "ignore":
            self.drift = ()
        return schema

    def _commit(self, run: Run) -> Commit:
        ttl = self.plan.load.intent.ttl
        return Commit(
            token=self.token,
            run=run,
            now=self._instant(),
            expired_before=None if ttl is None else self.started_at - ttl,
            bookmark=self.bookmark,
            dry_run=self.dry_run,
        )

    def _name_misfit(self, incoming: Incoming, error: BackendError) -> None:
        """A system says what it could not cast, rarely where: ask again, column by column."""
        if type(error) is not BackendError:
            return
        found = incoming.misfit()
        if found is not None:
            column, message = found
            raise CheckError(
                f"pipeline {self.pipeline.name!r}: a value does not fit column {column.name!r} ({column.type}): "
                f"{message}",
                hint="nothing was written; change the source query, or clean the column with a normalizer",
                declared_at=self.pipeline.declared_at,
            ) from error

    def _change(self, opened: OpenLoad, run: Run, schema: SchemaChange | None) -> Run:
        """Make the table fit, apply the change, and hand over the record that is committed with it."""
        if schema is not None:
            opened.evolve(schema)
        rows = self._apply(opened)
        reached = self._reached(opened)
        after = reached.value if reached else run.bookmark_before
        finished = run.with_outcome("success", datetime.now(UTC), rows=rows, bookmark_after=after)
        opened.finish(finished, reached)
        self.finished = finished
        return finished

    def _replayed(self, run: Run) -> RunResult:
        """The token was committed by an earlier run, so this one has nothing to do."""
        if self.finished is not None:
            found = self.target.ledger.find(run)
            if found is not None and found.status == "success":  # committed by a try of this very run
                return self._result(self.finished, self.finished.rows, status="success")
        strategy = self.plan.load.strategy
        ended = run.with_outcome("success", datetime.now(UTC), rows=rows_of(strategy, strategy.counts({}, read=0)))
        if not self.dry_run:
            self.target.ledger.end(ended)
        return self._result(ended, ended.rows, status="success", replayed=True)

    def _apply(self, opened: OpenLoad) -> dict[str, int]:
        strategy, intent = self.plan.load.strategy, self._intent()
        self._refuse(opened, intent)
        change = strategy.change(intent)
        late_query = strategy.late(intent)
        late = 0 if late_query is None else int(str(opened.measure(late_query)[0][0]))
        try:
            applied = opened.apply(change)
        except BackendError as error:
            # The database names its constraint; our guards name the keys, where it still answers. A conflict is none,
            # and may have taken the incoming rows with it.
            if not error.transient:
                with suppress(BackendError):
                    self._refuse(opened, replace(intent, check_keys=True))
            raise
        counts = strategy.counts(applied.labels, read=applied.read, late=late)
        return rows_of(strategy, counts)

    def _intent(self) -> Intent:
        intent = self.plan.load.intent
        return replace(intent, resume=self.bookmark is not None)

    def _refuse(self, opened: OpenLoad, intent: Intent) -> None:
        for guard in self.plan.load.strategy.guards(intent):
            offences = opened.measure(guard.query)
            if offences:
                raise CheckError(
                    f"pipeline {self.pipeline.name!r}: {guard.message(offences)}",
                    hint=guard.hint,
                    declared_at=self.pipeline.declared_at,
                )

    def _incoming(self) -> Incoming:
        start, once = read_from(self.pipeline, self.bookmark), self._looks_once()
        if isinstance(self.plan.read.place, Rows):
            return frame_rows(self.plan, self.target, start, once=once)
        match self.plan.way:
            case "pushed":
                return pushed_rows(self.plan, self.target, start, once=once)
            case "copied":
                return copied_rows(self.plan, self.systems.source, self.target, start, once=once)
            case "spark":
                return spark_rows(self.plan, self.systems.source, start)

    def _looks_once(self) -> bool:
        """Only an append may read its rows late: a replace empties the table first, which the query may be reading."""
        load = self.plan.load
        measured = load.strategy.guards(self._intent()) or self.pipeline.incremental_column is not None
        return load.strategy.change_type is Append and not measured

    def _read_bookmark(self) -> Bookmark | None:
        if self.pipeline.incremental_column is None:
            return None
        return check_bookmark(self.pipeline, self.target.ledger.bookmark(self.pipeline.name))

    def _reached(self, opened: OpenLoad) -> Bookmark | None:
        column = self.pipeline.incremental_column
        if column is None:
            return None
        resumes = self.bookmark is not None
        query = reached_query(column, self.plan.load.intent.types[column], self.target.dialect, resumes=resumes)
        text = opened.measure(query)[0][0]
        return None if text is None else Bookmark(self.pipeline.name, column, str(text))

    def _instant(self) -> datetime:
        """One instant for the whole run, later than every committed one: clocks may step back, history may not."""
        last = self.target.ledger.last_instant(self.ref)
        if last is not None and last >= self.started_at:
            return last + timedelta(microseconds=1)
        return self.started_at

    def _place(self, error: BackendError | CheckError) -> None:
        """A system knows neither the pipeline it works for nor where that was declared."""
        if error.declared_at is None:
            error.declared_at = self.pipeline.declared_at
        if repr(self.pipeline.name) not in error.message:
            error.message = f"pipeline {self.pipeline.name!r}: {error.message}"

    def _fail(self, run: Run, error: BaseException) -> None:
        text = _in_words(error)
        self._publish(RunFinished, status="failed", error=text)
        if self.dry_run:
            return
        try:
            self.target.ledger.end(run.with_outcome("failed", datetime.now(UTC), error=text))
        except FlowError as second:
            error.add_note(f"The failed run could not be recorded either: {second.message}")

    def _result(self, run: Run, rows: Mapping[str, int], *, status: str, replayed: bool = False) -> RunResult:
        result = RunResult(run_id=run.run_id, status=status, path=self.plan.path, **rows)
        result["pipeline"] = run.pipeline
        result["target"] = str(self.ref)
        result["mode"] = run.mode
        result["started_at"] = instant_text(run.started_at)
        result["finished_at"] = instant_text(run.finished_at or datetime.now(UTC))
        result["watermark_before"], result["watermark_after"] = run.bookmark_before, run.bookmark_after
        result["drift"] = list(self.drift)
        if replayed:
            result["replayed"] = True
        return result

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        def tell(moved: Moved) -> None:
            self._publish(StepProgress, step=name, **asdict(moved))

        self._publish(StepStarted, step=name)
        with self.systems.workshop.watched(tell):
            yield
        self._publish(StepFinished, step=name)

    def _publish(self, kind: type, **facts: object) -> None:
        event = kind(run_id=self.run_id, pipeline=self.pipeline.name, at=datetime.now(UTC), **facts)
        self.systems.bus.publish(event)


def _in_words(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted by the user"
    return failure_text(error)
