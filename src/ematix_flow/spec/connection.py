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
from urllib.parse import urlencode

from ..errors import SecretError, SpecError, SpecTypeError, UnknownNameError, UnsupportedError, nearest
from .kinds import KINDS, SCHEMES
from .origin import Origin
from .redaction import redact, redact_url, remember_secrets
from .url import REFERENCE, PathUrl, filled_url, join_url, parse_path_url, split_url

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "KINDS",
    "SCHEMES",
    "Connection",
    "PathUrl",
    "class_of_url",
    "connection_from_mapping",
    "connection_from_url",
    "field_value",
    "is_required",
    "kind_class",
    "known_kinds",
    "own_fields",
    "parse_path_url",
    "redact",
    "redact_url",
    "register_kind",
]

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
    """Module and class below ``ematix_flow.backends`` that open it; empty where this version cannot."""
    url_field: ClassVar[str] = "url"
    """The field that keeps a URL whole, where the kind has it."""
    url_parts: ClassVar[Mapping[str, str]] = {}
    """Which field each part of a server's URL fills: ``host``, ``port``, ``user``, ``password``, ``path`` …"""
    local_path: ClassVar[str] = ""
    """The field that is a path on this machine; one that is relative begins in the project's folder."""
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The fields that know only certain words, and these words."""

    name: str
    declared_at: Origin | None = field(default=None, kw_only=True, compare=False, metadata=_INTERNAL)
    final: bool = field(default=False, kw_only=True, compare=False, metadata=_INTERNAL)
    """The texts are as they should be: ``${`` in them is no reference."""
    literal: frozenset[str] = field(default=frozenset(), kw_only=True, compare=False, metadata=_INTERNAL)
    """The fields in which ``${`` is no reference, while others may hold some."""
    references: tuple[str, ...] = field(default=(), kw_only=True, compare=False, metadata=_INTERNAL)
    """The ``${…}`` references that were filled, each as it was written."""
    shown: Mapping[str, object] | None = field(default=None, kw_only=True, compare=False, metadata=_INTERNAL)
    """What to show in place of the fields, which hold filled secrets."""

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        # A dataclass writes a repr of its own, secrets and all, unless its class has one already.
        if "__repr__" not in vars(cls):
            cls.__repr__ = Connection.__repr__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        given = {each.name: getattr(self, each.name) for each in own_fields(type(self))}
        remember_secrets({**given, "kind": self.kind, "name": self.name})
        for each in own_fields(type(self)):
            value = getattr(self, each.name)
            if isinstance(value, PathLike):
                value = fspath(value)
                object.__setattr__(self, each.name, value)
            if is_required(each) and value in (None, ""):
                raise self._missing(self.name, each.name, self.declared_at)
            expected = _PLAIN_TYPES.get(str(getattr(each.type, "__name__", each.type)))
            if expected and not isinstance(value, expected):
                message = f"{self.kind} connection {self.name!r}: {each.name!r} cannot be a {type(value).__name__}"
                raise SpecTypeError(message, hint=f"write a value of type {each.type}", declared_at=self.declared_at)
        for name, words in self.words.items():
            value = getattr(self, name)
            if value is not None and not self.is_open(name) and value not in words:
                raise self.error(f"{name!r} cannot be {value!r}", hint=nearest(name, str(value), words))

    @classmethod
    def can_open(cls) -> bool:
        """Whether this version has a backend for the kind."""
        return bool(cls.backend) or cls.open is not Connection.open

    def is_open(self, field_name: str) -> bool:
        """Whether a field still holds a reference, so that its value is not known yet."""
        return not self.final and field_name not in self.literal and "${" in str(getattr(self, field_name))

    def error(self, problem: str, *, hint: str | None = None) -> SpecError:
        """The error for something that is wrong with this connection."""
        return SpecError(f"{self.kind} connection {self.name!r}: {problem}", hint=hint, declared_at=self.declared_at)

    @classmethod
    def from_mapping(cls, name: str, mapping: Mapping[str, object], *, declared_at: Origin | None = None) -> Self:
        """The connection with these fields; unknown and missing ones are errors."""
        known = {each.name: each for each in own_fields(cls) if each.name != "name"}
        for key in mapping:
            if key not in known:
                where = f"{cls.kind} connection {name!r}"
                raise UnknownNameError("field", key, known=known, where=where, declared_at=declared_at)
        for key, each in known.items():
            if is_required(each) and key not in mapping:
                raise cls._missing(name, key, declared_at)
        arguments: dict[str, object] = {**mapping, "name": name, "declared_at": declared_at}
        return cls(**arguments)  # type: ignore[arg-type]

    @classmethod
    def from_url(cls, name: str, url: str, *, declared_at: Origin | None = None) -> Self:
        """The connection that `url` describes; the query string sets further fields."""
        return cls.from_mapping(name, cls.fields_from_url(name, url, declared_at), declared_at=declared_at)

    @classmethod
    def fields_from_url(cls, name: str, url: str, declared_at: Origin | None = None) -> dict[str, object]:
        """The fields that `url` says; others may be missing yet."""
        known = {each.name: each for each in own_fields(cls)}
        if cls.url_field in known:
            return {cls.url_field: url}
        scheme = url.partition("://")[0]
        if scheme not in cls.schemes and "://" in url:
            message = f"connection {name!r}: a {cls.kind} URL does not begin with {scheme}://"
            hint = f"begin with {' or '.join(f'{each}://' for each in cls.schemes)}" if cls.schemes else None
            raise SpecError(message, hint=hint, declared_at=declared_at)
        try:
            texts = cls._url_fields(url, known)
        except SpecError as error:
            message = f"connection {name!r}: {error.message}"
            raise SpecError(message, hint=error.hint, declared_at=declared_at) from None
        return {key: field_value(known.get(key), text) for key, text in texts.items()}

    @classmethod
    def _url_fields(cls, url: str, known: Mapping[str, object]) -> dict[str, str]:
        if cls.url_parts:
            parts, options = split_url(url, cls.url_parts)
            return options | {cls.url_parts[part]: text for part, text in parts.items()}
        path_url = parse_path_url(url)
        return {**path_url.options, "path": path_url.path} if "path" in known else dict(path_url.options)

    def to_url(self) -> str:
        """The connection as a URL, its texts as they are; SpecError where the kind has no such form."""
        own = [each for each in own_fields(type(self)) if each.name != "name"]
        stated = {each.name: getattr(self, each.name) for each in own if getattr(self, each.name) != each.default}
        if isinstance(whole := stated.pop(self.url_field, None), str):
            return whole
        path = stated.pop("path", None) if "path" not in self.url_parts else None
        if not self.schemes or not (self.url_parts or isinstance(path, str)):
            raise SpecError(f"{self.kind} connection {self.name!r} has no URL", declared_at=self.declared_at)
        taken = {part: str(stated.pop(name)) for part, name in self.url_parts.items() if stated.get(name)}
        options = {key: value for key, value in stated.items() if isinstance(value, str | int)}
        if self.url_parts:
            return join_url(self.schemes[0], taken, options)
        slashes = "//" if self.schemes[0] == "file" else "///"
        query = f"?{urlencode(options, safe='${}:/')}" if options else ""
        return f"{self.schemes[0]}:{slashes}{path}{query}"

    def resolve(self, expand: Callable[[str], str]) -> Self:
        """A copy with `expand` applied to every text; call it only when the system is opened."""
        if self.final:
            return self
        changed: dict[str, object] = {}
        for each in own_fields(type(self)):
            if each.name != "name" and each.name not in self.literal:
                changed[each.name] = self._filled(each.name, getattr(self, each.name), expand)
        written = REFERENCE.findall(" ".join(str(getattr(self, name)) for name in changed))
        references = tuple(dict.fromkeys(written))
        return replace(self, final=True, references=references, shown=self.redacted(), **changed)  # type: ignore[arg-type]

    # A word cannot name the backends and what a project lends them: each kind narrows both types.
    def open(self, workshop: Any) -> Any:
        """The backend behind a resolved connection, for one project, loaded now; a kind from elsewhere says its own."""
        if self.backend:
            module, _, name = self.backend.partition(":")
            return getattr(import_module(f"ematix_flow.backends.{module}"), name)(self, workshop)
        message, hint = "cannot be opened", f"define {type(self).__name__}.open"
        if self.kind in KINDS:
            able = [kind for kind in known_kinds() if kind_class(kind).can_open()]
            message, hint = "cannot be opened by this version", f"it opens {', '.join(able)}"
        message = f"{self.kind} connection {self.name!r} {message}"
        raise UnsupportedError(message, hint=hint, declared_at=self.declared_at)

    def redacted(self) -> dict[str, object]:
        """The fields as they may be shown: name, kind, and the rest without secrets."""
        values = self.shown
        if values is None:
            values = {each.name: getattr(self, each.name) for each in own_fields(type(self))}
        rest = {key: redact(key, value) for key, value in values.items() if key not in ("name", "kind")}
        return {"name": self.name, "kind": self.kind, **rest}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.redacted().items())})"

    def _filled(self, field_name: str, value: object, expand: Callable[[str], str]) -> object:
        try:
            if field_name == self.url_field and isinstance(value, str):
                return filled_url(value, expand)
            return _deep(value, expand)
        except SecretError as error:
            message = f"connection {self.name!r}, field {field_name!r}: {error.message}"
            raise SecretError(message, hint=error.hint, declared_at=self.declared_at) from None

    @classmethod
    def _missing(cls, name: str, field_name: str, declared_at: Origin | None) -> SpecError:
        message = f"{cls.kind} connection {name!r} needs the field {field_name!r}"
        return SpecError(message, hint=f"give {field_name!r} a value", declared_at=declared_at)


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
    raise UnknownNameError("connection kind", kind, known=known_kinds(), declared_at=declared_at)


def connection_from_url(name: str, url: str, *, declared_at: Origin | None = None) -> Connection:
    """The connection that `url` describes, its kind taken from the scheme."""
    cls, url = class_of_url(name, url, declared_at)
    return cls.from_url(name, url, declared_at=declared_at)


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
    url = urls[0]
    if not isinstance(url, str):
        raise SpecTypeError(f"connection {name!r}: a url is a text", declared_at=declared_at)
    if cls is None:
        cls, url = class_of_url(name, url, declared_at)
    return cls.from_mapping(name, cls.fields_from_url(name, url, declared_at) | values, declared_at=declared_at)


def class_of_url(name: str, url: str, declared_at: Origin | None = None) -> tuple[type[Connection], str]:
    """The class that a URL's scheme names, and the URL with its scheme in small letters."""
    if url == ":memory:":
        return kind_class("sqlite"), url
    scheme = url.partition("://")[0].lower() if re.match(r"[A-Za-z][A-Za-z0-9+.\-]*://", url) else ""
    cls = _class_of_scheme(scheme)
    if cls is None:
        # What has no scheme is not repeated in the message: it may be a password in the wrong place.
        said = f"the URL scheme {scheme!r}" if scheme else "a value that is not a URL"
        hint = f"{nearest('URL scheme', scheme, _known_schemes())} Write for example sqlite:///orders.db"
        raise SpecError(f"connection {name!r} has {said}", hint=hint, declared_at=declared_at)
    return cls, scheme + url[len(scheme) :]


_PLAIN_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
}


def own_fields(cls: type[Connection]) -> list[Field[object]]:
    """The fields that users may write, `name` first."""
    return [each for each in fields(cls) if each.init and not each.metadata.get("internal")]


def is_required(each: Field[object]) -> bool:
    """Whether a field must be written."""
    return each.default is MISSING and each.default_factory is MISSING


def _has_url(cls: type[Connection] | None) -> bool:
    return cls is not None and any(each.name == "url" for each in own_fields(cls))


def field_value(each: Field[object] | None, text: str) -> object:
    """A text as the field's type says; text that does not fit is left for the field's own check."""
    type_name = str(getattr(each.type, "__name__", each.type)) if each else "str"
    if type_name.startswith("int") and re.fullmatch(r"-?\d+", text):
        return int(text)
    if type_name.startswith("bool") and text.lower() in ("true", "false", "1", "0"):
        return text.lower() in ("true", "1")
    return text


def _deep(value: object, expand: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return expand(value)
    if isinstance(value, Connection):
        return value.resolve(expand)
    if isinstance(value, Mapping):
        return {key: _deep(inner, expand) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_deep(inner, expand) for inner in value])
    return value


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
