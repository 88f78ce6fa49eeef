"""What a user declares of a pipeline: where its rows come from, which table they go to, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Literal

from ..errors import SpecTypeError
from .declared import Declared
from .keywords import (
    LATER,
    MODES,
    DriftPolicy,
    DuplicatePolicy,
    ForcedPath,
    LatePolicy,
    Mode,
    PipelineFunction,
    PipelineOptions,
    check_keywords,
    plain_values,
)
from .origin import Origin
from .pipeline_checks import check_pipeline, handles_wanted
from .place import TableRef
from .post import PostStep
from .row_transform import RowTransform
from .table import ManagedTable, Table

__all__ = [
    "LATER",
    "MODES",
    "DriftPolicy",
    "DuplicatePolicy",
    "ForcedPath",
    "LatePolicy",
    "Mode",
    "Pipeline",
    "PipelineFunction",
    "PipelineOptions",
    "build_load",
    "build_pipeline",
    "target_table",
]


@dataclass(frozen=True, kw_only=True)
class Pipeline(Declared):
    """A bounded load of one source into one table."""

    function: PipelineFunction = field(compare=False)
    table: Table
    mode: Mode
    schedule: str | None = None
    timezone: str | None = None
    source_connection: str | None = None
    target_connection: str = "default"
    source_table: TableRef | None = None
    column_map: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] | None = None
    update_columns: tuple[str, ...] | None = None
    compare_columns: tuple[str, ...] | None = None
    event_timestamp_column: str | None = None
    handle_deletes: Literal["hard", "soft"] | None = None
    incremental_column: str | None = None
    lookback: timedelta | Decimal | None = None
    """How far before the bookmark a load begins to read."""
    on_duplicate: DuplicatePolicy = "error"
    on_duplicate_order_by: str | None = None
    on_drift: DriftPolicy = "error"
    force_path: ForcedPath | None = None
    ttl: timedelta | None = None
    late_events: LatePolicy = "error"
    allow_empty_source: bool = False
    strict_schema: bool = False
    transforms_pre: tuple[RowTransform, ...] = ()
    transforms_post: tuple[PostStep, ...] = ()
    continue_on_failure_post: bool = False

    @property
    def parameters(self) -> int:
        """How many handles the function wants: 0, 1 (the source) or 2 (source and target).

        A parameter with a default is the function's own and no handle.
        """
        return handles_wanted(self.function)

    @property
    def parts(self) -> tuple[Pipeline, ...]:
        """The loads of one run: this one."""
        return (self,)


def build_pipeline(function: PipelineFunction, options: Mapping[str, object], declared_at: Origin | None) -> Pipeline:
    """The record of a decorated function with one target, or the first thing that is wrong with it."""
    name = options.get("name") or getattr(function, "__name__", None) or "pipeline"
    declared = Declared(name=str(name), declared_at=declared_at)
    check_keywords(declared, options)
    if options.get("target") is None:
        raise declared.error("it has no target", kind=SpecTypeError, hint="pass target=YourTable")
    return build_load(declared, function, options)


def build_load(declared: Declared, function: PipelineFunction, options: Mapping[str, object]) -> Pipeline:
    """The record of a load into one table; the keywords are known to be right."""
    table = target_table(declared, "target=", options["target"])
    with declared.named_errors():
        values = plain_values(declared, options)
    pipeline = Pipeline(
        name=declared.name,
        declared_at=declared.declared_at,
        function=function,
        table=table,
        **values,  # type: ignore[arg-type]
    )
    check_pipeline(pipeline)
    return pipeline


def target_table(declared: Declared, place: str, target: object) -> Table:
    """The table of a table class, or the table itself; `place` says where it stands."""
    if isinstance(target, Table):
        return target
    if not (isinstance(target, type) and issubclass(target, ManagedTable)):
        hint = "decorate the class with @ematix.table(schema=…)"
        raise declared.error(f"{place} must be a table class, not {target!r}", kind=SpecTypeError, hint=hint)
    with declared.named_errors():
        return target._table()
