"""What a seed chooses: a database, a way, a mode, rows and a fault; and what must be in the table after the load."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ematix_flow.types import BigInt, ColumnType, Text
from tests.backends.lab import Lab, Route, clock
from tests.backends.store import Row
from tests.oracle import Moment, expect

TYPES: Mapping[str, ColumnType] = {"id": BigInt(), "v": Text(), "n": BigInt()}
MODES: Mapping[str, dict[str, Any]] = {
    "append": {"mode": "append", "incremental_column": "n"},
    "truncate": {"mode": "truncate"},
    "merge": {"mode": "merge"},
    "merge, hard deletes": {"mode": "merge", "handle_deletes": "hard"},
    "merge, soft deletes": {"mode": "merge", "handle_deletes": "soft"},
    "scd2": {"mode": "scd2"},
    "scd2, soft deletes": {"mode": "scd2", "handle_deletes": "soft"},
}
VALUES = ("a", "b", "", "tab\tline\n", "é", None)
STAMPS = ("_loaded_at", "_batch_id")
"""Columns that name the run and its instant, which a repaired load has its own of."""


@dataclass(frozen=True)
class Needs:
    """What a fault asks of the run that meets it."""

    reads_early: bool = False
    """Rows that are read before the load opens."""
    meets_rows: bool = False
    """A table with rows."""
    way: Route | None = None
    flaw: str = ""
    """What goes wrong within Spark while it makes the rows."""


@dataclass(frozen=True)
class Scenario:
    """One run: all that a seed has chosen."""

    seed: int
    database: str
    fault: str
    mode: str
    way: Route
    source: str | None
    """The kind of system that the rows are in; None: the target's own."""
    before: tuple[Row, ...] | None
    """What an earlier load has brought; None where this is the first."""
    rows: tuple[Row, ...]
    newer: tuple[Row, ...]
    """What the source holds when somebody else reads it later."""
    flaw: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """The keywords of the pipeline."""
        return MODES[self.mode]

    @property
    def incremental(self) -> bool:
        """Whether the pipeline keeps a bookmark."""
        return "incremental_column" in self.options

    def dice(self) -> random.Random:
        """Chance that falls alike each time, for what the fault has to choose."""
        return random.Random(f"{self.seed} {self.database} fault")

    def __str__(self) -> str:
        way = f"{self.way} from {self.source}" if self.source else self.way
        return f"{self.fault}: {self.mode}, {way}, {self.database}" + (", first load" if self.before is None else "")


def choose(seed: int, database: str, fault: str, needs: Needs) -> Scenario:
    """The run of a seed."""
    dice = random.Random(f"{seed} {database}")
    mode = dice.choice(list(MODES))
    way: Route = needs.way or ("copied" if needs.reads_early else dice.choice(("pushed", "pushed", "copied")))
    elsewhere = way != "pushed" and not needs.flaw and (needs.reads_early or dice.random() < 0.5)
    before, rows, newer = _rows(dice, grows=mode == "append")
    first = not needs.meets_rows and dice.random() < 0.15
    source = "sqlite" if elsewhere else None
    return Scenario(seed, database, fault, mode, way, source, None if first else before, rows, newer, needs.flaw)


def expected(lab: Lab, scenario: Scenario, before: Sequence[Row], incoming: Sequence[Row], at: str) -> list[Row]:
    """The table after a load of `incoming`, by the oracle."""
    intent = lab.project.plan(lab.pipeline()).load.intent
    held = {row["id"] for row in before} if scenario.incremental else set()
    new = [row for row in incoming if row["id"] not in held]
    return expect(scenario.options["mode"], before, new, intent, Moment(clock(at), "any")).rows


def said(rows: Sequence[Row]) -> list[str]:
    """Rows that can be compared, whoever wrote them and when."""
    return sorted(" ".join(f"{name}={_shown(row[name])}" for name in sorted(row) if name not in STAMPS) for row in rows)


def _shown(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%H:%M:%S.%f}"
    return value.hex()[:8] if isinstance(value, bytes) else repr(value)


def difference(found: Sequence[str], wanted: Sequence[str]) -> str:
    """Which rows are missing and which are too many; empty where they are the same."""
    missing, surplus = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    kinds = (("missing", missing), ("too many", surplus))
    return "; ".join(f"{sum(rows.values())} {kind}, such as {min(rows)}" for kind, rows in kinds if rows)


def _rows(dice: random.Random, *, grows: bool) -> tuple[tuple[Row, ...], tuple[Row, ...], tuple[Row, ...]]:
    """The rows before, those of the load that meets the fault, and those after it."""
    many = dice.random() < 0.1
    if grows:
        ends = [dice.randrange(1, 400 if many else 8)]
        ends += [ends[0] + dice.randrange(0, 6)]
        ends += [ends[1] + dice.randrange(1, 6)]
        first = dice.randrange(0, 2)
        kept = [_row(dice, number) for number in range(1, ends[2] + 1)]
        return tuple(kept[: ends[0]]), tuple(kept[first * (ends[0] - 1) : ends[1]]), tuple(kept)
    keys = range(1, 400 if many else 10)
    chosen = [dice.sample(keys, dice.randrange(1, len(keys))) for _ in range(3)]
    before, rows, newer = (tuple(_row(dice, number) for number in each) for each in chosen)
    return before, rows, newer


def _row(dice: random.Random, number: int) -> Row:
    return {"id": number, "v": dice.choice(VALUES), "n": number}
