"""Settings and connections from keywords, environment variables and TOML files; the only reader of the environment.

Every value remembers where it came from. Files: ``.ematix-flow.toml`` in the project's directory, and
``~/.ematix-flow/connections.toml`` for connections of the user.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from .errors import ConfigError, ConnectionLookupError, SecretError, nearest
from .spec.connection import Connection, connection_from_mapping, connection_from_url
from .spec.origin import Origin
from .spec.redaction import redact, redact_url
from .spec.registry import Registry, active
from .spec.toml_file import TomlFile, read_toml

__all__ = [
    "PROJECT_FILE",
    "Found",
    "Settings",
    "all_connections",
    "environment",
    "environment_copy",
    "environment_flag",
    "find_connection",
    "list_connections",
    "resolve_dsn",
    "set_environment",
    "user_file",
]

PROJECT_FILE = ".ematix-flow.toml"
"""The name of the project's file."""

_DSN = "EMATIX_FLOW_DSN"


def environment(name: str) -> str | None:
    """The value of an environment variable; None where it is not set."""
    return os.environ.get(name)


def environment_flag(name: str) -> bool:
    """Whether an environment variable is set to something other than nothing, ``0``, ``false`` or ``no``."""
    return _to_flag(os.environ.get(name, ""))


def environment_copy() -> dict[str, str]:
    """All environment variables, for a process to be started."""
    return dict(os.environ)


def set_environment(name: str, value: str) -> None:
    """Set an environment variable of this process, for libraries that read nothing else."""
    os.environ[name] = value


def user_file() -> Path:
    """The file with the user's own connections."""
    return Path.home() / ".ematix-flow" / "connections.toml"


def _to_text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text")
    return value


def _to_flag(value: object) -> bool:
    return value if isinstance(value, bool) else str(value).strip().lower() not in ("", "0", "false", "no", "off")


def _to_names(value: object) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError("a list of names")
    return tuple(name.strip() for name in names if name.strip())


def _to_texts(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError("a table of texts")
    # TOML has booleans of its own; Spark spells them in small letters.
    return {str(key): str(item).lower() if isinstance(item, bool) else str(item) for key, item in value.items()}


def _to_path(value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("a path")
    return Path(value).expanduser()


def _default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ematix-flow"


def _setting(key: str, read: Callable[[object], object], variable: str | None = None) -> dict[str, object]:
    """Where a setting is written: its dotted key in the project file, and its environment variable."""
    return {"key": key, "read": read, "variable": variable}


@dataclass(frozen=True)
class Settings:
    """How a project runs: from flags, then environment variables, then the project file, then defaults."""

    modules: tuple[str, ...] = field(default=(), metadata=_setting("project.modules", _to_names, "EMATIX_FLOW_MODULES"))
    """The modules that declare the project's pipelines."""
    staging_dir: Path | None = field(
        default=None, metadata=_setting("project.staging_dir", _to_path, "EMATIX_FLOW_STAGING_DIR")
    )
    """Where rows wait between systems; a temporary directory unless given."""
    cache_dir: Path = field(
        default_factory=_default_cache,
        metadata=_setting("project.cache_dir", _to_path, "EMATIX_FLOW_CACHE_DIR"),
    )
    """Where things that can be made again are kept."""
    spark_master: str = field(
        default="local[*]", metadata=_setting("spark.master", _to_text, "EMATIX_FLOW_SPARK_MASTER")
    )
    """Where Spark runs."""
    spark_memory: str = field(default="1g", metadata=_setting("spark.memory", _to_text, "EMATIX_FLOW_SPARK_MEMORY"))
    """The memory of Spark's driver."""
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False, metadata=_setting("spark.conf", _to_texts))
    """Further Spark settings, passed on as they are."""
    verbose: bool = field(default=False, metadata=_setting("project.verbose", _to_flag, "EMATIX_FLOW_VERBOSE"))
    """Whether Spark's own log is shown."""
    project_dir: Path = field(default_factory=Path.cwd)
    """The directory of the project; relative paths of its file start here."""
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where each value came from: a flag, an environment variable, a line of the file, or the default."""

    @classmethod
    def load(cls, cwd: Path | None = None, **flags: object) -> Self:
        """The settings of the project in `cwd`, the current directory by default; a flag that is None says nothing."""
        directory = (cwd or Path.cwd()).absolute()
        file = _read_project(directory)
        known = [each for each in fields(cls) if "key" in each.metadata]
        for section in ("project", "spark"):
            keys = [each.metadata["key"] for each in known if each.metadata["key"].startswith(section)]
            file.check_keys([key.partition(".")[2] for key in keys], section)
        for flag in flags:
            if flag not in {each.name for each in known}:
                raise ConfigError(f"unknown setting {flag!r}", hint=nearest("setting", flag, [f.name for f in known]))
        values: dict[str, object] = {"project_dir": directory}
        origins = {"project_dir": "argument" if cwd else "current directory"}
        for each in known:
            found = _find_setting(each.metadata, flags.get(each.name), each.name, file)
            origins[each.name] = found[1] if found else "default"
            if found:
                value = found[0]
                values[each.name] = directory / value if isinstance(value, Path) else value
        return cls(**values, origins=origins)  # type: ignore[arg-type]


@dataclass(frozen=True, repr=False)
class Found:
    """A connection and where it was found; building it is put off until `connection` is asked for."""

    name: str
    origin: str
    declared: str | Mapping[str, object] | Connection
    """A URL, a mapping of fields, or the connection itself, as written."""
    declared_at: Origin | None = None
    final: bool = False
    """The value holds no references: ``${`` in it means itself."""

    @cached_property
    def connection(self) -> Connection:
        """The connection; an error of its declaration is raised here, and only for this one."""
        if isinstance(self.declared, Connection):
            return self.declared
        if not isinstance(self.declared, str):
            return connection_from_mapping(self.name, self.declared, declared_at=self.declared_at)
        if not self.final and self.declared.lstrip().startswith("${"):
            return self._from_reference(self.declared)
        return replace(connection_from_url(self.name, self.declared, declared_at=self.declared_at), final=self.final)

    @property
    def dsn(self) -> str:
        """The URL with its references filled; contains secrets."""
        if not isinstance(self.declared, str):
            return self.connection.resolve(_expand).to_url()
        return self.declared if self.final else _expand(self.declared)

    def redacted(self) -> str:
        """The value as it may be shown, as far as it was written; nothing is filled and no secret is in it."""
        if isinstance(self.declared, str):
            return redact_url(self.declared)
        if isinstance(self.declared, Connection):
            return _one_line(self.declared.redacted())
        return _one_line({key: redact(key, value) for key, value in self.declared.items()})

    def __repr__(self) -> str:
        return f"Found({self.name!r}, {self.redacted()!r}, origin={self.origin!r})"

    def _from_reference(self, reference: str) -> Connection:
        """The connection of a URL that is itself a reference: its kind is only known when it is filled."""
        try:
            url = _expand(reference)
        except SecretError as error:
            message = f"connection {self.name!r}: {error.message}"
            raise SecretError(message, hint=error.hint, declared_at=self.declared_at) from None
        built = connection_from_url(self.name, url, declared_at=self.declared_at)
        return replace(built, final=True, shown={"url": redact_url(reference)})


def find_connection(
    name: str = "default", *, url: str | None = None, registry: Registry | None = None, cwd: Path | None = None
) -> Found:
    """The connection of that name: from `url`, the environment, the project's file, the user's file, or code."""
    if url is not None:
        found: Found | None = Found(name, "keyword url", url, final=True)
    else:
        found = _from_environment(name) or _declared(registry, cwd).get(name)
    if found is None:
        raise _not_found(name, registry, cwd)
    _ = found.connection  # a wrong declaration is an error now, not when somebody looks at it
    return found


def all_connections(*, registry: Registry | None = None, cwd: Path | None = None) -> list[Found]:
    """Every connection that can be found, by name, each from the place that wins."""
    declared = _declared(registry, cwd)
    # A variable says `RAW_DB` for raw-db, raw.db and raw_db: it only makes a new name where it fits no known one.
    claimed = {variable for name in (*declared, "default") for variable in _variables(name)}
    variables = [each for each in os.environ if each.startswith(f"{_DSN}_") and each not in claimed]
    names = {*declared, "default", *(each.removeprefix(f"{_DSN}_").lower() for each in variables)}
    winners = (_from_environment(name) or declared.get(name) for name in sorted(names))
    return [found for found in winners if found is not None]


def list_connections() -> dict[str, str]:
    """Every connection by name, as a text without secrets."""
    return {found.name: found.redacted() for found in all_connections()}


def resolve_dsn(name: str = "default") -> str:
    """The URL of a connection with its references filled; contains secrets."""
    found = _from_environment(name) or _declared(None, None).get(name)
    if found is None:
        raise _not_found(name, None, None)
    return found.dsn


def _expand(text: str) -> str:
    from .secrets import expand  # secrets reads variables through this module

    return expand(text)


def _find_setting(metadata: Mapping[str, object], flag: object, name: str, file: TomlFile) -> tuple[object, str] | None:
    """The value of a setting and its origin; None where nothing but the default is left."""
    key, variable = str(metadata["key"]), metadata["variable"]
    section, _, last = key.partition(".")
    written = file.table(section)
    if flag not in (None, (), []):
        value, origin = flag, f"flag {name}"
    elif isinstance(variable, str) and os.environ.get(variable):
        value, origin = os.environ[variable], f"environment variable {variable}"
    elif last in written:
        value, origin = written[last], _place(file.origin(key))
    else:
        return None
    read = metadata["read"]
    assert callable(read)
    try:
        return read(value), origin
    except ValueError as error:
        raise ConfigError(
            f"the setting {key!r} cannot be {redact(key, value)!r} ({origin})", hint=f"write {error}"
        ) from None


def _read_project(directory: Path) -> TomlFile:
    file = read_toml(directory / PROJECT_FILE)
    file.check_keys(("connection", "connections", "project", "spark"))
    return file


def _variables(name: str) -> tuple[str, ...]:
    """The environment variables that can hold the connection `name`, in order."""
    named = f"{_DSN}_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}"
    return (_DSN, named) if name == "default" else (named,)


def _from_environment(name: str) -> Found | None:
    for variable in _variables(name):
        if url := os.environ.get(variable):
            return Found(name, f"environment variable {variable}", url, final=True)
    return None


def _declared(registry: Registry | None, cwd: Path | None) -> dict[str, Found]:
    """The connections of code and files; the project's file wins over the user's, and both over code."""
    known = registry or active()
    found = {}
    for name, connection in known.connections.items():
        place = known.origin("connection", name)
        found[name] = Found(name, _place(place) if place else "code", connection, place)
    users = read_toml(user_file())
    users.check_keys(("connection", "connections"))
    for file in (users, _read_project((cwd or Path.cwd()).absolute())):
        found |= {each.name: each for each in _from_file(file)}
    return found


def _from_file(file: TomlFile) -> Iterator[Found]:
    seen: dict[str, Origin] = {}
    for name, declared, place in _entries(file):
        if not isinstance(declared, str | Mapping):
            hint = f"write [connections.{name}] with a url, or with a kind and its fields"
            raise ConfigError(f"connection {name!r} is neither a URL nor a table", hint=hint, declared_at=place)
        if name in seen:
            message = f"connection {name!r} is in {file.path} twice, first at line {seen[name].line}"
            raise ConfigError(message, hint="remove one of them", declared_at=place)
        seen[name] = place
        yield Found(name, _place(place), _only_url(declared), place)


def _entries(file: TomlFile) -> Iterator[tuple[str, object, Origin]]:
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


def _not_found(name: str, registry: Registry | None, cwd: Path | None) -> ConnectionLookupError:
    project = (cwd or Path.cwd()).absolute() / PROJECT_FILE
    known = [found.name for found in all_connections(registry=registry, cwd=cwd)]
    hint = (
        f"set {_variables(name)[0]}, or add [connections.{name}] to {project} or {user_file()}, "
        f"or declare it with @ematix.connection; {nearest('connection', name, known)}"
    )
    return ConnectionLookupError(f"there is no connection {name!r}", hint=hint)


def _place(origin: Origin) -> str:
    return f"{origin.file}:{origin.line}"


def _one_line(values: Mapping[str, object]) -> str:
    return " ".join(f"{key}={value}" for key, value in values.items() if key != "name")
