"""`flow watermark`: how far incremental pipelines have come, and how to let one go on from elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand

from ..errors import ConfigError, SpecError
from ..spec.run import instant_text
from .failure import FAILED, WRONG_CALL, fail, reported
from .options import Format, Modules, PipelineName, Shape
from .screen import Header, aligned, answers, show, show_json, show_line
from .workspace import find_pipeline, opened

if TYPE_CHECKING:
    from typer._click import Context

    from ..project import Project
    from ..spec.pipeline import Pipeline
    from ..spec.run import Bookmark

app = typer.Typer(help="Look at bookmarks of incremental pipelines and move them.", no_args_is_help=True)

_HEADERS = (Header("pipeline"), Header("column"), Header("value"), Header("updated (UTC)", folds=False))

_NEGATIVE = re.compile(r"-\.?\d")

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a bookmark is lost.")]


@app.command("get")
def get_watermark(name: PipelineName, modules: Modules = None, format: Shape = Format.TEXT) -> None:
    """Show where the next run of a pipeline begins to read; several targets have a bookmark each."""
    with reported(), opened(modules) as project:
        found = [(part, _bookmark(project, part)) for part in _incremental(project, name)]
        if format is Format.JSON:
            show_json([_record(part, bookmark) for part, bookmark in found])
        else:
            show(answers(), aligned([_cells(part, bookmark) for part, bookmark in found], _HEADERS))


class _TakesNumbers(TyperCommand):
    """A command for which ``-5`` is a value; any other word that begins with a dash is an option."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Let numbers below zero follow ``--``, behind which no option is looked for."""
        end = args.index("--") if "--" in args else len(args)
        numbers = [word for word in args[:end] if _NEGATIVE.match(word)]
        words = [word for word in args[:end] if word not in numbers]
        return super().parse_args(ctx, [*words, "--", *numbers, *args[end + 1 :]])


@app.command("set", cls=_TakesNumbers)
def set_watermark(
    name: PipelineName,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The greatest value that counts as loaded.")],
    yes: Yes = False,
    modules: Modules = None,
    format: Shape = Format.TEXT,
) -> None:
    """Let the next run of a pipeline read what is at or after a value, whatever was loaded before."""
    from ..engine.bookmark_value import kept_text
    from ..spec.run import Bookmark

    with reported(), opened(modules) as project:
        part = _only(project, name)
        column = part.table.column(str(part.incremental_column))
        try:
            kept = kept_text(value, column.type)
        except SpecError as error:
            fail(part.error(f"column {column.name!r}: {error.message}", hint=error.hint), WRONG_CALL)
        _ask(f"{part.name}: replace {{}} by {kept!r}?", _bookmark(project, part), yes=yes)
        _move(project, part, Bookmark(part.name, column.name, kept), format)


@app.command("reset")
def reset_watermark(name: PipelineName, yes: Yes = False, modules: Modules = None, format: Shape = Format.TEXT) -> None:
    """Forget a pipeline's bookmark, so that its next run reads everything; rows that are there stay."""
    with reported(), opened(modules) as project:
        part = _only(project, name)
        _ask(f"{part.name}: forget {{}}, and read everything again?", _bookmark(project, part), yes=yes)
        _move(project, part, None, format)


def _incremental(project: Project, name: str) -> list[Pipeline]:
    """The loads of that name that have bookmarks: all of a pipeline, or one that is named with its target."""
    parts = [part for each in project.pipelines() for part in each.parts if part.name == name]
    if not parts:
        parts = list(find_pipeline(project, name).parts)
    found = [part for part in parts if part.incremental_column is not None]
    if not found:
        problem = f"pipeline {name!r} is not incremental, so it has no bookmark"
        fail(SpecError(problem, hint="incremental_column= gives it one"), WRONG_CALL)
    return found


def _only(project: Project, name: str) -> Pipeline:
    found = _incremental(project, name)
    if len(found) > 1:
        hint = f"name one of them: {', '.join(part.name for part in found)}"
        fail(SpecError(f"pipeline {name!r} has a bookmark for each of its targets", hint=hint), WRONG_CALL)
    return found[0]


def _bookmark(project: Project, part: Pipeline) -> Bookmark | None:
    return project.backend(part.target_connection).ledger.bookmark(part.name)


def _ask(question: str, bookmark: Bookmark | None, *, yes: bool) -> None:
    """Go on only where no bookmark is lost, or somebody agrees."""
    if bookmark is None or yes:
        return
    try:
        agreed = typer.confirm(question.format(f"{bookmark.value!r} of column {bookmark.column!r}"), err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        fail(ConfigError("the bookmark stays as it is", hint="answer y, or pass --yes"), FAILED)


def _move(project: Project, part: Pipeline, bookmark: Bookmark | None, format: Format) -> None:
    from datetime import UTC, datetime

    project.backend(part.target_connection).ledger.set_bookmark(part.name, bookmark, datetime.now(UTC))
    if format is Format.JSON:
        show_json(_record(part, _bookmark(project, part)))
    elif bookmark is None:
        show_line(f"{part.name}: the next run reads everything")
    else:
        show_line(f"{part.name}: the next run reads {bookmark.column} at or after {bookmark.value}")


def _record(part: Pipeline, bookmark: Bookmark | None) -> dict[str, object]:
    at = bookmark.updated_at if bookmark else None
    return {
        "pipeline": part.name,
        "target": part.table.qualified_name,
        "connection": part.target_connection,
        "column": bookmark.column if bookmark else part.incremental_column,
        "value": bookmark.value if bookmark else None,
        "updated_at": instant_text(at) if at else None,
    }


def _cells(part: Pipeline, bookmark: Bookmark | None) -> tuple[str, ...]:
    if bookmark is None:
        return part.name, str(part.incremental_column), "none: the next run reads everything", ""
    at = bookmark.updated_at
    return part.name, bookmark.column, bookmark.value, f"{at:%Y-%m-%d %H:%M}" if at else ""
