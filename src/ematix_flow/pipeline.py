"""The documented functions on pipelines: load once, register, look at, run; all of them on the current project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal, Self, TypeVar, Unpack, cast

from .decorators import PipelineHandle, register_pipeline
from .errors import SpecTypeError
from .project import current_project
from .spec.connection import Connection
from .spec.declared import Declared
from .spec.fan_out import Target, build_declaration
from .spec.keywords import Mode, PipelineOptions, TargetOptions, check_keywords
from .spec.origin import declared_at
from .spec.pipeline import target_table
from .spec.pipeline_data import Given, normalized_spec, pipeline_spec
from .spec.registered import RegisteredTransform, ScheduledPipeline, build_scheduled
from .spec.source import Source
from .spec.table import ManagedTable

if TYPE_CHECKING:
    from .engine.explain import PreviewResult
    from .engine.post import ParentContext
    from .engine.result import RunResult
    from .engine.validate import ValidateResult

__all__ = [
    "ParentContext",
    "Pipeline",
    "RegisteredTransform",
    "RegistryEntry",
    "ScheduledPipeline",
    "Source",
    "Target",
    "ValidateResult",
    "dry_run",
    "get_pipeline",
    "list_entries",
    "list_pipelines",
    "list_transforms",
    "preview",
    "register",
    "run_pipeline",
    "run_transform",
    "sync",
    "validate",
]

Function = TypeVar("Function", bound=Callable[[], object])

_LATER = {"ParentContext": "post", "ValidateResult": "validate"}
"""Records of the engine, which is loaded when one of them is first used, and their modules in it."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".engine.{_LATER[name]}", __package__), name)


class Pipeline(PipelineHandle):
    """A pipeline written as data: its query is known, so there is no function; it runs like a decorated one.

    `source` is a `Source` that names its connection, or what else a pipeline's function may return; `target` is a
    `Target` or a table class. The options are those of `@ematix.pipeline`.
    """

    def __init__(
        self,
        name: str,
        source: object,
        target: Target | type[ManagedTable],
        mode: Mode | None = None,
        keys: Sequence[str] | None = None,
        **options: object,
    ) -> None:
        place = declared_at()
        declared = Declared(name=name, declared_at=place)
        if not str(name).strip():
            raise declared.error("a pipeline needs a name", hint="pass name=")
        own, table = (dict(target.options), target.table) if isinstance(target, Target) else ({}, target)
        if isinstance(source, Source):
            if not isinstance(source.connection, str):
                hint = "write Source('name', sql), or pass the handle to pipeline.sync"
                raise declared.error("its source is an open handle", kind=SpecTypeError, hint=hint)
            if options.get("source_connection") is not None:
                problem = "its Source and source_connection= both name a connection"
                raise declared.error(problem, kind=SpecTypeError, hint="leave source_connection= out")
            own["source_connection"], source = source.connection, source.query
        said = {"mode": mode, "keys": keys, **options}
        own |= {key: value for key, value in said.items() if value is not None}
        all_options = {**own, "name": name, "target": table}
        record = build_declaration(Given(source), all_options, place)
        super().__init__(record, cast("PipelineOptions", all_options))

    def register(self) -> Self:
        """Let the project know the pipeline, as a decorator does; gives the pipeline itself."""
        register_pipeline(self.pipeline, self.pipeline.declared_at)
        return self

    def to_spec_dict(self) -> dict[str, object]:
        """The pipeline as it was declared, as plain data."""
        return pipeline_spec(self.pipeline.parts[0])

    def to_normalized_dict(self) -> dict[str, object]:
        """The pipeline as a run takes it: with its keys, its connections and the fingerprint of its table."""
        return normalized_spec(self.pipeline.parts[0])


@dataclass(frozen=True)
class RegistryEntry:
    """Something that can be run by its name."""

    name: str
    kind: Literal["pipeline", "transform"]
    schedule: str | None


def sync(
    *,
    target: type[ManagedTable],
    source: object,
    source_connection: str | Connection | None = None,
    pipeline_name: str | None = None,
    dry_run: bool = False,
    **options: Unpack[TargetOptions],
) -> RunResult:
    """Load once, now, without declaring anything.

    `source` is what a pipeline's function may return; a text is a query for `source_connection`, or for the target's
    own system. The mode is `append` unless another is named.
    """
    place = declared_at()
    table = target_table(Declared(name=pipeline_name or "sync", declared_at=place), "target=", target)
    declared = {
        "mode": "append",
        **options,
        "target": target,
        "source_connection": source_connection,
        "name": pipeline_name or table.qualified_name,
    }
    if isinstance(source, Source) and source_connection is None:
        declared["source_connection"] = source.connection
    project = current_project()
    with project.systems.lent(declared) as named:
        return project.run(build_declaration(Given(source), named, place), dry_run=dry_run)


def register(
    *, name: str, schedule: str | None = None, timezone: str | None = None, **later: object
) -> Callable[[Function], Function]:
    """Register a function that loads by itself: it takes no arguments and gives a dictionary."""
    place = declared_at()
    check_keywords(Declared(name=name, declared_at=place), later, ("name", "schedule", "timezone"))

    def declare(function: Function) -> Function:
        register_pipeline(build_scheduled(function, name, schedule, timezone, place), place)
        return function

    return declare


def preview(name: str, *, dry_run: bool = False) -> PreviewResult:
    """The plan of a pipeline; with `dry_run`, also the exact counts of a run that leaves nothing."""
    project = current_project()
    declared = project.pipeline(name)
    return project.dry_run(declared) if dry_run else project.preview(declared)


def dry_run(name: str) -> PreviewResult:
    """The plan of a pipeline with the exact counts of a run that leaves nothing."""
    return preview(name, dry_run=True)


def validate(name: str) -> ValidateResult:
    """What would stop a pipeline; reads no row and writes none."""
    project = current_project()
    return project.validate(project.pipeline(name))


def run_pipeline(name: str) -> RunResult:
    """Run the pipeline of that name once, now."""
    project = current_project()
    return project.run(project.pipeline(name))


def run_transform(name: str) -> RunResult:
    """Run the transform of that name by itself, now; the run is recorded."""
    return current_project().run_transform(name)


def list_pipelines() -> list[ScheduledPipeline]:
    """Every pipeline, by name."""
    return [get_pipeline(each.name) for each in current_project().pipelines()]


def get_pipeline(name: str) -> ScheduledPipeline:
    """The pipeline of that name: its schedule, and a function that runs it."""
    project = current_project()
    declared = project.pipeline(name)
    if isinstance(declared, ScheduledPipeline):
        return declared
    return ScheduledPipeline(
        name=name,
        declared_at=declared.declared_at,
        function=lambda: project.run(declared),
        schedule=declared.schedule,
        timezone=declared.timezone,
    )


def list_transforms() -> list[RegisteredTransform]:
    """Every transform, by name."""
    return current_project().transforms()


def list_entries() -> list[RegistryEntry]:
    """Pipelines and transforms, by name."""
    project = current_project()
    found = [RegistryEntry(each.name, "pipeline", each.schedule) for each in project.pipelines()]
    found += [RegistryEntry(each.name, "transform", each.schedule) for each in project.transforms()]
    return sorted(found, key=lambda entry: (entry.name, entry.kind))
