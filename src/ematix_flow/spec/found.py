"""A connection as it was found: written in code, a file, variables or several of them, and built when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ..errors import ConfigError, SecretError
from .connection import Connection, connection_from_mapping, connection_from_url, kind_class, own_fields
from .origin import Origin
from .redaction import REDACTED, redact, redact_url
from .toml_file import TomlFile
from .variables import TypedVariables

__all__ = ["Found", "entries", "found_in_file", "place_text"]


@dataclass(frozen=True, repr=False)
class Found:
    """A connection and where it was found; building it is put off until `connection` is asked for."""

    name: str
    origin: str
    declared: str | Mapping[str, object] | Connection | None
    """A URL, a mapping of fields, or the connection itself, as written; None where only variables say it."""
    declared_at: Origin | None = None
    final: bool = False
    """The value holds no references: ``${`` in it means itself."""
    typed: tuple[TypedVariables, ...] = ()
    """What variables for single fields say; they win."""

    @cached_property
    def connection(self) -> Connection:
        """The connection; an error of its declaration is raised here, and only for this one."""
        if not self.typed:
            return self._base()
        if len(self.typed) > 1:
            names = ", ".join(sorted(name for each in self.typed for name in each.variables.values()))
            message = f"connection {self.name!r} has several kinds in the environment: {names}"
            raise ConfigError(message, hint="unset those of all kinds but one")
        return self._overridden(self.typed[0])

    @property
    def dsn(self) -> str:
        """The URL with its references filled; contains secrets."""
        if self.typed or not isinstance(self.declared, str):
            return self.connection.resolve(_expand).to_url()
        return self.declared if self.final else _expand(self.declared)

    def redacted(self) -> str:
        """The value as it may be shown, as far as it was written; nothing is filled and no secret is in it."""
        values: dict[str, object] = {}
        match self.declared:
            case None:
                pass
            case str() as text:
                values = {"": redact_url(text) if _is_readable(text) else REDACTED}
            case Connection() as connection:
                values = connection.redacted()
            case mapping:
                values = {key: redact(key, value) for key, value in mapping.items()}
        if len(self.typed) == 1:
            cls = kind_class(self.typed[0].kind)
            if not {cls.url_field, cls.local_path, "dsn"}.isdisjoint(self.typed[0].texts):
                values = {key: value for key, value in values.items() if key not in ("", "url", "dsn")}
        for each in self.typed:
            values |= {key: redact(key, value) for key, value in {"kind": each.kind, **each.texts}.items()}
        return _one_line(values)

    def __repr__(self) -> str:
        return f"Found({self.name!r}, {self.redacted()!r}, origin={self.origin!r})"

    def _base(self) -> Connection:
        declared = self.declared
        assert declared is not None
        if isinstance(declared, Connection):
            return declared
        if not isinstance(declared, str):
            return connection_from_mapping(self.name, declared, declared_at=self.declared_at)
        if not self.final and declared.lstrip().startswith("${"):
            return self._from_reference(declared)
        return replace(connection_from_url(self.name, declared, declared_at=self.declared_at), final=self.final)

    def _overridden(self, typed: TypedVariables) -> Connection:
        """The connection that variables say: their fields over those of a declaration of the same kind, or alone."""
        cls, values = kind_class(typed.kind), typed.values(self.name)
        base = None if self.declared is None else self._base()
        if base is None or type(base) is not cls:
            if base is not None and self.final:
                variable = next(iter(typed.variables.values()))
                message = f"connection {self.name!r} is {base.kind} by its URL, and {typed.kind} by {variable}"
                raise ConfigError(message, hint="unset one of the variables")
            return replace(cls.from_mapping(self.name, values, declared_at=Origin(self.origin)), final=True)
        stated = {each.name: getattr(base, each.name) for each in own_fields(cls) if each.name != "name"}
        built = cls.from_mapping(self.name, stated | values, declared_at=Origin(self.origin))
        shown = None if base.shown is None else {**base.shown, **values}
        return replace(built, final=base.final, literal=frozenset(values), shown=shown)

    def _from_reference(self, reference: str) -> Connection:
        """The connection of a URL that is itself a reference: its kind is only known when it is filled."""
        try:
            url = _expand(reference)
        except SecretError as error:
            message = f"connection {self.name!r}: {error.message}"
            raise SecretError(message, hint=error.hint, declared_at=self.declared_at) from None
        built = connection_from_url(self.name, url, declared_at=self.declared_at)
        return replace(built, final=True, shown={"url": redact_url(reference)})


def found_in_file(file: TomlFile) -> Iterator[Found]:
    """The connections that a file declares."""
    for name, declared, place in entries(file):
        yield Found(name, place_text(place), _only_url(declared), place)


def entries(file: TomlFile) -> Iterator[tuple[str, str | Mapping[str, object], Origin]]:
    """Name, value and place of each connection; ConfigError for one that is no table, or stands there twice."""
    seen: dict[str, Origin] = {}
    for name, declared, place in _written(file):
        if not isinstance(declared, str | Mapping):
            hint = f"write [connections.{name}] with a url, or with a kind and its fields"
            raise ConfigError(f"connection {name!r} is neither a URL nor a table", hint=hint, declared_at=place)
        if name in seen:
            message = f"connection {name!r} is in {file.path} twice, first at line {seen[name].line}"
            raise ConfigError(message, hint="remove one of them", declared_at=place)
        seen[name] = place
        yield name, declared, place


def place_text(origin: Origin) -> str:
    """A place as `flow connections list` shows it."""
    return f"{origin.file}:{origin.line}" if origin.line else origin.file


def _written(file: TomlFile) -> Iterator[tuple[str, object, Origin]]:
    """Name, value and place of each entry: ``[connections.NAME]`` tables, then ``[[connection]]`` blocks."""
    for name, value in file.table("connections").items():
        yield name, value, file.origin(f"connections.{name}")
    blocks = file.data.get("connection", [])
    for index, block in enumerate(blocks if isinstance(blocks, list) else [blocks]):
        place = file.origin(f"connection[{index}]")
        if not isinstance(block, dict) or not isinstance(block.get("name"), str):
            hint = 'begin it with [[connection]] and name = "…"'
            raise ConfigError(f"a connection block in {file.path} has no name", hint=hint, declared_at=place)
        yield block["name"], {key: value for key, value in block.items() if key != "name"}, place


def _only_url(declared: str | Mapping[str, object]) -> str | Mapping[str, object]:
    """The URL of an entry that says nothing else, so that it needs no known kind until it is used."""
    if not isinstance(declared, str) and len(declared) == 1:
        url = declared.get("dsn", declared.get("url"))
        return url if isinstance(url, str) else declared
    return declared


def _is_readable(text: str) -> bool:
    """Whether a value is a URL, a reference or ``name=value`` pairs; anything else may be a password."""
    return "://" in text or "${" in text or "=" in text or text == ":memory:"


def _expand(text: str) -> str:
    from ..secrets import expand  # secrets reads variables through the module that finds connections

    return expand(text)


def _one_line(values: Mapping[str, object]) -> str:
    return " ".join(f"{key}={value}" if key else str(value) for key, value in values.items() if key != "name")
