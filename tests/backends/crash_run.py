"""Kills real processes in the middle of loads and tells what they left; run as a program by `test_crash`.

A process forks for every kill point and opens nothing itself but, for loads through Spark, the session: its children
use the session one after the other, while it waits. A child counts the steps of the run and the statements or file
names that it changes, and kills itself before the n-th. Other children look at what is left and load again.

The program reads lines such as ``["pushed", "sqlite", "merge", FOLDER, ""]``, with an empty folder and the URL of a
server where one is needed, and answers each with all points of that load.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ematix_flow.strategies.base import EVENT_TIME
from tests.backends.conftest import BY_NAME
from tests.backends.crash_ground import Ground, MySQLGround, PostgresGround, ServerGround
from tests.backends.lab import Lab, Lane, Route, clock, read_table
from tests.backends.store import Row
from tests.backends.watch import Killer, watch_files, watch_spark, watch_statements, watch_steps
from tests.chaos.processes import Driver, in_child
from tests.oracle import Moment, expect
from tests.spark_session import shared_session

FIRST, CRASHED, NEXT, LAST = "09:00", "10:00", "11:00", "12:00"
TOKEN = "the load that dies"


@dataclass(frozen=True)
class Scenario:
    """A load, and the load before it, if any."""

    header: str
    before: tuple[str, ...] | None
    rows: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


_ROWS = (("1 | a", "2 | b", "3 | c"), ("1 | a", "2 | B", "4 | d"))
SCENARIOS = {
    "merge": Scenario("id | v", *_ROWS, {"mode": "merge", "handle_deletes": "hard"}),
    "scd2": Scenario("id | v", *_ROWS, {"mode": "scd2", "handle_deletes": "soft"}),
    "append": Scenario(
        "id | n:BigInt", ("1 | 4", "2 | 5"), ("2 | 5", "3 | 6", "4 | 7"), {"mode": "append", "incremental_column": "n"}
    ),
    "truncate": Scenario("id | v", *_ROWS, {"mode": "truncate"}),
    "first load": Scenario("id | v", None, _ROWS[0], {"mode": "scd2"}),
}


def open_lab(lane: Lane, scenario: Scenario, folder: Path, session: Callable[[], Any]) -> Lab:
    """The lab of a folder that may have been used before."""
    lab = Lab(lane, folder, session, **scenario.options)
    lab.types = read_table(scenario.header, ())[0]
    return lab


def prepare(lab: Lab, scenario: Scenario) -> list[Row]:
    """The load before, and the source of the load that will die; gives the table."""
    if scenario.before is not None:
        lab(scenario.header, *scenario.before, at=FIRST)
    lab.seed(*read_table(scenario.header, scenario.rows))
    return lab.table()


def die(lab: Lab, killer: Killer) -> None:
    """Load, and be killed; the end of the run is the last event."""
    system = lab.lane.system
    (watch_spark if system.name == "iceberg" else watch_files if system.is_folder else watch_statements)(lab, killer)
    watch_steps(lab, killer)
    lab.run(at=CRASHED, token=TOKEN)
    killer.event("the end of the run")


def look(
    lab: Lab, scenario: Scenario, before: Sequence[Row], catalog: str | None, known: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """What the dead process left, and what the next runs make of it.

    On a server that nobody works on, what is there tells all: where it was seen before, what follows is known.
    """
    target: Any = lab.target
    # To open a database may cost more than to read what is in it.
    held = target.hold if lab.lane.system.pushed else nullcontext
    with held():
        left, bookmark, exists = lab.table(), lab.bookmark(), lab.exists()
        history = [(run.status, run.error) for run in lab.runs()]
        mark = str((said(left), bookmark, history, target.evaluate(catalog))) if catalog else ""
    if mark in known:
        return known[mark]
    states = {"before": said(before), "after": said(expected(lab, scenario, before, CRASHED))}
    state = next((name for name, rows in states.items() if rows == said(left)), "between")
    again = lab.run(at=NEXT, token=TOKEN)
    final = said(expected(lab, scenario, before, CRASHED if state == "after" else NEXT))
    with held():
        table, records = lab.table(), [(run.status, run.error) for run in lab.runs()]
    # One more run finds nothing to do; on other paths that costs too much to be asked at every point.
    repeats = scenario.options["mode"] != "truncate" and lab.lane.path == "pushed"
    if repeats:
        lab.run(at=LAST)
    return {
        "mark": mark,
        "state": state,
        "left": said(left),
        "states": states,
        "exists": exists,
        "bookmark": bookmark.value if bookmark else None,
        "history": history,
        "replayed": bool(again.get("replayed")),
        "token_changed": state == "after" and table != left,
        "repaired": said(table) == final,
        "records": records,
        "stable": not repeats or said(lab.table()) == final,
    }


def expected(lab: Lab, scenario: Scenario, before: Sequence[Row], at: str) -> list[Row]:
    """The table after the load, by the oracle."""
    rows = read_table(scenario.header, scenario.rows)[1]
    intent = lab.project.plan(lab.pipeline()).load.intent
    if "incremental_column" in scenario.options:
        held = {row["id"] for row in before}
        rows = [row for row in rows if row["id"] not in held]
    incoming = [{(EVENT_TIME if name == "at" else name): value for name, value in row.items()} for row in rows]
    return expect(scenario.options["mode"], before, incoming, intent, Moment(clock(at), "any")).rows


def said(rows: Sequence[Row]) -> list[str]:
    """Rows without what names the run and its instant, which a repaired load has its own of."""
    plain = [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]
    return sorted(str(sorted(row.items(), key=str)) for row in plain)


def every_point(
    lane: Lane, name: str, folder: Path, session: Callable[[], Any], ground: Ground
) -> list[dict[str, Any]]:
    """Kill a load before every one of its steps, statements and changes of names, one process each."""
    scenario, base, note = SCENARIOS[name], folder / "base", folder / "note.txt"
    ground.make(base)

    def opened(place: Path) -> Lab:
        return open_lab(lane, scenario, place, session)

    before = in_child(lambda: prepare(opened(base), scenario))
    found: list[dict[str, Any]] = []
    while True:
        place = folder / f"point {len(found) + 1}"
        ground.copy(base, place)
        if is_killed(lambda: die(opened(place), Killer(len(found) + 1, note))):  # noqa: B023 - called at once
            ground.settle(place)
            known = {point["mark"]: point for point in found if point["mark"]}
            seen = in_child(lambda: look(opened(place), scenario, before, ground.catalog, known))  # noqa: B023
            found.append({**seen, "statement": note.read_text(encoding="utf-8")})
            ground.remove(place)
            continue
        ground.remove(place)
        ground.remove(base)
        return found


def is_killed(work: Callable[[], None]) -> bool:
    """Whether a process that does this work is killed before its end."""
    child = Driver(lambda _: work())
    child.end()
    if not os.WIFSIGNALED(child.status) and os.waitstatus_to_exitcode(child.status):
        raise RuntimeError("a child failed; its error is above")
    return os.WIFSIGNALED(child.status)


def spark_lane(system: str) -> Lane:
    """The lane that loads a system through Spark; folders take their rows from a database."""
    target = BY_NAME[system]
    return Lane(target, "spark", BY_NAME["sqlite"] if target.is_folder else None)


def no_spark() -> Any:
    """What a load asks for that must do without Spark."""
    raise AssertionError("this path needs no Spark")


def load_modules() -> None:
    """What every child needs: loaded here once, while nothing is open yet."""
    for name in (
        "duckdb",
        "pyarrow",
        "pyarrow.parquet",
        "pgpq",
        "adbc_driver_postgresql.dbapi",
        "sqlglot.optimizer",
        "pyiceberg.table",
        "pyiceberg.io.pyarrow",
    ):
        import_module(name)
    for name in ("duckdb", "sqlite", "postgres", "mysql"):
        import_module(f"sqlglot.dialects.{name}")
        import_module(f"ematix_flow.backends.{name}")
    for name in ("engine.plan", "engine.run", "engine.source", "strategies.scd2"):
        import_module(f"ematix_flow.{name}")
    # The driver of MySQL would read all certificates of this machine anew for every connection.
    connection = import_module("pymysql.connections").Connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    connection._create_ssl_ctx = lambda *_: context


GROUNDS: Mapping[str, Callable[[str], ServerGround]] = {
    "postgres": PostgresGround,
    "mysql": MySQLGround,
}


def sweep(spark: Callable[[], Any], path: Route, system: str, name: str, folder: str, url: str) -> list[dict[str, Any]]:
    """All points of a load."""
    if path == "spark":
        started = spark()  # before the children, which share it
        return every_point(spark_lane(system), name, Path(folder), lambda: started, Ground())
    if system not in GROUNDS:
        return every_point(Lane(BY_NAME[system], path), name, Path(folder), no_spark, Ground())
    ground = GROUNDS[system](url)
    return every_point(Lane(ground.system, path), name, Path(folder), no_spark, ground)


def main() -> None:
    """Do one sweep for each line, which says which, and write a line with what was found."""
    load_modules()
    with ExitStack() as stack:
        start = cache(lambda: stack.enter_context(contextmanager(shared_session)()))
        for line in sys.stdin:
            try:
                answer = {"points": sweep(start, *json.loads(line))}
            except Exception:  # noqa: BLE001 - who asked is told
                answer = {"error": traceback.format_exc()}
            print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main()
