"""Who runs a load, and whether that process can still be alive."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path
from urllib.parse import quote, unquote

__all__ = ["INTERRUPTED", "current_owner", "is_alive", "owner_from_name", "owner_name", "process_exists"]


INTERRUPTED = "interrupted: the process ended before the run did; nothing of it was kept"
"""What the record of a run says whose process is gone."""


def current_owner() -> str:
    """This process, as ``host:pid:start``."""
    return f"{_host()}:{os.getpid()}:{_start_of(os.getpid())}"


def owner_name(owner: str) -> str:
    """The owner as a part of a file's name: Hadoop reads no colons."""
    return "~".join(quote(part, safe="") for part in owner.split(":"))


def owner_from_name(name: str) -> str:
    """The owner that `owner_name` spelled so."""
    return ":".join(map(unquote, name.split("~")))


def is_alive(owner: str) -> bool:
    """False only when it is certain that the process is gone: another host's processes count as alive."""
    place, _, start = owner.rpartition(":")
    host, _, pid = place.rpartition(":")
    if not host or not pid.isdigit():
        return False
    if host != _host():
        return True
    if not process_exists(int(pid)):
        return False
    return not start or _start_of(int(pid)) == start  # a zombie has no start


@cache
def _host() -> str:
    return socket.gethostname()


def process_exists(pid: int) -> bool:
    """Whether this machine has a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_of(pid: int) -> str:
    """When the process began, in clock ticks since boot; empty where the system does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    facts = stat.rpartition(")")[2].split()
    return "" if facts[0] == "Z" else facts[19]
