"""The statements that make a change to a table; the load runs them, a preview prints them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from ..strategies.base import CHANGE_LABEL, Append, Change, Replace, Upsert

__all__ = ["CHANGED", "STAGED", "Spelling", "Statement", "bind", "change_statements"]

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


@dataclass(frozen=True)
class Spelling:
    """How one database says a change to one table."""

    target: str
    quote: Callable[[str], str]
    render: Callable[[exp.Query], str]
    casts: Mapping[str, str] = field(default_factory=dict)
    """Columns that are not compared in their own type, and what casts them back."""

    def names(self, columns: Sequence[str]) -> str:
        """The columns, one after the other."""
        return ", ".join(self.quote(name) for name in columns)

    def stored(self, name: str, prefix: str = "") -> str:
        """A column of the change as the table keeps it."""
        value = f"{prefix}{self.quote(name)}"
        return f"CAST({value} AS {self.casts[name]})" if name in self.casts else value

    def empty(self) -> str:
        """Takes every row out of the table."""
        return f"DELETE FROM {self.target}"

    def insert(self, rows: exp.Query) -> str:
        """Puts the rows of a query into the table."""
        columns, query = rows.named_selects, self.render(rows)
        if any(name in self.casts for name in columns):
            query = f"SELECT {', '.join(map(self.stored, columns))} FROM ({query}) AS _rows"
        return f"INSERT INTO {self.target} ({self.names(columns)}) {query}"


def change_statements(change: Change, spelling: Spelling) -> list[Statement]:
    """What to run, in order; for an upsert the first fills the change table."""
    match change:
        case Append(rows):
            return [Statement(spelling.insert(rows))]
        case Replace(rows):
            return [Statement(spelling.empty()), Statement(spelling.insert(rows))]
        case Upsert():
            return _upsert(change, spelling)


def _upsert(change: Upsert, spelling: Spelling) -> list[Statement]:
    """Rows are found by key and label, so no unique index is needed and no other row can be hit."""
    target, quote = spelling.target, spelling.quote
    label = quote(CHANGE_LABEL)
    keyed = " AND ".join(f"c.{quote(key)} = {target}.{quote(key)}" for key in change.keys)
    changed = [name for name in change.columns if name not in change.keys]
    settings = ", ".join(f"{quote(name)} = {spelling.stored(name, 'c.')}" for name in changed)
    statements = [Statement(f"CREATE TEMPORARY TABLE {CHANGED} AS {spelling.render(change.rows)}")]
    if change.removes:
        gone = f"SELECT 1 FROM {CHANGED} AS c WHERE {keyed} AND c.{label} = 'remove'"
        statements.append(Statement(f"DELETE FROM {target} WHERE EXISTS ({gone})", "remove"))
    if settings:
        update = f"UPDATE {target} SET {settings} FROM {CHANGED} AS c"
        statements.append(Statement(f"{update} WHERE {keyed} AND c.{label} NOT IN ('insert', 'remove')", "update"))
    values = ", ".join(map(spelling.stored, change.columns))
    insert = f"INSERT INTO {target} ({spelling.names(change.columns)}) SELECT {values} FROM {CHANGED}"
    insert += f" WHERE {label} = 'insert'"
    statements.append(Statement(insert, "insert"))
    return statements


def bind(query: exp.Query, names: Mapping[str, exp.Table | exp.Subquery]) -> exp.Query:
    """A copy of `query` in which the logical tables are the real ones; aliases stay."""
    bound = query.copy()
    for table in list(bound.find_all(exp.Table)):
        real = names.get(table.name) if not table.db else None
        if real is not None:
            table.replace(exp.alias_(real.copy(), table.alias or table.name, table=True))
    return bound
