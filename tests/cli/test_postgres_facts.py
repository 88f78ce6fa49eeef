"""`flow connections check` and `flow doctor` on a PostgreSQL server: what there is to know before the first load."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from ematix_flow.backends.postgres_facts import _version
from ematix_flow.backends.server import clock_fact
from tests.cli.calls import Flow
from tests.servers import empty_postgres

pytestmark = pytest.mark.server


@pytest.fixture
def url() -> str:
    return empty_postgres("facts")


@pytest.fixture
def narrow_url(url: str) -> Iterator[str]:
    """The database as somebody sees it who may do little."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS narrow")
        admin.execute("CREATE ROLE narrow LOGIN PASSWORD 'hunter2'; REVOKE TEMPORARY ON DATABASE facts FROM PUBLIC")
        yield url.replace("postgres@", "narrow:hunter2@")
        admin.execute(
            "DROP SCHEMA IF EXISTS ematix_flow; DROP ROLE narrow; GRANT TEMPORARY ON DATABASE facts TO PUBLIC"
        )


@pytest.mark.usefixtures("empty_folder")
def test_a_server_tells_version_rights_clock_encryption_and_letters(
    flow: Flow, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMATIX_FLOW_DSN", url)
    result = flow("connections", "check", "default")
    assert result.exit_code == 0
    first, *facts = result.stdout.splitlines()
    assert first.startswith("default: ok (PostgreSQL 18")
    told = dict(line.strip().split(": ", 1) for line in facts)
    assert told.pop("version").startswith("18")
    assert told.pop("clock").startswith("0.")
    assert told == {
        "user": "postgres",
        "may create schemas": "yes",
        "bookkeeping": "in ematix_flow, which the first run makes",
        "may make temporary tables": "yes",
        "encrypted": "no",
        "letters of lower() and upper()": "collation pg_unicode_fast",
    }
    found = {each["name"]: each for each in json.loads(flow("doctor", "--format", "json").stdout)}
    assert found["default"]["status"] == "ok"
    assert found["default"]["detail"] == first.removeprefix("default: ok (").removesuffix(")")


@pytest.mark.usefixtures("empty_folder")
def test_a_right_that_loads_will_miss_is_a_warning_in_both(
    flow: Flow, url: str, narrow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMATIX_FLOW_DSN", narrow_url)
    lines = flow("connections", "check", "default").stdout.splitlines()
    assert "  may create schemas: no, only use those that are there" in lines
    assert [line for line in lines if line.startswith("  bookkeeping: ematix_flow is missing") and "(warning)" in line]
    assert "  may make temporary tables: no: loads need the right TEMPORARY on the database (warning)" in lines
    found = {each["name"]: each for each in json.loads(flow("doctor", "--format", "json").stdout)}
    assert "; bookkeeping: ematix_flow is missing" in found["default"]["detail"]
    assert found["default"]["status"] == "ok"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA ematix_flow")
    assert "may not make tables in ematix_flow" in flow("connections", "check", "default").stdout
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("GRANT USAGE, CREATE ON SCHEMA ematix_flow TO narrow")
    assert "  bookkeeping: in ematix_flow\n" in flow("connections", "check", "default").stdout


@pytest.mark.usefixtures("empty_folder")
def test_a_server_that_is_not_there_exits_with_2_and_shows_no_password(
    flow: Flow, narrow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMATIX_FLOW_DSN", narrow_url.replace("/facts", "/nothing_here"))
    result = flow("connections", "check", "default")
    assert (result.exit_code, result.stdout) == (2, "")
    assert 'database "nothing_here" does not exist' in result.stderr
    assert "hunter2" not in result.stderr


@pytest.mark.parametrize(
    ("seconds", "shown", "is_warning"),
    [(0.04, "0.0 s ahead of", False), (-7, "7.0 s behind", True), (3, "3.0 s ahead of", False)],
)
def test_clocks_that_are_far_apart_are_a_warning(seconds: float, shown: str, is_warning: bool) -> None:
    fact = clock_fact(timedelta(seconds=seconds))
    assert (fact.value, fact.is_warning) == (f"{shown} this machine", is_warning)


def test_a_version_that_is_too_old_is_a_warning() -> None:
    assert (_version("11.22", 11).is_warning, _version("12.1", 12).is_warning) == (True, False)
