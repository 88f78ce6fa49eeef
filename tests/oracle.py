"""What a load must do, row by row in plain Python, written from the rules and not from the queries.

`expect` takes the rows of the target and the incoming rows as dictionaries; it gives the rows afterwards and the
counts, or raises `Offence` with the code of the guard that refuses the load. Instants are aware datetimes.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal

from ematix_flow.strategies.base import EVENT_TIME, Counts, Intent
from ematix_flow.types import ColumnType, Numeric

Row = dict[str, object]
Key = tuple[object, ...]


class Offence(Exception):  # noqa: N818 - a refusal is what is expected, not an error
    """A load that is refused."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Expected:
    rows: list[Row]
    counts: Counts


@dataclass(frozen=True)
class Moment:
    """The instant and the id of one load."""

    now: datetime
    run_id: str


def expect(mode: str, target: Sequence[Row], incoming: Sequence[Row], intent: Intent, moment: Moment) -> Expected:
    """The table after the load, and what it did."""
    loads: dict[str, Callable[[Sequence[Row], Sequence[Row], Intent, Moment], Expected]] = {
        "append": _append, "truncate": _truncate, "merge": _merge, "scd1": _merge, "scd2": _scd2,
    }  # fmt: skip
    return loads[mode]([dict(row) for row in target], [dict(row) for row in incoming], intent, moment)


def row_hash(row: Row, columns: Iterable[str], types: dict[str, ColumnType]) -> bytes:
    """SHA-256 over the canonical text of the columns."""
    return hashlib.sha256("".join(_sized(row[name], types[name]) for name in columns).encode()).digest()


# ── append, truncate, merge ───────────────────────────────────────────────────────────────────────────────────────────


def _append(target: Sequence[Row], incoming: Sequence[Row], intent: Intent, moment: Moment) -> Expected:
    if intent.check_keys and intent.primary_key:
        _refuse_duplicates(incoming, intent.primary_key)
        held = {_key(row, intent.primary_key) for row in target}
        if any(_key(row, intent.primary_key) in held for row in incoming):
            raise Offence("existing-key")
    added = [_stamped(row, intent, moment) for row in incoming]
    return Expected([*target, *added], Counts(read=len(added), inserted=len(added)))


def _truncate(target: Sequence[Row], incoming: Sequence[Row], intent: Intent, moment: Moment) -> Expected:
    if intent.check_keys and intent.primary_key:
        _refuse_duplicates(incoming, intent.primary_key)
    rows = [_stamped(row, intent, moment) for row in incoming]
    return Expected(rows, Counts(read=len(rows), inserted=len(rows)))


def _merge(target: Sequence[Row], incoming: Sequence[Row], intent: Intent, moment: Moment) -> Expected:
    _refuse_null_keys(incoming, intent)
    chosen = _chosen(incoming, intent)
    _refuse_duplicates(chosen, intent.keys)
    _refuse_empty(incoming, intent)
    stamps = {"_loaded_at": moment.now, "_batch_id": moment.run_id}
    alive = {"_is_deleted": False} if intent.deletes == "soft" else {}
    table = {_key(row, intent.keys): row for row in target}
    done: Counter[str] = Counter()
    for row in chosen:
        stored = table.get(_key(row, intent.keys))
        if stored is None:
            table[_key(row, intent.keys)] = _stamped(row, intent, moment) | alive
            done["inserted"] += 1
        elif any(row[name] != stored[name] for name in intent.update) or (alive and stored["_is_deleted"]):
            news = {name: row[name] for name in intent.update}
            table[_key(row, intent.keys)] = stored | news | stamps | alive
            done["updated"] += 1
    shown = {_key(row, intent.keys) for row in chosen}
    for key in [key for key in table if key not in shown]:
        if intent.deletes == "hard":
            del table[key]
            done["deleted"] += 1
        elif intent.deletes == "soft" and not table[key]["_is_deleted"]:
            table[key] = table[key] | stamps | {"_is_deleted": True}
            done["deleted"] += 1
    unchanged = len(incoming) - done["inserted"] - done["updated"]
    return Expected(list(table.values()), Counts(read=len(incoming), unchanged=unchanged, **done))


# ── scd2 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _History:
    """The versions of one key, oldest first, while a load works on them."""

    intent: Intent
    moment: Moment
    versions: list[Row]
    done: Counter[str] = field(default_factory=Counter)

    def newest(self) -> Row | None:
        return self.versions[-1] if self.versions else None

    def same(self, row: Row, version: Row) -> bool:
        return all(row[name] == version[name] for name in self.intent.compare)

    def in_force(self, at: datetime) -> Row | None:
        for version in self.versions:
            if version["valid_from"] <= at and (version["valid_to"] is None or at < version["valid_to"]):
                return version
        return None

    def starting(self, at: datetime) -> Row | None:
        return next((version for version in self.versions if version["valid_from"] == at), None)

    def after(self, at: datetime) -> Row | None:
        return next((version for version in self.versions if version["valid_from"] > at), None)

    def put(self, row: Row, at: datetime, end: datetime | None) -> None:
        """A version of `row` from `at`; it takes the place of one that starts there."""
        held = self.starting(at)
        fresh = {name: row[name] for name in self.intent.columns}
        fresh |= {"valid_from": at, "valid_to": end, "is_current": end is None}
        fresh |= {"row_hash": row_hash(row, self.intent.compare, dict(self.intent.types))}
        fresh |= {"_loaded_at": self.moment.now, "_batch_id": self.moment.run_id}
        if held is None:
            self.versions.append(fresh)
            self.done["inserted"] += 1
        else:
            self.versions[self.versions.index(held)] = fresh
            self.done["corrected"] += 1
        self.versions.sort(key=lambda version: version["valid_from"])

    def end(self, version: Row, at: datetime) -> None:
        version |= {"valid_to": at, "is_current": False}

    def apply(self, row: Row, at: datetime) -> None:
        """A row at or after the newest version."""
        newest = self.newest()
        if newest is not None and newest["is_current"] and self.same(row, newest):
            return
        if newest is not None and newest["valid_from"] < at and (newest["is_current"] or newest["valid_to"] > at):
            self.end(newest, at)
        self.put(row, at, None)

    def repair(self, row: Row, at: datetime) -> None:
        """A late row that is let in: from its instant to the end of what was in force, or to the next version."""
        held, following = self.in_force(at), self.after(at)
        assert following is not None
        end = held["valid_to"] if held is not None else following["valid_from"]
        if held is not None and held["valid_from"] < at:
            self.end(held, at)
        self.put(row, at, end)


def _scd2(target: Sequence[Row], incoming: Sequence[Row], intent: Intent, moment: Moment) -> Expected:
    _refuse_null_keys(incoming, intent)
    if intent.event_time and any(row[EVENT_TIME] is None for row in incoming):
        raise Offence("null-event-time")
    read = len(incoming)
    incoming = _chosen(incoming, intent)
    _refuse_duplicates(incoming, (*intent.keys, EVENT_TIME) if intent.event_time else intent.keys)

    stored, arrived = defaultdict(list), defaultdict(list)
    for version in sorted(target, key=lambda version: version["valid_from"]):
        stored[_key(version, intent.keys)].append(version)
    for row in incoming:
        arrived[_key(row, intent.keys)].append((row[EVENT_TIME] if intent.event_time else moment.now, row))

    done: Counter[str] = Counter()
    rows: list[Row] = []
    for key in {**stored, **arrived}:
        before = {version["valid_from"] for version in stored[key] if version["is_current"]}
        history = _History(intent, moment, stored[key])
        if key in arrived:
            _arrive(history, sorted(arrived[key], key=lambda pair: pair[0]))
            done += history.done
            after = {version["valid_from"] for version in history.versions if version["is_current"]}
            done["closed_changed"] += len(before - after)
        else:
            _close_vanished(history, done)
        rows += history.versions
    _refuse_empty(incoming, intent)
    unchanged = read - done["inserted"] - done["corrected"] - done["late"]
    return Expected(rows, Counts(read=read, unchanged=unchanged, **done))


def _arrive(history: _History, arrivals: list[tuple[datetime, Row]]) -> None:
    newest = history.newest()
    boundary = None if newest is None else newest["valid_from"]
    late = [] if boundary is None else [(at, row) for at, row in arrivals if at < boundary]
    on_time = arrivals[len(late) :]
    if history.intent.late == "insert":
        _repair_all(history, late, on_time)
    else:
        correction = next((row for at, row in on_time if at == boundary), None)
        bad = [at for at, row in late if not _is_harmless(history, row, at, correction)]
        if bad and history.intent.late == "error":
            raise Offence("late-event")
        history.done["late"] += len(bad)
    for at, row in on_time:
        history.apply(row, at)


def _is_harmless(history: _History, row: Row, at: datetime, correction: Row | None) -> bool:
    """It equals the version in force or, where none is, the first after it, as this load leaves that one."""
    held = history.in_force(at)
    if held is not None:
        return history.same(row, held)
    if history.starting(at) is not None:
        return False  # a version that ended as it began: the row would take its place
    following = history.after(at)
    assert following is not None
    if following is history.newest() and correction is not None:
        return history.same(row, correction)
    return history.same(row, following)


def _repair_all(history: _History, late: list[tuple[datetime, Row]], on_time: list[tuple[datetime, Row]]) -> None:
    """Late rows in order. Where none is in force, a row is harmless if all that follows, up to a version, equals it."""
    points = [*late, *on_time]
    for position, (at, row) in enumerate(late):
        held = history.in_force(at)
        if held is not None:
            if not history.same(row, held):
                history.repair(row, at)
            continue
        following = history.after(at)
        assert following is not None
        limit = following["valid_from"]
        waiting = [other for moment, other in points[position + 1 :] if moment < limit]
        correction = [other for moment, other in points if moment == limit]
        last = correction[0] if correction else following
        takes_place = history.starting(at) is not None
        if takes_place or not all(history.same(row, other) for other in (*waiting, last)):
            history.repair(row, at)


def _close_vanished(history: _History, done: Counter[str]) -> None:
    newest, now, ttl = history.newest(), history.moment.now, history.intent.ttl
    if newest is None or not newest["is_current"]:
        return
    if history.intent.deletes == "soft":
        history.end(newest, max(now, newest["valid_from"]))
        done["closed_missing"] += 1
    elif ttl is not None and newest["valid_from"] < now - ttl:
        history.end(newest, max(now, newest["valid_from"]))
        done["closed_ttl"] += 1


# ── shared ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _stamped(row: Row, intent: Intent, moment: Moment) -> Row:
    return {name: row[name] for name in intent.columns} | {"_loaded_at": moment.now, "_batch_id": moment.run_id}


def _key(row: Row, names: Iterable[str]) -> Key:
    return tuple(row[name] for name in names)


def _refuse_null_keys(incoming: Sequence[Row], intent: Intent) -> None:
    if any(value is None for row in incoming for value in _key(row, intent.keys)):
        raise Offence("null-key")


def _chosen(incoming: Sequence[Row], intent: Intent) -> list[Row]:
    """The rows with the greatest or least value of their key, all of them where several have it."""
    if intent.order_by is None:
        return list(incoming)
    rivals = defaultdict(list)
    for row in incoming:
        rivals[_key(row, intent.keys)].append(row)
    chosen: list[Row] = []
    for rows in rivals.values():
        values = [row[intent.order_by] for row in rows]
        if len(rows) > 1 and None in values:
            raise Offence("null-order")
        best = values[0] if len(rows) == 1 else (max if intent.on_duplicate == "last" else min)(values)
        chosen += [row for row in rows if row[intent.order_by] == best]
    return chosen


def _refuse_duplicates(incoming: Sequence[Row], names: Sequence[str]) -> None:
    if len({_key(row, names) for row in incoming}) < len(incoming):
        raise Offence("duplicate-key")


def _refuse_empty(incoming: Sequence[Row], intent: Intent) -> None:
    if intent.deletes and not intent.allow_empty_source and not incoming:
        raise Offence("empty-source")


def _sized(value: object, type: ColumnType) -> str:
    if value is None:
        return "N"
    text = _canonical(value, type)
    return f"{len(text)}:{text}"


def _canonical(value: object, type: ColumnType) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return (value.astimezone(UTC) if value.tzinfo else value).strftime("%Y-%m-%d %H:%M:%S.%f")
        case date():
            return value.isoformat()
        case Decimal() if isinstance(type, Numeric):
            return format(value.quantize(Decimal(1).scaleb(-type.scale), rounding=ROUND_HALF_UP), "f")
        case bytes():
            return value.hex()
        case _:
            return str(value)
