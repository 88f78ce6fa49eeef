"""What passes by itself is tried again: a server that is away for a moment, a deadlock, an answer that was lost."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from ematix_flow.backends.retry import pauses
from ematix_flow.connections import MySQLConnection, PostgresConnection
from ematix_flow.errors import ConflictError, ConnectError
from ematix_flow.events import Event, RunRetried
from tests.backends.conftest import BY_NAME
from tests.backends.crash_run import no_spark
from tests.backends.lab import Lab, Lane, counts
from tests.backends.proxy import losing_the_answer
from tests.backends.watch import watch_statements
from tests.servers import Postgres, empty_mysql, empty_postgres, free_port

KINDS = {"postgres": (PostgresConnection, empty_postgres), "mysql": (MySQLConnection, empty_mysql)}


def lab_of(kind: str, url: str, folder: Path, **fields: int) -> Lab:
    """A lab that merges rows inside a server."""
    connection = KINDS[kind][0]
    system = replace(BY_NAME[kind], connect=lambda name, _: connection(name, url, **fields))
    return Lab(Lane(system, "pushed"), folder, no_spark, mode="merge")


def retries_of(lab: Lab) -> list[RunRetried]:
    """The events of trying again, as they come."""
    heard: list[RunRetried] = []

    def hear(event: Event) -> None:
        if isinstance(event, RunRetried):
            heard.append(event)

    lab.project.bus.subscribe(hear)
    return heard


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    """A server that nobody else uses."""
    server = Postgres()
    yield server
    server.remove()


class Restart:
    """Lets the server fall before the commit of a load, and come back by and by."""

    def __init__(self, server: Postgres) -> None:
        self.server, self.rising = server, threading.Thread(target=server.start)

    def event(self, text: str) -> None:
        if text.startswith('INSERT INTO "ematix_flow"."loads"') and not self.rising.ident:
            self.server.stop("immediate")
            self.rising.start()


@pytest.mark.server
def test_a_load_outlives_the_restart_of_its_server(own: Postgres, tmp_path: Path) -> None:
    lab = lab_of("postgres", f"{own.url()}?options=-csynchronous_commit%3Don", tmp_path)
    lab("id | v", "1 | a", at="09:00")
    heard, restart = retries_of(lab), Restart(own)
    watch_statements(lab, restart)
    result = lab("id | v", "1 | A", "2 | b", at="10:00")
    restart.rising.join()
    assert (counts(result), result.get("replayed")) == ((1, 1, 0), None)
    assert [(each.attempt, each.attempts) for each in heard] == [(2, 3)]
    assert "ConnectError" in heard[0].error
    assert lab.rows() == [(1, "A"), (2, "b")]
    assert [run.status for run in lab.runs()] == ["success", "success"]
    lab.close()


@pytest.mark.server
@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_whose_answer_was_lost_is_found_and_told_as_what_it_was(kind: str, tmp_path: Path) -> None:
    url = KINDS[kind][1]("lab0")
    near = lab_of(kind, url, tmp_path)
    near("id | v", "1 | a", at="09:00")
    # The first commit of a run is that of its record.
    with losing_the_answer(url, b"COMMIT", time=2) as proxy:
        lab = lab_of(kind, proxy.url, tmp_path)
        lab.types = near.types
        heard = retries_of(lab)
        near.seed(near.types, [{"id": 1, "v": "A"}, {"id": 2, "v": "b"}])
        result = lab.run(at="10:00")
        assert (proxy.lost, len(heard)) == (1, 1)
    assert (result["status"], counts(result), result.get("replayed")) == ("success", (1, 1, 0), None)
    assert near.rows() == [(1, "A"), (2, "b")]
    assert [(run.status, run.rows["rows_inserted"]) for run in near.runs()] == [("success", 1), ("success", 1)]
    near.close()


@pytest.mark.server
def test_a_run_whose_first_record_was_not_answered_is_recorded_once(tmp_path: Path) -> None:
    url = empty_postgres("lab0")
    near = lab_of("postgres", url, tmp_path)
    near("id | v", "1 | a", at="09:00")
    with losing_the_answer(url, b"COMMIT", time=1) as proxy:
        lab = lab_of("postgres", proxy.url, tmp_path)
        lab.types = near.types
        assert counts(lab.run(at="10:00")) == (0, 0, 1)
        assert proxy.lost == 1
    assert [run.status for run in near.runs()] == ["success", "success"]
    near.close()


@pytest.mark.server
def test_a_load_that_gives_way_in_a_deadlock_comes_back(tmp_path: Path) -> None:
    url = empty_postgres("lab0")
    lab = lab_of("postgres", url, tmp_path)
    lab("id | v", "1 | a", "2 | b", at="09:00")
    lab.seed(lab.types, [{"id": 1, "v": "A"}, {"id": 2, "v": "B"}])
    heard = retries_of(lab)

    class Rival:
        """Has what the load will need, and asks for what the load has: only the load looks for deadlocks."""

        def __init__(self) -> None:
            self.other = psycopg.connect(url)
            self.other.execute("SET deadlock_timeout = '1h'")
            self.other.commit()
            self.asking: threading.Thread | None = None

        def event(self, text: str) -> None:
            if text.startswith("CREATE TEMPORARY TABLE") and self.asking is None:
                self.other.execute("LOCK TABLE shop.customer IN ACCESS EXCLUSIVE MODE")
                self.asking = threading.Thread(target=self.ask)
                self.asking.start()

        def ask(self) -> None:
            self.other.execute("SELECT pg_advisory_xact_lock(hashtextextended('ematix_flow:shop.customer', 0))")
            self.other.commit()

    rival = Rival()
    watch_statements(lab, rival)
    result = lab.run(at="10:00")
    assert rival.asking is not None
    rival.asking.join()
    rival.other.close()
    assert counts(result) == (0, 2, 0)
    assert ["ConflictError" in each.error for each in heard] == [True]
    lab.close()


class Stumble:
    """Loses the server once, before the commit of a load."""

    def __init__(self) -> None:
        self.has_happened = False

    def event(self, text: str) -> None:
        if text.startswith('INSERT INTO "ematix_flow"."loads"') and not self.has_happened:
            self.has_happened = True
            error = ConnectError("lost")
            error.passing = True
            raise error


@pytest.mark.slow
@pytest.mark.server
def test_what_another_run_commits_between_two_tries_overtakes_this_one(tmp_path: Path) -> None:
    url = empty_postgres("lab0")
    system = replace(BY_NAME["postgres"], connect=lambda name, _: PostgresConnection(name, url))
    mine, other = (Lab(Lane(system, "copied"), tmp_path, no_spark, mode="merge") for _ in range(2))
    mine("id | v", "1 | a", at="09:00")

    def overtake(event: Event) -> None:
        if isinstance(event, RunRetried):
            other("id | v", "1 | newer", at="10:01")

    mine.project.bus.subscribe(overtake)
    watch_statements(mine, Stumble())
    with pytest.raises(ConflictError, match="committed first"):
        mine("id | v", "1 | old", at="10:00")
    assert other.rows() == [(1, "newer")]
    mine.close()
    other.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_not_there_is_asked_for_as_long_as_was_said_and_then_once(kind: str) -> None:
    url = f"{kind}://user:hunter2@127.0.0.1:{free_port()}/shop"
    backend = KINDS[kind][0]("shop", url, retry_timeout=1).open(None)
    began = time.monotonic()
    with pytest.raises(ConnectError, match=r"\(tried \d+ times in 1 s\)") as caught:
        backend.evaluate("SELECT 1")
    assert (caught.value.transient, caught.value.passing) == (True, False)
    assert "nobody listens there" in str(caught.value.hint)
    first = time.monotonic() - began
    for again in (backend.ping, lambda: backend.evaluate("SELECT 1")):
        with pytest.raises(ConnectError, match="refused"):
            again()
    assert (1 <= first < 5, time.monotonic() - began - first < first) == (True, True)


def test_pauses_grow_up_to_a_bound_and_differ_by_chance() -> None:
    assert list(itertools.islice(pauses(1, 5, lambda: 0.0), 5)) == [1, 2, 4, 5, 5]
    assert list(itertools.islice(pauses(1, 5, lambda: 1.0), 4)) == [0.5, 1, 2, 2.5]
