"""What MySQL and its driver complain of, as errors of ours."""

from __future__ import annotations

import re

from ..errors import BackendError, ConflictError, ConnectError, FlowError
from .connect_problem import CLOSED, FULL, LATE, LOGIN, LOST, NO_DATABASE, connect_error, reason_of
from .mysql_dialect import REFUSAL
from .server_connection import MySQLConnection

__all__ = ["in_our_words"]

_CONFLICTS = (1050, 1205, 1213, 3572)
_WAITED = 1205
_TOO_LONG = (1969, 3024)
_FORBIDDEN = (1044, 1142, 1143, 1227)
_UNREACHED = {
    1040: FULL, 1045: LOGIN, 1049: NO_DATABASE, 1053: LATE, 1203: FULL, 1226: FULL, 1927: LOST, 2002: CLOSED,
    2003: CLOSED, 2006: LOST, 2013: LOST, 2026: None, 2055: LOST, 3159: None,
}  # fmt: skip
_REFUSED = (1059, 3057, 4163)
_MIXED = 1267
_NAMED = re.compile(r"(?:Identifier name|Incorrect user-level lock name) '(.*)'", re.DOTALL)


def in_our_words(error: Exception, connection: MySQLConnection, collation: str) -> FlowError:
    """The driver's error as one of ours, with the next step where there is one."""
    where, at = f"connection {connection.name!r} (mysql)", connection.declared_at
    code, text = error.args if len(error.args) == 2 else (0, str(error))
    refusal = _refusal(str(text)) if code in _REFUSED else None
    if refusal is not None:
        return BackendError(f"{where}: {refusal}")
    text = f"{where}: {text}"
    if code in _CONFLICTS:
        conflict = ConflictError(text, hint="another transaction was in the way; run again")
        conflict.passing = code != _WAITED  # who has waited for as long as he wanted to does not wait again
        return conflict
    if code in _UNREACHED:
        return connect_error(text, reason_of(text) or _UNREACHED[code], connection)
    if code in _TOO_LONG:
        hint = "run again, or let a statement take longer: statement_timeout= of the connection"
        return ConnectError(text, hint=hint, declared_at=at)
    if code in _FORBIDDEN:
        return BackendError(text, hint="let this user do it: GRANT … ON …, or use a database of theirs")
    if code == _MIXED:
        hint = f"give the text columns of the table the collation {collation}: ALTER TABLE … CONVERT TO"
        return BackendError(text, hint=hint)
    return BackendError(text)


def _refusal(text: str) -> str | None:
    """What a query of ours refused, which the server takes for a name that is too long, and may have cut."""
    found = _NAMED.match(text)
    if found is None:
        return None
    said = found[1].removesuffix("...")
    is_cut = said != found[1] and " " in said
    # A name that a user gave is shorter, and does not end in blanks.
    return said.rstrip() if is_cut or said.endswith(" ") or len(said) >= REFUSAL else None
