"""What works on this machine and what does not: Java, Spark, the cache folder, and every known connection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Literal

from .errors import ConfigError, FlowError, MissingExtraError, UnsupportedError

if TYPE_CHECKING:
    from .config import Found
    from .project import Project

__all__ = ["Finding", "examine"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `skip` is a kind of connection that this version cannot open."""

    name: str
    kind: str
    status: Literal["ok", "fail", "skip"]
    ms: int
    detail: str


def examine(project: Project) -> Iterator[Finding]:
    """What this machine offers, then every connection of the project, asked through its own backend."""
    yield _probe("java", "machine", _java)
    yield _probe("pyspark", "machine", _pyspark)
    yield _probe("cache", "machine", lambda: _cache(project.settings.cache_dir))
    for found in project.connections():
        yield _connection(project, found)


def _connection(project: Project, found: Found) -> Finding:
    def ask() -> str:
        connection = found.connection
        if not connection.can_open():
            raise UnsupportedError(f"this version cannot open {connection.kind} connections")
        backend = project.backend(found.name)
        warnings = [f"{fact.name}: {fact.value}" for fact in backend.facts() if fact.is_warning]
        return "; ".join([backend.ping(), *warnings])

    return _probe(found.name, _kind(found), ask)


def _kind(found: Found) -> str:
    try:
        return found.connection.kind
    except FlowError:
        return "?"


def _probe(name: str, kind: str, ask: Callable[[], str]) -> Finding:
    began = monotonic()

    def finding(status: Literal["ok", "fail", "skip"], detail: str) -> Finding:
        return Finding(name, kind, status, round((monotonic() - began) * 1000), detail)

    try:
        return finding("ok", ask())
    except UnsupportedError as error:
        return finding("skip", error.message)
    except FlowError as error:
        return finding("fail", f"{error.message}; {error.hint}" if error.hint else error.message)


def _java() -> str:
    from .engine.jvm import find_java

    java = find_java()
    return f"Java {java.version}, {java.binary}"


def _pyspark() -> str:
    try:
        return f"PySpark {version('pyspark')}"
    except PackageNotFoundError:
        raise MissingExtraError("pyspark", "all") from None


def _cache(folder: Path) -> str:
    """Looks only: a folder that is missing is made when something is to be kept there."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        message = f"the cache folder {folder} cannot be written"
        raise ConfigError(message, hint="allow it, or set EMATIX_FLOW_CACHE_DIR to another folder")
    return str(folder) if existing == folder else f"{folder} is made when it is needed"
