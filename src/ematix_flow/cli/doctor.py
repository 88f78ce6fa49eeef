"""`flow doctor`: what works here and what does not."""

from __future__ import annotations

from dataclasses import asdict

import typer

from .failure import FAILED, reported
from .options import Format, Modules, Shape
from .screen import Header, aligned, answers, show, show_json
from .workspace import opened, users_prints

_HEADERS = (
    Header("NAME", folds=False),
    Header("KIND", folds=False),
    Header("STATUS", folds=False),
    Header("ms", "right", folds=False),
    Header("DETAIL"),
)


def run_doctor(modules: Modules = None, format: Shape = Format.TEXT) -> None:
    """Check Java, Spark and the cache folder, and ask every connection whether it answers."""
    from ..doctor import examine

    with reported(), opened(modules, needs_modules=False) as project:
        with users_prints():
            findings = list(examine(project))
        if format is Format.JSON:
            show_json([asdict(each) for each in findings])
        else:
            rows = [(each.name, each.kind, each.status, str(each.ms), each.detail) for each in findings]
            show(answers(), aligned(rows, _HEADERS))
        if any(each.status == "fail" for each in findings):
            raise typer.Exit(FAILED)
