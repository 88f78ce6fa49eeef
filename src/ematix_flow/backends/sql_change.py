"""The statements that make a change to a table; the load runs them, a preview prints them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..strategies.base import CHANGE_LABEL, Append, Change, Replace, Upsert

__all__ = ["CHANGED", "STAGED", "Statement", "bind", "change_statements"]

STAGED = "_ematix_incoming"
"""The temporary name of the incoming rows."""
CHANGED = "_ematix_change"
"""The temporary table of change rows: complete after-images, each with its label."""


@dataclass(frozen=True)
class Statement:
    """One statement, and the labels that make it worth running; none means always."""

    sql: str
    labels: str | None = None
    """`remove`, `insert`, or `update` for every other label: rows that exist and get new values."""

    def is_needed(self, labels: Mapping[str, int]) -> bool:
        """Whether the change table holds rows for it."""
        if self.labels is None:
            return True
        if self.labels == "update":
            return bool(set(labels) - {"insert", "remove"})
        return self.labels in labels

    def expected(self, labels: Mapping[str, int]) -> int:
        """How many rows it must touch: a key that stands twice in the target would make it more."""
        if self.labels == "update":
            return sum(count for label, count in labels.items() if label not in ("insert", "remove"))
        return labels.get(self.labels or "", 0)


def change_statements(
    change: Change, target: str, quote: Callable[[str], str], render: Callable[[exp.Query], str]
) -> list[Statement]:
    """What to run, in order; for an upsert the first fills the change table."""

    def names(columns: Sequence[str]) -> str:
        return ", ".join(quote(name) for name in columns)

    match change:
        case Append(rows):
            return [Statement(f"INSERT INTO {target} ({names(rows.named_selects)}) {render(rows)}")]
        case Replace(rows):
            insert = f"INSERT INTO {target} ({names(rows.named_selects)}) {render(rows)}"
            return [Statement(f"DELETE FROM {target}"), Statement(insert)]
        case Upsert():
            return _upsert(change, target, quote, render)


def _upsert(
    change: Upsert, target: str, quote: Callable[[str], str], render: Callable[[exp.Query], str]
) -> list[Statement]:
    """Rows are found by key and label, so no unique index is needed and no other row can be hit."""
    label = quote(CHANGE_LABEL)
    keyed = " AND ".join(f"c.{quote(key)} = {target}.{quote(key)}" for key in change.keys)
    columns = ", ".join(quote(name) for name in change.columns)
    settings = ", ".join(f"{quote(name)} = c.{quote(name)}" for name in change.columns if name not in change.keys)
    statements = [Statement(f"CREATE TEMPORARY TABLE {CHANGED} AS {render(change.rows)}")]
    if change.removes:
        gone = f"SELECT 1 FROM {CHANGED} AS c WHERE {keyed} AND c.{label} = 'remove'"
        statements.append(Statement(f"DELETE FROM {target} WHERE EXISTS ({gone})", "remove"))
    if settings:
        update = f"UPDATE {target} SET {settings} FROM {CHANGED} AS c"
        statements.append(Statement(f"{update} WHERE {keyed} AND c.{label} NOT IN ('insert', 'remove')", "update"))
    insert = f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {CHANGED} WHERE {label} = 'insert'"
    statements.append(Statement(insert, "insert"))
    return statements


def bind(query: exp.Query, names: Mapping[str, exp.Table]) -> exp.Query:
    """A copy of `query` in which the logical tables are the real ones; aliases stay."""
    bound = query.copy()
    for table in list(bound.find_all(exp.Table)):
        real = names.get(table.name) if not table.db else None
        if real is not None:
            table.replace(exp.alias_(real.copy(), table.alias or table.name, table=True))
    return bound
