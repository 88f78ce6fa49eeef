"""An older PostgreSQL, version 16 in a build without ICU: the same loads and values, and what it cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pytest

from ematix_flow import BigInt, Text, normalize, pk
from ematix_flow.backends.postgres_dialect import PostgresDialect
from ematix_flow.connections import PostgresConnection
from ematix_flow.errors import UnsupportedError
from ematix_flow.types import JSONB
from tests.backends.conftest import BY_NAME
from tests.backends.crash_run import no_spark
from tests.backends.lab import Lab, Lane, Route, counts
from tests.backends.test_one_meaning import READ, REFUSED
from tests.servers import empty_postgres
from tests.strategies.engines import REFUSALS, Engine
from tests.strategies.test_dialects import FITS

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("postgres 16")]  # one server is enough

OLDER = replace(
    BY_NAME["postgres"], connect=lambda name, _: PostgresConnection(name, empty_postgres(f"older_{name}", 16))
)


@pytest.fixture(params=["pushed", "copied"])
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    path: Route = request.param
    lab = Lab(Lane(OLDER, path), tmp_path, no_spark)
    yield lab
    lab.close()


def test_merge_tells_new_changed_and_vanished_rows_apart(older: Lab) -> None:
    options = {"mode": "merge", "handle_deletes": "hard"}
    older("id | v", "1 | a", "2 | b", "3 | c", **options)
    result = older("id | v", "1 | a", "2 | B", "4 | d", **options)
    assert counts(result) == (1, 1, 1)
    assert older.rows() == [(1, "a"), (2, "B"), (4, "d")]


def test_scd2_keeps_versions_and_closes_vanished_keys(older: Lab) -> None:
    older("id | v", "1 | a", "2 | b", at="09:00", mode="scd2")
    older("id | v", "1 | A", at="10:00", mode="scd2", handle_deletes="soft")
    assert older.history(1) == [("a", "09:00", "10:00"), ("A", "10:00", None)]
    assert older.history(2) == [("b", "09:00", "10:00")]


def test_scd2_of_event_time_takes_late_events_in(older: Lab) -> None:
    options = {"mode": "scd2", "event_timestamp_column": "at", "late_events": "insert"}
    older("id | v | at", "1 | a | 09:00", "1 | c | 11:00", **options)
    older("id | v | at", "1 | b | 10:00", **options)
    assert [version[0] for version in older.history(1)] == ["a", "b", "c"]


def test_truncate_replaces_and_append_goes_on_from_its_bookmark(older: Lab) -> None:
    older("id | n:BigInt", "1 | 4", "2 | 5", mode="append", incremental_column="n")
    older("id | n:BigInt", "2 | 5", "3 | 6", mode="append", incremental_column="n")
    assert older.rows() == [(1, 4), (2, 5), (3, 6)]
    older("id | n:BigInt", "9 | 9", mode="truncate")
    assert older.rows() == [(9, 9)]


def test_a_letter_is_not_changed_by_a_server_that_does_not_know_all_of_them(older: Lab) -> None:
    columns = {"id": Annotated[BigInt, pk()], "v": Annotated[Text, normalize.lower()]}
    with older.refused(UnsupportedError, "no collation that knows all letters of Unicode") as caught:
        older("id | v", "1 | ÉCOLE", mode="merge", columns=columns)
    assert caught.value.hint == "let Spark clean the rows: force_path='spark'"  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    connection = PostgresConnection("older", empty_postgres("older_dialect", 16)).open(None).connect()
    yield Engine(PostgresDialect(), lambda sql: connection.execute(sql).fetchall()[0][0])
    connection.close()


def test_values_mean_what_they_mean_on_newer_servers(engine: Engine) -> None:
    cases = [*FITS, *(case for case in READ if not isinstance(case[0], JSONB))]
    found = [(kind, source, engine.text(source, kind)) for kind, source, _ in cases]
    assert found == cases


def test_what_newer_servers_refuse_is_refused(engine: Engine) -> None:
    for kind, source in REFUSED:
        with pytest.raises(REFUSALS):
            engine.text(source, kind)


def test_a_server_says_what_it_lacks(tmp_path: Path) -> None:
    lab = Lab(Lane(OLDER, "pushed"), tmp_path, no_spark)
    assert lab.target.ping().startswith("PostgreSQL 16")
    warnings = [fact for fact in lab.target.facts() if fact.is_warning]
    assert [fact.name for fact in warnings] == ["letters of lower() and upper()"]
    lab.close()
