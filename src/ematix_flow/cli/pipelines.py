"""`flow list`: what the project declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .failure import reported
from .options import Format, Modules, Shape
from .screen import aligned, answers, notices, show, show_json
from .workspace import opened

if TYPE_CHECKING:
    from ..project import AnyPipeline
    from ..spec.registered import RegisteredTransform


def list_pipelines(modules: Modules = None, format: Shape = Format.TEXT) -> None:
    """List the project's pipelines and transforms: name, kind, schedule, mode and target."""
    with reported(), opened(modules) as project:
        records = [_pipeline_record(each) for each in project.pipelines()]
        records += [_transform_record(each) for each in project.transforms()]
        records.sort(key=lambda record: (str(record["name"]), str(record["kind"])))
        if format is Format.JSON:
            show_json(records)
        elif records:
            show(answers(), aligned([_cells(record) for record in records]))
        else:
            show(notices(), f"no pipelines are declared in {', '.join(project.settings.modules)}")


def _pipeline_record(pipeline: AnyPipeline) -> dict[str, object]:
    targets = [
        {"target": part.table.qualified_name, "mode": part.mode, "target_connection": part.target_connection}
        for part in pipeline.parts
    ]
    record: dict[str, object] = {"name": pipeline.name, "kind": "pipeline", "schedule": pipeline.schedule}
    sources = [part.source_connection for part in pipeline.parts[:1]]
    only = targets[0] if len(targets) == 1 else {"target": None, "mode": None, "target_connection": None}
    record |= {**only, "source_connection": sources[0] if sources else None}
    return record if len(targets) < 2 else {**record, "targets": targets}


def _transform_record(transform: RegisteredTransform) -> dict[str, object]:
    return {
        "name": transform.name,
        "kind": "transform",
        "schedule": transform.schedule,
        "target_connection": transform.target_connection,
    }


def _cells(record: dict[str, object]) -> tuple[str, ...]:
    several = record.get("targets")
    targets = several if isinstance(several, list) else [record]
    modes, tables = (
        ", ".join(dict.fromkeys(str(each[key]) for each in targets if each.get(key))) for key in ("mode", "target")
    )
    return str(record["name"]), str(record["kind"]), str(record["schedule"] or "(unscheduled)"), modes, tables
