"""The `flow` command: thin doors over `Project`, one small file per noun."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import NoReturn

__all__ = ["main"]


def main() -> int:
    """Run the command line of this process and return its exit code."""
    from .app import app
    from .failure import interrupted

    # A terminal that cannot spell a character shows its number; that is no reason to fail.
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    # Spark's bridge logs with a traceback that a signal came while it waited; we say so ourselves.
    logging.getLogger().addFilter(lambda record: "KeyboardInterrupt while" not in record.getMessage())
    signal.signal(signal.SIGTERM, _terminate)
    _hear_signals()
    try:
        app(prog_name="flow")
    except KeyboardInterrupt as error:
        return interrupted(error)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0
    return 0


def _terminate(*_: object) -> NoReturn:
    """What ends a container or a service ends a run as Ctrl-C does: undone, and recorded."""
    raise KeyboardInterrupt("terminated")


def _hear_signals() -> None:
    """Let a signal end the statement that this process is at: Python hears of it only when that is over."""
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    threading.Thread(target=_interrupt_when, args=(heard,), name="signals", daemon=True).start()


def _interrupt_when(heard: int) -> None:
    from ..backends.sql_connection import interrupt_statements

    while number := os.read(heard, 1):
        if number[0] in (signal.SIGINT, signal.SIGTERM):
            interrupt_statements()
