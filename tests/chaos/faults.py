"""What may happen to a load. Each fault is a class whose one method lets a load run into it."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from tests.chaos.processes import Outcome
from tests.chaos.scenario import Needs
from tests.chaos.spark import AGAIN
from tests.chaos.stage import CRASHED, OTHER, RIVAL, TOKEN, Stage

CHANGES = 24
"""About as many steps and statements that change something has a load."""
STATEMENTS = 75
"""About as many steps and statements has a load."""


@dataclass(frozen=True)
class Strike:
    """What happened."""

    moment: str
    outcomes: tuple[tuple[str, Outcome | None], ...]
    """How each driver ended, with its token; None where it was killed."""
    newer: bool = False
    """Whether somebody else has brought newer rows meanwhile."""


class Fault(ABC):
    """Something that goes wrong while rows are loaded."""

    needs = Needs()

    @abstractmethod
    def strike(self, stage: Stage) -> Strike:
        """Let a load meet the fault."""


class KilledAtStatement(Fault):
    """The driver dies before one of its steps, statements or parts of COPY and LOAD DATA."""

    def strike(self, stage: Stage) -> Strike:
        driver = stage.start(pause=stage.dice.randrange(1, CHANGES))
        moment = driver.wait()
        driver.send(signal.SIGKILL)
        return Strike(moment or "the end", ((TOKEN, driver.end()),))


class KilledAtSomeTime(Fault):
    """The driver dies whatever it is doing."""

    def strike(self, stage: Stage) -> Strike:
        seconds = stage.dice.uniform(0, 1.2) * stage.seconds
        driver = stage.start()
        driver.wait(seconds)
        driver.send(signal.SIGKILL)
        return Strike(f"after {seconds:.3f} s", ((TOKEN, driver.end()),))


class ConnectionCut(Fault):
    """The server ends the sessions of the load before one of its statements, those that only ask included."""

    def strike(self, stage: Stage) -> Strike:
        driver = stage.start(pause=stage.dice.randrange(1, STATEMENTS), idle=())
        moment = driver.wait()
        if moment is not None:
            stage.database.cut()
            driver.go()
        return Strike(moment or "the end", ((TOKEN, driver.end()),))


class ServerFell(Fault):
    """The server is killed before a statement of the load, and started again afterwards."""

    def strike(self, stage: Stage) -> Strike:
        # It is not to wait for the server, which comes back when the load has ended.
        driver = stage.start(pause=stage.dice.randrange(1, CHANGES), retry_timeout=0, load_retries=0)
        moment = driver.wait()
        if moment is not None:
            stage.database.fall()
            driver.go()
        outcome = driver.end()
        if moment is not None:
            stage.database.rise()
        return Strike(moment or "the end", ((TOKEN, outcome),))


class Deadlock(Fault):
    """Somebody else holds a row that the load needs, and then asks for those that the load holds."""

    needs = Needs(meets_rows=True)

    def strike(self, stage: Stage) -> Strike:
        assert stage.scenario.before is not None
        held = stage.dice.choice(stage.scenario.before)["id"]
        with stage.rival() as rival:
            rival.hold(f"UPDATE shop.customer SET n = n WHERE id = {held}", stubborn=stage.dice.random() < 0.7)
            driver = stage.start(lock_timeout=3)
            moment = "the load passed by"
            if stage.is_stuck(driver):
                refused = rival.ask("UPDATE shop.customer SET n = n")
                moment = "the rival gave way" if refused else "the rival had what it asked for"
        return Strike(moment, ((TOKEN, driver.end()),))


class LockTimeout(Fault):
    """Somebody else holds the table for longer than the load is willing to wait."""

    needs = Needs(meets_rows=True)

    def strike(self, stage: Stage) -> Strike:
        with stage.rival() as rival:
            rival.hold(stage.database.LOCK_TABLE)
            driver = stage.start(lock_timeout=1)
            outcome = driver.end()
        return Strike("a lock of another", ((TOKEN, outcome),))


class _Rival(Fault):
    token = TOKEN

    def strike(self, stage: Stage) -> Strike:
        first = stage.start(pause=stage.dice.randrange(1, CHANGES))
        moment = first.wait()
        second = stage.start(token=self.token)
        stage.is_stuck(second)
        if moment is not None:
            first.go()
        return Strike(moment or "the end", ((TOKEN, first.end()), (self.token, second.end())))


class RivalWithTheSameToken(_Rival):
    """Another driver runs the same pipeline for the same token while the first is in the middle of it."""


class RivalWithAnotherToken(_Rival):
    """Another driver runs the same pipeline on its own account while the first is in the middle of it."""

    token = OTHER


class Zombie(Fault):
    """The driver stands still once it has read; another one brings newer rows; then the first goes on."""

    needs = Needs(reads_early=True)

    def strike(self, stage: Stage) -> Strike:
        driver = stage.start(pause=1, moment="StepFinished read", at=CRASHED)
        moment = driver.wait()
        driver.send(signal.SIGSTOP)
        driver.go()
        stage.seed(stage.scenario.newer)
        other = stage.start(token=OTHER, at=RIVAL).end()
        driver.send(signal.SIGCONT)
        return Strike(moment or "the end", ((TOKEN, driver.end()), (OTHER, other)), newer=True)


class SparkDriverKilled(KilledAtStatement):
    """The driver dies while rows come through Spark."""

    needs = Needs(way="spark")


class SparkZombie(Zombie):
    """The driver stands still once Spark has the rows."""

    needs = Needs(reads_early=True, way="spark")


class FlawedTask(Fault):
    """One task of Spark goes wrong, and Spark tries it again."""

    def __init__(self, flaw: str) -> None:
        self.needs = Needs(way="spark", flaw=flaw)

    def strike(self, stage: Stage) -> Strike:
        driver = stage.start()
        outcome = driver.end()
        assert stage.marker.with_name(f"{stage.marker.name}{AGAIN}").exists(), f"no task was tried again: {outcome}"
        return Strike(f"a task that {self.needs.flaw}", ((TOKEN, outcome),))


FAULTS: Mapping[str, Fault] = {
    "killed at a statement": KilledAtStatement(),
    "killed at some time": KilledAtSomeTime(),
    "connection cut": ConnectionCut(),
    "server fell": ServerFell(),
    "deadlock": Deadlock(),
    "lock time-out": LockTimeout(),
    "rival, same token": RivalWithTheSameToken(),
    "rival, other token": RivalWithAnotherToken(),
    "zombie": Zombie(),
}
SPARK: Mapping[str, Fault] = {
    "Spark: worker killed": FlawedTask("dies"),
    "Spark: task failed": FlawedTask("fails"),
    "Spark: executor killed": FlawedTask("loses its executor"),
    "Spark: driver killed": SparkDriverKilled(),
    "Spark: zombie": SparkZombie(),
}
WEIGHTS = {"killed at a statement": 11, "killed at some time": 6, "connection cut": 8, "server fell": 1, "deadlock": 5,
           "lock time-out": 1, "rival, same token": 4, "rival, other token": 4, "zombie": 5}  # fmt: skip


def _wheel() -> tuple[str, ...]:
    """Which fault a seed has: each of them once, then by their weights, those that cost seconds rarely."""
    left = {name: weight - 1 for name, weight in WEIGHTS.items()}
    wheel = list(FAULTS)
    while any(left.values()):
        for name in [name for name, count in left.items() if count]:
            wheel.append(name)
            left[name] -= 1
    return tuple(wheel)


WHEEL = _wheel()
