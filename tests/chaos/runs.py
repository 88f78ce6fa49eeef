"""One run from its seed to its verdict: load, load into a fault, look at what is left, load again."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.backends.crash_run import no_spark
from tests.backends.lab import Lab
from tests.backends.store import Row
from tests.chaos.databases import LOADS, OWN, TARGET, Database
from tests.chaos.faults import FAULTS, SPARK, WHEEL, Strike
from tests.chaos.processes import Outcome, in_child
from tests.chaos.scenario import TYPES, Scenario, choose, difference, expected, said
from tests.chaos.stage import CRASHED, FIRST, LAST, NEXT, OTHER, RIVAL, TOKEN, Stage

ALL = {**FAULTS, **SPARK}


@dataclass(frozen=True)
class State:
    """All that a load changes, as it is in the database."""

    rows: list[Row]
    bookmark: str | None
    tables: set[str]
    tokens: dict[str, str]
    """The ids of committed runs, by their tokens."""
    history: dict[str, str]
    """What became of each run, by its id."""


@dataclass(frozen=True)
class Seen:
    """What the fault left, what must be there, and what the next runs made of it."""

    left: State
    after: list[str]
    repaired: list[str]
    """The rows after the next run, where the one that met the fault has left nothing."""
    again: Outcome
    final: State
    once_more: Outcome
    last: State
    folders: list[str]


@dataclass(frozen=True)
class Verdict:
    """How a run ended."""

    scenario: Scenario
    moment: str
    committed: bool = False
    replayed: bool = False
    repaired: bool = False
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


def scenario_of(seed: int, database: str, *, spark: bool = False) -> Scenario:
    """What a seed has chosen."""
    names = tuple(SPARK) if spark else WHEEL
    name = names[seed % len(names)]
    return choose(seed, database, name, ALL[name].needs)


def run(scenario: Scenario, database: Database, spark: Callable[[], Any] = no_spark) -> Verdict:
    """Do the run of a seed."""
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="flow-chaos-"))
    try:
        database.wipe()
        stage = Stage(scenario, database, folder, spark)
        before, stage.seconds = in_child(lambda: prepare(stage))
        strike = ALL[scenario.fault].strike(stage)
        database.settle()
        seen = in_child(lambda: look(stage, strike, before))
        wrong = list(judge(scenario, database.makes_early, strike, before, seen))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Verdict(
        scenario,
        strike.moment,
        committed=TOKEN in seen.left.tokens,
        replayed=seen.again.replayed,
        repaired=TOKEN not in seen.left.tokens and not wrong,
        wrong=wrong,
        seconds=time.monotonic() - begun,
    )


def prepare(stage: Stage) -> tuple[State, float]:
    """The load before, and the source of the one that meets the fault; gives what there is now."""
    lab, scenario = stage.lab(), stage.scenario
    begun = time.monotonic()
    if scenario.before is not None:
        lab.load(TYPES, scenario.before, at=FIRST)
    lab.seed(TYPES, scenario.rows)
    return state_of(lab, stage.database), time.monotonic() - begun


def state_of(lab: Lab, database: Database) -> State:
    """What is in the database."""
    target: Any = lab.target
    with target.hold():
        bookmark = lab.bookmark()
        history = {run.run_id: run.status for run in lab.runs()}
        tables = {str(name) for (name,) in target.evaluate(database.TABLES)}
        tokens = target.evaluate("SELECT token, run_id FROM ematix_flow.loads") if LOADS in tables else ()
        rows = lab.table()
    by_token = {str(token).rpartition("/")[2]: str(run_id) for token, run_id in tokens}
    return State(rows, None if bookmark is None else bookmark.value, tables, by_token, history)


def look(stage: Stage, strike: Strike, before: State) -> Seen:
    """What is left, and what two more runs with the token of the load make of it."""
    lab, scenario = stage.lab(), stage.scenario
    left = state_of(lab, stage.database)
    incoming, at = (scenario.newer, RIVAL) if strike.newer else (scenario.rows, CRASHED)
    after = expected(lab, scenario, before.rows, incoming, at)
    repaired = expected(lab, scenario, before.rows, incoming, NEXT)
    again = stage.load(lab, TOKEN, NEXT)
    final = state_of(lab, stage.database)
    once_more = stage.load(lab, TOKEN, LAST)
    last = state_of(lab, stage.database)
    folders = [each.name for each in stage.folder.glob("scratch/*")]
    return Seen(left, said(after), said(repaired), again, final, once_more, last, folders)


def judge(scenario: Scenario, makes_early: bool, strike: Strike, before: State, seen: Seen) -> Iterator[str]:
    """All that is wrong with what was found; some databases make a table before the transaction of its rows."""
    left = seen.left
    tokens = left.tokens.keys() & {TOKEN, OTHER}
    wanted = seen.after if tokens else said(before.rows)
    if different := difference(said(left.rows), wanted):
        yield f"with the tokens {sorted(tokens)}, the rows are torn: {different}"
    if left.bookmark != (_bookmark(scenario, strike) if tokens else before.bookmark):
        yield f"the bookmark was {left.bookmark!r} with the tokens {sorted(tokens)}"
    if not tokens and not makes_early and TARGET in left.tables - before.tables:
        yield "a table was left that no committed load has made"
    strange = {name for name in left.tables - {*OWN} if scenario.fault != "server fell" or "pg_temp" not in name}
    if strange:
        yield f"tables were left: {sorted(strange)}"
    yield from _records(left, "before the next run")
    yield from _outcomes(scenario, strike, left)
    yield from _next_runs(seen, bool(tokens), _bookmark(scenario, strike))


def _bookmark(scenario: Scenario, strike: Strike) -> str | None:
    rows = [*(scenario.before or ()), *(scenario.newer if strike.newer else scenario.rows)]
    return str(max(row["n"] for row in rows)) if scenario.incremental else None


def _records(state: State, when: str) -> Iterator[str]:
    """Rows, tokens and history speak of the same runs."""
    for token, run_id in state.tokens.items():
        if state.history.get(run_id) != "success":
            yield f"{when}, the run of token {token!r} is {state.history.get(run_id)!r} in the history"
    strangers = {str(row["_batch_id"]) for row in state.rows} - {*state.tokens.values()}
    if strangers:
        yield f"{when}, rows are there of runs that have no token: {sorted(strangers)}"


def _outcomes(scenario: Scenario, strike: Strike, left: State) -> Iterator[str]:
    """What drivers have said is true, and failures are such that another attempt is right."""
    brought = [token for token, each in strike.outcomes if each and each.status == "success" and not each.replayed]
    if len(brought) != len({*brought}):
        yield f"two drivers say that they have brought the rows of one token: {brought}"
    for token, outcome in strike.outcomes:
        if outcome is None:
            if "killed" not in scenario.fault:
                yield "a driver died with an error that is not ours"
        elif outcome.status == "success" and token not in left.tokens:
            yield f"a driver says success, but its token {token!r} is not there"
        elif outcome.status != "success" and not outcome.transient:
            yield f"a driver failed for good: {outcome.text}"
    ended = [outcome for _, outcome in strike.outcomes if outcome is not None]
    if len(ended) > 1 and all(outcome.status != "success" for outcome in ended):
        yield f"rivals all failed: {[outcome.text for outcome in ended]}"


def _next_runs(seen: Seen, committed: bool, bookmark: str | None) -> Iterator[str]:
    """A run with the same token finds or brings the rows, once; one more changes nothing."""
    wanted = seen.after if committed else seen.repaired
    if seen.again.status != "success":
        yield f"the next run failed: {seen.again.text}"
    if seen.again.replayed != (TOKEN in seen.left.tokens):
        yield f"the next run {'replayed' if seen.again.replayed else 'loaded'}, with tokens {sorted(seen.left.tokens)}"
    if not seen.once_more.replayed:
        yield f"the run after that loaded again: {seen.once_more}"
    for name, state in (("the next run", seen.final), ("one more run", seen.last)):
        if different := difference(said(state.rows), wanted):
            yield f"{name} did not repair the rows: {different}"
        if state.bookmark != bookmark:
            yield f"{name} left the bookmark {state.bookmark!r}"
        if "running" in state.history.values():
            yield f"{name} left a run that never ended"
        yield from _records(state, f"after {name}")
    if seen.folders:
        yield f"folders were left: {seen.folders}"


def seeds_text(verdicts: Sequence[Verdict]) -> list[str]:
    """What was wrong, run by run, and how to do each again."""
    lines = []
    for verdict in verdicts:
        scenario = verdict.scenario
        lines.append(f"seed {scenario.seed}, {scenario} (at: {verdict.moment})")
        lines += [f"    {each}" for each in verdict.wrong]
        count = "--runs 0 --spark 1" if scenario.fault in SPARK else "--runs 1"
        lines.append(f"    again: python -m tests.chaos --database {scenario.database} --seed {scenario.seed} {count}")
    return lines
