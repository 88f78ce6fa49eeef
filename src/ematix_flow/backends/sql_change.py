"""The statements that make a change to a table; the load runs them, a preview prints them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from ..strategies.base import CHANGE_LABEL, Append, Change, Replace, Upsert

__all__ = ["BROUGHT", "CHANGED", "STAGED", "Spelling", "Statement", "bind", "change_statements"]

STAGED = "_ematix_incoming"
"""The temporary name of the incoming rows."""
BROUGHT = "_ematix_brought"
"""The temporary name of rows from elsewhere, as they were given."""
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

    def of(self, change: Upsert) -> Spelling:
        """How this change is said, where the database can do more for it than for others."""
        return self

    def at_once(self, change: Upsert) -> str | None:
        """The whole change as one statement, where the database has one that is faster and can tell what it did."""
        return None

    @property
    def finds_rows(self) -> bool:
        """Whether the change knows where in the table the rows are that it touches."""
        return False

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

    def fill(self, change: Upsert) -> str:
        """Makes the change table, with the rows of the change."""
        return f"CREATE TEMPORARY TABLE {CHANGED} AS {self.render(change.rows)}"

    def remove(self, keys: Sequence[str]) -> str:
        """Takes the rows out of the table that the change removes."""
        gone = f"SELECT 1 FROM {CHANGED} AS c WHERE {self.keyed(keys, self.target)} AND {self.removed}"
        return f"DELETE FROM {self.target} WHERE EXISTS ({gone})"

    def update(self, keys: Sequence[str], columns: Sequence[str]) -> str:
        """Gives rows of the table that exist their new values."""
        settings = ", ".join(f"{self.quote(name)} = {self.stored(name, 'c.')}" for name in columns)
        update = f"UPDATE {self.target} SET {settings} FROM {CHANGED} AS c"
        return f"{update} WHERE {self.keyed(keys, self.target)} AND {self.updated}"

    def keyed(self, keys: Sequence[str], target: str) -> str:
        """Whether a row of the change `c` and one of the table have one key."""
        return " AND ".join(f"c.{self.quote(key)} = {target}.{self.quote(key)}" for key in keys)

    @property
    def removed(self) -> str:
        """Whether a row of the change `c` takes one out."""
        return f"c.{self.quote(CHANGE_LABEL)} = 'remove'"

    @property
    def updated(self) -> str:
        """Whether a row of the change `c` gives one that exists new values."""
        return f"c.{self.quote(CHANGE_LABEL)} NOT IN ('insert', 'remove')"


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
    spelling = spelling.of(change)
    if (whole := spelling.at_once(change)) is not None:
        return [Statement(whole)]
    statements = [Statement(spelling.fill(change))]
    if change.removes:
        statements.append(Statement(spelling.remove(change.keys), "remove"))
    changed = [name for name in change.columns if name not in change.keys]
    if changed:
        statements.append(Statement(spelling.update(change.keys, changed), "update"))
    values = ", ".join(map(spelling.stored, change.columns))
    insert = f"INSERT INTO {spelling.target} ({spelling.names(change.columns)}) SELECT {values} FROM {CHANGED}"
    insert += f" WHERE {spelling.quote(CHANGE_LABEL)} = 'insert'"
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
