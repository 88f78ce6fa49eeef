"""The `ematix` namespace: decorators that build records and register them, and nothing else."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar, Unpack

from .connections import connection as connection_decorator
from .spec import registry
from .spec.connection import Connection
from .spec.fan_out import FanOut, Target, build_declaration
from .spec.keywords import TargetOptions
from .spec.origin import Origin, declared_at
from .spec.pipeline import Pipeline, PipelineFunction, PipelineOptions
from .spec.post import TransformRef, check_cycle, referring
from .spec.registered import ScheduledPipeline, build_transform
from .spec.table import ManagedTable, build_table_class

if TYPE_CHECKING:
    from .engine.explain import PreviewResult
    from .engine.result import RunResult
    from .engine.validate import ValidateResult

__all__ = [
    "Ematix",
    "PipelineHandle",
    "connection",
    "ematix",
    "pipeline",
    "register_pipeline",
    "table",
    "target",
    "transform",
    "transform_ref",
]

Function = TypeVar("Function", bound=Callable[..., object])


class PipelineHandle:
    """A declared pipeline: call it, or `run()` it, to load once."""

    def __init__(self, pipeline: Pipeline | FanOut, options: PipelineOptions | None = None) -> None:
        functools.update_wrapper(self, pipeline.function)
        self.pipeline = pipeline
        self._options: PipelineOptions = options or {}

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.pipeline.name

    def __call__(self) -> RunResult:
        return self.run()

    def run(self, *, token: str | None = None) -> RunResult:
        """Load once, now; at most once for one token."""
        from .project import current_project

        return current_project().run(self.pipeline, token=token)

    def sync(
        self, *, dry_run: bool = False, token: str | None = None, **overrides: Unpack[PipelineOptions]
    ) -> RunResult:
        """Load once, now, with some options other than declared; the declaration stays as it is."""
        from .project import current_project

        options: PipelineOptions = {**self._options, **overrides}
        record = build_declaration(self.pipeline.function, options, self.pipeline.declared_at)
        return current_project().run(record, token=token, dry_run=dry_run)

    def preview(self) -> PreviewResult:
        """The plan, without opening any connection."""
        return self._preview()

    def dry_run(self) -> PreviewResult:
        """The plan with exact counts; leaves nothing."""
        return self._preview(dry_run=True)

    def validate(self) -> ValidateResult:
        """What would stop a run; reads no row and writes none."""
        from .project import current_project

        return current_project().validate(self.pipeline)

    def _preview(self, *, dry_run: bool = False) -> PreviewResult:
        from .project import current_project

        project = current_project()
        return project.dry_run(self.pipeline) if dry_run else project.preview(self.pipeline)

    def __repr__(self) -> str:
        parts = ", ".join(f"{part.table.qualified_name} ({part.mode})" for part in self.pipeline.parts)
        return f"<pipeline {self.name!r} into {parts}>"


def table(*, schema: str, name: str | None = None) -> Callable[[type], type[ManagedTable]]:
    """Declare a table by a class: annotations are its columns."""
    place = declared_at()

    def declare(cls: type) -> type[ManagedTable]:
        built = build_table_class(cls, schema=schema, name=name)
        record = built._table()
        registry.active().add("table", record.qualified_name, record, place, qualname=cls.__qualname__)
        return built

    return declare


def pipeline(**options: Unpack[PipelineOptions]) -> Callable[[PipelineFunction], PipelineHandle]:
    """Declare a load of the decorated function's rows into a table, or into several."""
    place = declared_at()

    def declare(function: PipelineFunction) -> PipelineHandle:
        record = build_declaration(function, options, place)
        register_pipeline(record, place)
        return PipelineHandle(record, options)

    return declare


def target(table: type[ManagedTable], **options: Unpack[TargetOptions]) -> Target:
    """One target of a pipeline that has several, with the options that are its own."""
    return Target(table, **options)


def transform(
    *, name: str | None = None, target_connection: str | Connection | None = None, schedule: str | None = None
) -> Callable[[Function], Function]:
    """Declare a function that works on a connection, by itself or after loads; the function stays as it is."""
    place = declared_at()
    options = {"name": name, "target_connection": target_connection, "schedule": schedule}

    def declare(function: Function) -> Function:
        record = build_transform(function, options, place)
        qualname = getattr(function, "__qualname__", None)
        registry.active().add("transform", record.name, record, place, qualname=qualname)
        return function

    return declare


def transform_ref(name: str) -> TransformRef:
    """A step that runs the transform, or the pipeline, of that name."""
    return TransformRef(name)


def connection(declared: type) -> Connection:
    """Declare a connection by a class: attributes are its fields, `kind` among them."""
    return connection_decorator(declared)


def register_pipeline(record: Pipeline | FanOut | ScheduledPipeline, place: Origin | None) -> None:
    """Add a pipeline to the active registry, unless its steps lead back to it."""
    active = registry.active()
    others = {**active.pipelines, record.name: record}
    check_cycle(record, {name: _references(each, others, active) for name, each in others.items()})
    active.add("pipeline", record.name, record, place, qualname=getattr(record.function, "__qualname__", None))


def _references(
    record: Pipeline | FanOut | ScheduledPipeline, known: Collection[str], active: registry.Registry
) -> list[str]:
    """The pipelines that a pipeline's steps run; a transform of the same name comes first."""
    steps = [step for part in record.parts for step in referring(part.transforms_post, known)]
    return [step.name for step in steps if isinstance(step, TransformRef) and step.name not in active.transforms]


class Ematix:
    """The namespace users write `@ematix.…` with."""

    table = staticmethod(table)
    pipeline = staticmethod(pipeline)
    job = pipeline
    target = staticmethod(target)
    transform = staticmethod(transform)
    transform_ref = staticmethod(transform_ref)
    connection = staticmethod(connection)

    def __getattr__(self, name: str) -> object:
        from .errors import nearest

        known = [word for word in vars(type(self)) if not word.startswith("_")]
        raise AttributeError(f"ematix has no {name!r}. {nearest('name', name, known)}")


ematix = Ematix()
