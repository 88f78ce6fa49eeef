"""`Project`: settings, registry, session and backends put together; the one composition root the doors may ask.

The engine is loaded when a project first plans: listing what is declared needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .backends.workshop import Workshop
from .config import PROJECT_FILE, Found, Settings
from .errors import ConfigError, FlowError, SpecError, SpecTypeError
from .events import Bus
from .modules import forget_modules, import_module
from .spec import registry as registries
from .spec.fan_out import FanOut
from .spec.pipeline import Pipeline
from .spec.post import referring
from .spec.redaction import failure_text
from .spec.registered import RegisteredTransform, ScheduledPipeline
from .spec.registry import Registry
from .spec.run import Run
from .systems import UNTOLD, OpenSystems

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .backends.base import Backend
    from .engine.explain import PreviewResult
    from .engine.handle import Handle
    from .engine.plan import Plan
    from .engine.post import ParentContext
    from .engine.result import RunResult
    from .engine.validate import ValidateResult
    from .spec.place import Place, Rows

__all__ = ["AnyPipeline", "Project", "current_project", "no_plan"]

DEFAULT = "default"
"""The connection of whatever names none."""

AnyPipeline = Pipeline | FanOut | ScheduledPipeline
"""A load into one table, into several, or a function that loads by itself."""


class Project:
    """Everything one project declares, and the systems it has opened."""

    def __init__(
        self, settings: Settings, registry: Registry | None = None, *, workshop: Workshop | None = None
    ) -> None:
        self.settings = settings
        self.registry = registry or registries.active()
        self.bus = Bus()
        shared = settings.spark_shared_folder
        self.workshop = workshop or Workshop(
            self._start_spark, shared or settings.staging_dir, is_shared=shared is not None
        )
        self.systems = OpenSystems(self.registry, settings.project_dir, self.workshop)
        self._started_spark = False

    @classmethod
    def load(cls, modules: Sequence[str] = (), *, cwd: Path | None = None, **flags: object) -> Project:
        """The project of a directory: its settings, and its modules imported into a fresh registry."""
        settings = Settings.load(cwd, modules=tuple(modules) or None, **flags)
        if not settings.modules:
            here = settings.project_dir
            above = next((folder for folder in here.parents if (folder / PROJECT_FILE).is_file()), None)
            known = (here / PROJECT_FILE).is_file()
            raise ConfigError(
                f"no module to load pipelines from: {'the' if known else 'there is no'} {PROJECT_FILE} in {here}"
                + (" names none" if known else ""),
                hint=f"there is one in {above}: call flow there"
                if above is not None and not known
                else f'pass --module NAME, or write [project] modules = ["pipelines"] into {PROJECT_FILE}',
            )
        project = cls(settings, Registry())
        with project.active():
            forget_modules(settings.modules, settings.project_dir)
            for module in settings.modules:
                import_module(module, settings)
        return project

    @contextmanager
    def active(self) -> Iterator[Project]:
        """Declarations made inside the block land in this project."""
        with registries.scope(self.registry):
            yield self

    def pipelines(self) -> list[AnyPipeline]:
        """Every pipeline, by name."""
        return [self.registry.pipelines[name] for name in sorted(self.registry.pipelines)]

    def pipeline(self, name: str) -> AnyPipeline:
        """The pipeline of that name."""
        return self.registry.get("pipeline", name)

    def transforms(self) -> list[RegisteredTransform]:
        """Every transform, by name."""
        return [self.registry.transforms[name] for name in sorted(self.registry.transforms)]

    def transform(self, name: str) -> RegisteredTransform:
        """The transform of that name."""
        return self.registry.get("transform", name)

    def connections(self) -> list[Found]:
        """Every connection that can be found, with its origin."""
        return self.systems.connections()

    def backend(self, name: str) -> Backend:
        """The system behind a connection, its references filled; kept until the project closes."""
        return self.systems.backend(name)

    def connect(self, name: str = "default", *, url: str | None = None, closing: bool = False) -> Handle:
        """An open handle of a connection; with `url`, of the system that it names, whatever is declared.

        With `closing`, the project was made for this handle alone and closes with it.
        """
        return self.systems.connect(name, url, on_close=self.close if closing else None)

    def plan(self, pipeline: Pipeline, *, live: bool = True) -> Plan:
        """The steps of one run; calls the pipeline's function to learn its source."""
        return self._planned(pipeline, self._place(pipeline, live=live), live=live)

    def run(
        self, declared: AnyPipeline, *, now: datetime | None = None, token: str | None = None, dry_run: bool = False
    ) -> RunResult:
        """Run a pipeline once; a function that fails is a failed run too.

        A function that gives a dictionary has loaded by itself, and the dictionary is the result. Several targets give
        one result each, or PartialRunError where some have failed and the others were to go on.
        """
        from .engine.fan_out import run_parts
        from .engine.result import RunResult, call_scheduled

        if token is not None and not token.strip():
            raise SpecError(
                "the token is empty, and a run without one is not exactly once",
                hint="give it a text that names the run, such as its day; leave it out for a new one each time",
            )
        if isinstance(declared, ScheduledPipeline):
            if dry_run:
                raise no_plan(declared)
            return call_scheduled(declared)
        goes_on = isinstance(declared, FanOut) and declared.continue_on_failure
        for part in () if goes_on else declared.parts:
            self._check_steps(part)
        answer = self._answer(declared, records=not dry_run)
        if isinstance(answer, dict):
            return RunResult(answer)

        def run(part: Pipeline) -> RunResult:
            if goes_on:  # what is wrong with one target must not stop the others
                self._check_steps(part)
            return self._run(self._planned(part, answer), now=now, token=token, dry_run=dry_run)

        return run(declared) if isinstance(declared, Pipeline) else run_parts(declared, run)

    def preview(self, declared: AnyPipeline) -> PreviewResult:
        """The plan as data; opens nothing and fills no reference, and notes what cannot be told that way."""
        from .engine.explain import explain_all

        place, untold = None, None
        try:
            place = self._place(declared, live=False)
        except UNTOLD as error:
            untold = error
        return explain_all(declared, [self._foreseen(part, place, untold) for part in declared.parts])

    def dry_run(self, declared: AnyPipeline, *, now: datetime | None = None) -> PreviewResult:
        """The plan with the exact counts of a run that leaves nothing; a failure is part of the answer."""
        from .engine.explain import explain_all, explain_unplanned

        place, plans = self._place(declared), []
        for part in declared.parts:
            try:
                plans.append(self._tried(self._planned(part, place), now))
            except FlowError as error:
                if isinstance(declared, Pipeline):
                    raise
                plans.append(explain_unplanned(part, error))
        return explain_all(declared, plans)

    def validate(self, declared: AnyPipeline) -> ValidateResult:
        """What would stop a run, all of it at once; reads no row and writes none."""
        from .engine.validate import Findings, ValidateResult, validate_plan, validate_steps

        if isinstance(declared, ScheduledPipeline):
            raise no_plan(declared)
        whole, sql = Findings(), None
        place: Place | Rows | None = None
        names = {name for part in declared.parts for name in (part.source_connection, part.target_connection) if name}
        for name in sorted(names):
            with whole.gathered():
                self.backend(name)
        with whole.gathered():
            place = self._place(declared, lenient=True)
        failed = bool(whole.errors)
        for part in () if failed else declared.parts:
            found = Findings()
            source, target = self.systems.of(part, place)
            with found.gathered():
                plan = self._planned(part, place)
                sql = sql or plan.read.sql
                validate_plan(plan, source, target, self.workshop, found)
            validate_steps(self._referring(part), target, self._names(), found)
            prefix = f"{declared.label(part)}: " if isinstance(declared, FanOut) else ""
            whole.errors += [f"{prefix}{text}" for text in found.errors]
            whole.notes += [f"{prefix}{text}" for text in found.notes]
        targets = ", ".join(dict.fromkeys(part.target_connection for part in declared.parts))
        return ValidateResult(declared.name, not whole.errors, sql, tuple(whole.errors), targets, tuple(whole.notes))

    def run_transform(self, name: str) -> RunResult:
        """Run a transform by itself, now."""
        from .engine.post import run_transform

        transform = self.transform(name)
        return run_transform(transform, self.backend(transform.target_connection or DEFAULT))

    def runs(
        self,
        *,
        pipeline: str | None = None,
        limit: int = 50,
        on_unread: Callable[[str, FlowError], None] | None = None,
    ) -> list[Run]:
        """Recorded runs, newest first, from every system that this project loads into.

        Steps, transforms, loads of frames and what is no longer declared are among them.
        A system that cannot be read is an error, unless `on_unread` is there to be told its connection and why; it is
        an error still where no system can be read.
        """
        found = self.systems.runs(self._recorded_names(pipeline), limit, on_unread)
        if pipeline is not None and not found and pipeline not in self.registry.transforms:
            self.pipeline(pipeline)
        return found

    def close(self) -> None:
        """Let go of every system, and of the Spark session if this project started it."""
        self.systems.close()
        if self._started_spark:
            from .engine.session import close_session

            close_session()
            self._started_spark = False

    def _answer(
        self, declared: Pipeline | FanOut, *, live: bool = True, records: bool = False, lenient: bool = False
    ) -> Place | Rows | dict[str, object] | None:
        """What the function says, called once; its failure is recorded for every load that it stops."""
        from .engine.run import record_failure
        from .engine.source import call_function

        first = declared.parts[0]
        if live and (isinstance(declared, Pipeline) or not (lenient or declared.continue_on_failure)):
            for part in declared.parts:
                self.systems.of(part, live=live)
        source = self.systems.one(first, first.source_connection or first.target_connection, live=live)
        target = self.systems.one(first, first.target_connection, live=live) if first.parameters > 1 else source
        try:
            answer = call_function(replace(first, name=declared.name), source, target, live=live)
        except FlowError as error:
            for part in declared.parts if records else ():
                with suppress(FlowError):  # a target that cannot be opened must not hide why the function failed
                    record_failure(part, self.backend(part.target_connection), error)
            raise
        if len(declared.parts) > 1 and getattr(answer, "is_stream", False):
            raise declared.error(
                f"it has several targets, and its function returned {answer}, which can be read only once",
                hint="return a table, for example pyarrow's reader.read_all()",
            )
        return answer

    def _place(self, declared: AnyPipeline, *, live: bool = True, lenient: bool = False) -> Place | Rows | None:
        """Where the rows are; an error where nobody but the function itself knows."""
        if isinstance(declared, ScheduledPipeline):
            raise no_plan(declared)
        answer = self._answer(declared, live=live, lenient=lenient)
        if isinstance(answer, dict):
            raise no_plan(declared)
        return answer

    def _planned(self, pipeline: Pipeline, place: Place | Rows | None, *, live: bool = True) -> Plan:
        from .engine.plan import build_plan

        return build_plan(self._referring(pipeline), *self.systems.of(pipeline, place, live=live), place)

    def _foreseen(self, part: Pipeline, place: Place | Rows | None, untold: FlowError | None) -> PreviewResult:
        """The plan of one load as far as it can be told; `untold` is why its rows are not known."""
        from .engine.explain import explain, explain_partly
        from .engine.post import step_problems

        part, seen = self._referring(part), self.systems.foreseen(part, place)
        if problems := {each.message: each for each in (untold, seen.problem) if each is not None}:
            shown = explain_partly(part, seen.source, seen.target, place, tuple(problems.values()))
        else:
            shown = explain(self._planned(part, place, live=False), *self.systems.of(part, place, live=False))
        steps = () if seen.target is None else step_problems(part, seen.target, self._names())
        return replace(shown, notes=(*shown.notes, *(error.message for _, error in steps)))

    def _run(
        self, plan: Plan, *, now: datetime | None = None, token: str | None = None, dry_run: bool = False
    ) -> RunResult:
        from .engine.post import run_steps
        from .engine.run import Systems, run_plan

        source, target = self.systems.of(plan.pipeline, plan.read.place)
        after = partial(run_steps, plan.pipeline, target, partial(self._refer, target))
        systems = Systems(source, target, self.workshop, self.bus)
        has_steps = bool(plan.pipeline.transforms_post)
        return run_plan(plan, systems, now=now, token=token, dry_run=dry_run, after=after if has_steps else None)

    def _tried(self, plan: Plan, now: datetime | None) -> PreviewResult:
        """A plan with what a run of it would have done."""
        from .engine.explain import explain

        told = ("rows_", "closed_", "watermark_before")
        try:
            self._check_steps(plan.pipeline)
            result = self._run(plan, now=now, dry_run=True)
            counts = {name: count for name, count in result.items() if name.startswith(told)}
        except FlowError as error:
            counts = {"error": failure_text(error)}
        return explain(plan, *self.systems.of(plan.pipeline, plan.read.place), dry_run=counts)

    def _check_steps(self, part: Pipeline) -> None:
        """Refuse steps that cannot run, before anything is loaded."""
        from .engine.post import check_steps

        check_steps(self._referring(part), self.systems.of(part)[1], self._names())

    def _refer(self, target: Backend, name: str, parent: ParentContext) -> Mapping[str, object] | None:
        """Run what a step refers to: a transform on its own connection or the load's, or a whole pipeline."""
        from .engine.post import call_transform

        transform = self.registry.transforms.get(name)
        if transform is None:
            result = self.run(self.pipeline(name))
            return {"pipeline": name, "run_id": result.get("run_id")}
        own = transform.target_connection
        return call_transform(transform, target if own is None else self.backend(own), parent)

    def _referring(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline, with texts that name something registered as references."""
        return replace(pipeline, transforms_post=referring(pipeline.transforms_post, self._names()))

    def _names(self) -> set[str]:
        """Everything that a step can refer to."""
        return {*self.registry.transforms, *self.registry.pipelines}

    def _recorded_names(self, name: str | None) -> list[tuple[str, str | None]]:
        """Connections, and the names under which runs are recorded there.

        Without a name, or with one that is no longer declared, every system is asked for all that it has.
        """
        wanted = [(part.target_connection, part.name, each.name) for each in self.pipelines() for part in each.parts]
        for each in self.transforms():
            if each.target_connection is not None or self.systems.knows(DEFAULT):
                wanted.append((each.target_connection or DEFAULT, each.name, each.name))
        if name is None or name not in self._names():
            return list(dict.fromkeys((connection, name) for connection, _, _ in wanted))
        return list(dict.fromkeys((connection, recorded) for connection, recorded, own in wanted if own == name))

    def _start_spark(self) -> SparkSession:
        from .engine.session import SessionOptions, is_running, open_session

        options = SessionOptions.of(self.settings, self.systems.jar_groups())
        self._started_spark = self._started_spark or not is_running()
        return open_session(options)


_current: dict[Registry, Project] = {}


def current_project() -> Project:
    """The project that owns the active registry; the process has one until another is made active."""
    registry = registries.active()
    if registry not in _current:
        _current[registry] = Project(Settings.load(), registry)
    return _current[registry]


def no_plan(declared: AnyPipeline) -> SpecError:
    """The error for asking what a function that loads by itself would do."""
    return declared.error(
        "its function loads by itself, so nobody knows what it would do",
        kind=SpecTypeError,
        hint="let a function behind @ematix.pipeline return the query of its source",
    )
