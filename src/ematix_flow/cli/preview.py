"""`flow preview` and `flow dry-run`: what a run would do, and what it would have done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import RunError
from .failure import FAILED, fail, reported
from .options import Format, Modules, NoColor, PipelineName, Shape, Verbose
from .progress import watched
from .screen import answers, show, show_line
from .workspace import find_planned, opened, users_prints

if TYPE_CHECKING:
    from ..engine.explain import PreviewResult


def preview_pipeline(
    name: PipelineName,
    modules: Modules = None,
    verbose: Verbose = False,
    format: Shape = Format.TEXT,
    no_color: NoColor = False,
) -> None:
    """Show what a run would do, without reading or writing anything."""
    with reported(verbose=verbose), opened(modules, verbose=verbose) as project:
        pipeline = find_planned(project, name)
        with users_prints():
            plan = project.preview(pipeline)
        _show_plan(plan, format, verbose=verbose, no_color=no_color)


def dry_run_pipeline(
    name: PipelineName,
    modules: Modules = None,
    verbose: Verbose = False,
    format: Shape = Format.TEXT,
    no_color: NoColor = False,
) -> None:
    """Run a pipeline, count exactly, and leave nothing behind; fails where the run would fail."""
    with reported(verbose=verbose), opened(modules, verbose=verbose) as project:
        pipeline = find_planned(project, name)
        with watched(project, verbose=verbose):
            plan = project.dry_run(pipeline)
        _show_plan(plan, format, verbose=verbose, no_color=no_color)
        errors = [target.dry_run_error for target in plan.targets if target.dry_run_error is not None]
        if errors:
            fail(RunError(f"the dry run of {name!r} failed: {'; '.join(errors)}"), FAILED)


def _show_plan(plan: PreviewResult, format: Format, *, verbose: bool, no_color: bool) -> None:
    if format is Format.JSON:
        show_line(plan.to_json())
        return
    from .plan_text import describe_plan

    console = answers(no_color=no_color)
    show(console, *describe_plan(plan, verbose=verbose, colored=console.color_system is not None))
