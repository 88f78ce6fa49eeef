"""Children that do the work of a run, so that they may die, wait or be stopped while another process looks on."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

PATIENCE_SECONDS = 180.0
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Outcome:
    """How a driver's run ended, in its own words."""

    status: str
    """`success`, or the name of the error."""
    replayed: bool = False
    transient: bool = False
    text: str = ""


class Gate:
    """Hears of everything that a driver is about to do, and lets it wait for leave before one of these things."""

    def __init__(self, channel: Connection, number: int, moment: str) -> None:
        self._channel, self._number, self._moment = channel, number, moment

    def event(self, text: str) -> None:
        """Something is about to happen."""
        if text.startswith(self._moment):
            self._number -= 1
            if self._number == 0:
                self._channel.send(("waits", text))
                self._channel.recv()


class Driver:
    """A process at work, which may wait at its gate."""

    def __init__(self, work: Callable[[Connection], Any]) -> None:
        self._channel, theirs = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._channel.close()
            _be_child(theirs, work)
        theirs.close()
        self._ended = False
        self.status = 0
        """How the process ended, as `waitpid` tells it."""
        self.answer: Any = None

    def wait(self, seconds: float = PATIENCE_SECONDS) -> str | None:
        """The moment that it waits at; None once it has ended, or is still at work after these seconds."""
        if self._ended or not self._channel.poll(seconds):
            return None
        try:
            kind, content = self._channel.recv()
        except (EOFError, ConnectionResetError):
            self._reap()
            return None
        if kind == "waits":
            return str(content)
        self.answer = content
        self._reap()
        return None

    def go(self) -> None:
        """Let it go on."""
        if not self._ended:
            self._channel.send("go")

    def send(self, number: signal.Signals) -> None:
        """Give it a signal."""
        if not self._ended:
            os.kill(self.pid, number)

    @property
    def ended(self) -> bool:
        """Whether it is gone."""
        return self._ended

    def end(self) -> Any:
        """What it answers at its end; None where it was killed."""
        self.wait()
        if not self._ended:
            self.send(signal.SIGKILL)
            self._reap()
            raise TimeoutError("a driver did not come to its end")
        return self.answer

    def _reap(self) -> None:
        _, self.status = os.waitpid(self.pid, 0)
        self._channel.close()
        self._ended = True


def in_child(work: Callable[[], Answer]) -> Answer:
    """What `work` gives, done by a process of its own."""
    child = Driver(lambda _: work())
    answer: Answer = child.end()
    if child.status:
        raise RuntimeError("a child failed; its error is above")
    return answer


def _be_child(channel: Connection, work: Callable[[Connection], Any]) -> None:
    code = 1
    try:
        channel.send(("ended", work(channel)))
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, this process ends here and says why
        traceback.print_exc()
    finally:
        os._exit(code)
