"""scd2: every change of a key opens a new version and closes the one before, so the table holds the whole history."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ..errors import SpecError
from ..spec.modes import MODE_FACTS
from ..types import Boolean, Bytes, TimestampTZ
from .base import (
    CHANGE_LABEL,
    EVENT_TIME,
    META_COLUMNS,
    TARGET,
    Added,
    Counts,
    Guard,
    Intent,
    Strategy,
    Upsert,
)
from .duplicates import chosen_guards, only_chosen
from .guard import duplicate_key, empty_source, null_bookmarks, null_event_time, null_key
from .late import count_late, late_event
from .query import absent, all_of, case, cell, label, named, select, source, union, value
from .timeline import versions

__all__ = ["Scd2"]


class Scd2(Strategy):
    """Keep history: close the version that changed and open the new one.

    Incoming rows are compared with the newest version of their key, open or closed. A row at exactly that version's
    instant corrects it, an earlier row is late and follows the late policy. Several rows of one key apply in order.
    """

    name = "scd2"
    change_type = Upsert
    facts = MODE_FACTS["scd2"]
    label = "SCD2: change table of opened and closed versions, then update + insert"
    adds = (
        Added("valid_from", TimestampTZ(), primary_key=True),
        Added("valid_to", TimestampTZ(), nullable=True),
        Added("is_current", Boolean()),
        Added("row_hash", Bytes()),
        *META_COLUMNS,
    )

    def check(self, intent: Intent) -> None:
        """Besides the usual: there is something to compare."""
        super().check(intent)
        if not intent.compare:
            raise SpecError(
                "mode 'scd2' has no columns to compare: every declared column is a key",
                hint="declare a column beside the keys, or use merge",
            )

    def guards(self, intent: Intent) -> tuple[Guard, ...]:
        """Keys and event times are present and unique together; rows are not late; deletes need rows."""
        guards = [*self.null_guards(intent)]
        if intent.event_time:
            guards.append(null_event_time(intent))
        unique = (*intent.keys, EVENT_TIME) if intent.event_time else intent.keys
        guards.append(duplicate_key(unique, intent.event_column, intent.order_by))
        if intent.late == "error":
            guards.append(late_event(intent))
        if intent.deletes and not intent.allow_empty_source:
            guards.append(empty_source())
        return null_key(intent), *null_bookmarks(intent), *chosen_guards(guards, intent, self.user_columns(intent))

    def change(self, intent: Intent) -> Upsert:
        """Versions that open, close, move their end or are corrected."""
        columns = self.columns(intent)
        parts, rows = versions(intent, self.user_columns(intent), columns)
        if intent.deletes == "soft":
            rows = union(rows, _closed(intent, columns, "delete"))
        elif intent.ttl is not None:
            # A vanished key is closed once; with soft deletes that is the deletion.
            rows = union(rows, _closed(intent, columns, "expire"))
        for name, part in parts.items():
            rows = rows.with_(name, as_=part, copy=False)
        rows = only_chosen(rows, intent, self.user_columns(intent))
        return Upsert(rows, (*intent.keys, "valid_from"), columns)

    def late(self, intent: Intent) -> exp.Query | None:
        """Counts what `late="ignore"` drops; late rows that say nothing new are not counted."""
        return count_late(intent) if intent.late == "ignore" else None

    def counts(self, labels: Mapping[str, int], *, read: int, late: int = 0) -> Counts:
        """A correction that also ends the current version (`replace`) is corrected and closed."""
        inserted, replaced = labels.get("insert", 0), labels.get("replace", 0)
        corrected = labels.get("correct", 0) + replaced
        return Counts(
            read=read,
            inserted=inserted,
            unchanged=read - inserted - corrected - late,
            closed_changed=labels.get("close", 0) + replaced,
            closed_missing=labels.get("delete", 0),
            closed_ttl=labels.get("expire", 0),
            corrected=corrected,
            late=late,
        )


def _closed(intent: Intent, columns: tuple[str, ...], word: str) -> exp.Select:
    """Current versions of keys that the source no longer shows, ended now; an older load never ends before it began."""
    began_later = exp.GT(this=cell("valid_from", "t"), expression=value("now"))
    ends: dict[str, exp.Expr] = {
        "valid_to": case((began_later, cell("valid_from", "t")), default=value("now")),
        "is_current": exp.false(),
    }
    shown = [named(ends[name], name) if name in ends else cell(name, "t") for name in columns]
    conditions: list[exp.Expr] = [cell("is_current", "t")]
    if word == "expire":
        conditions.append(exp.LT(this=cell("valid_from", "t"), expression=value("expired_before")))
    shown.append(named(label(word), CHANGE_LABEL))
    return absent(select(*shown, from_=source(TARGET, "t"), where=all_of(*conditions)), intent.keys, "t")
