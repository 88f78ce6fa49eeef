"""What a run is doing, shown on stderr while it runs: its step, rows that move, Spark's tasks, jars being fetched."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..events import Event, RunFinished, RunRetried, RunStarted, StepProgress, StepStarted
from .screen import notices, show
from .workspace import users_prints

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from ..engine.activity import Activity
    from ..engine.jars import Fetching
    from ..project import Project

_POLL_SECONDS = 0.25
_DOING = {"read": "reading", "load": "loading"}


@contextmanager
def watched(project: Project, *, verbose: bool = False) -> Iterator[None]:
    """Show the run inside the block: live on a terminal, as lines with `verbose`, otherwise not at all."""
    console = notices()
    with users_prints():
        if verbose:
            # Spark's own log shares the terminal then, and would tear a live display apart.
            stop = project.bus.subscribe(lambda event: _tell(console, event))
            try:
                yield
            finally:
                stop()
        elif sys.stderr.isatty():
            with _live(project, console):
                yield
        else:
            yield


@contextmanager
def fetch_watched() -> Iterator[None]:
    """Show on a terminal how the fetching of jars inside the block goes."""
    if not sys.stderr.isatty():
        yield
        return
    line = _FetchLine(notices())
    try:
        with line.bar:
            yield
    finally:
        line.close()


def _tell(console: Console, event: Event) -> None:
    match event:
        case RunStarted():
            text = f"run {event.run_id} started ({event.mode}, {event.path})"
        case StepStarted():
            text = _DOING.get(event.step, event.step)
        case RunRetried():
            text = _retried(event)
        case RunFinished():
            text = event.status
        case _:
            return
    show(console, f"{event.at:%H:%M:%S} {event.pipeline}: {text}")


def _retried(event: RunRetried) -> str:
    return f"try {event.attempt} of {event.attempts} in {event.pause:.1f} s, because of {event.error.splitlines()[0]}"


@contextmanager
def _live(project: Project, console: Console) -> Iterator[None]:
    display = _Display(project, console)
    stop = project.bus.subscribe(display.on_event)
    try:
        with display.bar:
            yield
    finally:
        stop()
        display.close()


class _Display:
    """A line that follows one run."""

    def __init__(self, project: Project, console: Console) -> None:
        self._project = project
        self.bar = _bar(console)
        self._line = self.bar.add_task("planning", total=None, tasks="")
        self._speed, self._copies = _Speed(datetime.now(UTC)), False
        self._ended = threading.Event()
        self._poll = threading.Thread(target=self._follow_spark, name="spark-activity", daemon=True)

    def on_event(self, event: Event) -> None:
        """Show where the run is."""
        match event:
            case RunStarted():
                self._describe(event, "starting")
                if event.way == "spark" and not self._poll.is_alive():
                    self._poll.start()
            case StepStarted():
                self._describe(event, _DOING.get(event.step, event.step))
                self._speed, self._copies = _Speed(event.at), False
            case RunRetried():
                self._describe(event, _retried(event))
            case StepProgress():
                self._copies = event.parts_done < event.parts
                self._show_copy(event)

    def close(self) -> None:
        """Stop asking Spark."""
        self._ended.set()
        if self._poll.is_alive():
            self._poll.join(timeout=2)

    def _describe(self, event: Event, doing: str) -> None:
        self.bar.update(self._line, description=f"{event.pipeline}: {doing}")

    def _follow_spark(self) -> None:
        from ..engine.activity import activity
        from ..engine.jars import fetching
        from ..engine.session import is_running

        self.bar.update(self._line, tasks="starting Spark")
        while not self._ended.wait(_POLL_SECONDS):
            if self._copies:
                continue  # rows on their way to or from Spark say more than Spark, which waits for them
            # Asking for a session that does not run would start one, and that is for the run to do.
            if is_running():
                self._show_tasks(activity(self._project.workshop.spark()))
            elif (jars := fetching()) is not None:
                _show_jars(self.bar, jars)
            else:
                self.bar.tasks[0].total = None
                self.bar.update(self._line, tasks="starting Spark")

    def _show_copy(self, event: StepProgress) -> None:
        self._describe(event, event.doing)
        self.bar.tasks[0].total = event.parts if event.parts > 1 else None
        self.bar.update(self._line, completed=event.parts_done, tasks=self._speed.describe(event))

    def _show_tasks(self, doing: Activity) -> None:
        text = f"Spark tasks {doing.tasks_done}/{doing.tasks_total}" if doing.tasks_total else ""
        # `update` takes None for "as it was"; here it means that nobody knows how much there is to do.
        self.bar.tasks[0].total = doing.tasks_total or None
        self.bar.update(self._line, completed=doing.tasks_done, tasks=text)


class _Speed:
    """How far a copy is, in words, and how fast it has been since it began."""

    def __init__(self, began: datetime) -> None:
        self._began, self._last = began, began
        self._doing: str | None = None

    def describe(self, event: StepProgress) -> str:
        """Rows and rows in a second, or bytes where nobody counts rows; parts where there are several."""
        if event.doing != self._doing:
            self._began, self._doing = self._last, event.doing
        self._last = event.at
        seconds = max((event.at - self._began).total_seconds(), 1e-3)
        said = [f"{event.bytes / 1e6:,.1f} MB", f"{event.bytes / seconds / 1e6:,.1f} MB/s"]
        if event.rows is not None:
            said = [f"{event.rows:,} rows", f"{event.rows / seconds:,.0f} rows/s"]
        if event.parts > 1:
            said.append(f"{event.parts_done}/{event.parts} parts")
        return ", ".join(said)


class _FetchLine:
    """A line that follows the fetching of jars."""

    def __init__(self, console: Console) -> None:
        self.bar = _bar(console)
        self.bar.add_task("jars", total=None, tasks="looking")
        self._ended = threading.Event()
        self._poll = threading.Thread(target=self._follow, name="jars", daemon=True)
        self._poll.start()

    def close(self) -> None:
        """Stop looking."""
        self._ended.set()
        self._poll.join(timeout=2)

    def _follow(self) -> None:
        from ..engine.jars import fetching

        while not self._ended.wait(_POLL_SECONDS):
            if (jars := fetching()) is not None:
                _show_jars(self.bar, jars)


def _bar(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[tasks]}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


def _show_jars(bar: Progress, jars: Fetching) -> None:
    received = jars.received()
    groups = ", ".join(dict.fromkeys(jar.group for jar in jars.jars))
    count = f"{len(jars.jars)} jar{'s' if len(jars.jars) > 1 else ''}"
    text = f"fetching {count} ({groups}): {received / 1e6:.1f} of {jars.size / 1e6:.1f} MB"
    bar.update(bar.tasks[0].id, completed=received, total=jars.size, tasks=text)
