"""Settings and connections from keywords, environment variables and TOML files; the only reader of the environment.

Every value remembers where it came from. Files: ``.ematix-flow.toml`` in the project's directory, and
``~/.ematix-flow/connections.toml`` for connections of the user.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Self

from .errors import ConfigError, ConnectionLookupError, nearest
from .spec.found import Found, found_in_file, place_text
from .spec.origin import Origin
from .spec.redaction import redact, redact_url
from .spec.registry import Registry, active
from .spec.toml_file import TomlFile, read_toml
from .spec.variables import dsn_names, dsn_variables, typed_variables

if TYPE_CHECKING:
    from .connections import check_connection, connect

__all__ = [
    "PROJECT_FILE",
    "Found",
    "Settings",
    "all_connections",
    "check_connection",
    "connect",
    "environment",
    "environment_copy",
    "environment_flag",
    "find_connection",
    "list_connections",
    "resolve_dsn",
    "set_connection",
    "set_environment",
    "user_file",
]

PROJECT_FILE = ".ematix-flow.toml"
"""The name of the project's file."""

_SECTIONS = ("jars", "project", "spark")
"""What the project's file has beside connections."""

_DOORS = frozenset({"check_connection", "connect"})


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
    spark_fast_start: bool = field(
        default=False, metadata=_setting("spark.fast_start", _to_flag, "EMATIX_FLOW_SPARK_FAST_START")
    )
    """Whether Java compiles less: Spark starts sooner and computes slower; for short jobs."""
    spark_shared_folder: Path | None = field(
        default=None, metadata=_setting("spark.shared_folder", _to_path, "EMATIX_FLOW_SPARK_SHARED_FOLDER")
    )
    """A folder that this machine and all workers of a Spark cluster see: rows wait there, in place of `staging_dir`."""
    jars_folder: Path | None = field(
        default=None, metadata=_setting("jars.folder", _to_path, "EMATIX_FLOW_JARS_FOLDER")
    )
    """Where the jars for Spark are; without it they are fetched once and kept in the cache folder."""
    jars_ivy_settings: Path | None = field(
        default=None, metadata=_setting("jars.ivy_settings", _to_path, "EMATIX_FLOW_JARS_IVY_SETTINGS")
    )
    """A file of Ivy settings that names the repository to fetch jars from, instead of the public one."""
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
        for section in _SECTIONS:
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


def find_connection(
    name: str = "default", *, url: str | None = None, registry: Registry | None = None, cwd: Path | None = None
) -> Found:
    """The connection of that name: from `url`, the environment, the project's file, the user's file, or code."""
    if url is not None:
        # Nobody has named it: errors call it by its address.
        shown = redact_url(url).partition("?")[0] if name == "default" and "://" in url else name
        found = Found(shown, "keyword url", url, final=True)
    else:
        found = _look_up(name, registry, cwd)
    _ = found.connection  # a wrong declaration is an error now, not when somebody looks at it
    return found


def all_connections(*, registry: Registry | None = None, cwd: Path | None = None) -> list[Found]:
    """Every connection that can be found, by name, each from the place that wins."""
    found = _merged(registry, cwd)
    return [found[name] for name in sorted(found)]


def list_connections() -> dict[str, str]:
    """Every connection by name, as a text without secrets."""
    return {found.name: found.redacted() for found in all_connections()}


def resolve_dsn(name: str = "default") -> str:
    """The URL of a connection with its references filled; contains secrets."""
    return _look_up(name, None, None).dsn


def set_connection(name: str, dsn: str | None = None, /, **fields: object) -> Path:
    """Write a connection into the user's file, by its URL or by single fields, and give the file's path.

    Everything else in the file stays as it is. A connection that cannot be right is an error, and nothing is written.
    """
    from .spec.connection_file import write_connection

    return write_connection(user_file(), name, fields if dsn is None else {**fields, "url": dsn})


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
        value, origin = written[last], place_text(file.origin(key))
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
    file.check_keys(("connection", "connections", *_SECTIONS))
    return file


def _look_up(name: str, registry: Registry | None, cwd: Path | None) -> Found:
    found = _merged(registry, cwd, name).get(name)
    if found is None:
        raise _not_found(name, registry, cwd)
    return found


def _merged(registry: Registry | None, cwd: Path | None, *asked: str) -> dict[str, Found]:
    """What the environment says over what is declared; `asked` are names that a variable may mean."""
    declared = _declared(registry, cwd)
    known = {*declared, "default", *asked}
    found = declared | {name: _from_environment(name) for name in dsn_names(os.environ, known)}
    settings = {each.metadata["variable"] for each in fields(Settings) if "variable" in each.metadata}
    for name, typed in typed_variables(os.environ, {*known, *found}, settings).items():
        variables = sorted(variable for each in typed for variable in each.variables.values())
        origin = f"environment variable{'s' if len(variables) > 1 else ''} {', '.join(variables)}"
        base = found.get(name) or Found(name, "", None)
        found[name] = replace(
            base, origin=f"{origin} over {base.origin}" if base.origin else origin, typed=tuple(typed)
        )
    return found


def _from_environment(name: str) -> Found:
    variable = next(each for each in dsn_variables(name) if os.environ.get(each))
    origin = f"environment variable {variable}"
    return Found(name, origin, os.environ[variable], Origin(origin), final=True)


def _declared(registry: Registry | None, cwd: Path | None) -> dict[str, Found]:
    """The connections of code and files; the project's file wins over the user's, and both over code."""
    known = registry or active()
    found = {}
    for name, connection in known.connections.items():
        place = known.origin("connection", name)
        found[name] = Found(name, place_text(place) if place else "code", connection, place)
    users = read_toml(user_file())
    users.check_keys(("connection", "connections"))
    for file in (users, _read_project((cwd or Path.cwd()).absolute())):
        found |= {each.name: each for each in found_in_file(file)}
    return found


def _not_found(name: str, registry: Registry | None, cwd: Path | None) -> ConnectionLookupError:
    project = (cwd or Path.cwd()).absolute() / PROJECT_FILE
    known = [found.name for found in all_connections(registry=registry, cwd=cwd)]
    hint = (
        f"set {dsn_variables(name)[0]}, or add [connections.{name}] to {project} or {user_file()}, "
        f"or declare it with @ematix.connection; {nearest('connection', name, known)}"
    )
    return ConnectionLookupError(f"there is no connection {name!r}", hint=hint)


def __getattr__(name: str) -> object:
    # The documented place of functions that open something, which this ring cannot.
    if name in _DOORS:
        return getattr(import_module("ematix_flow.connections"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
