"""Ways to call `flow` as a program of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

__all__ = ["Flow", "Program", "command", "environment", "modules_loaded_by", "on_a_terminal"]

Flow = Callable[..., Result]
Program = Callable[..., "subprocess.CompletedProcess[str]"]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "import sys; from ematix_flow.cli import main; sys.exit(main())", *arguments]


def environment(**changes: str) -> dict[str, str]:
    source = Path(__file__).resolve().parents[2] / "src"
    return {**os.environ, "PYTHONPATH": str(source), "EMATIX_FLOW_SPARK_FAST_START": "true", **changes}


def modules_loaded_by(*arguments: str) -> set[str]:
    """The top-level packages that a command leaves in its process."""
    script = (
        "import sys; from ematix_flow.cli import main; code = main(); "
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr); sys.exit(code)"
    )
    call = [sys.executable, "-c", script, *arguments]
    return set(subprocess.run(call, capture_output=True, text=True, check=True, env=environment()).stderr.split())


def on_a_terminal(*arguments: str, width: int = 100) -> tuple[int, str]:
    """The exit code of a command, and what a terminal receives from it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    settings = environment(TERM="xterm-256color", COLUMNS=str(width))
    running = subprocess.Popen(command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    received = b""
    try:
        while part := os.read(ours, 65536):
            received += part
    except OSError:
        pass  # Linux reports the end of a terminal as an error
    finally:
        os.close(ours)
    return running.wait(timeout=60), received.decode()
