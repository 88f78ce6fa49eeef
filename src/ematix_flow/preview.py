"""A pipeline's plan as data and as text."""

from __future__ import annotations

from .engine.explain import PreviewResult, TargetPlan, TransformPlan

__all__ = ["PreviewResult", "TargetPlan", "TransformPlan", "render_text"]


def render_text(plan: PreviewResult, *, verbose: bool = False, color: bool = False) -> str:
    """The page that `flow preview` prints; nothing is printed here."""
    from io import StringIO

    from rich.console import Console

    from .cli.plan_text import describe_plan

    page = StringIO()
    console = Console(
        file=page,
        width=120,
        force_terminal=color,
        color_system="standard" if color else None,
        markup=False,
        emoji=False,
        highlight=False,
    )
    for part in describe_plan(plan, verbose=verbose, colored=color):
        console.print(part, crop=False)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())
