"""What there is to know of a PostgreSQL server before the first load: version, rights, clock, encryption, letters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from .base import Fact
from .postgres_functions import COLLATION
from .sql_connection import SqlConnection
from .sql_ledger import SCHEMA

__all__ = ["facts_of"]

OLDEST = 12
CLOCKS_APART = timedelta(seconds=5)


def facts_of(connection: SqlConnection) -> Sequence[Fact]:
    """Each fact in a few words; a warning says what does not work because of it."""
    began = datetime.now(UTC)
    asked = connection.execute(_QUESTION).fetchall()[0]
    number, version, user, creates, has_schema, temporary, clock, cipher, letters, encoding, standby = asked
    middle = began + (datetime.now(UTC) - began) / 2
    assert isinstance(clock, datetime)
    facts = [
        _version(str(version), int(str(number)) // 10_000),
        Fact("user", str(user)),
        _schemas(bool(creates), bool(has_schema)),
        _temporary(bool(temporary)),
        _clock(clock - middle),
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
  EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = '{SCHEMA}'),
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


def _schemas(creates: bool, has_schema: bool) -> Fact:
    if creates:
        return Fact("may create schemas", "yes")
    if has_schema:
        return Fact("may create schemas", f"no, only use those that are there; {SCHEMA} is")
    return Fact("may create schemas", f"no, and the schema {SCHEMA} is missing: runs need it", is_warning=True)


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


def _clock(ahead: timedelta) -> Fact:
    shown = f"{abs(ahead).total_seconds():.1f} s {'ahead of' if ahead > timedelta(0) else 'behind'} this machine"
    return Fact("clock", shown, is_warning=abs(ahead) > CLOCKS_APART)
