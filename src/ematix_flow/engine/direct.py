"""A load that nobody has declared, into the system of a handle: a pipeline for one run."""

from __future__ import annotations

from ..errors import SpecError, SpecTypeError
from ..events import Bus
from ..spec.declared import Declared
from ..spec.keywords import Mode, TargetOptions, check_keywords
from ..spec.origin import declared_at
from ..spec.pipeline import build_pipeline
from ..spec.pipeline_data import Given
from ..spec.source import Source
from ..spec.table_spec import table_from_spec
from .handle import Handle
from .plan import build_plan
from .result import RunResult
from .run import Systems, run_plan
from .source import call_function

__all__ = ["LoadOptions", "load_directly"]


class LoadOptions(TargetOptions, total=False):
    """The options of a load that is asked of a handle: those of a pipeline's load, a name for it, and `dry_run`.

    The handle says the mode and the connection, and its caller does what comes after the load.
    """

    pipeline_name: str
    dry_run: bool


_OPTIONS = {*LoadOptions.__annotations__} - {
    "mode", "target_connection", "transforms_post", "continue_on_failure_post",
}  # fmt: skip


def load_directly(handle: Handle, mode: Mode, target: object, source: object, options: LoadOptions) -> RunResult:
    """Load `source` into the table that `target` is or describes; `source` is what a pipeline's function may give."""
    system, place = handle.backend, declared_at()
    table = table_from_spec(target)
    declared = Declared(name=options.get("pipeline_name") or table.qualified_name, declared_at=place)
    check_keywords(declared, options, _OPTIONS)
    said = {key: value for key, value in options.items() if key not in ("pipeline_name", "dry_run")}
    own = {"name": declared.name, "mode": mode, "target": table, "target_connection": handle.name}
    pipeline = build_pipeline(Given(source), {**said, **own}, place)
    origin = system
    if isinstance(source, Source) and isinstance(source.connection, Handle):
        origin = source.connection.backend
    elif isinstance(source, Source) and source.connection != handle.name:
        hint = f"open it: Source(connect({source.connection!r}), sql)"
        raise declared.error(f"its source is in connection {source.connection!r}, by name", kind=SpecError, hint=hint)
    answer = call_function(pipeline, origin, system)
    if isinstance(answer, dict):
        hint = "pass the SQL of the source as text, a Source or a data frame"
        raise declared.error("a dictionary is no source", kind=SpecTypeError, hint=hint)
    plan = build_plan(pipeline, origin, system, answer)
    return run_plan(plan, Systems(origin, system, system.workshop, Bus()), dry_run=options.get("dry_run", False))
