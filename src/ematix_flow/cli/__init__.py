"""The `flow` command: thin doors over `Project`, one small file per noun."""

from __future__ import annotations

import signal
import sys
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
    signal.signal(signal.SIGTERM, _terminate)
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
