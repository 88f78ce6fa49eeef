"""The facts of each mode that declarations, records and strategies go by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["MODE_FACTS", "ModeFacts", "mode_facts", "modes_with"]


@dataclass(frozen=True, kw_only=True)
class ModeFacts:
    """What a load of a mode does to its table."""

    needs_keys: bool = False
    """Rows are told apart by keys."""
    updates: bool = False
    """Changes rows in place, and says which columns it sets."""
    keeps_history: bool = False
    """Closes versions instead of changing rows; understands event time and expiry."""
    replaces: bool = False
    """Takes all rows away first, so the source is read whole."""
    deletes: tuple[str, ...] = ()
    """What may become of rows that the source no longer shows."""


_MERGE = ModeFacts(needs_keys=True, updates=True, deletes=("hard", "soft"))

MODE_FACTS: Mapping[str, ModeFacts] = {
    "append": ModeFacts(),
    "truncate": ModeFacts(replaces=True),
    "merge": _MERGE,
    "scd1": _MERGE,
    "scd2": ModeFacts(needs_keys=True, keeps_history=True, deletes=("soft",)),
}


def mode_facts(mode: str) -> ModeFacts:
    """The facts of a mode; those of no mode where the word is none, such as the record of a step has."""
    return MODE_FACTS.get(mode, ModeFacts())


def modes_with(fact: Callable[[ModeFacts], object]) -> tuple[str, ...]:
    """The modes of which something is true."""
    return tuple(mode for mode, facts in MODE_FACTS.items() if fact(facts))
