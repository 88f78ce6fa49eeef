"""`flow list`: what the project declares."""

from __future__ import annotations

from .failure import reported
from .options import Format, Modules, Shape
from .screen import aligned, answers, notices, show, show_json
from .workspace import opened


def list_pipelines(modules: Modules = None, format: Shape = Format.TEXT) -> None:
    """List the project's pipelines: name, kind, schedule, mode and target."""
    with reported(), opened(modules) as project:
        declared = project.pipelines()
        if format is Format.JSON:
            show_json([{"name": each.name, "kind": "pipeline", "schedule": each.schedule} for each in declared])
        elif declared:
            rows = [
                (each.name, "pipeline", each.schedule or "(unscheduled)", each.mode, each.table.qualified_name)
                for each in declared
            ]
            show(answers(), aligned(rows))
        else:
            show(notices(), f"no pipelines are declared in {', '.join(project.settings.modules)}")
