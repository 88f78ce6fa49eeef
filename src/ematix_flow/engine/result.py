"""What a run gives back: a dictionary with the documented keys, readable as attributes too."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import FlowError, UserCodeError
from ..spec.registered import ScheduledPipeline
from ..strategies.base import Counts, Strategy

__all__ = ["RunResult", "call_scheduled", "rows_of"]


class RunResult(dict[str, object]):
    """The outcome of one run; `result["rows_inserted"]` and `result.rows_inserted` are the same."""

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this result has no {name!r}; it has {', '.join(self)}") from None


def rows_of(strategy: Strategy, counts: Counts) -> dict[str, int]:
    """The counts that mean something for a strategy, by their documented names."""
    rows = {"rows_read": counts.read, "rows_inserted": counts.inserted}
    if strategy.facts.updates:
        rows |= {
            "rows_updated": counts.updated,
            "rows_unchanged": counts.unchanged,
            "rows_deleted": counts.deleted,
        }
    if strategy.facts.keeps_history:
        rows |= {
            "rows_closed": counts.closed,
            "closed_changed": counts.closed_changed,
            "closed_missing": counts.closed_missing,
            "closed_ttl": counts.closed_ttl,
            "rows_corrected": counts.corrected,
            "rows_unchanged": counts.unchanged,
            "rows_late": counts.late,
        }
    return rows


def call_scheduled(declared: ScheduledPipeline) -> RunResult:
    """What a function that loads by itself gives; anything but a dictionary stands under `result`."""
    try:
        answer = declared.function()
    except FlowError:
        raise
    except Exception as error:  # user code is a boundary: its failure is named, its cause kept
        raise UserCodeError(
            f"{declared.title}: its function failed with {type(error).__name__}: {error}",
            declared_at=declared.declared_at,
        ) from error
    if isinstance(answer, Mapping):
        return RunResult({str(name): value for name, value in answer.items()})
    return RunResult(status="success", pipeline=declared.name, result=answer)
