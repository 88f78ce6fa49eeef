"""The time line of scd2: stored versions and incoming rows as points, ordered by instant, judged by their neighbours.

The query has a few named parts: `_moving` (keys with news), `_points` (both kinds), `_seen` (beside its neighbours),
`_judged` (late? says nothing new?) and `_kept` (what remains, beside its new successor). Only late="insert" looks
into gaps between versions, with one more part.
"""

from __future__ import annotations

from sqlglot import exp

from .base import CHANGE_LABEL, INCOMING, TARGET, Intent
from .query import (
    all_of,
    any_of,
    case,
    cell,
    cells,
    differs,
    everything,
    incoming_at,
    join,
    label,
    matches,
    named,
    nulls,
    number,
    select,
    source,
    union,
    value,
)

__all__ = ["versions"]

_P = "p"


def versions(
    intent: Intent, user_columns: tuple[str, ...], columns: tuple[str, ...]
) -> tuple[dict[str, exp.Query], exp.Query]:
    """The named parts and the final query: versions that change, as complete rows with a label."""
    parts: dict[str, exp.Query] = {
        "_moving": _moving(intent),
        "_points": union(_stored_points(intent, user_columns), _incoming_points(intent, user_columns)),
        "_seen": _seen(intent),
    }
    if intent.late == "insert":
        parts["_placed"] = _placed(intent)
    parts["_judged"] = _judged(intent, previous=list(parts)[-1])
    parts["_kept"] = _kept(intent)
    return parts, _changed(intent, columns)


def _moving(intent: Intent) -> exp.Select:
    """The keys of incoming rows that may say something new.

    A row that repeats the current version, at or after its start, changes nothing. A key with only such rows takes no
    part in the time line, so that the windows cost what the changes cost. A join, because EXISTS scans on MariaDB.
    """
    at = incoming_at("i", event_time=intent.event_time)
    current = all_of(matches(intent.keys, "t", "i"), cell("is_current", "t"))
    earlier = exp.LT(this=at, expression=cell("valid_from", "t"))
    news = any_of(nulls(intent.keys[:1], "t"), earlier, differs(intent.compare, "i", "t"))
    query = join(
        select(*cells(intent.keys, "i"), from_=source(INCOMING, "i")), source(TARGET, "t"), current, outer=True
    )
    return query.where(news, copy=False).distinct(copy=False)


def _stored_points(intent: Intent, user_columns: tuple[str, ...]) -> exp.Select:
    """All versions of the keys that move."""
    stored = {
        "valid_from": "_at", "valid_to": "_to", "is_current": "_cur",
        "row_hash": "_hash", "_loaded_at": "_loaded", "_batch_id": "_batch",
    }  # fmt: skip
    shown = [*cells(user_columns, "t"), *(named(cell(name, "t"), alias) for name, alias in stored.items())]
    query = select(*shown, named(number(0), "_src"), from_=source("_moving", "k"))
    return join(query, source(TARGET, "t"), matches(intent.keys, "t", "k"))


def _incoming_points(intent: Intent, user_columns: tuple[str, ...]) -> exp.Select:
    at = incoming_at("i", event_time=intent.event_time)
    added = [at, exp.null(), exp.false(), exp.null(), value("now"), value("run_id"), number(1)]
    query = select(*cells(user_columns, "i"), *added, from_=source("_moving", "k"))
    return join(query, source(INCOMING, "i"), matches(intent.keys, "i", "k"))


def _seen(intent: Intent) -> exp.Select:
    stored_at = case((_is_stored(), cell("_at", _P)))
    shown = [
        named(exp.Window(this=exp.Max(this=stored_at), partition_by=cells(intent.keys, _P)), "_newest"),
        *(named(_neighbour(exp.Lag, name, intent), f"_prev{name}") for name in ("_at", "_src", "_cur")),
        named(_same(exp.Lag, intent), "_same"),
    ]
    if intent.late == "insert":
        ended = exp.Max(this=cell("_to", _P))
        count = exp.Sum(this=case((_is_stored(), number(1)), default=number(0)))
        shown += [
            named(_so_far(ended, intent), "_reach"),
            named(_so_far(count, intent), "_epoch"),
            named(_same(exp.Lead, intent, corrections_first=True), "_same_next"),
        ]
    return select(everything(_P), *shown, from_=source("_points", _P))


def _placed(intent: Intent) -> exp.Select:
    """Marks late rows that fall where no version is in force, and whether all rows of such a gap are harmless.

    They are if each equals its successor, up to the version after the gap. If one differs, the first of them opens a
    version, and the others are judged by their predecessor as usual.
    """
    gap = case((_reach_is_later(), number(0)), default=number(1))
    takes_place = all_of(_is_after_stored(), exp.EQ(this=cell("_prev_at", _P), expression=cell("_at", _P)))
    differs = any_of(exp.Not(this=exp.Paren(this=cell("_same_next", _P))), takes_place)
    new = case((all_of(_is_incoming(), differs), number(1)), default=number(0))
    group = [*cells((*intent.keys, "_epoch"), _P), gap.copy()]
    return select(
        everything(_P),
        named(gap, "_gap"),
        named(exp.Window(this=exp.Max(this=new), partition_by=group), "_gap_new"),
        from_=source("_seen", _P),
    )


def _judged(intent: Intent, previous: str) -> exp.Select:
    is_late = exp.LT(this=cell("_at", _P), expression=cell("_newest", _P))
    late = case((_is_stored(), number(0)), (is_late, number(1)), default=number(0))
    unlike = any_of(
        exp.Is(this=cell("_prev_src", _P), expression=exp.null()), exp.Not(this=exp.Paren(this=cell("_same", _P)))
    )
    # Equal to a newest version that is closed: the key is back, which is news.
    goes_on = any_of(_equals("_prev_src", 1), cell("_prev_cur", _P))
    branches: list[tuple[exp.Expr, exp.Expr]] = [(_is_stored(), number(0))]
    if intent.late == "insert":
        branches.append((is_late.copy(), _late_noop(unlike.copy())))
    noop = case(*branches, (unlike, number(0)), (goes_on, number(1)), default=number(0))
    return select(everything(_P), named(late, "_is_late"), named(noop, "_noop"), from_=source(previous, _P))


def _late_noop(unlike: exp.Expr) -> exp.Case:
    first = any_of(_is_after_stored(), exp.LT(this=cell("_prev_at", _P), expression=cell("_reach", _P)))
    in_gap = _equals("_gap", 1)
    return case(
        (all_of(in_gap, _equals("_gap_new", 0)), number(1)),
        (all_of(in_gap.copy(), exp.Paren(this=first)), number(0)),
        (unlike, number(0)),
        default=number(1),
    )


def _kept(intent: Intent) -> exp.Select:
    """No-ops go before successors are sought, or a version would end at an instant where nothing happened."""
    keep = [_equals("_noop", 0)]
    if intent.late != "insert":
        keep.append(_equals("_is_late", 0))
    return select(
        everything(_P),
        *(named(_neighbour(exp.Lead, name, intent), f"_next{name}") for name in ("_at", "_src")),
        from_=source("_judged", _P),
        where=all_of(*keep),
    )


def _changed(intent: Intent, columns: tuple[str, ...]) -> exp.Select:
    shown = [_after(name, intent) for name in columns]
    next_at, at, to = cell("_next_at", _P), cell("_at", _P), cell("_to", _P)
    shortened = any_of(exp.Is(this=to, expression=exp.null()), exp.GT(this=to.copy(), expression=cell("_next_at", _P)))
    ended = all_of(_equals("_next_src", 1), exp.GT(this=next_at, expression=at), exp.Paren(this=shortened))
    rows = any_of(_is_incoming(), exp.Paren(this=ended))
    return select(*shown, named(_label(), CHANGE_LABEL), from_=source("_kept", _P), where=rows)


def _after(name: str, intent: Intent) -> exp.Expr:
    match name:
        case "valid_from":
            return named(cell("_at", _P), name)
        case "valid_to":
            return named(_end(intent), name)
        case "is_current":
            return named(all_of(_is_incoming(), exp.Is(this=cell("_next_at", _P), expression=exp.null())), name)
        case "row_hash":
            fresh = exp.Anonymous(this="ROW_HASH", expressions=cells(intent.compare, _P))
            return named(case((_is_incoming(), fresh), default=cell("_hash", _P)), name)
        case "_loaded_at":
            return named(cell("_loaded", _P), name)
        case "_batch_id":
            return named(cell("_batch", _P), name)
        case _:
            return cell(name, _P)


def _end(intent: Intent) -> exp.Expr:
    """Where the next point begins; a late row also ends where the version it splits ended."""
    if intent.late != "insert":
        return cell("_next_at", _P)
    before_next = exp.LT(this=cell("_reach", _P), expression=cell("_next_at", _P))
    splits = all_of(_equals("_is_late", 1), _reach_is_later(), before_next)
    return case((splits, cell("_reach", _P)), default=cell("_next_at", _P))


def _label() -> exp.Case:
    corrects = all_of(_is_after_stored(), exp.EQ(this=cell("_prev_at", _P), expression=cell("_at", _P)))
    has_next = exp.Not(this=exp.Is(this=cell("_next_at", _P), expression=exp.null()))
    return case(
        (all_of(_is_stored(), cell("_cur", _P)), label("close")),
        (_is_stored(), label("trim")),
        (all_of(corrects, cell("_prev_cur", _P), has_next), label("replace")),
        (corrects.copy(), label("correct")),
        default=label("insert"),
    )


def _neighbour(
    function: type[exp.Lag] | type[exp.Lead], name: str, intent: Intent, *, corrections_first: bool = False
) -> exp.Window:
    """The value of `name` at the point before or after. Bare columns in ORDER BY: sqlglot adds NULLS LAST to others."""
    source_kind = cell("_src", _P)
    tie = exp.Sub(this=number(1), expression=source_kind) if corrections_first else source_kind
    return exp.Window(
        this=function(this=cell(name, _P), offset=number(1)),
        partition_by=cells(intent.keys, _P),
        order=exp.Order(expressions=[cell("_at", _P), tie]),
    )


def _so_far(aggregate: exp.Expr, intent: Intent) -> exp.Window:
    frame = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
    order = exp.Order(expressions=cells(("_at", "_src"), _P))
    return exp.Window(this=aggregate, partition_by=cells(intent.keys, _P), order=order, spec=frame)


def _same(function: type[exp.Lag] | type[exp.Lead], intent: Intent, *, corrections_first: bool = False) -> exp.Expr:
    return all_of(
        *(
            exp.NullSafeEQ(
                this=cell(name, _P),
                expression=_neighbour(function, name, intent, corrections_first=corrections_first),
            )
            for name in intent.compare
        )
    )


def _equals(name: str, number_: int) -> exp.Expr:
    return exp.EQ(this=cell(name, _P), expression=number(number_))


def _is_stored() -> exp.Expr:
    return _equals("_src", 0)


def _is_incoming() -> exp.Expr:
    return _equals("_src", 1)


def _is_after_stored() -> exp.Expr:
    return _equals("_prev_src", 0)


def _reach_is_later() -> exp.Expr:
    return exp.GT(this=cell("_reach", _P), expression=cell("_at", _P))
