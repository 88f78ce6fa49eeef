"""What there is to know of a server of MySQL or MariaDB before the first load: version, rights, clock, files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from ..types import Text
from .base import Fact
from .mysql_dialect import MySQLDialect
from .server import SchemaState, bookkeeping_fact, clock_fact
from .sql_connection import SqlConnection

__all__ = ["facts_of", "schema_state"]

OLDEST = {"MariaDB": (10, 6, 0), "MySQL": (8, 0, 17)}


def facts_of(connection: SqlConnection, schema: str, *, local_infile: bool) -> Sequence[Fact]:
    """Each fact in a few words; a warning says what does not work because of it. `schema` is the ledger's."""
    began = datetime.now(UTC)
    asked = connection.execute(
        "SELECT VERSION(), CURRENT_USER(), @@local_infile, @@log_bin, @@binlog_format, UTC_TIMESTAMP(6)"
    ).fetchall()[0]
    version, user, files, logs, form, clock = asked
    middle = began + (datetime.now(UTC) - began) / 2
    assert isinstance(clock, datetime)
    cipher = connection.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'").fetchall()
    encrypted = str(cipher[0][1]) if cipher else ""
    rights = _Rights(connection)
    facts = [
        _version(str(version)),
        Fact("user", str(user)),
        Fact("may create databases", rights.told("CREATE", "no, only use those that are there", "'%'")),
        bookkeeping_fact(schema, schema_state(connection, schema)),
        _temporary(rights),
        clock_fact(clock.replace(tzinfo=UTC) - middle),
        Fact("encrypted", f"yes, {encrypted}" if encrypted else "no"),
        Fact("rows come in by", "LOAD DATA" if files and local_infile else "INSERT, which is slower"),
        _large_tables(rights),
    ]
    if logs and form == "STATEMENT":
        facts.append(Fact("binlog_format", "STATEMENT, which refuses every load: use ROW or MIXED", is_warning=True))
    return facts


def _version(text: str) -> Fact:
    product = "MariaDB" if "MariaDB" in text else "MySQL"
    numbers = tuple(int(part) for part in re.findall(r"\d+", text.partition("-")[0])[:3])
    if numbers < OLDEST[product]:
        oldest = ".".join(map(str, OLDEST[product]))
        return Fact("version", f"{text}: older than {oldest}, which is not supported", is_warning=True)
    return Fact("version", text)


class _Rights:
    """What this user may do. What a role allows is in no list: the first run will tell."""

    def __init__(self, connection: SqlConnection) -> None:
        self._connection = connection
        role = str(connection.execute("SELECT CURRENT_ROLE()").fetchall()[0][0] or "NONE")
        self._role = "" if role == "NONE" else role

    def may(self, right: str, database: str = "DATABASE()") -> bool:
        """Whether the user has a right everywhere, or in a database, given as SQL; true where a role may give it."""
        return self._has(right, database) or bool(self._role)

    def told(self, right: str, no: str, database: str = "DATABASE()") -> str:
        """The same in words."""
        if self._has(right, database):
            return "yes"
        return f"if the role {self._role} does" if self._role else no

    def _has(self, right: str, database: str) -> bool:
        mine = f"privilege_type = '{right}' AND CONVERT(grantee USING utf8mb4) = CONVERT({_ME} USING utf8mb4)"
        found = self._connection.execute(
            f"SELECT EXISTS (SELECT 1 FROM information_schema.user_privileges WHERE {mine}) OR EXISTS "
            f"(SELECT 1 FROM information_schema.schema_privileges WHERE {mine} AND {database} LIKE table_schema)"
        ).fetchall()
        return bool(found[0][0])


_ME = (
    "CONCAT('''', LEFT(CURRENT_USER(), CHAR_LENGTH(CURRENT_USER()) - 1 - "
    "CHAR_LENGTH(SUBSTRING_INDEX(CURRENT_USER(), '@', -1))), '''@''', SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''')"
)


def schema_state(connection: SqlConnection, schema: str) -> SchemaState:
    """A database as this user finds it who wants to make a table there."""
    name = MySQLDialect().literal(schema, Text()).sql("mysql")
    found = connection.execute(f"SELECT 1 FROM information_schema.schemata WHERE schema_name = {name}").fetchall()
    allowed = _Rights(connection).may("CREATE", name)
    if found:
        return "there" if allowed else "closed"
    return "missing" if allowed else "forbidden"


def _temporary(rights: _Rights) -> Fact:
    right = "CREATE TEMPORARY TABLES"
    told = rights.told(right, f"no: loads need the right {right} on the database")
    return Fact("may make temporary tables", told, is_warning=not rights.may(right))


def _large_tables(rights: _Rights) -> Fact:
    told = "several connections"
    if not rights.may("LOCK TABLES"):
        told = "one connection: several need the right LOCK TABLES"
    return Fact("large tables are read by", told)
