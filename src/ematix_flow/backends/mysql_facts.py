"""What there is to know of a MySQL or MariaDB server before the first load: version, rights, encryption, files."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..types import Text
from .base import Fact
from .mysql_dialect import MySQLDialect
from .server import SchemaState, bookkeeping_fact
from .sql_connection import SqlConnection

__all__ = ["facts_of", "schema_state"]

OLDEST = {"MariaDB": (10, 6, 0), "MySQL": (8, 0, 17)}


def facts_of(connection: SqlConnection, schema: str, *, local_infile: bool) -> Sequence[Fact]:
    """Each fact in a few words; a warning says what does not work because of it. `schema` is the ledger's."""
    version, user, files, logs, form = connection.execute(
        "SELECT VERSION(), CURRENT_USER(), @@local_infile, @@log_bin, @@binlog_format"
    ).fetchall()[0]
    cipher = connection.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'").fetchall()
    encrypted = str(cipher[0][1]) if cipher else ""
    facts = [
        _version(str(version)),
        Fact("user", str(user)),
        bookkeeping_fact(schema, schema_state(connection, schema)),
        Fact("encrypted", f"yes, {encrypted}" if encrypted else "no"),
        Fact("rows come in by", "LOAD DATA" if files and local_infile else "INSERT, which is slower"),
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


def schema_state(connection: SqlConnection, schema: str) -> SchemaState:
    """A database as this user finds it who wants to make a table there."""
    name = MySQLDialect().literal(schema, Text()).sql("mysql")
    there, creates, role = connection.execute(_QUESTION.format(name=name)).fetchall()[0]
    # What a role may do is in none of these lists; the first run will tell.
    allowed = creates or role not in (None, "", "NONE")
    if there:
        return "there" if allowed else "closed"
    return "missing" if allowed else "forbidden"


_ME = (
    "CONCAT('''', LEFT(CURRENT_USER(), CHAR_LENGTH(CURRENT_USER()) - 1 - "
    "CHAR_LENGTH(SUBSTRING_INDEX(CURRENT_USER(), '@', -1))), '''@''', SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''')"
)
_MINE = f"privilege_type = 'CREATE' AND CONVERT(grantee USING utf8mb4) = CONVERT({_ME} USING utf8mb4)"
_QUESTION = f"""
SELECT EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = {{name}}),
  EXISTS (SELECT 1 FROM information_schema.user_privileges WHERE {_MINE})
  OR EXISTS (SELECT 1 FROM information_schema.schema_privileges WHERE {_MINE} AND {{name}} LIKE table_schema),
  CURRENT_ROLE()
"""
