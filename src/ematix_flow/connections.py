"""Connections as users declare them: the typed classes, loaded when named, and the functions around their registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .config import PROJECT_FILE
from .errors import ConnectionLookupError, FlowError, SpecTypeError, UnknownNameError, nearest
from .secrets import expand
from .spec import registry
from .spec.connection import KINDS, Connection, connection_from_mapping, kind_class, known_kinds
from .spec.origin import declared_at
from .spec.place import format_from_path
from .spec.redaction import redact

if TYPE_CHECKING:
    from .backends.connection import (
        DuckDBConnection,
        MemoryConnection,
        ObjectStoreLocalConnection,
        SQLiteConnection,
    )
    from .backends.lake_connection import (
        DeltaLocalConnection,
        DeltaS3Connection,
        IcebergConnection,
        ObjectStoreAzureConnection,
        ObjectStoreGCSConnection,
        ObjectStoreS3Connection,
    )
    from .backends.server_connection import MySQLConnection, PostgresConnection
    from .backends.stream_connection import (
        GlueSchemaRegistryConnection,
        KafkaConnection,
        KinesisConnection,
        PubSubConnection,
        RabbitMQConnection,
        SchemaRegistryConnection,
    )
    from .backends.warehouse_connection import BigQueryConnection, RedshiftConnection, SnowflakeConnection
    from .engine.handle import Handle

__all__ = [
    "BigQueryConnection",
    "Connection",
    "DeltaLocalConnection",
    "DeltaS3Connection",
    "DuckDBConnection",
    "GlueSchemaRegistryConnection",
    "IcebergConnection",
    "KafkaConnection",
    "KinesisConnection",
    "MemoryConnection",
    "MySQLConnection",
    "ObjectStoreAzureConnection",
    "ObjectStoreGCSConnection",
    "ObjectStoreLocalConnection",
    "ObjectStoreS3Connection",
    "PostgresConnection",
    "PubSubConnection",
    "RabbitMQConnection",
    "RedshiftConnection",
    "SQLiteConnection",
    "SchemaRegistryConnection",
    "SnowflakeConnection",
    "check_connection",
    "clear_registry",
    "connect",
    "connection",
    "format_from_path",
    "get_connection",
    "redact",
    "register_connection",
    "registered_connections",
    "resolve",
]

_CLASSES = {target.partition(":")[2]: kind for kind, target in KINDS.items()}


def register_connection(connection: Connection) -> Connection:
    """Make a connection known by its name and return it; the last one of a name wins."""
    if not isinstance(connection, Connection):
        raise SpecTypeError(
            f"a connection was expected, not {type(connection).__name__}",
            hint=f"pass one of {', '.join(sorted(_CLASSES))}",
            declared_at=declared_at(),
        )
    return registry.active().add_connection(connection, connection.declared_at or declared_at())


def get_connection(name: str) -> Connection:
    """The connection that code has declared under `name`; files and environment are not consulted."""
    known = registry.active().connections
    if name not in known:
        hint = f"{nearest('connection', name, known)} Connections of {PROJECT_FILE} are found when a pipeline runs."
        message = f"no connection {name!r} is registered; known: {', '.join(sorted(known)) or '<none>'}"
        raise ConnectionLookupError(message, hint=hint)
    return known[name]


def registered_connections() -> dict[str, Connection]:
    """A copy of the connections that code has declared, by name."""
    return dict(registry.active().connections)


def clear_registry() -> None:
    """Forget the connections that code has declared; for tests."""
    registry.active().clear("connection")


def connection(declared: type) -> Connection:
    """Declare a connection by a class: its attributes are the fields, `kind` among them; the record takes its place."""
    place = declared_at()
    if not isinstance(declared, type):
        raise SpecTypeError(
            f"@connection decorates a class, not {type(declared).__name__}",
            hint="write `@ematix.connection` above `class warehouse:`",
            declared_at=place,
        )
    values = _attributes(declared)
    name = str(values.pop("name", declared.__name__))
    kind = values.get("kind")
    if not isinstance(kind, str):
        hint = f"set kind to one of {', '.join(known_kinds())}"
        raise SpecTypeError(f"connection {name!r} has no kind", hint=hint, declared_at=place)
    try:
        kind_class(kind)
    except UnknownNameError as error:
        raise SpecTypeError(f"connection {name!r}: {error.message}", hint=error.hint, declared_at=place) from None
    return registry.active().add_connection(connection_from_mapping(name, values, declared_at=place), place)


def connect(name: str = "default", *, url: str | None = None) -> Handle:
    """An open handle of the connection `name`, wherever it is declared; `url` names the system itself.

    A system that cannot be reached is an error here. The handle is a context manager.
    """
    from .config import Settings
    from .project import Project, current_project

    project = current_project()
    if project.settings.project_dir == Path.cwd():
        return project.connect(name, url=url)
    # The process has moved to another folder since: its files decide.
    return Project(Settings.load(), registry.active()).connect(name, url=url, closing=True)


def check_connection(name: str = "default") -> tuple[bool, str]:
    """Whether a connection answers, and what it says or what is wrong; raises nothing that a connection can cause."""
    try:
        with connect(name) as handle:
            return True, handle.ping()
    except FlowError as error:
        return False, error.message


def resolve(connection: Connection) -> Connection:
    """A copy of the connection with its ``${…}`` references filled."""
    return connection.resolve(expand)


def _attributes(cls: type) -> dict[str, object]:
    """The data attributes of a class and its bases, the nearest definition winning."""
    values: dict[str, object] = {}
    for base in reversed(cls.__mro__[:-1]):
        values |= vars(base)
    return {
        name: value
        for name, value in values.items()
        if not (name.startswith("__") and name.endswith("__")) and not callable(value) and not hasattr(value, "__get__")
    }


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return kind_class(_CLASSES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_CLASSES])
