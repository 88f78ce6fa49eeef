"""`flow runs`: what ran, when, and how it ended."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError, FlowError, UnknownNameError
from ..spec.modes import mode_facts
from ..spec.redaction import without_secrets
from ..spec.run import instant_text
from .failure import WRONG_CALL, fail, report, reported
from .options import Format, Modules, Shape
from .screen import Header, aligned, answers, facts, notices, show, show_json
from .workspace import opened

if TYPE_CHECKING:
    from ..spec.run import Run

app = typer.Typer(help="Look at recorded runs.", no_args_is_help=True)

_SHORT_ID = 8
_SEARCHED = 10_000
"""Records that are looked through when a run is searched by something other than its pipeline."""

_HEADERS = (
    Header("run", folds=False),
    Header("pipeline"),
    Header("mode", folds=False),
    Header("status", folds=False),
    Header("started (UTC)", folds=False),
    *(Header(name, "right", folds=False) for name in ("took", "in", "up", "deleted", "closed")),
    Header("error"),
)


class Status(StrEnum):
    """How a run can have ended."""

    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    TRANSFORM_SUCCESS = "transform_success"
    TRANSFORM_FAILED = "transform_failed"


@app.command("list")
def list_runs(
    pipeline: Annotated[
        str | None, typer.Option("--pipeline", "-p", metavar="NAME", help="Only this pipeline's.", show_default=False)
    ] = None,
    status: Annotated[Status | None, typer.Option("--status", help="Only these.", show_default=False)] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many, the newest.")] = 20,
    modules: Modules = None,
    format: Shape = Format.TEXT,
) -> None:
    """List recorded runs, the newest first."""
    with reported(), opened(modules) as project:
        searched = limit + 1 if status is None else _SEARCHED
        try:
            found = project.runs(pipeline=pipeline or None, limit=searched, on_unread=_note)
        except UnknownNameError as error:
            fail(error, WRONG_CALL)
        every = [run for run in found if status is None or run.status == status]
        found = every[:limit]
        if format is Format.JSON:
            show_json([run_record(run) for run in found])
        elif found:
            show(answers(), aligned(map(_cells, found), _HEADERS))
            if len(every) > limit:
                show(notices(), "older runs are recorded too: --limit shows more")
        else:
            show(notices(), "no such runs are recorded" if status or pipeline else "no runs are recorded")


@app.command("show")
def show_run(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="The run's id, or how it begins.")],
    modules: Modules = None,
    format: Shape = Format.TEXT,
) -> None:
    """Show everything that was recorded of one run."""
    with reported(), opened(modules) as project:
        run = _find_run(project.runs(limit=_SEARCHED, on_unread=_note), run_id)
        record = run_record(run)
        if format is Format.JSON:
            show_json(record, indent=2)
        else:
            shown = {key: value for key, value in record.items() if value is not None}
            show(answers(), facts((key.replace("_", " "), str(value)) for key, value in shown.items()))


def run_record(run: Run) -> dict[str, object]:
    """A run as plain data, under the names that results use."""
    return {
        "run_id": run.run_id,
        "pipeline": run.pipeline,
        "target": f"{run.schema}.{run.table}" if run.table else None,
        "mode": run.mode,
        "path": run.path,
        "status": run.status,
        "started_at": instant_text(run.started_at),
        "finished_at": instant_text(run.finished_at) if run.finished_at else None,
        "seconds": _seconds(run),
        **_rows(run),
        "watermark_before": run.bookmark_before,
        "watermark_after": run.bookmark_after,
        "parent_run_id": run.parent_run_id,
        "step": run.step_name,
        "metrics": json.loads(run.metrics_json) if run.metrics_json else None,
        "error": without_secrets(run.error) if run.error else None,
    }


def _note(connection: str, error: FlowError) -> None:
    report(error, about=f"note: the runs in {connection!r} cannot be read")


def _find_run(runs: list[Run], start: str) -> Run:
    matches = [run for run in runs if run.run_id == start] or [run for run in runs if run.run_id.startswith(start)]
    if not matches:
        hint = "`flow runs list` shows the newest" if runs else "no runs are recorded"
        fail(ConfigError(f"no run has an id that begins with {start!r}", hint=hint), WRONG_CALL)
    if len(matches) > 1:
        ids = ", ".join(run.run_id for run in matches[:5])
        raise typer.BadParameter(f"{len(matches)} runs begin with {start!r}: {ids}", param_hint="RUN_ID")
    return matches[0]


def _cells(run: Run) -> tuple[str, ...]:
    rows, seconds = _rows(run), _seconds(run)
    counts = (
        rows.get("rows_inserted"),
        rows.get("rows_updated"),
        rows.get("rows_deleted") or None,
        rows.get("rows_closed"),
    )
    return (
        run.run_id[:_SHORT_ID],
        f"{run.pipeline} {run.step_name}" if run.step_name else run.pipeline,
        run.mode,
        run.status,
        f"{run.started_at:%Y-%m-%d %H:%M}",
        "" if seconds is None else f"{seconds:.1f} s",
        *("" if count is None else f"{count:,}" for count in counts),
        without_secrets("; ".join(line.strip() for line in run.error.split("\n")[:3])) if run.error else "",
    )


def _rows(run: Run) -> dict[str, int]:
    # Where versions are closed, the history table keeps their number under `rows_updated` too, and nothing else.
    hidden = ("rows_updated",) if mode_facts(run.mode).keeps_history else ()
    return {name: count for name, count in run.rows.items() if name not in hidden}


def _seconds(run: Run) -> float | None:
    return None if run.finished_at is None else (run.finished_at - run.started_at).total_seconds()
