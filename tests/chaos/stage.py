"""Where a load meets its fault: one database, one folder, drivers that load and rivals that disturb them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ematix_flow.errors import FlowError
from tests.backends.conftest import BY_NAME
from tests.backends.lab import Lab, Lane
from tests.backends.store import Row
from tests.backends.watch import IDLE, watch_statements, watch_steps
from tests.chaos.databases import Database, wait_until
from tests.chaos.processes import Driver, Gate, Outcome, in_child
from tests.chaos.scenario import TYPES, Scenario
from tests.chaos.spark import flawed

FIRST, CRASHED, RIVAL, NEXT, LAST = "09:00", "10:00", "10:30", "11:00", "12:00"
TOKEN, OTHER = "the load that meets the fault", "the other load"


class Stage:
    """The place of one run."""

    def __init__(self, scenario: Scenario, database: Database, folder: Path, spark: Callable[[], Any]) -> None:
        self.scenario, self.database, self.folder, self.spark = scenario, database, folder, spark
        self.marker = folder / "went wrong"
        self.dice: random.Random = scenario.dice()
        self.seconds = 0.2
        """How long a load takes, about."""

    def lab(self, **fields: Any) -> Lab:
        """The lab, for the process that asks; `fields` are those of the target's connection."""
        source = None if self.scenario.source is None else BY_NAME[self.scenario.source]
        lane = Lane(self.database.system(**fields), self.scenario.way, source)
        lab = Lab(lane, self.folder, self.spark, **self.scenario.options)
        lab.types = dict(TYPES)
        return lab

    def seed(self, rows: Sequence[Row]) -> None:
        """Let the source hold these rows."""
        in_child(lambda: self.lab().seed(TYPES, rows))

    def start(
        self,
        *,
        token: str = TOKEN,
        at: str = CRASHED,
        pause: int = 0,
        moment: str = "",
        idle: tuple[str, ...] = IDLE,
        **fields: Any,
    ) -> Driver:
        """A process that loads; it waits before the `pause`th thing it does that begins with `moment`."""

        def work(channel: Any) -> Outcome:
            lab, gate = self.lab(**fields), Gate(channel, pause, moment)
            if pause:
                watch_statements(lab, gate, idle)
                watch_steps(lab, gate)
            outcome = self.load(lab, token, at)
            gate.event("the end of the run")
            return outcome

        return Driver(work)

    def load(self, lab: Lab, token: str, at: str) -> Outcome:
        """Run the pipeline; a failure that is ours is an outcome, any other is a mistake."""
        rows, flaw = self.scenario.rows, self.scenario.flaw
        frame = {"sql": flawed(self.spark(), rows, flaw, self.marker)} if flaw else {}
        try:
            result = lab.run(at=at, token=token, **frame)
        except FlowError as error:
            return Outcome(type(error).__name__, transient=error.transient, text=str(error))
        return Outcome("success", replayed=bool(result.get("replayed")))

    def is_stuck(self, driver: Driver) -> bool:
        """Wait until the driver has ended or waits for a lock; tells whether it waits."""

        with self.database.ask() as ask:

            def is_decided() -> bool:
                driver.wait(0.005)
                return driver.ended or bool(ask(self.database.WAITING))

            wait_until(is_decided)
        return not driver.ended

    @contextmanager
    def rival(self) -> Iterator[Rival]:
        """Somebody else's transaction, which changes no value and is undone at the end."""
        connection = self.database.rival()
        try:
            yield Rival(connection, self.database)
        finally:
            connection.close()


class Rival:
    """A transaction that disturbs."""

    def __init__(self, connection: Any, database: Database) -> None:
        self._connection, self._database = connection, database

    def hold(self, sql: str, *, stubborn: bool = True) -> None:
        """Take locks. In a deadlock, who is stubborn lets the other one give way."""
        self._connection.execute(self._database.STUBBORN if stubborn else self._database.MEEK)
        self._connection.execute(sql)

    def ask(self, sql: str) -> bool:
        """Ask for more locks; tells whether the server refused them. The transaction ends."""
        refused = False
        try:
            self._connection.execute(sql)
        except Exception:  # noqa: BLE001 - what the driver of either database raises
            refused = True
        self._connection.rollback()
        return refused
