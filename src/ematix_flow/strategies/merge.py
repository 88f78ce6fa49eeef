"""merge (= scd1): new keys are inserted, changed rows are updated in place, the rest is left alone."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ..spec.modes import MODE_FACTS
from ..spec.table import DELETED
from .base import CHANGE_LABEL, INCOMING, META_COLUMNS, TARGET, Arrival, Counts, Guard, Intent, Strategy, Upsert
from .duplicates import chosen_guards, only_chosen
from .guard import duplicate_key, empty_source, null_bookmarks, null_key
from .query import (
    absent,
    any_of,
    case,
    cell,
    cells,
    differs,
    join,
    label,
    matches,
    named,
    nulls,
    select,
    source,
    union,
    value,
)

__all__ = ["Merge"]


class Merge(Strategy):
    """Keep one row per key: its newest values."""

    name = "merge"
    change_type = Upsert
    facts = MODE_FACTS["merge"]
    marks_deletes = True
    label = "change table, then update + insert"

    def guards(self, intent: Intent) -> tuple[Guard, ...]:
        """Keys are present and unique among the incoming rows; deletes need rows."""
        guards = [*self.null_guards(intent), duplicate_key(intent.keys, order_by=intent.order_by)]
        if intent.deletes and not intent.allow_empty_source:
            guards.append(empty_source())
        return null_key(intent), *null_bookmarks(intent), *chosen_guards(guards, intent, self.user_columns(intent))

    def change(self, intent: Intent) -> Upsert:
        """New and changed rows, and with deletes the rows whose key has vanished."""
        columns = self.columns(intent)
        rows: exp.Query = self._changed(intent, columns)
        if intent.deletes == "hard":
            rows = union(rows, _vanished(intent, columns))
        elif intent.deletes == "soft":
            rows = union(rows, _marked(intent, columns))
        rows = only_chosen(rows, intent, self.user_columns(intent))
        arrival = None if intent.deletes or intent.order_by else self._arrival(intent, columns)
        return Upsert(rows, intent.keys, columns, removes=intent.deletes == "hard", arrival=arrival)

    def counts(self, labels: Mapping[str, int], *, read: int, late: int = 0) -> Counts:
        """A row that is neither new nor changed is unchanged."""
        inserted, updated = labels.get("insert", 0), labels.get("update", 0)
        return Counts(
            read=read,
            inserted=inserted,
            updated=updated,
            unchanged=read - inserted - updated,
            deleted=labels.get("remove", 0) + labels.get("delete", 0),
        )

    def _arrival(self, intent: Intent, columns: tuple[str, ...]) -> Arrival | None:
        """Every incoming row for itself; None where values come in that would be new and must not be looked at."""
        if not intent.update or set(self.user_columns(intent)) != {*intent.keys, *intent.update}:
            return None
        stamps = tuple(added.name for added in META_COLUMNS if added.name in columns)
        rows = select(*(_after(name, intent) for name in columns), from_=source(INCOMING, "i"))
        return Arrival(rows, (*intent.update, *stamps), differs(intent.update, "i", "t"))

    def _changed(self, intent: Intent, columns: tuple[str, ...]) -> exp.Select:
        """The whole row as it must stand afterwards, so that whoever applies it need not know what was compared."""
        shown = [_after(name, intent) for name in columns]
        word = case((_is_new(intent), label("insert")), default=label("update"))
        query = select(*shown, named(word, CHANGE_LABEL), from_=source(INCOMING, "i"))
        query = join(query, source(TARGET, "t"), matches(intent.keys, "t", "i"), outer=True)
        return query.where(any_of(_is_new(intent), *_changes(intent)), copy=False)


def _changes(intent: Intent) -> list[exp.Expr]:
    changed: list[exp.Expr] = [differs(intent.update, "i", "t")] if intent.update else []
    # A key that is back is news, whatever its row says.
    return [*changed, cell(DELETED, "t")] if intent.deletes == "soft" else changed


def _is_new(intent: Intent) -> exp.Expr:
    return nulls(intent.keys[:1], "t")


def _after(name: str, intent: Intent) -> exp.Expr:
    match name:
        case "_loaded_at":
            return named(value("now"), name)
        case "_batch_id":
            return named(value("run_id"), name)
        case str() if name == DELETED and intent.deletes == "soft":
            return named(exp.false(), name)
        case _ if name in intent.keys or name in intent.update:
            return cell(name, "i")
        case _:
            return named(case((_is_new(intent), cell(name, "i")), default=cell(name, "t")), name)


def _vanished(intent: Intent, columns: tuple[str, ...]) -> exp.Select:
    word = named(label("remove"), CHANGE_LABEL)
    return absent(select(*cells(columns, "t"), word, from_=source(TARGET, "t")), intent.keys, "t")


def _marked(intent: Intent, columns: tuple[str, ...]) -> exp.Select:
    """Rows whose key has vanished and that are not marked yet."""
    news: dict[str, exp.Expr] = {DELETED: exp.true(), "_loaded_at": value("now"), "_batch_id": value("run_id")}
    shown = [named(news[name], name) if name in news else cell(name, "t") for name in columns]
    shown.append(named(label("delete"), CHANGE_LABEL))
    # A table that differs from its declaration may hold NULL, which marks nothing.
    unmarked = exp.NullSafeNEQ(this=cell(DELETED, "t"), expression=exp.true())
    return absent(select(*shown, from_=source(TARGET, "t"), where=unmarked), intent.keys, "t")
