"""Named, declared access to a system: data only, nothing is opened here and no secret is ever shown.

The classes of each kind live with their backend; they are found here by kind or URL scheme, and loaded when asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import parse_qsl, unquote, urlencode

from ..errors import SecretError, SpecError, SpecTypeError, UnknownNameError, UnsupportedError, nearest
from .origin import Origin
from .redaction import redact, redact_url

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "KINDS",
    "SCHEMES",
    "Connection",
    "PathUrl",
    "connection_from_mapping",
    "connection_from_url",
    "kind_class",
    "known_kinds",
    "parse_path_url",
    "redact",
    "redact_url",
    "register_kind",
]

KINDS: dict[str, str] = {
    "duckdb": "connection:DuckDBConnection",
    "memory": "connection:MemoryConnection",
    "object_store_local": "connection:ObjectStoreLocalConnection",
    "sqlite": "connection:SQLiteConnection",
}
"""The kinds of this package: kind → module and class below ``ematix_flow.backends``."""

SCHEMES: dict[str, str] = {"duckdb": "duckdb", "file": "object_store_local", "memory": "memory", "sqlite": "sqlite"}
"""The URL schemes of those kinds, so that a URL loads one backend and not all of them."""

_LATER = frozenset(
    "postgres mysql delta_local delta_s3 object_store_s3 kafka rabbitmq pubsub kinesis schema_registry "
    "glue_schema_registry snowflake bigquery redshift".split()
)
_LATER_SCHEMES = frozenset("postgres postgresql mysql mysql+pymysql s3 kafka amqp amqps".split())
_ENTRY_POINTS = "ematix_flow.connections"
_INTERNAL: Mapping[str, bool] = {"internal": True}

_registered: dict[str, type[Connection]] = {}


@dataclass(frozen=True, repr=False)
class Connection:
    """What every kind of connection shares. A kind is a frozen dataclass that adds its own fields.

    A field without a default is required: empty or missing, it is an error that names the field. Text may hold
    ``${…}`` references; `resolve` fills them in a copy, which still shows itself as it was declared.
    """

    kind: ClassVar[str] = ""
    schemes: ClassVar[tuple[str, ...]] = ()
    backend: ClassVar[str] = ""
    """Module and class below ``ematix_flow.backends`` that open it."""

    name: str
    declared_at: Origin | None = field(default=None, kw_only=True, compare=False, metadata=_INTERNAL)
    final: bool = field(default=False, kw_only=True, compare=False, metadata=_INTERNAL)
    """The texts are as they should be: ``${`` in them is no reference."""
    shown: Mapping[str, object] | None = field(default=None, kw_only=True, compare=False, metadata=_INTERNAL)
    """What to show in place of the fields, which hold filled secrets."""

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        # A dataclass writes a repr of its own, secrets and all, unless its class has one already.
        if "__repr__" not in vars(cls):
            cls.__repr__ = Connection.__repr__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for each in _own_fields(type(self)):
            value = getattr(self, each.name)
            if isinstance(value, PathLike):
                value = fspath(value)
                object.__setattr__(self, each.name, value)
            if _is_required(each) and value in (None, ""):
                raise self._missing(self.name, each.name, self.declared_at)
            expected = _PLAIN_TYPES.get(str(getattr(each.type, "__name__", each.type)))
            if expected and not isinstance(value, expected):
                message = f"{self.kind} connection {self.name!r}: {each.name!r} cannot be a {type(value).__name__}"
                raise SpecTypeError(message, hint=f"write a value of type {each.type}", declared_at=self.declared_at)

    @classmethod
    def from_mapping(cls, name: str, mapping: Mapping[str, object], *, declared_at: Origin | None = None) -> Self:
        """The connection with these fields; unknown and missing ones are errors."""
        known = {each.name: each for each in _own_fields(cls) if each.name != "name"}
        for key in mapping:
            if key not in known:
                where = f"{cls.kind} connection {name!r}"
                raise UnknownNameError("field", key, known=known, where=where, declared_at=declared_at)
        for key, each in known.items():
            if _is_required(each) and key not in mapping:
                raise cls._missing(name, key, declared_at)
        arguments: dict[str, object] = {**mapping, "name": name, "declared_at": declared_at}
        return cls(**arguments)  # type: ignore[arg-type]

    @classmethod
    def from_url(cls, name: str, url: str, *, declared_at: Origin | None = None) -> Self:
        """The connection that `url` describes; the query string sets further fields."""
        known = {each.name: each for each in _own_fields(cls)}
        if "url" in known:
            return cls.from_mapping(name, {"url": url}, declared_at=declared_at)
        try:
            parts = parse_path_url(url)
        except SpecError as error:
            message = f"connection {name!r}: {error.message}"
            raise SpecError(message, hint=error.hint, declared_at=declared_at) from None
        if parts.scheme not in cls.schemes:
            message = f"connection {name!r}: a {cls.kind} URL does not begin with {parts.scheme}://"
            hint = f"begin with {' or '.join(f'{scheme}://' for scheme in cls.schemes)}"
            raise SpecError(message, hint=hint, declared_at=declared_at)
        values = {key: _from_text(known.get(key), text) for key, text in parts.options.items()}
        if "path" in known:
            values["path"] = parts.path
        return cls.from_mapping(name, values, declared_at=declared_at)

    def to_url(self) -> str:
        """The connection as a URL, its texts as they are; SpecError where the kind has no such form."""
        url, path = getattr(self, "url", None), getattr(self, "path", None)
        if isinstance(url, str):
            return url
        if not isinstance(path, str) or not self.schemes:
            raise SpecError(f"{self.kind} connection {self.name!r} has no URL", declared_at=self.declared_at)
        slashes = "//" if self.schemes[0] == "file" else "///"
        own = [each for each in _own_fields(type(self)) if each.name not in ("name", "path")]
        stated = {each.name: getattr(self, each.name) for each in own if getattr(self, each.name) != each.default}
        options = {key: value for key, value in stated.items() if isinstance(value, str | int)}
        query = f"?{urlencode(options, safe='${}:/')}" if options else ""
        return f"{self.schemes[0]}:{slashes}{path}{query}"

    def resolve(self, expand: Callable[[str], str]) -> Self:
        """A copy with `expand` applied to every text; call it only when the system is opened."""
        if self.final:
            return self
        changed: dict[str, object] = {}
        for each in _own_fields(type(self)):
            if each.name != "name":
                changed[each.name] = self._filled(each.name, getattr(self, each.name), expand)
        return replace(self, final=True, shown=self.redacted(), **changed)  # type: ignore[arg-type]

    # A word cannot name the backends and what a project lends them: each kind narrows both types.
    def open(self, workshop: Any) -> Any:
        """The backend behind a resolved connection, for one project, loaded now; a kind from elsewhere says its own."""
        if self.backend:
            module, _, name = self.backend.partition(":")
            return getattr(import_module(f"ematix_flow.backends.{module}"), name)(self, workshop)
        message = f"{self.kind} connection {self.name!r} cannot be opened"
        raise UnsupportedError(message, hint=f"define {type(self).__name__}.open", declared_at=self.declared_at)

    def redacted(self) -> dict[str, object]:
        """The fields as they may be shown: name, kind, and the rest without secrets."""
        values = self.shown
        if values is None:
            values = {each.name: getattr(self, each.name) for each in _own_fields(type(self))}
        rest = {key: redact(key, value) for key, value in values.items() if key not in ("name", "kind")}
        return {"name": self.name, "kind": self.kind, **rest}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.redacted().items())})"

    def _filled(self, field_name: str, value: object, expand: Callable[[str], str]) -> object:
        try:
            return _deep(value, expand)
        except SecretError as error:
            message = f"connection {self.name!r}, field {field_name!r}: {error.message}"
            raise SecretError(message, hint=error.hint, declared_at=self.declared_at) from None

    @classmethod
    def _missing(cls, name: str, field_name: str, declared_at: Origin | None) -> SpecError:
        message = f"{cls.kind} connection {name!r} needs the field {field_name!r}"
        return SpecError(message, hint=f"give {field_name!r} a value", declared_at=declared_at)


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


def register_kind(cls: type[Connection]) -> type[Connection]:
    """Make a kind of your own known to this process, its URL schemes too; packages use the entry points instead."""
    if not cls.kind:
        raise SpecTypeError(f"{cls.__name__} has no kind", hint="set the class attribute `kind`")
    _registered[cls.kind] = cls
    return cls


def known_kinds() -> tuple[str, ...]:
    """Every kind that can be used, sorted."""
    return tuple(sorted({entry.name for entry in _entry_points()} | KINDS.keys() | _registered.keys()))


def kind_class(kind: str, *, declared_at: Origin | None = None) -> type[Connection]:
    """The class of a kind, loaded now if need be."""
    if kind in _registered:
        return _registered[kind]
    if kind in KINDS:
        module, _, name = KINDS[kind].partition(":")
        found = getattr(import_module(f"ematix_flow.backends.{module}"), name)
        return _registered.setdefault(kind, found)
    for entry in _entry_points():
        if entry.name == kind:
            return register_kind(entry.load())
    if kind in _LATER:
        hint = f"this version supports {', '.join(known_kinds())}"
        raise UnsupportedError(f"{kind!r} connections are not supported yet", hint=hint, declared_at=declared_at)
    raise UnknownNameError("connection kind", kind, known=known_kinds(), declared_at=declared_at)


def connection_from_url(name: str, url: str, *, declared_at: Origin | None = None) -> Connection:
    """The connection that `url` describes, its kind taken from the scheme."""
    if url == ":memory:":
        return kind_class("sqlite").from_url(name, url, declared_at=declared_at)
    scheme = url.partition("://")[0].lower() if re.match(r"[A-Za-z][A-Za-z0-9+.\-]*://", url) else ""
    # What has no scheme is not repeated in the message: it may be a password in the wrong place.
    said = f"the URL scheme {scheme!r}" if scheme else "a value that is not a URL"
    message, known = f"connection {name!r} has {said}", ", ".join(f"{each}://" for each in _known_schemes())
    if scheme in _LATER_SCHEMES:
        raise UnsupportedError(f"{message}, not supported yet", hint=f"Known: {known}", declared_at=declared_at)
    cls = _class_of_scheme(scheme)
    if cls is None:
        hint = f"{nearest('URL scheme', scheme, _known_schemes())} Write for example sqlite:///orders.db"
        raise SpecError(message, hint=hint, declared_at=declared_at)
    return cls.from_url(name, scheme + url[len(scheme) :], declared_at=declared_at)


def connection_from_mapping(
    name: str, mapping: Mapping[str, object], *, declared_at: Origin | None = None
) -> Connection:
    """The connection that a mapping describes: ``kind`` (or ``type``) with its fields, or ``url`` (or ``dsn``)."""
    values = dict(mapping)
    kinds = [values.pop(key) for key in ("kind", "type") if key in values]
    cls = kind_class(str(kinds[0]), declared_at=declared_at) if kinds else None
    urls = [values.pop(key) for key in ("dsn", "url") if key in values and not (key == "url" and _has_url(cls))]
    if len(kinds) > 1 or len(urls) > 1:
        words = "'kind' and 'type'" if len(kinds) > 1 else "'dsn' and 'url'"
        raise SpecError(f"connection {name!r} has both {words}", hint="keep one of them", declared_at=declared_at)
    if not urls:
        if cls is None:
            hint = f"add kind = one of {', '.join(known_kinds())}, or a url"
            raise SpecError(f"connection {name!r} has neither a kind nor a url", hint=hint, declared_at=declared_at)
        return cls.from_mapping(name, values, declared_at=declared_at)
    if not isinstance(urls[0], str):
        raise SpecTypeError(f"connection {name!r}: a url is a text", declared_at=declared_at)
    from_url = cls.from_url if cls else connection_from_url
    found = from_url(name, urls[0], declared_at=declared_at)
    stated = {each.name: getattr(found, each.name) for each in _own_fields(type(found)) if each.name != "name"}
    return type(found).from_mapping(name, stated | values, declared_at=declared_at) if values else found


_PLAIN_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
}


def _own_fields(cls: type[Connection]) -> list[Field[object]]:
    return [each for each in fields(cls) if each.init and not each.metadata.get("internal")]


def _is_required(each: Field[object]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _has_url(cls: type[Connection] | None) -> bool:
    return cls is not None and any(each.name == "url" for each in _own_fields(cls))


def _from_text(each: Field[object] | None, text: str) -> object:
    """A query-string value as the field's type says; text that does not fit is left for the field's own check."""
    type_name = str(getattr(each.type, "__name__", each.type)) if each else "str"
    if type_name.startswith("int") and re.fullmatch(r"-?\d+", text):
        return int(text)
    if type_name.startswith("bool") and text.lower() in ("true", "false", "1", "0"):
        return text.lower() in ("true", "1")
    return text


def _deep(value: object, expand: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return expand(value)
    if isinstance(value, Mapping):
        return {key: _deep(inner, expand) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_deep(inner, expand) for inner in value])
    return value


def _file_path(tail: str) -> str:
    path = tail.removeprefix("localhost")
    if not path.startswith("/"):
        raise SpecError("a file URL names an absolute path", hint="write file:///absolute/path?format=parquet")
    return unquote(path)


def _entry_points() -> Iterable[EntryPoint]:
    """The kinds that other packages offer."""
    from importlib.metadata import entry_points  # 20 ms that most commands need not spend

    return entry_points(group=_ENTRY_POINTS)


def _known_schemes() -> tuple[str, ...]:
    return tuple(sorted(SCHEMES.keys() | {scheme for cls in _registered.values() for scheme in cls.schemes}))


def _class_of_scheme(scheme: str) -> type[Connection] | None:
    if scheme in SCHEMES:
        return kind_class(SCHEMES[scheme])
    for entry in _entry_points():
        kind_class(entry.name)
    return next((cls for cls in _registered.values() if scheme in cls.schemes), None)
