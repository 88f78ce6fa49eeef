"""Why there is no way into a database: what drivers say, told apart, each with its own next step."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import ConnectError, RefusedError
from .server_connection import ServerConnection

__all__ = ["CLOSED", "FULL", "LATE", "LOGIN", "LOST", "NO_DATABASE", "Reason", "connect_error", "reason_of"]


@dataclass(frozen=True)
class Reason:
    """Why a connection could not be made, or was lost."""

    hint: str
    is_refused: bool = False
    """The server answered: trying again changes nothing."""
    passing: bool = False
    """It may be otherwise in a moment."""


HOST = Reason("no machine is known by that name: check the host in the URL")
CLOSED = Reason("nobody listens there: check that the server runs, and the host and port in the URL", passing=True)
SILENT = Reason(
    "no answer came: check host and port in the URL and firewalls on the way, or wait longer: connect_timeout= of the "
    "connection",
    passing=True,
)
LOGIN = Reason("check the user and the password in the URL, and that this user may connect", is_refused=True)
RULE = Reason(
    "no rule of the server lets this user in from here: add one to its pg_hba.conf; a rule may ask for encryption, "
    "which sslmode= in the URL gives",
    is_refused=True,
)
NO_DATABASE = Reason("create the database, or name one that is there at the end of the URL", is_refused=True)
UNTRUSTED = Reason(
    "nobody whom this machine trusts has signed the server's certificate: name the certificate of who has, in the URL: "
    "sslrootcert= for PostgreSQL, ssl_ca= for MySQL",
    is_refused=True,
)
MISNAMED = Reason(
    "the server's certificate is for another name: write the host in the URL as the certificate says it",
    is_refused=True,
)
NO_FILE = Reason("a file of certificates or keys that the URL names cannot be used: check its path and rights", True)
NO_TLS = Reason("the server offers no encryption: switch it on there, or ask for none in the URL", is_refused=True)
CLIENT = Reason(
    "the server wants a certificate of this client, or does not trust the one it got: sslcert= and sslkey= in the URL "
    "for PostgreSQL, ssl_cert= and ssl_key= for MySQL",
    is_refused=True,
)
TLS = Reason("the two sides could not agree on encryption: check the options of TLS in the URL", is_refused=True)
FULL = Reason("the server has no connection free: run again, or let it have more", passing=True)
LATE = Reason("the server starts or stops: run again in a moment", passing=True)
LOST = Reason("the connection was lost: check that the server runs, then run again", passing=True)
OTHER = Reason("check the URL, that the server runs, and that this user may connect")

_SAID = (
    (r"translate host name|resolve host|Name or service not known|name resolution|nodename nor servname", HOST),
    (r"no pg_hba\.conf entry|pg_hba\.conf rejects", RULE),
    (r"closed the connection unexpectedly|SSL connection has been closed|EOF detected|unexpected eof", LOST),
    (r"certificate required|valid client certificate|alert (unknown ca|certificate|bad certificate)", CLIENT),
    (r"does not match host name|Hostname mismatch|IP address mismatch", MISNAMED),
    (r"(certificate|private key) file|could not (load|read) .*(certificate|key)|\[X509|\[PEM", NO_FILE),
    (r"certificate verify failed|self[- ]signed certificate", UNTRUSTED),
    (r"(does not|doesn.t) support (SSL|secure|TLS)|SSL is required|SSL was required", NO_TLS),
    (r"SSL error|\[SSL|TLS|sslmode", TLS),
    (r"Connection refused|No such file or directory|Network is unreachable|No route to host", CLOSED),
    (r"timeout expired|connection timeout|timed out", SILENT),
    (r"password authentication failed|no password supplied|role \".*\" (does not exist|is not permitted)", LOGIN),
    (r"authentication failed|Access denied", LOGIN),
    (r"database \".*\" does not exist|Unknown database", NO_DATABASE),
    (r"too many (clients|connections)|connection slots|max_user_connections", FULL),
    (r"starting up|shutting down|recovery mode|not (yet )?accepting connections|terminating connection", LATE),
)


def reason_of(text: str) -> Reason | None:
    """The reason that a driver's words tell; None where they tell none that is known."""
    return next((reason for said, reason in _SAID if re.search(said, text, re.IGNORECASE | re.DOTALL)), None)


def connect_error(text: str, reason: Reason | None, connection: ServerConnection) -> ConnectError:
    """The error of a connection that was refused or lost; says what the URL's references were."""
    reason = reason or OTHER
    hint = reason.hint
    if connection.references and reason is not LOST:
        hint += f" (filled from {', '.join(connection.references)})"
    kind = RefusedError if reason.is_refused else ConnectError
    error = kind(text, hint=hint, declared_at=connection.declared_at)
    error.passing = reason.passing
    return error
