"""What a server's URL may say: its scheme and the options behind it, checked before anything is opened."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ..errors import SpecError, UnknownNameError, nearest
from ..spec.connection import Connection, own_fields
from ..spec.kinds import SCHEMES
from ..spec.url import split_url

__all__ = ["LIBPQ", "LIBPQ_WORDS", "MYSQL", "check_url", "url_options"]

LIBPQ = frozenset(
    "application_name channel_binding client_encoding connect_timeout dbname fallback_application_name gssdelegation "
    "gssencmode gsslib host hostaddr keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname "
    "load_balance_hosts max_protocol_version min_protocol_version oauth_client_id oauth_client_secret oauth_issuer "
    "oauth_scope options passfile password port replication require_auth requirepeer requiressl scram_client_key "
    "scram_server_key service servicefile ssl ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode "
    "sslcompression sslcrl sslcrldir sslkey sslkeylogfile sslmode sslnegotiation sslpassword sslrootcert sslsni "
    "target_session_attrs tcp_user_timeout user".split()
)
"""The options that libpq knows."""
LIBPQ_WORDS: Mapping[str, tuple[str, ...]] = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "gssencmode": ("disable", "prefer", "require"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
}
MYSQL = frozenset(("charset", "ssl_ca", "ssl_cert", "ssl_key", "ssl_verify_cert", "ssl_verify_identity"))


def url_options(url: str) -> dict[str, str]:
    """The options behind a URL; none where a password with a ``?`` in it may be taken for them."""
    _, options = split_url(url, ("user", "password", "host", "path")) if "://" in url else ({}, {})
    return {} if any("@" in text for option in options.items() for text in option) else options


def check_url(connection: Connection, url: str, known: Collection[str], words: Mapping[str, tuple[str, ...]]) -> None:
    """Raise SpecError unless the URL is one of this kind of server, with options that its driver knows.

    Values are never repeated unless they were to be one of a few `words`: one that does not fit may be a password.
    """
    scheme, separator, _ = url.partition("://")
    if not separator:  # pairs such as host=… dbname=…, or a reference
        return
    if scheme.partition("+")[0].lower() not in connection.schemes:
        other = SCHEMES.get(scheme.lower())
        hint = f"begin it with {connection.schemes[0]}://"
        shown = scheme if re.fullmatch(r"[A-Za-z][\w+.\-]*", scheme) else "…"
        raise connection.error(
            f"the URL begins with {shown}://", hint=f'{hint}, or declare kind = "{other}"' if other else hint
        )
    for name, value in url_options(url).items():
        if name not in known:
            raise _unknown(connection, name, known)
        if name in words and "${" not in value and value not in words[name]:
            raise connection.error(f"{name} of the URL cannot be {value!r}", hint=nearest(name, value, words[name]))


def _unknown(connection: Connection, name: str, known: Collection[str]) -> SpecError:
    if name in {each.name for each in own_fields(type(connection))}:
        return connection.error(
            f"{name} is a field of the connection, and no option of its URL", hint=f"write {name} = … beside the url"
        )
    where = f"the URL of {connection.kind} connection {connection.name!r}"
    return UnknownNameError("option", name, known=known, where=where, declared_at=connection.declared_at)
