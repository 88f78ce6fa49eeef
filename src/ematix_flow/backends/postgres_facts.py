"""What there is to know of a PostgreSQL server before the first load: version, rights, clock, encryption, letters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ..types import Text
from .base import Fact
from .postgres_dialect import PostgresDialect
from .postgres_functions import COLLATION
from .server import SchemaState, bookkeeping_fact, clock_fact
from .sql_connection import SqlConnection

__all__ = ["facts_of", "schema_state"]

OLDEST = 12


def facts_of(connection: SqlConnection, schema: str) -> Sequence[Fact]:
    """Each fact in a few words; a warning says what does not work because of it. `schema` is the ledger's."""
    began = datetime.now(UTC)
    asked = connection.execute(_QUESTION).fetchall()[0]
    number, version, user, creates, temporary, clock, cipher, letters, encoding, standby = asked
    middle = began + (datetime.now(UTC) - began) / 2
    assert isinstance(clock, datetime)
    facts = [
        _version(str(version), int(str(number)) // 10_000),
        Fact("user", str(user)),
        Fact("may create schemas", "yes" if creates else "no, only use those that are there"),
        bookkeeping_fact(schema, schema_state(connection, schema, "run_history")),
        _temporary(bool(temporary)),
        clock_fact(clock - middle),
        Fact("encrypted", f"yes, {cipher}" if cipher else "no"),
        _letters(None if letters is None else str(letters)),
    ]
    if encoding != "UTF8":
        facts.append(Fact("encoding", f"{encoding}: texts outside of it are refused", is_warning=True))
    if standby:
        facts.append(Fact("may be written", "no: this server is a standby", is_warning=True))
    return facts


_QUESTION = f"""
SELECT current_setting('server_version_num'), current_setting('server_version'), current_user,
  has_database_privilege(current_database(), 'CREATE'),
  has_database_privilege(current_database(), 'TEMPORARY'),
  clock_timestamp(),
  (SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl),
  (SELECT collname {COLLATION}),
  current_setting('server_encoding'), pg_is_in_recovery()
"""


def _version(text: str, major: int) -> Fact:
    if major < OLDEST:
        return Fact("version", f"{text}: older than {OLDEST}, which is not supported", is_warning=True)
    return Fact("version", text)


def schema_state(connection: SqlConnection, schema: str, table: str) -> SchemaState:
    """A schema as this user finds it who wants to make a table there, or use it where it is."""
    name, wanted = (PostgresDialect().literal(text, Text()).sql("postgres") for text in (schema, table))
    found = connection.execute(
        "SELECT has_schema_privilege(n.oid, 'USAGE'), has_schema_privilege(n.oid, 'CREATE'), "
        f"EXISTS (SELECT 1 FROM pg_class AS c WHERE c.relnamespace = n.oid AND c.relname = CAST({wanted} AS name)) "
        f"FROM pg_namespace AS n WHERE n.nspname = CAST({name} AS name)"
    ).fetchall()
    if found:
        usable, fillable, filled = found[0]
        return "there" if usable and (fillable or filled) else "closed"
    creates = connection.execute("SELECT has_database_privilege(current_database(), 'CREATE')").fetchall()[0][0]
    return "missing" if creates else "forbidden"


def _temporary(allowed: bool) -> Fact:
    name = "may make temporary tables"
    if allowed:
        return Fact(name, "yes")
    return Fact(name, "no: loads need the right TEMPORARY on the database", is_warning=True)


def _letters(collation: str | None) -> Fact:
    name = "letters of lower() and upper()"
    if collation is None:
        return Fact(name, "no collation knows all of Unicode: let Spark clean, force_path='spark'", is_warning=True)
    return Fact(name, f"collation {collation}")
