"""Which of several incoming rows for one key counts, where a column says so: the last or the first of them.

The choice stands in front of a strategy's query, as two parts of it. Rows that are equal in that column stay side by
side, so that the guard against duplicate keys names them; nothing is left to chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from .base import INCOMING, Guard, Intent
from .query import all_of, as_text, cell, cells, named, number, select, source

__all__ = ["chosen_guards", "only_chosen"]

_BEST, _RANKED, _CHOSEN = "_best", "_ranked", "_chosen"


def only_chosen(query: exp.Query, intent: Intent, columns: tuple[str, ...]) -> exp.Query:
    """The query over the chosen rows instead of all that came in; as it is where duplicates are errors."""
    if intent.order_by is None:
        return query
    for table in list(query.find_all(exp.Table)):
        if table.name == INCOMING and not table.db:
            table.set("this", exp.Identifier(this=_CHOSEN))
    later = {cte.alias: cte.this for cte in query.ctes}
    query.set("with_", None)
    for name, part in {**_parts(intent, intent.order_by, columns), **later}.items():
        query = query.with_(name, as_=part, copy=False)
    return query


def chosen_guards(guards: Sequence[Guard], intent: Intent, columns: tuple[str, ...]) -> tuple[Guard, ...]:
    """The guards, which look at the chosen rows alone; before them, that every choice can be made."""
    if intent.order_by is None:
        return tuple(guards)
    over_chosen = (replace(guard, query=only_chosen(guard.query, intent, columns)) for guard in guards)
    return _null_order(intent, intent.order_by), *over_chosen


def _null_order(intent: Intent, order_by: str) -> Guard:
    """Refuses keys with several rows of which one does not say where it stands."""
    shown = [named(as_text(cell(name, "i")), name) for name in intent.keys]
    query = select(*shown, from_=source(INCOMING, "i")).group_by(*cells(intent.keys, "i"), copy=False)
    several = exp.GT(this=exp.Count(this=exp.Star()), expression=number(1))
    gaps = exp.LT(this=exp.Count(this=cell(order_by, "i")), expression=exp.Count(this=exp.Star()))
    return Guard(
        "null-order",
        query.having(all_of(several, gaps), copy=False).limit(6, copy=False),
        f"several incoming rows have the same key ({', '.join(intent.keys)}), and NULL in {order_by}, which chooses",
        "fill the column in the source query, or choose another for on_duplicate_order_by=",
    )


def _parts(intent: Intent, order_by: str, columns: tuple[str, ...]) -> dict[str, exp.Query]:
    """The greatest or least value beside each row, then the rows that have it."""
    extreme = exp.Max if intent.on_duplicate == "last" else exp.Min
    best = exp.Window(this=extreme(this=cell(order_by, "i")), partition_by=cells(intent.keys, "i"))
    # A key's only row may have NULL, which then is the best there is.
    is_best = exp.NullSafeEQ(this=cell(order_by, "r"), expression=cell(_BEST, "r"))
    return {
        _RANKED: select(*cells(columns, "i"), named(best, _BEST), from_=source(INCOMING, "i")),
        _CHOSEN: select(*cells(columns, "r"), from_=source(_RANKED, "r"), where=is_best),
    }
