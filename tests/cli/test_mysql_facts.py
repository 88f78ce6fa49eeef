"""`flow connections check` on a MariaDB server: what there is to know before the first load."""

from __future__ import annotations

import pymysql
import pytest

from tests.cli.calls import Flow
from tests.servers import empty_mysql, mariadb

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("empty_folder")]

NARROW = "narrow@'127.0.0.1'"


def told(flow: Flow, url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The facts by their names; those that change from run to run are looked at here."""
    monkeypatch.setenv("EMATIX_FLOW_DSN", url)
    result = flow("connections", "check", "default")
    assert result.exit_code == 0
    first, *facts = result.stdout.splitlines()
    assert first.startswith("default: ok (MariaDB 11")
    found = dict(line.strip().split(": ", 1) for line in facts)
    assert found.pop("version").startswith("11.4")
    assert found.pop("clock").startswith("0.")
    return found


def test_a_server_tells_version_rights_clock_encryption_and_files(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(flow, empty_mysql("facts_a"), monkeypatch) == {
        "user": "flow@127.0.0.1",
        "may create databases": "yes",
        "bookkeeping": "in ematix_flow, which the first run makes",
        "may make temporary tables": "yes",
        "encrypted": "no",
        "rows come in by": "LOAD DATA",
        "large tables are read by": "several connections",
    }


def test_a_right_that_is_missing_is_told_unless_a_role_may_have_it(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    url, server = empty_mysql("facts_a"), mariadb()
    narrow = url.replace("flow:flow@", "narrow:hunter2@")
    with pymysql.connect(host="127.0.0.1", port=server.port, user=server.USER, password="flow") as admin:
        cursor = admin.cursor()
        cursor.execute(f"DROP USER IF EXISTS {NARROW}")
        cursor.execute(f"CREATE USER {NARROW} IDENTIFIED BY 'hunter2'")
        cursor.execute(f"GRANT SELECT ON facts_a.* TO {NARROW}")
        missing = told(flow, narrow, monkeypatch)
        cursor.execute(f"GRANT LOCK TABLES, CREATE TEMPORARY TABLES ON `facts\\_a`.* TO {NARROW}")
        given = told(flow, narrow, monkeypatch)
        cursor.execute("CREATE ROLE IF NOT EXISTS makers")
        cursor.execute(f"GRANT makers TO {NARROW}")
        cursor.execute(f"SET DEFAULT ROLE makers FOR {NARROW}")
        unsure = told(flow, narrow, monkeypatch)
        cursor.execute(f"DROP USER {NARROW}")
        cursor.execute("DROP ROLE makers")
    assert missing["may create databases"] == "no, only use those that are there"
    assert missing["bookkeeping"].startswith("ematix_flow is missing, and this user may not make it")
    need = "no: loads need the right CREATE TEMPORARY TABLES on the database (warning)"
    assert missing["may make temporary tables"] == need
    assert missing["large tables are read by"] == "one connection: several need the right LOCK TABLES"
    assert (given["may make temporary tables"], given["large tables are read by"]) == ("yes", "several connections")
    assert unsure["may create databases"] == "if the role makers does"
    assert unsure["bookkeeping"] == "in ematix_flow, which the first run makes"
