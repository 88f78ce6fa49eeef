"""What is remembered of a run: its record, its bookmark and the commit that makes both visible with the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

__all__ = ["Bookmark", "Commit", "Run", "RunStatus", "StepStatus", "instant_text"]

StepStatus = Literal["transform_success", "transform_failed"]
RunStatus = Literal["running", "success", "failed", "dry_run"] | StepStatus


@dataclass(frozen=True)
class Bookmark:
    """Where an incremental load got to: the greatest value of `column`, as text."""

    pipeline: str
    column: str
    value: str
    updated_at: datetime | None = field(default=None, compare=False)
    """The instant of the load that got there; a ledger knows it, the load itself need not."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One execution of one pipeline into one table, or of one step, as `run_history` keeps it."""

    run_id: str
    pipeline: str
    schema: str
    table: str
    mode: str
    path: str
    started_at: datetime
    finished_at: datetime | None = None
    status: RunStatus = "running"
    rows: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None
    bookmark_before: str | None = None
    bookmark_after: str | None = None
    parent_run_id: str | None = None
    """The load after which a step ran."""
    step_name: str | None = None
    metrics_json: str | None = None
    """What a step reports of itself, as JSON."""
    owner: str = ""
    """Host, process and its start: tells the next run whether this one can still be alive."""

    def with_outcome(self, status: RunStatus, finished_at: datetime, **changes: object) -> Run:
        """A copy that says how the run ended."""
        return replace(self, status=status, finished_at=finished_at, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Commit:
    """What becomes visible together with the rows of one load, or not at all."""

    token: str
    """A load with a token that was committed before changes nothing."""
    run: Run
    now: datetime
    """The one instant of the run: `_loaded_at`, and `valid_from` where there is no event time."""
    expired_before: datetime | None = None
    """Versions that began earlier have outlived their time to live."""
    bookmark: Bookmark | None = None
    """The bookmark this load resumes from."""
    dry_run: bool = False
    """Do everything, then leave nothing."""


def instant_text(instant: datetime) -> str:
    """An instant as results and JSON show it."""
    return instant.isoformat().replace("+00:00", "Z")
