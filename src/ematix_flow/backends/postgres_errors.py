"""What PostgreSQL and its drivers complain of, as errors of ours."""

from __future__ import annotations

import re

from ..errors import BackendError, ConflictError, ConnectError, FlowError, UnsupportedError
from .connect_problem import FULL, LATE, LOGIN, LOST, NO_DATABASE, connect_error, reason_of
from .optional import optional
from .server_connection import PostgresConnection

__all__ = ["in_our_words"]

_CONFLICTS = ("40001", "40P01", "55P03")
_WAITED = "55P03"
_CANCELLED = "57014"
_BY_CODE = {"28": LOGIN, "3D": NO_DATABASE, "53300": FULL, "57P": LATE, "08": LOST}


def in_our_words(error: Exception, connection: PostgresConnection) -> FlowError:
    """The driver's error as one of ours, with the next step where there is one."""
    diagnosis = getattr(error, "diag", None)
    if getattr(error, "_pgconn", None) is not None:
        error._pgconn = None  # type: ignore[attr-defined]  # it shows the password to whoever looks into the cause
    code = str(getattr(error, "sqlstate", None) or "")
    lines = [str(error).partition("\n\nQuery was:")[0].strip()]
    if diagnosis is not None and diagnosis.message_primary:
        lines = [diagnosis.message_primary]
        lines += [str(diagnosis.message_detail)] if diagnosis.message_detail else []
        lines += re.findall(r"^LINE \d+: .*$", str(error), re.MULTILINE)
    text = f"connection {connection.name!r} (postgres): {'. '.join(line.rstrip('.') for line in lines)}"
    # What somebody else makes at the same moment is missing for us, and yet we cannot make it.
    made_twice = code == "23505" and diagnosis is not None and diagnosis.schema_name == "pg_catalog"
    if made_twice or code in _CONFLICTS:
        conflict = ConflictError(text, hint="another transaction was in the way; run again")
        conflict.passing = code != _WAITED  # who has waited for as long as he wanted to does not wait again
        return conflict
    if code == _CANCELLED:
        hint = "run again, or let a statement take longer: statement_timeout= of the connection"
        return ConnectError(text, hint=hint, declared_at=connection.declared_at)
    if code.startswith(("08", "28", "3D", "53", "57")) or (not code and _is_lost(error)):
        by_code = next((reason for start, reason in _BY_CODE.items() if code.startswith(start)), None)
        return connect_error(text, reason_of(text) or by_code, connection)
    kind = UnsupportedError if code == "0A000" else BackendError
    return kind(text, hint=diagnosis.message_hint if diagnosis is not None else None)


def _is_lost(error: Exception) -> bool:
    """Whether the driver has lost the server, or never had it."""
    psycopg = optional("psycopg", extra="postgres")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return True
    # The other driver has no class of its own for that.
    return not isinstance(error, psycopg.Error) and reason_of(str(error)) is not None
