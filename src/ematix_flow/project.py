"""`Project`: settings, registry, session and backends put together; the one composition root the doors may ask.

The engine is loaded when a project first plans: listing what is declared needs none of it.
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from .backends.connection import DuckDBConnection, ObjectStoreLocalConnection, SQLiteConnection
from .backends.workshop import Workshop
from .config import Found, Settings, all_connections, find_connection
from .errors import ConfigError, ConnectionLookupError, FlowError, UserCodeError
from .events import Bus
from .secrets import expand
from .spec import registry as registries
from .spec.connection import Connection
from .spec.pipeline import Pipeline
from .spec.place import Query
from .spec.registry import Registry
from .spec.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .backends.base import Backend
    from .engine.explain import PreviewResult
    from .engine.plan import Plan
    from .engine.result import RunResult

__all__ = ["Project", "current_project"]


class Project:
    """Everything one project declares, and the systems it has opened."""

    def __init__(self, settings: Settings, registry: Registry | None = None) -> None:
        self.settings = settings
        self.registry = registry or registries.active()
        self.bus = Bus()
        self.workshop = Workshop(self._start_spark, settings.staging_dir)
        self._backends: dict[str, Backend] = {}
        self._started_spark = False

    @classmethod
    def load(cls, modules: Sequence[str] = (), *, cwd: Path | None = None, **flags: object) -> Project:
        """The project of a directory: its settings, and its modules imported into a fresh registry."""
        settings = Settings.load(cwd, modules=tuple(modules) or None, **flags)
        if not settings.modules:
            raise ConfigError(
                "no module to load pipelines from",
                hint='pass --module NAME, or write [project] modules = ["pipelines"] into .ematix-flow.toml',
            )
        project = cls(settings, Registry())
        with project.active():
            _forget_modules(settings.modules, settings.project_dir)
            for module in settings.modules:
                _import(module, settings)
        return project

    @contextmanager
    def active(self) -> Iterator[Project]:
        """Declarations made inside the block land in this project."""
        with registries.scope(self.registry):
            yield self

    def pipelines(self) -> list[Pipeline]:
        """Every pipeline, by name."""
        return [self.registry.pipelines[name] for name in sorted(self.registry.pipelines)]

    def pipeline(self, name: str) -> Pipeline:
        """The pipeline of that name."""
        return self.registry.get("pipeline", name)

    def connections(self) -> list[Found]:
        """Every connection that can be found, with its origin."""
        return all_connections(registry=self.registry, cwd=self.settings.project_dir)

    def backend(self, name: str) -> Backend:
        """The system behind a connection, its references filled; kept until the project closes."""
        if name not in self._backends:
            self._backends[name] = self._placed(self._connection(name).resolve(expand)).open(self.workshop)
        return self._backends[name]

    def plan(self, pipeline: Pipeline, *, live: bool = True) -> Plan:
        """The steps of one run; calls the pipeline's function to learn its source."""
        from .engine.plan import build_plan
        from .engine.source import call_function

        source, target = self._systems(pipeline, live=live)
        returned = call_function(pipeline, source, target, live=live)
        if isinstance(returned, Query) and returned.connection is not None:
            source = target
        return build_plan(pipeline, source, target, returned)

    def run(
        self, pipeline: Pipeline, *, now: datetime | None = None, token: str | None = None, dry_run: bool = False
    ) -> RunResult:
        """Run a pipeline once; a function that fails is a failed run too."""
        try:
            plan = self.plan(pipeline)
        except UserCodeError as error:
            if not dry_run:
                self._record_failure(pipeline, error)
            raise
        return self._run(plan, now=now, token=token, dry_run=dry_run)

    def preview(self, pipeline: Pipeline) -> PreviewResult:
        """The plan as data, without opening any connection or filling any reference."""
        from .engine.explain import explain

        plan = self.plan(pipeline, live=False)
        return explain(plan, *self._plan_systems(plan, live=False))

    def dry_run(self, pipeline: Pipeline, *, now: datetime | None = None) -> PreviewResult:
        """The plan with the exact counts of a run that leaves nothing; a failure is part of the answer."""
        from .engine.explain import explain

        plan = self.plan(pipeline)
        try:
            result = self._run(plan, now=now, dry_run=True)
            counts = {name: count for name, count in result.items() if name.startswith(("rows_", "closed_"))}
        except FlowError as error:
            counts = {"error": f"{type(error).__name__}: {error}"}
        return explain(plan, *self._plan_systems(plan), dry_run=counts)

    def runs(
        self,
        *,
        pipeline: str | None = None,
        limit: int = 50,
        on_unread: Callable[[str, FlowError], None] | None = None,
    ) -> list[Run]:
        """Recorded runs of this project's pipelines, newest first, from every system they load into.

        A system that cannot be read is an error, unless `on_unread` is there to be told its connection and why; it is
        an error still where no system can be read.
        """
        wanted = [self.pipeline(pipeline)] if pipeline else self.pipelines()
        records: list[Run] = []
        unread: dict[str, FlowError] = {}
        for each in wanted:
            if each.target_connection not in unread:
                try:
                    records += self.backend(each.target_connection).ledger.runs(pipeline=each.name, limit=limit)
                except FlowError as error:
                    unread[each.target_connection] = error
        for name, reason in unread.items():
            if on_unread is None or unread.keys() == {each.target_connection for each in wanted}:
                raise reason
            on_unread(name, reason)
        return sorted(records, key=lambda run: run.started_at, reverse=True)[:limit]

    def close(self) -> None:
        """Let go of every system, and of the Spark session if this project started it."""
        for backend in self._backends.values():
            backend.close()
        self._backends.clear()
        if self._started_spark:
            from .engine.session import close_session

            close_session()
            self._started_spark = False

    def _run(
        self, plan: Plan, *, now: datetime | None = None, token: str | None = None, dry_run: bool = False
    ) -> RunResult:
        from .engine.run import Systems, run_plan

        systems = Systems(*self._plan_systems(plan), self.workshop, self.bus)
        return run_plan(plan, systems, now=now, token=token, dry_run=dry_run)

    def _record_failure(self, pipeline: Pipeline, error: UserCodeError) -> None:
        from .engine.run import record_failure

        record_failure(pipeline, self.backend(pipeline.target_connection), error)

    def _systems(self, pipeline: Pipeline, *, live: bool = True) -> tuple[Backend, Backend]:
        system = self.backend if live else self._closed_backend
        try:
            target = system(pipeline.target_connection)
            is_one = pipeline.source_connection in (None, pipeline.target_connection)
            source = target if is_one else system(str(pipeline.source_connection))
        except ConnectionLookupError as error:
            message = f"pipeline {pipeline.name!r}: {error.message}"
            raise ConnectionLookupError(message, hint=error.hint, declared_at=pipeline.declared_at) from None
        return source, target

    def _plan_systems(self, plan: Plan, *, live: bool = True) -> tuple[Backend, Backend]:
        """The source and the target of a plan; its function may have chosen to read from the target."""
        source, target = self._systems(plan.pipeline, live=live)
        return (target if plan.read.connection == target.connection.name else source), target

    def _closed_backend(self, name: str) -> Backend:
        """The system behind a connection as it was declared: it tells what can be told without opening it."""
        backend: Backend = self._placed(self._connection(name)).open(self.workshop)
        return backend

    def _connection(self, name: str) -> Connection:
        return find_connection(name, registry=self.registry, cwd=self.settings.project_dir).connection

    def _placed(self, connection: Connection) -> Connection:
        """The connection with its relative path begun in the project's folder; it shows itself as declared."""
        if not isinstance(connection, DuckDBConnection | SQLiteConnection | ObjectStoreLocalConnection):
            return connection
        if connection.path == ":memory:" or (connection.path.startswith("${") and not connection.final):
            return connection
        path = self.settings.project_dir / Path(connection.path).expanduser()
        return replace(connection, path=str(path), shown=connection.redacted())

    def _start_spark(self) -> SparkSession:
        from .engine.session import SessionOptions, is_running, open_session

        settings = self.settings
        options = SessionOptions(
            master=settings.spark_master,
            memory=settings.spark_memory,
            conf=settings.spark_conf,
            cache_dir=settings.cache_dir,
            verbose=settings.verbose,
        )
        self._started_spark = self._started_spark or not is_running()
        return open_session(options)


_current: dict[Registry, Project] = {}


def current_project() -> Project:
    """The project that owns the active registry; the process has one until another is made active."""
    registry = registries.active()
    if registry not in _current:
        _current[registry] = Project(Settings.load(), registry)
    return _current[registry]


_directories: set[Path] = set()
"""The folders from which this process has loaded projects."""


def _forget_modules(named: Sequence[str], directory: Path) -> None:
    """Let the modules of projects be imported anew, whoever imports them: their declarations belong to this load."""
    for name in named:
        sys.modules.pop(name, None)
    _directories.add(directory.resolve())
    running = {"__main__"}  # what is being executed now must find itself again
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        running.add(str(frame.f_globals.get("__name__")))
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
        if name not in running and isinstance(file, str) and _is_project_file(Path(file)):
            del sys.modules[name]


def _is_project_file(file: Path) -> bool:
    """Whether a module's file is a project's own: no library, not this package, nothing compiled."""
    file = file.resolve()
    libraries = (Path(__file__).resolve().parent, Path(sysconfig.get_path("stdlib")).resolve())
    return (
        file.suffix in (".py", "")
        and any(file.is_relative_to(directory) for directory in _directories)
        and not any(file.is_relative_to(library) for library in libraries)
        and not {"site-packages", "dist-packages", ".venv"} & set(file.parts)
    )


def _import(module: str, settings: Settings) -> None:
    """Import a user's module, with the project's directory first on the path."""
    directory = settings.project_dir
    sys.path[:] = [str(directory), *(entry for entry in sys.path if entry != str(directory))]
    importlib.invalidate_caches()
    try:
        importlib.import_module(module)
    except FlowError:
        raise
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise UserCodeError(f"module {module!r} could not be imported: {error}") from error
        origin = settings.origins.get("modules", "the code")
        raise ConfigError(
            f"there is no module {module!r} in {directory}",
            hint=f"the modules come from {origin}; name them without .py",
        ) from error
    except Exception as error:  # user code is a boundary: its failure is named, its cause kept
        raise UserCodeError(
            f"module {module!r} failed while it was imported: {type(error).__name__}: {error}"
        ) from error
