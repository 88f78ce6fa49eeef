"""A project without anything in it, and two kinds of connections to declare there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ematix_flow.spec.connection import Connection, register_kind
from ematix_flow.spec.registry import Registry, scope

__all__ = ["Embedded", "Project", "Remote", "empty_project"]


@register_kind
@dataclass(frozen=True)
class Embedded(Connection):
    kind = "embedded"
    schemes = ("embedded",)
    path: str
    threads: int = 1


@register_kind
@dataclass(frozen=True)
class Remote(Connection):
    kind = "remote"
    schemes = ("remote",)
    url: str
    password: str | None = None


class Project:
    def __init__(self, file: Path, user_file: Path, registry: Registry) -> None:
        self.file, self.user_file, self.registry = file, user_file, registry

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def write_user(self, text: str) -> None:
        self.user_file.write_text(text)


@contextmanager
def empty_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """An empty project in an empty world: own home, own directory, own registry, no variables of ours."""
    for variable in list(os.environ):
        if variable.startswith("EMATIX_FLOW") or variable == "XDG_CACHE_HOME":
            monkeypatch.delenv(variable)
    directory, home = tmp_path / "project", tmp_path / "home"
    directory.mkdir()
    (home / ".ematix-flow").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(directory)
    with scope() as registry:
        yield Project(directory / ".ematix-flow.toml", home / ".ematix-flow" / "connections.toml", registry)
