"""Facts about a run as frozen records, and the bus that carries them to listeners."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

__all__ = [
    "Bus",
    "Event",
    "Listener",
    "RunFinished",
    "RunRetried",
    "RunStarted",
    "StepFinished",
    "StepProgress",
    "StepStarted",
]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to one run."""

    run_id: str
    pipeline: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """A run began."""

    mode: str
    path: str
    way: str = ""
    """How the rows go: `pushed`, `copied` or `spark`."""


@dataclass(frozen=True, kw_only=True)
class StepStarted(Event):
    """A step of the plan began."""

    step: str


@dataclass(frozen=True, kw_only=True)
class StepProgress(Event):
    """How far a copy of rows is; published twice a second at most, and once more when the copy ends."""

    step: str
    doing: str
    """`reading` while rows leave their source, `writing` while they go into their target."""
    rows: int | None
    """None while nobody knows: the bytes between two databases of one kind are not looked into."""
    bytes: int
    """In the form in which the rows travel, which is not what they take on disk."""
    parts_done: int
    parts: int


@dataclass(frozen=True, kw_only=True)
class StepFinished(Event):
    """A step of the plan ended well."""

    step: str


@dataclass(frozen=True, kw_only=True)
class RunRetried(Event):
    """Something passing has stopped the load; the run pauses and tries it again, with the same token."""

    attempt: int
    """Which try comes next: 2 is the first one after the failure."""
    attempts: int
    """How many tries there are at most."""
    pause: float
    """Seconds until then."""
    error: str


@dataclass(frozen=True, kw_only=True)
class RunFinished(Event):
    """A run ended: `success`, `failed` or `dry_run`."""

    status: str
    error: str | None = None


Listener = Callable[[Event], None]


@dataclass
class Bus:
    """Carries each event to every listener, in order; a listener that fails never fails the run."""

    listeners: list[Listener] = field(default_factory=list)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every event from now on; the returned function stops it."""
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def publish(self, event: Event) -> None:
        """Tell every listener."""
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 - the event bus is a boundary: a listener fails alone
                warnings.warn(f"a listener failed on {type(event).__name__}: {error}", RuntimeWarning, stacklevel=2)
