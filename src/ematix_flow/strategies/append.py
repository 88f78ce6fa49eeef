"""append: every incoming row is added."""

from __future__ import annotations

from sqlglot import exp

from ..spec.modes import MODE_FACTS
from .base import INCOMING, TARGET, Append, Guard, Intent, Strategy
from .guard import duplicate_key, existing_key, null_bookmarks
from .query import all_of, cell, matches, named, number, select, source, value

__all__ = ["AppendRows", "stamped"]


class AppendRows(Strategy):
    """Add every incoming row."""

    name = "append"
    change_type = Append
    facts = MODE_FACTS["append"]
    fills_gaps = True
    label = "insert-select"

    def guards(self, intent: Intent) -> tuple[Guard, ...]:
        """A primary key may occur once, in the incoming rows and in the target; a bookmark needs a value."""
        resumed = null_bookmarks(intent)
        if not (intent.check_keys and intent.primary_key):
            return resumed
        return *resumed, *self.null_guards(intent), duplicate_key(intent.primary_key), existing_key(intent)

    def change(self, intent: Intent) -> Append:
        """All incoming rows; of those at the bookmark itself, the ones that no earlier load has brought."""
        rows = stamped(self.columns(intent))
        if intent.incremental is not None and intent.resume:
            rows = rows.where(
                exp.Not(this=exp.Paren(this=all_of(*_brought_before(intent, intent.incremental)))), copy=False
            )
        return Append(rows)


def _brought_before(intent: Intent, column: str) -> tuple[exp.Expr, exp.Expr]:
    held = select(number(1), from_=source(TARGET, "t"), where=matches(intent.primary_key, "t", "i"))
    return exp.EQ(this=cell(column, "i"), expression=value("bookmark")), exp.Exists(this=held)


def stamped(columns: tuple[str, ...]) -> exp.Select:
    """The incoming rows with the instant and the id of this load."""
    stamps = {"_loaded_at": "now", "_batch_id": "run_id"}
    shown = [named(value(stamps[name]), name) if name in stamps else cell(name, "i") for name in columns]
    return select(*shown, from_=source(INCOMING, "i"))
