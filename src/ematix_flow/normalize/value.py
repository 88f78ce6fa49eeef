"""Normalizers that set values: defaults, NULL in place of a value, and the user's own SQL."""
# ruff: noqa: N801 - markers are written in lower case, as the functions they read like

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import SpecError
from .base import Marker, literal

__all__ = ["default", "derive", "not_null_or", "nullif", "sql"]


@dataclass(frozen=True)
class default(Marker):
    """``value`` in place of NULL."""

    value: object
    light = True

    def __post_init__(self) -> None:
        literal(self.value)

    def to_sql(self, col: str) -> str:
        return f"DEFAULT_TO({col}, {literal(self.value)})"


@dataclass(frozen=True)
class not_null_or(default):
    """``value`` in place of NULL: another word for `default`."""


@dataclass(frozen=True)
class nullif(Marker):
    """NULL in place of ``value``, and of a text that says the same."""

    value: object

    def __post_init__(self) -> None:
        literal(self.value)

    def to_sql(self, col: str) -> str:
        if isinstance(self.value, str):
            return f"NULLIF(TEXT_OF({col}), {literal(self.value)})"
        return f"NULL_WHERE({col}, {literal(self.value)})"


@dataclass(frozen=True)
class sql(Marker):
    """The value of an SQL expression in the source's words, in which the word ``col`` is the value so far.

    ``col`` inside quotes and behind a point stays what it is. Other names are the source's columns.
    """

    expression: str
    native = True

    def __post_init__(self) -> None:
        _check_expression("sql", self.expression, 'sql("col * 100")')

    def to_sql(self, col: str) -> str:
        return _COL.sub(lambda found: col if found[0] == "col" else found[0], self.expression)


@dataclass(frozen=True)
class derive(Marker):
    """The value of an SQL expression over the source's columns, in place of a column; always the first marker.

    The expression is in the words of the source.
    """

    expression: str
    derives = True
    native = True

    def __post_init__(self) -> None:
        _check_expression("derive", self.expression, "derive(\"first_name || ' ' || last_name\")")

    def to_sql(self, col: str) -> str:
        return f"({self.expression})"


_COL = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|(?<![\w.$])col(?![\w$])""")


def _check_expression(marker: str, expression: object, example: str) -> None:
    if not isinstance(expression, str) or not expression.strip():
        raise SpecError(f"{marker} needs an SQL expression", hint=f"write {example}")
