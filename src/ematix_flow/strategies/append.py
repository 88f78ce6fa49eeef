"""append: every incoming row is added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import INCOMING, Append, Guard, Intent, Strategy
from .guard import duplicate_key, existing_key
from .query import cell, named, select, source, value

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["AppendRows", "stamped"]


class AppendRows(Strategy):
    """Add every incoming row."""

    name = "append"

    def guards(self, intent: Intent) -> tuple[Guard, ...]:
        """A primary key may occur once, in the incoming rows and in the target."""
        if not (intent.check_keys and intent.primary_key):
            return ()
        return duplicate_key(intent.primary_key), existing_key(intent)

    def change(self, intent: Intent) -> Append:
        """All incoming rows."""
        return Append(stamped(self.columns(intent)))


def stamped(columns: tuple[str, ...]) -> exp.Select:
    """The incoming rows with the instant and the id of this load."""
    stamps = {"_loaded_at": "now", "_batch_id": "run_id"}
    shown = [named(value(stamps[name]), name) if name in stamps else cell(name, "i") for name in columns]
    return select(*shown, from_=source(INCOMING, "i"))
