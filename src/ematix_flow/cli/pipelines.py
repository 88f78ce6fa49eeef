"""`flow list`: what the project declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .failure import reported
from .options import Format, Modules, Shape
from .screen import aligned, answers, notices, show, show_json
from .workspace import opened

if TYPE_CHECKING:
    from ..spec.pipeline import Pipeline


def list_pipelines(modules: Modules = None, format: Shape = Format.TEXT) -> None:
    """List the project's pipelines: name, kind, schedule, mode and target."""
    with reported(), opened(modules) as project:
        declared = project.pipelines()
        if format is Format.JSON:
            show_json([_record(each) for each in declared])
        elif declared:
            rows = [
                (each.name, "pipeline", each.schedule or "(unscheduled)", each.mode, each.table.qualified_name)
                for each in declared
            ]
            show(answers(), aligned(rows))
        else:
            show(notices(), f"no pipelines are declared in {', '.join(project.settings.modules)}")


def _record(pipeline: Pipeline) -> dict[str, object]:
    return {
        "name": pipeline.name,
        "kind": "pipeline",
        "schedule": pipeline.schedule,
        "mode": pipeline.mode,
        "target": pipeline.table.qualified_name,
        "source_connection": pipeline.source_connection,
        "target_connection": pipeline.target_connection,
    }
