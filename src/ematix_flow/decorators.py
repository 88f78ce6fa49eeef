"""The `ematix` namespace: decorators that build records and register them, and nothing else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from .connections import connection as connection_decorator
from .spec import registry
from .spec.connection import Connection
from .spec.origin import declared_at
from .spec.pipeline import Pipeline, PipelineFunction, PipelineOptions, build_pipeline
from .spec.table import ManagedTable, build_table_class

if TYPE_CHECKING:
    from .engine.explain import PreviewResult
    from .engine.result import RunResult

__all__ = ["Ematix", "PipelineHandle", "connection", "ematix", "pipeline", "table"]


class PipelineHandle:
    """A declared pipeline: call it, or `run()` it, to load once."""

    def __init__(self, pipeline: Pipeline) -> None:
        functools.update_wrapper(self, pipeline.function)
        self.pipeline = pipeline

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.pipeline.name

    def __call__(self) -> RunResult:
        return self.run()

    def run(self) -> RunResult:
        """Load once, now."""
        from .project import current_project

        return current_project().run(self.pipeline)

    def preview(self) -> PreviewResult:
        """The plan, without opening any connection."""
        from .project import current_project

        return current_project().preview(self.pipeline)

    def dry_run(self) -> PreviewResult:
        """The plan with exact counts; leaves nothing."""
        from .project import current_project

        return current_project().dry_run(self.pipeline)

    def __repr__(self) -> str:
        return f"<pipeline {self.name!r} into {self.pipeline.table.qualified_name} ({self.pipeline.mode})>"


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
    """Declare a load of the decorated function's rows into a table."""
    place = declared_at()

    def declare(function: PipelineFunction) -> PipelineHandle:
        record = build_pipeline(function, options, place)
        registry.active().add("pipeline", record.name, record, place, qualname=getattr(function, "__qualname__", None))
        return PipelineHandle(record)

    return declare


def connection(declared: type) -> Connection:
    """Declare a connection by a class: attributes are its fields, `kind` among them."""
    return connection_decorator(declared)


class Ematix:
    """The namespace users write `@ematix.…` with."""

    table = staticmethod(table)
    pipeline = staticmethod(pipeline)
    job = pipeline
    connection = staticmethod(connection)

    def __getattr__(self, name: str) -> object:
        from .errors import nearest

        known = [word for word in vars(type(self)) if not word.startswith("_")]
        raise AttributeError(f"ematix has no {name!r}. {nearest('name', name, known)}")


ematix = Ematix()
