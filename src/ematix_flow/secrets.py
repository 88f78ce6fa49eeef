"""References in texts, ``${VAR}``, ``${env:VAR}``, ``${file:path}`` and registered prefixes, and what fills them.

References are filled when a connection is opened, never when it is declared; what comes in is not searched again.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol, overload

from .config import environment
from .errors import SecretError, SpecTypeError

__all__ = [
    "EnvResolver",
    "FileResolver",
    "MissingSecretError",
    "SecretResolver",
    "expand",
    "has_reference",
    "register_resolver",
    "unregister_resolver",
]

MissingSecretError = SecretError
"""The documented name of SecretError; a KeyError."""

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_VARIABLE = re.compile(r"[A-Z0-9_]+")


class SecretResolver(Protocol):
    """What answers the references of one prefix."""

    def resolve(self, reference: str) -> str:
        """The secret that `reference`, the text behind the prefix, names; SecretError or KeyError if there is none."""


class EnvResolver:
    """Environment variables: ``${VAR}`` and ``${env:VAR}``."""

    def resolve(self, reference: str) -> str:
        """The value of the variable."""
        value = environment(reference)
        if value is None:
            raise SecretError(f"the environment variable {reference!r} is not set", hint=f"export {reference}=…")
        return value


class FileResolver:
    """Files, as container platforms mount secrets: ``${file:/run/secrets/password}``; one final newline is dropped."""

    def resolve(self, reference: str) -> str:
        """The text of the file."""
        try:
            text = Path(reference).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            hint = "create the file, or correct the path"
            raise SecretError(f"the secret file {reference!r} cannot be read: {reason}", hint=hint) from None
        return text.removesuffix("\n").removesuffix("\r")


_BUILT_IN: dict[str, SecretResolver] = {"env": EnvResolver(), "file": FileResolver()}
_resolvers = dict(_BUILT_IN)


def register_resolver(prefix: str, resolver: SecretResolver) -> None:
    """Let `resolver` answer ``${prefix:…}``; the last one of a prefix wins."""
    if not prefix or re.search(r"[:{}\s]", prefix):
        raise SpecTypeError(f"{prefix!r} cannot be a prefix of references", hint="use one word, such as 'vault'")
    if not callable(getattr(resolver, "resolve", None)):
        raise SpecTypeError(f"the resolver for {prefix!r} has no method resolve(reference)")
    _resolvers[prefix] = resolver


def unregister_resolver(prefix: str) -> None:
    """Stop answering ``${prefix:…}``; bare ``${VAR}`` keeps working whatever is removed."""
    _resolvers.pop(prefix, None)


@overload
def expand(text: str) -> str: ...
@overload
def expand(text: None) -> None: ...
def expand(text: str | None) -> str | None:
    """`text` with every ``${…}`` filled; None stays None."""
    return None if text is None else _REFERENCE.sub(lambda found: _fill(found[1]), text)


def has_reference(text: str) -> bool:
    """Whether `text` holds a ``${…}``."""
    return _REFERENCE.search(text) is not None


def _fill(reference: str) -> str:
    prefix, colon, rest = reference.partition(":")
    if not colon:
        if not _VARIABLE.fullmatch(reference):
            hint = "a variable is written in capitals, ${MY_VARIABLE}; other secrets as ${prefix:reference}"
            raise SecretError(f"${{{reference}}} does not name an environment variable", hint=hint)
        return _BUILT_IN["env"].resolve(reference)
    if prefix not in _resolvers:
        hint = f"register one with register_resolver; known: {', '.join(sorted(_resolvers)) or 'none'}"
        raise SecretError(f"${{{reference}}}: no resolver is registered for {prefix!r}", hint=hint)
    return _answer(_resolvers[prefix], reference, rest)


def _answer(resolver: SecretResolver, reference: str, rest: str) -> str:
    try:
        value: object = resolver.resolve(rest)
    except SecretError:
        raise
    except LookupError as error:
        raise SecretError(f"${{{reference}}} cannot be filled", hint="check the reference") from error
    if not isinstance(value, str):
        raise SecretError(f"${{{reference}}} gave {type(value).__name__}, not text", hint="resolve must return str")
    return value
