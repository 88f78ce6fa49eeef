"""`flow config`: the settings in force, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from .failure import WRONG_CALL, reported
from .options import Format, Shape
from .screen import Header, aligned, answers, show, show_json

if TYPE_CHECKING:
    from ..config import Settings

_HEADERS = (Header("setting", folds=False), Header("value"), Header("origin"))


def show_config(format: Shape = Format.TEXT) -> None:
    """Show every setting of the project in this folder: its value, without secrets, and where it comes from."""
    from ..config import Settings

    with reported(code=WRONG_CALL):
        found = list(_rows(Settings.load()))
        if format is Format.JSON:
            show_json([{"setting": name, "value": value, "origin": origin} for name, value, origin in found])
        else:
            show(answers(), aligned([(name, _text(value), origin) for name, value, origin in found], _HEADERS))


def _rows(settings: Settings) -> Iterator[tuple[str, object, str]]:
    from ..spec.redaction import redact

    for each in fields(settings):
        if each.name != "origins":
            value = getattr(settings, each.name)
            yield each.metadata.get("key", each.name), redact(each.name, value), settings.origins[each.name]


def _text(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={item}" for key, item in value.items()) or "(none)"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "(none)"
    return "(none)" if value is None else str(value)
