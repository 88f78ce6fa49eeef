"""truncate: the incoming rows take the place of everything the target holds."""

from __future__ import annotations

from ..spec.modes import MODE_FACTS
from .append import stamped
from .base import Guard, Intent, Replace, Strategy
from .guard import duplicate_key

__all__ = ["Truncate"]


class Truncate(Strategy):
    """Replace all rows; an empty source gives an empty table."""

    name = "truncate"
    change_type = Replace
    facts = MODE_FACTS["truncate"]
    fills_gaps = True
    label = "truncate + insert"

    def guards(self, intent: Intent) -> tuple[Guard, ...]:
        """A primary key may occur once in the incoming rows."""
        if not (intent.check_keys and intent.primary_key):
            return ()
        return *self.null_guards(intent), duplicate_key(intent.primary_key)

    def change(self, intent: Intent) -> Replace:
        """All incoming rows."""
        return Replace(stamped(self.columns(intent)))
