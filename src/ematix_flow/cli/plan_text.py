"""A plan as a page for people: the header, each target, its statements, and the notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..spec.redaction import without_secrets
from .screen import aligned, facts
from .sql_text import laid_out

if TYPE_CHECKING:
    from ..engine.explain import PreviewResult, TargetPlan, TransformPlan

_SHORT_LINES = 14
"""Lines of a statement that are shown unless everything is asked for."""


def describe_plan(plan: PreviewResult, *, verbose: bool = False, colored: bool = False) -> list[RenderableType]:
    """The parts of the page, in order; statements are highlighted where there are colours."""
    parts: list[RenderableType] = [_header(plan), facts(_plan_facts(plan))]
    if verbose:
        parts += ["", _heading("Steps"), _bullets(plan.steps)]
    if plan.source_query:
        parts += ["", _heading("Source query"), _statements([plan.source_query], verbose=verbose, colored=colored)]
    if plan.cleaning:
        parts += ["", _heading("Cleaned columns"), _bullets(plan.cleaning)]
    if rows := _row_transforms(plan):
        parts += ["", _heading("Row transforms"), _bullets(rows)]
    if len(plan.targets) == 1 or verbose:
        for target in plan.targets:
            parts += ["", *_target_page(target, verbose=verbose, colored=colored)]
    else:
        parts += ["", aligned(map(_target_line, plan.targets)), "Show each target's plan with -v."]
    incoming = [target.source_sql for target in plan.targets if target.source_sql] or [plan.source_sql or ""]
    if any(incoming) and verbose:
        parts += ["", _heading("Incoming rows"), _statements(incoming, verbose=verbose, colored=colored)]
    if plan.transforms_post:
        parts += ["", _heading("After the load"), _bullets([_step_line(step, plan) for step in plan.transforms_post])]
    if plan.notes:
        parts += ["", _heading("Notes"), _bullets(plan.notes)]
    return parts


def _header(plan: PreviewResult) -> Text:
    return Text.assemble(("DRY RUN" if plan.is_dry_run else "PREVIEW", "bold cyan"), " ", (plan.pipeline_name, "bold"))


def _heading(text: str) -> Text:
    return Text(text, "bold")


def _plan_facts(plan: PreviewResult) -> Iterable[tuple[str, RenderableType]]:
    yield "Schedule", plan.schedule or "—"
    yield "Mode", plan.mode or "—"
    yield "Source", _connection(plan.source_connection_name, plan.source_connection_info)


def _target_page(target: TargetPlan, *, verbose: bool, colored: bool) -> list[RenderableType]:
    title = Text.assemble(("Target ", "bold"), (target.schema_qualified_name, "bold cyan"))
    if not target.plan_sql:
        return [title, facts(_target_facts(target))]
    plan = Text.assemble(("SQL plan", "bold"), f" ({target.plan_sql_label})")
    statements = _statements(target.plan_sql, verbose=verbose, colored=colored)
    return [title, facts(_target_facts(target)), "", plan, statements]


def _target_facts(target: TargetPlan) -> Iterable[tuple[str, RenderableType]]:
    yield "Connection", _connection(target.target_connection_name, target.target_connection_info)
    yield "Path", f"{target.path or 'not known'} ({target.path_reason})"
    yield "Columns", ", ".join((*target.declared_columns, *(f"{name} (auto)" for name in target.augmented_columns)))
    if target.merge_keys:
        yield "Merge keys", _reasoned(target.merge_keys, target.merge_keys_reason)
    if target.compare_columns:
        yield "Compare columns", _reasoned(target.compare_columns, target.compare_columns_reason)
    if target.incremental_column is not None:
        yield "Bookmark", _bookmark(target)
    if target.guarantee:
        yield "Guarantee", target.guarantee
    if target.dry_run_error is not None:
        yield "Dry run", Text(f"failed: {without_secrets(target.dry_run_error)}", "red")
    elif target.dry_run_rows_affected:
        yield "Dry run", Text(_counts(target.dry_run_rows_affected), "green")


def _bookmark(target: TargetPlan) -> str:
    if target.watermark_before is not None:
        return f"{target.incremental_column}, at {target.watermark_before} before"
    return (
        f"{target.incremental_column}, none before" if target.dry_run_rows_affected else target.incremental_column or ""
    )


def _row_transforms(plan: PreviewResult) -> list[str]:
    """In order; where targets differ, each line says whose it is."""
    if len({target.transforms_pre for target in plan.targets}) == 1:
        return list(plan.targets[0].transforms_pre)
    return [f"{each.schema_qualified_name}: {line}" for each in plan.targets for line in each.transforms_pre]


def _step_line(step: TransformPlan, plan: PreviewResult) -> str:
    where = f" after {step.target}" if len(plan.targets) > 1 else ""
    return f"{step.kind}{where}: {step.summary}"


def _target_line(target: TargetPlan) -> tuple[str, ...]:
    keys = f"keys {', '.join(target.merge_keys)}" if target.merge_keys else "no keys"
    status = "planned"
    if target.dry_run_error is not None:
        status = f"failed: {without_secrets(target.dry_run_error)}"
    elif target.dry_run_rows_affected:
        status = _counts(target.dry_run_rows_affected)
    return target.schema_qualified_name, target.mode, keys, target.path, status


def _counts(rows: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {count}" for name, count in rows.items())


def _reasoned(names: Sequence[str], reason: str | None) -> str:
    return f"{', '.join(names)} [{reason}]" if reason else ", ".join(names)


def _connection(name: str, info: Mapping[str, object]) -> str:
    rest = [f"{key}={value}" for key, value in info.items() if key not in ("name", "kind") and value is not None]
    return f"{name} ({', '.join([str(info.get('kind', '?')), *rest])})"


def _statements(statements: Sequence[str], *, verbose: bool, colored: bool) -> Table:
    """Each statement with its number."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=0)
    table.add_column(style="dim", no_wrap=True, justify="right")
    table.add_column(overflow="fold")
    for number, statement in enumerate(statements, 1):
        shown, hidden = _shortened(laid_out(statement.strip()), verbose)
        text = _highlighted(shown) if colored else Text(shown)
        if hidden:
            text.append(f"\n… {hidden} more lines; -v shows them", "dim italic")
        table.add_row("", f"{number}.", text)
    return table


def _shortened(statement: str, verbose: bool) -> tuple[str, int]:
    lines = statement.splitlines()
    # One or two hidden lines are not worth a line that says so.
    if verbose or len(lines) <= _SHORT_LINES + 2:
        return statement, 0
    return "\n".join(lines[:_SHORT_LINES]), len(lines) - _SHORT_LINES


def _highlighted(statement: str) -> Text:
    from rich.syntax import Syntax

    text = Syntax("", "sql", theme="ansi_dark", background_color="default").highlight(statement)
    text.rstrip()
    return text


def _bullets(lines: Sequence[str]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=0)
    table.add_column(width=1)
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row("", "-", without_secrets(line))
    return table
