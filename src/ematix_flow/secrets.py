"""References in texts, ``${VAR}``, ``${env:VAR}``, ``${file:path}`` and registered prefixes, and what fills them.

References are filled when a connection is opened, never when it is declared; what comes in is not searched again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, overload

from .config import environment
from .errors import SecretError, SpecTypeError, nearest

__all__ = [
    "AWSSecretsManagerResolver",
    "EnvResolver",
    "FileResolver",
    "GCPSecretManagerResolver",
    "MissingSecretError",
    "SecretResolver",
    "VaultResolver",
    "expand",
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


# The vendors' clients carry no types of their own, hence `Any`.


class VaultResolver:
    """HashiCorp Vault, key/value engine version 2, through a client of ``hvac``.

    ``${vault:path#key}`` is one value, ``${vault:path}`` the whole secret as JSON with sorted keys.
    """

    def __init__(self, client: Any, mount_point: str = "secret") -> None:
        self._client, self._mount_point = client, mount_point

    def resolve(self, reference: str) -> str:
        """The value, or the whole secret."""
        path, _, key = reference.partition("#")
        secret = f"Vault secret {path!r}"
        with _vendor(secret):
            answer = self._client.secrets.kv.v2.read_secret_version(
                path=path, mount_point=self._mount_point, raise_on_deleted_version=True
            )
            values = dict(answer["data"]["data"])
        return _field(secret, key, values) if key else json.dumps(values, sort_keys=True)


class AWSSecretsManagerResolver:
    """AWS Secrets Manager, through a client of ``boto3``.

    ``${aws:id}`` is the secret's text, ``${aws:id#field}`` one field of a secret that is a JSON object.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def resolve(self, reference: str) -> str:
        """The text, or the field."""
        name, _, key = reference.partition("#")
        secret = f"AWS secret {name!r}"
        with _vendor(secret):
            answer = self._client.get_secret_value(SecretId=name)
            text = answer["SecretString"] if "SecretString" in answer else bytes(answer["SecretBinary"]).decode()
        if not key:
            return str(text)
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        if not isinstance(values, dict):
            raise SecretError(f"the {secret} is no JSON object", hint=f"write the reference without #{key}") from None
        return _field(secret, key, values)


class GCPSecretManagerResolver:
    """Google Secret Manager, through its ``SecretManagerServiceClient``.

    ``${gcp:NAME}`` and ``${gcp:NAME#VERSION}`` are secrets of `project`; a full ``projects/…`` name needs none.
    """

    def __init__(self, client: Any, project: str | None = None) -> None:
        self._client, self._project = client, project

    def resolve(self, reference: str) -> str:
        """The text of the secret's version."""
        name, _, version = reference.partition("#")
        if not name.startswith("projects/"):
            if not self._project:
                message = f"the Google secret {name!r} is named without its project"
                raise SecretError(message, hint="pass project= to GCPSecretManagerResolver, or write projects/…")
            name = f"projects/{self._project}/secrets/{name}"
        if "/versions/" not in name:
            name = f"{name}/versions/{version or 'latest'}"
        with _vendor(f"Google secret {name!r}"):
            return bytes(self._client.access_secret_version(request={"name": name}).payload.data).decode()


@contextmanager
def _vendor(secret: str) -> Iterator[None]:
    """The boundary to a vendor's client: what it raises becomes SecretError, without its text, which may quote."""
    try:
        yield
    except Exception as error:  # vendor boundary
        message = f"the {secret} cannot be read: {type(error).__name__}"
        raise SecretError(message, hint="check the reference and what the client may read") from error


def _field(secret: str, key: str, values: Mapping[str, object]) -> str:
    """One value of a secret that has several, as text."""
    if key not in values:
        raise SecretError(f"the {secret} has no field {key!r}", hint=nearest("field", key, values))
    value = values[key]
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


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
    except Exception as error:  # user code is a boundary; its message may quote the secret, so only its kind is told
        hint = "check the reference, and what the resolver needs to answer"
        raise SecretError(f"${{{reference}}} cannot be filled ({type(error).__name__})", hint=hint) from error
    if not isinstance(value, str):
        raise SecretError(f"${{{reference}}} gave {type(value).__name__}, not text", hint="resolve must return str")
    return value
