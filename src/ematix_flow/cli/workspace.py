"""The project a command works on: loaded, closed again, and its names looked up."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from typing import IO, TYPE_CHECKING

from ..errors import ConfigError, SpecError, UnknownNameError, UserCodeError
from .failure import WRONG_CALL, fail

if TYPE_CHECKING:
    from ..project import AnyPipeline, Project


@contextmanager
def opened(modules: Sequence[str] | None, *, verbose: bool = False, needs_modules: bool = True) -> Iterator[Project]:
    """The project of the current directory, until the end of the block."""
    from ..config import Settings
    from ..project import Project
    from ..spec.registry import Registry

    given, flag = tuple(modules or ()), verbose or None
    with users_prints():
        try:
            settings = Settings.load(modules=given or None, verbose=flag)
            is_bare = not (settings.modules or needs_modules)
            project = Project(settings, Registry()) if is_bare else Project.load(given, verbose=flag)
        except (ConfigError, SpecError, UserCodeError) as error:
            fail(error, WRONG_CALL, verbose=verbose)
    try:
        yield project
    finally:
        project.close()


def find_pipeline(project: Project, name: str) -> AnyPipeline:
    """The pipeline of that name; an unknown one is a wrong call, whatever happens inside pipelines later."""
    try:
        return project.pipeline(name)
    except UnknownNameError as error:
        fail(error, WRONG_CALL)


def find_planned(project: Project, name: str) -> AnyPipeline:
    """The pipeline of that name; one that loads by itself cannot be looked into, so asking for it is a wrong call."""
    from ..project import no_plan

    declared = find_pipeline(project, name)
    if not declared.parts:
        fail(no_plan(declared), WRONG_CALL)
    return declared


def users_prints() -> AbstractContextManager[IO[str]]:
    """What the project's code prints inside the block goes to stderr: stdout is for the answer."""
    return redirect_stdout(sys.stderr)
