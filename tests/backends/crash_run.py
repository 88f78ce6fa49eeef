"""Kills real processes in the middle of loads and tells what they left; run as a program by `test_crash`.

A process forks for every kill point and opens nothing itself but, for loads through Spark, the session: its children
use the session one after the other, while it waits. A child counts the steps of the run and the statements or file
names that it changes, and kills itself before the n-th. Other children look at what is left and load again.

All points of a load: ``python -m tests.backends.crash_run pushed postgres merge FOLDER``, with an empty folder.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import psycopg

from ematix_flow.backends import mysql
from ematix_flow.backends.mysql import MySQLBackend
from ematix_flow.backends.postgres import PostgresBackend
from ematix_flow.connections import PostgresConnection
from ematix_flow.strategies.base import EVENT_TIME
from tests.backends.conftest import BY_NAME
from tests.backends.lab import Lab, Lane, Route, clock, read_table
from tests.backends.store import Row
from tests.oracle import Moment, expect
from tests.servers import postgres
from tests.spark_session import shared_session

FIRST, CRASHED, NEXT, LAST = "09:00", "10:00", "11:00", "12:00"
TOKEN = "the load that dies"
PATIENCE_SECONDS = 60
IDLE = ("SET ", "SELECT ", "PRAGMA ", "DESCRIBE ", "SAVEPOINT ", "RELEASE ", "ANALYZE ")
"""How statements begin that change nothing by themselves."""


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


class Listener(Protocol):
    """Hears of everything that is about to happen."""

    def event(self, text: str) -> None:
        """Something is about to happen."""


class Killer:
    """Ends this process at the n-th event; what the event was stays in a file."""

    def __init__(self, number: int, note: Path) -> None:
        self.number, self.note = number, note
        self.seen = 0

    def event(self, text: str) -> None:
        """Something is about to happen."""
        self.seen += 1
        if self.seen == self.number:
            self.note.write_text(text, encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)


class Ground:
    """Where the systems of a lab are: below a folder that is copied as it is."""

    def make(self, place: Path) -> None:
        """A folder for a lab."""
        place.mkdir()

    def copy(self, base: Path, place: Path) -> None:
        """Let a second lab begin where the first one stands."""
        shutil.copytree(base, place)

    def settle(self, place: Path) -> None:
        """Wait until nothing of the dead process is at work."""

    def remove(self, place: Path) -> None:
        """Give back what a lab took."""
        shutil.rmtree(place)


class ServerGround(Ground):
    """Databases of a PostgreSQL server, one for each system of each folder."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.system = replace(BY_NAME["postgres"], connect=self.connect)

    def connect(self, name: str, folder: Path) -> PostgresConnection:
        """The connection of a lab, whose database must be there."""
        return PostgresConnection(name, f"{self.url.rpartition('/')[0]}/{self._database(folder.parent)}")

    def make(self, place: Path) -> None:
        super().make(place)
        self._execute(f'CREATE DATABASE "{self._database(place)}"')

    def copy(self, base: Path, place: Path) -> None:
        super().copy(base, place)
        self.settle(base)
        copied = f'"{self._database(place)}" TEMPLATE "{self._database(base)}" STRATEGY file_copy'
        self._execute(f"CREATE DATABASE {copied}")

    def settle(self, place: Path) -> None:
        """The server rolls back what a client left open, once it sees that the client is gone."""
        found = f"SELECT COUNT(*) FROM pg_stat_activity WHERE datname = '{self._database(place)}'"
        deadline = monotonic() + PATIENCE_SECONDS
        while self._execute(found) != (0,):
            assert monotonic() < deadline, f"the server still works for {place.name}"

    def remove(self, place: Path) -> None:
        super().remove(place)
        self._execute(f'DROP DATABASE "{self._database(place)}" WITH (FORCE)')

    def _database(self, place: Path) -> str:
        return f"crash_{place.name.replace(' ', '_')}"

    def _execute(self, sql: str) -> Any:
        # Opened anew each time: a child must not share a connection with the process that forked it.
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql)  # type: ignore[call-overload]
            return cursor.fetchone() if cursor.description else None


class Watched:
    """A driver's connection that tells the killer of every statement."""

    def __init__(self, connection: Any, killer: Listener, idle: tuple[str, ...]) -> None:
        self.__dict__.update(_connection=connection, _killer=killer, _idle=idle)

    def execute(self, sql: str) -> Any:
        if not sql.startswith(self._idle):
            self._killer.event(sql)
        return self._connection.execute(sql)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._connection, name, value)


def watch_statements(lab: Lab, killer: Listener, idle: tuple[str, ...] = IDLE) -> None:
    """Let the backend hand out watched connections.

    To die before a statement that changes nothing is to die before the next one that does, so those are left out.
    """
    backend: Any = lab.target
    real = backend.connect
    backend.connect = lambda: Watched(real(), killer, idle)
    if isinstance(backend, PostgresBackend):
        watch_copies(backend, killer)
    if isinstance(backend, MySQLBackend):
        watch_files_sent(killer)


def watch_copies(backend: Any, killer: Listener) -> None:
    """Rows that are sent to the server: before the first and before the last part of them."""
    real = backend.copy_in

    def parts(sql: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        killer.event(sql)
        *first, last = chunks
        yield from first
        killer.event(f"the end of {sql}")
        yield last

    backend.copy_in = lambda connection, sql, chunks: real(connection, sql, parts(sql, chunks))


def watch_files_sent(killer: Listener) -> None:
    """Rows that are sent to the server: before the first and before the last part of the file."""
    real = mysql.sent

    def parts(chunks: Iterator[bytes]) -> Iterator[bytes]:
        killer.event("the first part of LOAD DATA")
        *first, last = chunks, b""
        yield from (each for part in first for each in part)
        killer.event("the end of LOAD DATA")
        yield last

    mysql.sent = lambda chunks, take: real(parts(chunks), take)  # type: ignore[assignment]


def watch_files(_: Lab, killer: Killer) -> None:
    """Count what changes names of files: the steps by which a load in a folder becomes visible."""
    for name in ("rename", "replace", "link", "unlink"):
        _watch_call(name, killer)


def watch_steps(lab: Lab, killer: Listener) -> None:
    """Count the beginning and the end of every step, too."""
    lab.project.bus.subscribe(lambda event: killer.event(f"{type(event).__name__} {getattr(event, 'step', '')}"))


def _watch_call(name: str, killer: Killer) -> None:
    real = getattr(os, name)

    def watched(*arguments: Any, **more: Any) -> Any:
        killer.event(f"os.{name} {arguments}")
        return real(*arguments, **more)

    setattr(os, name, watched)


def open_lab(lane: Lane, scenario: Scenario, folder: Path, session: Callable[[], Any]) -> Lab:
    """The lab of a folder that may have been used before."""
    lab = Lab(lane, folder, session, **scenario.options)
    lab.types = read_table(scenario.header, ())[0]
    return lab


def prepare(lab: Lab, scenario: Scenario) -> None:
    """The load before, and the source of the load that will die."""
    if scenario.before is not None:
        lab(scenario.header, *scenario.before, at=FIRST)
    lab.seed(*read_table(scenario.header, scenario.rows))


def die(lab: Lab, killer: Killer) -> None:
    """Load, and be killed; the end of the run is the last event."""
    (watch_files if lab.lane.system.gaps else watch_statements)(lab, killer)
    watch_steps(lab, killer)
    lab.run(at=CRASHED, token=TOKEN)
    killer.event("the end of the run")


def look(lab: Lab, scenario: Scenario, before: Sequence[Row]) -> dict[str, Any]:
    """What the dead process left, and what the next runs make of it."""
    left, bookmark = lab.table(), lab.bookmark()
    states = {"before": said(before), "after": said(expected(lab, scenario, before, CRASHED))}
    state = next((name for name, rows in states.items() if rows == said(left)), "between")
    history = [(run.status, run.error) for run in lab.runs()]
    again = lab.run(at=NEXT, token=TOKEN)
    final = said(expected(lab, scenario, before, CRASHED if state == "after" else NEXT))
    repaired = said(lab.table()) == final
    token_changed = state == "after" and lab.table() != left
    records = [(run.status, run.error) for run in lab.runs()]
    # One more run finds nothing to do; on other paths that costs too much to be asked at every point.
    repeats = scenario.options["mode"] != "truncate" and lab.lane.path == "pushed"
    if repeats:
        lab.run(at=LAST)
    return {
        "state": state,
        "left": said(left),
        "states": states,
        "bookmark": bookmark.value if bookmark else None,
        "history": history,
        "replayed": bool(again.get("replayed")),
        "token_changed": token_changed,
        "repaired": repaired,
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


def in_child(work: Callable[[], Any], answer: Path) -> Any:
    """What `work` gives, done by a process of its own; None where it was killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            answer.write_text(json.dumps(work(), default=str), encoding="utf-8")
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return None
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError("a child failed; its error is above")
    return json.loads(answer.read_text(encoding="utf-8"))


def every_point(
    lane: Lane, name: str, folder: Path, session: Callable[[], Any], ground: Ground
) -> list[dict[str, Any]]:
    """Kill a load before every one of its steps, statements and changes of names, one process each."""
    scenario = SCENARIOS[name]
    base, answer, note = folder / "base", folder / "answer.json", folder / "note.txt"
    ground.make(base)

    def opened(place: Path) -> Lab:
        return open_lab(lane, scenario, place, session)

    def death(place: Path, number: int) -> str:
        die(opened(place), Killer(number, note))
        return "alive"

    def inspection(place: Path) -> dict[str, Any]:
        return look(opened(place), scenario, opened(base).table())

    in_child(lambda: prepare(opened(base), scenario), answer)
    found: list[dict[str, Any]] = []
    while True:
        place = folder / f"point {len(found) + 1}"
        ground.copy(base, place)
        if in_child(partial(death, place, len(found) + 1), answer) is not None:
            ground.remove(place)
            ground.remove(base)
            return found
        ground.settle(place)
        seen = in_child(partial(inspection, place), answer)
        found.append({"statement": note.read_text(encoding="utf-8"), **seen})
        ground.remove(place)


def spark_lane(system: str) -> Lane:
    """The lane that loads a system through Spark; folders take their rows from a database."""
    target = BY_NAME[system]
    return Lane(target, "spark", BY_NAME["sqlite"] if target.gaps else None)


def no_spark() -> Any:
    """What a load asks for that must do without Spark."""
    raise AssertionError("this path needs no Spark")


def load_modules() -> None:
    """What every child needs: loaded here once, while nothing is open yet."""
    for name in ("duckdb", "pyarrow", "pyarrow.parquet", "pgpq", "adbc_driver_postgresql.dbapi", "sqlglot.optimizer"):
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


def main(path: Route, system: str, name: str, folder: str, server: str = "") -> None:
    load_modules()
    ground, target = Ground(), BY_NAME[system]
    if system == "postgres":
        ground = ServerGround(server or postgres().url())
        target = ground.system
    if path == "spark":
        with contextmanager(shared_session)() as spark:
            found = every_point(spark_lane(system), name, Path(folder), lambda: spark, ground)
    else:
        found = every_point(Lane(target, path), name, Path(folder), no_spark, ground)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
