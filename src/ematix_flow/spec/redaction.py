"""Texts without their secrets: judged by the name of a field and by the shape of a value.

A value that merely looks like a secret is hidden too: hiding too much is a nuisance, hiding too little is a leak.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from urllib.parse import unquote

__all__ = ["REDACTED", "failure_text", "is_secret", "redact", "redact_url", "remember_secrets", "without_secrets"]

REDACTED = "<redacted>"
"""What stands where a whole value was hidden; a part of a text becomes ``***``."""

_SECRET_WORDS = frozenset(
    "password passwords passwd sslpassword pwd passphrase secret secrets token tokens credential credentials "
    "apikey accesskey secretkey privatekey sig signature authorization bearer".split()
)
_HARMLESS_BESIDE_KEY = frozenset(
    "primary natural foreign partition sort merge routing ordering business surrogate unique join group dedup "
    "cluster clustering distribution dist message record row column columns field fields name type format".split()
)
_SECRET_BESIDE_KEYS = frozenset("api access secret private account encryption signing master shared auth".split())

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*://"
_WHOLE_URL = re.compile(rf"\s*(?:jdbc:)?{_SCHEME}")
# A password may hold @ / : ? # unescaped, so it ends at the last @; a user name may hold @.
_PASSWORD_IN_TEXT = re.compile(rf"({_SCHEME}[^\s:/?#]*):\S*@")
_PASSWORD_IN_URL = re.compile(rf"({_SCHEME}[^:/?#]*):.*@", re.DOTALL)
_SECRET_IN_URL = re.compile(rf"\s*(?:jdbc:)?{_SCHEME}([^:/?#]*):(.*)@", re.DOTALL)
# Web addresses carry bare tokens where databases carry a user name.
_WEB_TOKEN = re.compile(r"(https?://)[^\s:@/?#]+@", re.IGNORECASE)
_QUOTED = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_NAME = re.compile(r"(?P<name>[A-Za-z][\w.\-]*)\s*=\s*")
# An unquoted value may hold spaces and separators; it ends where the next `name=` begins.
_VALUE = re.compile(rf"{_QUOTED}|.*?(?=[&;,\s]+[A-Za-z][\w.\-]*\s*=|\Z)", re.DOTALL)
_JSON_NAME = re.compile(r"""(?P<quote>["'])(?P<name>[\w.\-]+)(?P=quote)\s*:\s*""")
_JSON_VALUE = re.compile(rf"{_QUOTED}|[^,}}\s]*")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_HEADER = re.compile(r"\b(?:(authorization\s*:\s*)\S.*|(bearer\s+)\S+)", re.IGNORECASE)


def is_secret(field: str) -> bool:
    """Whether a field of this name holds a secret: ``api_key`` and ``secretAccessKey`` do, ``primary_key`` does not."""
    words = re.split(r"[^a-z0-9]+", _CAMEL.sub("_", field).lower())
    if not _SECRET_WORDS.isdisjoint(words):
        # `token_type`, `secret_name`: about a secret, not one.
        return words[-1] not in {"name", "type", "format"}
    if any(_is_nearly("password", word) for word in words):
        return True
    if "key" in words:
        return _HARMLESS_BESIDE_KEY.isdisjoint(words)
    return "keys" in words and not _SECRET_BESIDE_KEYS.isdisjoint(words)


def _is_nearly(known: str, word: str) -> bool:
    """Whether a word is most likely a known one that somebody has misspelt."""
    close = abs(len(word) - len(known)) <= 2 and word[:1] == known[0]
    return close and difflib.SequenceMatcher(None, known, word).ratio() >= 0.8


def without_secrets(text: str) -> str:
    """`text` as it may be shown, whoever wrote it."""
    shown = "\n".join(redact_url(line) for line in text.split("\n"))
    # The longest first: one secret may be part of another.
    for secret in sorted(_known, key=len, reverse=True):
        if secret in shown:
            shown = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", shown)
    return shown


_known: set[str] = set()
_SHORTEST = 4
"""Shorter secrets are words that texts hold anyway."""


def remember_secrets(fields: Mapping[str, object]) -> None:
    """Let `without_secrets` hide what a connection's fields hold: secrets, and passwords inside URLs.

    A password that is also the value of another field, the user's name for example, is no secret to keep.
    """
    texts = {name: value for name, value in fields.items() if isinstance(value, str) and "${" not in value}
    plain = {value for name, value in texts.items() if not is_secret(name)}
    found = {value for name, value in texts.items() if is_secret(name)}
    for user, password in (each.groups() for value in plain if (each := _SECRET_IN_URL.match(value))):
        plain = plain | {user, unquote(user)}
        # Where it holds @, others take a part of it for the name of the server, and say so.
        found |= {password, unquote(password), *password.split("@")}
    _known.update(secret for secret in found - plain if len(secret) >= _SHORTEST)


def redact(field: str, value: object) -> object:
    """`value` as it may be shown under the name `field`; what is inside mappings and lists is judged too."""
    if value is None:
        return None
    if is_secret(field):
        return REDACTED
    if isinstance(value, Mapping):
        return {name: redact(str(name), inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([redact(field, inner) for inner in value])
    return redact_url(value) if isinstance(value, str) else value


def redact_url(text: str) -> str:
    """`text` without the passwords and tokens in its URLs, ``name=value`` pairs, JSON, headers and private keys."""
    text = _PRIVATE_KEY.sub(REDACTED, text)
    text = (_PASSWORD_IN_URL if _WHOLE_URL.match(text) else _PASSWORD_IN_TEXT).sub(r"\1:***@", text)
    text = _WEB_TOKEN.sub(r"\1***@", text)
    text = _hide_values(text, _NAME, _VALUE)
    text = _hide_values(text, _JSON_NAME, _JSON_VALUE)
    return _HEADER.sub(lambda header: (header[1] or header[2]) + "***", text)


def _hide_values(text: str, name: re.Pattern[str], value: re.Pattern[str]) -> str:
    """`text` with ``***`` for each value that follows a secret name."""
    shown, start = [], 0
    while found := name.search(text, start):
        shown.append(text[start : found.end()])
        start = found.end()
        hidden = value.match(text, start) if is_secret(found["name"]) else None
        if hidden and hidden[0]:
            shown.append(_stars(hidden[0]))
            start = hidden.end()
    return "".join((*shown, text[start:]))


def _stars(value: str) -> str:
    quote = value[0] if value[0] in "'\"" and value[-1] == value[0] else ""
    return f"{quote}***{quote}"


def failure_text(error: BaseException) -> str:
    """An error as records and answers keep it: its kind and what it says, without secrets."""
    return without_secrets(f"{type(error).__name__}: {error}")
