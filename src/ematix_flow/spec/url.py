"""URLs that name a system, taken apart and put together: those of paths, and those of servers and buckets.

A ``${…}`` reference counts as one piece of text, whatever is between its braces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode

from ..errors import SpecError

__all__ = ["REFERENCE", "PathUrl", "filled_url", "join_url", "parse_path_url", "quote_text", "split_url"]

REFERENCE = re.compile(r"\$\{[^}]*\}")
"""A reference that is to be filled."""
# Characters of the private use area: no URL has them, and nothing on the way changes them.
_OPEN, _CLOSE = "\ue000", "\ue001"


@dataclass(frozen=True)
class PathUrl:
    """A URL that names a file, folder or embedded database."""

    scheme: str
    path: str
    options: Mapping[str, str]


def parse_path_url(url: str) -> PathUrl:
    """The parts of ``sqlite:///relative``, ``duckdb:////absolute``, ``sqlite://:memory:`` or ``file:///absolute?format=csv``.

    As in SQLAlchemy, three slashes begin a relative path and four an absolute one; ``file`` URLs are absolute.
    """
    if url == ":memory:":
        return PathUrl("sqlite", ":memory:", {})
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise SpecError("a connection's URL needs a scheme", hint="write for example sqlite:///orders.db")
    tail, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if scheme == "file":
        return PathUrl(scheme, _file_path(tail), options)
    if tail in ("", "/", ":memory:", "/:memory:"):
        return PathUrl(scheme, ":memory:", options)
    if not tail.startswith("/"):
        hint = f"write {scheme}:///relative/path or {scheme}:////absolute/path"
        raise SpecError(f"a {scheme} URL names a path, not a host", hint=hint)
    return PathUrl(scheme, tail.removeprefix("/"), options)


def filled_url(url: str, expand: Callable[[str], str]) -> str:
    """The URL with its references filled; a user or password with letters that would end it is percent-encoded."""
    found = _USER.match(url)
    if found is None:
        return expand(url)
    user = REFERENCE.sub(lambda each: _encoded(expand(each[0])), found[2])
    return f"{found[1]}{user}@{expand(url[found.end() :])}"


_USER = re.compile(r"([A-Za-z][\w+.\-]*://)((?:\$\{[^}]*\}|[^@/?#])*)@")
_HARMLESS = "-._~!$&'()*+,;=:"


def _encoded(text: str) -> str:
    is_encoded = re.fullmatch(rf"(?:[A-Za-z0-9{re.escape(_HARMLESS)}]|%[0-9A-Fa-f]{{2}})*", text)
    return text if is_encoded else quote(text, safe=_HARMLESS)


def split_url(url: str, wanted: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The parts of `url` that are named in `wanted` and not empty, and its options; SpecError for any other part.

    Parts: ``user``, ``password``, ``host`` (with the port, unless ``port`` is wanted too), ``port``, ``path``, or
    ``first`` and ``second`` for a path of one or two names.
    """
    references = REFERENCE.findall(url)
    counter = iter(range(len(references)))
    hidden = REFERENCE.sub(lambda _: f"{_OPEN}{next(counter)}{_CLOSE}", url)

    def shown(text: str) -> str:
        return re.sub(f"{_OPEN}(\\d+){_CLOSE}", lambda found: references[int(found[1])], unquote(text))

    scheme, _, rest = hidden.partition("://")
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    login, _, host = authority.rpartition("@")
    user, _, password = login.partition(":")
    parts = {"user": user, "password": password, "host": host}
    if "port" in wanted and (port := re.fullmatch(r"(.*):(\d+)", host)):
        parts |= {"host": port[1], "port": port[2]}
    if "first" in wanted:
        parts["first"], _, parts["second"] = path.strip("/").partition("/")
    else:
        parts["path"] = path
    found = {name: shown(text) for name, text in parts.items() if text}
    for name in found:
        if name not in wanted or (name == "second" and "/" in parts["second"].rstrip("/")):
            word = {"first": "path", "second": "longer path"}.get(name, name)
            raise SpecError(f"a {scheme} URL has no {word}", hint="see the kinds of connections for its form")
    return found, {name: shown(text) for name, text in parse_qsl(query, keep_blank_values=True)}


def join_url(scheme: str, parts: Mapping[str, str], options: Mapping[str, object]) -> str:
    """The URL that `split_url` takes apart into these parts and options."""
    login = quote_text(parts.get("user", ""))
    if "password" in parts:
        login += f":{quote_text(parts['password'])}"
    host = quote_text(parts.get("host", ""), safe=":,[]")
    if "port" in parts:
        host += f":{parts['port']}"
    names = [parts[name] for name in ("path", "first", "second") if parts.get(name)]
    path = "".join(f"/{quote_text(name, safe='/')}" for name in names)
    query = f"?{urlencode(dict(options), quote_via=lambda text, *_: quote_text(text))}" if options else ""
    return f"{scheme}://{login}{'@' if login else ''}{host}{path}{query}"


def quote_text(text: str, safe: str = "") -> str:
    """`text` as it stands in a part of a URL; its references stay as they are."""
    pieces = re.split(f"({REFERENCE.pattern})", text)
    return "".join(piece if at % 2 else quote(piece, safe=safe) for at, piece in enumerate(pieces))


def _file_path(tail: str) -> str:
    path = tail.removeprefix("localhost")
    if not path.startswith("/"):
        raise SpecError("a file URL names an absolute path", hint="write file:///absolute/path?format=parquet")
    return unquote(path)
