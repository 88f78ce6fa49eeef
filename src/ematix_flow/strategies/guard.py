"""The guards that several strategies share: offences to look for before anything is changed."""

from __future__ import annotations

from sqlglot import exp

from .base import EVENT_TIME, INCOMING, TARGET, Guard, Intent
from .query import as_text, cell, derived, duplicates, join, matches, named, nulls, number, select, source, value

__all__ = [
    "duplicate_key",
    "empty_source",
    "existing_key",
    "null_bookmarks",
    "null_event_time",
    "null_key",
    "null_value",
]


def null_key(intent: Intent) -> Guard:
    """Refuses incoming rows without a key: they could never be found again."""
    shown = [named(as_text(cell(name, "i")), name) for name in intent.keys]
    query = select(*shown, from_=source(INCOMING, "i"), where=nulls(intent.keys, "i")).limit(6, copy=False)
    return Guard(
        "null-key",
        query,
        f"incoming rows have NULL in their key ({', '.join(intent.keys)})",
        "filter them out in the source query, or choose keys that are never NULL",
    )


def null_value(intent: Intent, columns: tuple[str, ...]) -> Guard:
    """Refuses incoming rows without a value where the table wants one."""
    shown = [named(as_text(cell(name, "i")), name) for name in dict.fromkeys((*intent.primary_key, *columns))]
    query = select(*shown, from_=source(INCOMING, "i"), where=nulls(columns, "i")).limit(6, copy=False)
    return Guard(
        "null-value",
        query,
        f"incoming rows have NULL where the table wants a value ({', '.join(columns)})",
        "declare the column as `Type | None`, give it default(…), or filter the rows out in the source query",
    )


def duplicate_key(names: tuple[str, ...], event_column: str = EVENT_TIME, order_by: str | None = None) -> Guard:
    """Refuses several incoming rows for one key: which of them counts would be chance.

    With `order_by` the rows are those that are left once that column has chosen.
    """
    known = ", ".join(event_column if name == EVENT_TIME else name for name in names)
    if order_by is not None:
        return Guard(
            "duplicate-key",
            duplicates(names),
            f"several incoming rows have the same key ({known}) and the same {order_by}, which should choose",
            "name a column in which they differ in on_duplicate_order_by=, or keep one row per key in the source query",
        )
    return Guard(
        "duplicate-key",
        duplicates(names, event_column),
        f"several incoming rows have the same key ({known})",
        "keep one row per key: transforms_pre=[deduplicate_by(…)], or ROW_NUMBER() in the source query",
    )


def existing_key(intent: Intent) -> Guard:
    """Refuses incoming rows whose primary key the target holds already."""
    shown = [named(as_text(cell(name, "i")), name) for name in intent.primary_key]
    query = select(*shown, from_=source(INCOMING, "i"))
    query = join(query, source(TARGET, "t"), matches(intent.primary_key, "t", "i"))
    if intent.incremental is not None and intent.resume:
        query = query.where(exp.NEQ(this=cell(intent.incremental, "i"), expression=value("bookmark")), copy=False)
    query = query.limit(6, copy=False)
    return Guard(
        "existing-key",
        query,
        f"the target already holds rows with the primary key ({', '.join(intent.primary_key)}) of incoming rows",
        'use mode="merge" to update rows, or incremental_column=… to read only new ones',
    )


def null_bookmarks(intent: Intent) -> tuple[Guard, ...]:
    """Refuses incoming rows without a value to resume by: no later load would ever see them."""
    if intent.incremental is None:
        return ()
    shown = [named(as_text(cell(name, "i")), name) for name in intent.keys or intent.primary_key]
    query = select(*shown, from_=source(INCOMING, "i"), where=nulls((intent.incremental,), "i")).limit(6, copy=False)
    guard = Guard(
        "null-bookmark",
        query,
        f"incoming rows have NULL in the incremental column ({intent.incremental})",
        "filter them out in the source query, or choose a column that is never NULL",
    )
    return (guard,)


def null_event_time(intent: Intent) -> Guard:
    """Refuses incoming rows without an event time: they have no place in the history."""
    shown = [named(as_text(cell(name, "i")), name) for name in intent.keys]
    query = select(*shown, from_=source(INCOMING, "i"), where=nulls((EVENT_TIME,), "i")).limit(6, copy=False)
    return Guard(
        "null-event-time",
        query,
        f"incoming rows have no event time ({intent.event_column} is NULL)",
        "filter them out in the source query, or give them a default instant",
    )


def empty_source() -> Guard:
    """Refuses an empty source where deletes would then empty the target."""
    some = select(named(number(1), "_one"), from_=source(INCOMING, "i")).limit(1, copy=False)
    query = select(named(exp.Count(this=exp.Star()), "_rows"), from_=derived(some, "s"))
    none = exp.EQ(this=exp.Count(this=exp.Star()), expression=number(0))
    return Guard(
        "empty-source",
        query.having(none, copy=False),
        "the source gave no rows, and deletes would then remove everything from the target",
        "check the source; if it may be empty, say allow_empty_source=True",
        names_rows=False,
    )
