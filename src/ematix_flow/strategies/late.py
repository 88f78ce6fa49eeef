"""Late rows of scd2: which incoming rows are older than their key's newest version and say something new.

A late row is harmless when it equals the version in force at its instant or, where none is in force, the first version
after it. So a load that is repeated, or a source that shows its past again, is no offence.
"""

from __future__ import annotations

from sqlglot import exp

from .base import EVENT_TIME, INCOMING, TARGET, Guard, Intent
from .query import all_of, as_text, case, cell, cells, differs, incoming_at, join, matches, named, select, source

__all__ = ["count_late", "late_event"]


def late_event(intent: Intent) -> Guard:
    """Refuses late rows that say something new."""
    keys = [named(as_text(cell(name, "l")), name) for name in intent.keys]
    return Guard(
        "late-event",
        _late_rows(intent, [*keys, named(as_text(_later("_at")), intent.event_column)]).limit(6, copy=False),
        f"late event_ts: incoming rows are older than the newest version of their key "
        f"({intent.event_column} before its valid_from)",
        'use late_events="ignore" to drop such rows or late_events="insert" to repair the history',
    )


def count_late(intent: Intent) -> exp.Query:
    """How many late rows say something new."""
    return _late_rows(intent, [named(exp.Count(this=exp.Star()), "_late")])


def _late_rows(intent: Intent, shown: list[exp.Expr]) -> exp.Select:
    """The late rows `l` beside the version in force `f`, the first version after `a` and its correction `c`."""
    query = select(*shown, from_=source("_later", "l"))
    after = exp.EQ(this=cell("valid_from", "a"), expression=_later("_next"))
    query = join(query, source(TARGET, "a"), all_of(matches(intent.keys, "a", "l"), after))
    began = exp.LTE(this=cell("valid_from", "f"), expression=_later("_at"))
    open_then = exp.GT(this=cell("valid_to", "f"), expression=_later("_at"))
    began_then = exp.EQ(this=cell("valid_from", "f"), expression=_later("_at"))
    in_force = exp.Paren(this=exp.Or(this=open_then, expression=began_then))
    query = join(query, source(TARGET, "f"), all_of(matches(intent.keys, "f", "l"), began, in_force), outer=True)
    query = query.with_("_later", as_=_later_versions(intent), copy=False)
    if intent.event_time:
        query = _with_correction(query, intent).with_("_corrections", as_=_corrections(intent), copy=False)
    return query.where(_says_something_new(intent), copy=False)


def _later_versions(intent: Intent) -> exp.Select:
    """Each incoming row that has versions after it, with the first and the last of them.

    A row is alone in its group, so grouping by what it says only carries that along.
    """
    said = (*intent.keys, *intent.compare)
    at = incoming_at("i", event_time=intent.event_time)
    first = named(exp.Min(this=cell("valid_from", "t")), "_next")
    last = named(exp.Max(this=cell("valid_from", "t")), "_newest")
    later = exp.GT(this=cell("valid_from", "t"), expression=incoming_at("i", event_time=intent.event_time))
    query = select(*cells(said, "i"), named(at, "_at"), first, last, from_=source(INCOMING, "i"))
    query = join(query, source(TARGET, "t"), all_of(matches(intent.keys, "t", "i"), later))
    return query.group_by(*cells((*said, EVENT_TIME) if intent.event_time else said, "i"), copy=False)


def _with_correction(query: exp.Select, intent: Intent) -> exp.Select:
    """An incoming row at the newest version's instant replaces it in this very load, so it is what counts."""
    at_next = exp.EQ(this=cell(EVENT_TIME, "c"), expression=_later("_next"))
    newest = exp.EQ(this=_later("_next"), expression=_later("_newest"))
    on = all_of(matches(intent.keys, "c", "l"), at_next, newest)
    return join(query, source("_corrections", "c"), on, outer=True)


def _corrections(intent: Intent) -> exp.Select:
    """Incoming rows at the instant of a stored version. SQLite indexes such a part by itself, but never `incoming`."""
    query = select(*cells((*intent.keys, *intent.compare, EVENT_TIME), "i"), from_=source(INCOMING, "i"))
    same = exp.EQ(this=cell("valid_from", "t"), expression=cell(EVENT_TIME, "i"))
    return join(query, source(TARGET, "t"), all_of(matches(intent.keys, "t", "i"), same))


def _says_something_new(intent: Intent) -> exp.Expr:
    key = intent.keys[0]
    # A version that ended when it began was never in force; a row at its instant takes its place.
    never = exp.EQ(this=cell("valid_to", "f"), expression=cell("valid_from", "f"))
    branches: list[tuple[exp.Expr, exp.Expr]] = [
        (never, exp.true()),
        (_found(key, "f"), differs(intent.compare, "l", "f")),
    ]
    if intent.event_time:
        branches.append((_found(key, "c"), differs(intent.compare, "l", "c")))
    return case(*branches, default=differs(intent.compare, "l", "a"))


def _found(key: str, table: str) -> exp.Expr:
    return exp.Not(this=exp.Is(this=cell(key, table), expression=exp.null()))


def _later(name: str) -> exp.Column:
    return cell(name, "l")
