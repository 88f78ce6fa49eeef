"""Connections written into a TOML file that people edit too: comments, order and everything else stay."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError, SpecError
from .connection import Connection, class_of_url, connection_from_mapping, field_value, kind_class, own_fields
from .found import entries
from .toml_file import read_toml

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

__all__ = ["write_connection"]

_RIVALS = {"dsn": "url", "url": "dsn", "kind": "type", "type": "kind"}


def write_connection(path: Path, name: str, fields: Mapping[str, object]) -> Path:
    """Set fields of the connection `name` in the file at `path`, its ``url`` among them; gives `path`."""
    if not name.strip() or not fields:
        hint = "pass a name with a URL, or with fields such as kind='sqlite', path='orders.db'"
        raise SpecError("a connection needs a name, and a URL or fields", hint=hint)
    entry = _changed(name, _entry(path, name), fields)
    _check(name, entry)
    import tomlkit

    text = path.read_bytes().decode("utf-8") if path.exists() else ""
    document = tomlkit.parse(text)
    _put(document, name, entry)
    edited = tomlkit.dumps(document)
    _check_edit(path, text, edited, name, entry)
    _write(path, edited)
    return path


def _entry(path: Path, name: str) -> dict[str, object]:
    """The connection as it stands in the file, as a table; empty where it does not."""
    for found, declared, _ in entries(read_toml(path)):
        if found == name:
            return {"url": declared} if isinstance(declared, str) else dict(declared)
    return {}


def _changed(name: str, entry: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
    """The entry with the new fields; of the old ones, those go that a new kind or URL makes meaningless."""
    given = {key: value for key, value in fields.items() if key not in ("dsn", "url")}
    kept = {key: value for key, value in entry.items() if _RIVALS.get(key, "") not in given}
    url = fields.get("dsn", fields.get("url"))
    new = _class(name, fields)
    if (new is not None and new is not _class(name, entry)) or _is_reference(url):
        kept = {key: value for key, value in kept.items() if key == "dsn"}
    elif isinstance(url, str) and new is not None:
        said = new.fields_from_url(name, url)
        kept = {key: value for key, value in kept.items() if key in ("dsn", "url") or key not in said}
    if url is not None:
        spelling = next((key for key in (*kept, *fields) if key in ("dsn", "url")), "url")
        given[spelling] = url
    cls = new or _class(name, entry)
    known = {each.name: each for each in own_fields(cls)} if cls else {}
    return {
        key: field_value(known.get(key), value) if isinstance(value, str) else value
        for key, value in (kept | given).items()
    }


def _class(name: str, entry: Mapping[str, object]) -> type[Connection] | None:
    """The kind of an entry, where it is known without filling a reference."""
    kind, url = (entry.get(one, entry.get(other)) for one, other in (("kind", "type"), ("dsn", "url")))
    if isinstance(kind, str):
        return kind_class(kind)
    return class_of_url(name, url)[0] if isinstance(url, str) and not _is_reference(url) else None


def _check(name: str, entry: Mapping[str, object]) -> None:
    """Raise what is wrong with the entry; a URL that is a reference is only known when it is filled."""
    if not _is_reference(entry.get("dsn", entry.get("url"))):
        connection_from_mapping(name, entry)


def _is_reference(url: object) -> bool:
    return isinstance(url, str) and url.lstrip().startswith("${")


def _put(document: TOMLDocument, name: str, entry: Mapping[str, object]) -> None:
    """Bring `entry` into the document, in the form in which the connection stands there already."""
    import tomlkit

    for block in _blocks(document):
        if block.get("name") == name:
            _update(block, {"name": name, **entry})
            return
    if "connections" not in document:
        document["connections"] = tomlkit.table(is_super_table=True)
    connections = document["connections"]
    assert isinstance(connections, MutableMapping)
    if isinstance(connections.get(name), MutableMapping):
        _update(connections[name], entry)
    elif isinstance(connections.get(name), str) and len(entry) == 1:
        connections[name] = next(iter(entry.values()))
    else:
        table = tomlkit.table()
        table.update(entry)
        connections[name] = table


def _blocks(document: TOMLDocument) -> list[MutableMapping[str, object]]:
    blocks = document.get("connection", [])
    return list(blocks) if isinstance(blocks, list) else [blocks]


def _update(table: MutableMapping[str, object], entry: Mapping[str, object]) -> None:
    for key in [key for key in table if key not in entry]:
        del table[key]
    for key, value in entry.items():
        if table.get(key) != value:
            table[key] = value


def _check_edit(path: Path, before: str, after: str, name: str, entry: Mapping[str, object]) -> None:
    """Raise ConfigError unless the new text says what the old one said, and the new entry."""
    try:
        written, expected = tomllib.loads(after), tomllib.loads(before)
    except tomllib.TOMLDecodeError:
        written, expected = {}, {}
    blocks = expected.get("connection", [])
    block = next((each for each in (blocks if isinstance(blocks, list) else [blocks]) if each["name"] == name), None)
    if block is not None:
        block.clear()
        block.update({"name": name, **entry})
    else:
        old = expected.setdefault("connections", {}).get(name)
        expected["connections"][name] = (
            next(iter(entry.values())) if isinstance(old, str) and len(entry) == 1 else entry
        )
    if written != expected:
        raise ConfigError(f"{path} cannot be edited without changing more than {name!r}", hint="edit it by hand")


def _write(path: Path, text: str) -> None:
    """Replace the file as a whole; only its owner may read it, since it may hold passwords."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    target = path.resolve()  # what a link points to is replaced, not the link
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f"{target.name}.", dir=target.parent)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}", hint="check the folder") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
