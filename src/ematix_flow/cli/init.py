"""`flow init`: a new project that runs as it is."""

from __future__ import annotations

import shutil
import tempfile
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from .failure import FAILED, fail, reported
from .screen import show_line

_SUFFIX = ".template"


def init_project(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The folder of the new project.")],
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there already.")] = False,
) -> None:
    """Create a small project: a table, its load, a source to read and files to deploy it with."""
    with reported():
        files = _scaffold()
        taken = sorted(name for name in files if (path / name).exists())
        if taken and not force:
            error = ConfigError(
                f"{path} already holds {', '.join(taken)}",
                hint="choose another folder, or pass --force to replace them",
            )
            fail(error, FAILED)
        try:
            _write(path, files)
        except OSError as error:
            fail(ConfigError(f"{path} cannot be written: {error.strerror}", hint="choose another folder"), FAILED)
        show_line(f"created {len(files)} files in {path}: {', '.join(sorted(files))}")
        show_line(f"next: cd {path} && flow run sync_customers")


def _scaffold() -> dict[str, str]:
    """The texts of the files, by their names in the project."""
    found: dict[str, str] = {}

    def visit(folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                visit(entry, f"{prefix}{entry.name}/")
            elif entry.name.endswith(_SUFFIX):
                found[prefix + entry.name.removesuffix(_SUFFIX)] = entry.read_text(encoding="utf-8")

    visit(resources.files(__package__).joinpath("scaffold"), "")
    return found


def _write(path: Path, files: dict[str, str]) -> None:
    """Everything is written aside first, so that a full disk leaves no half of a project."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".flow-init-", dir=path.parent))
    try:
        for name, text in files.items():
            target = aside / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        for name in files:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (aside / name).replace(path / name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
