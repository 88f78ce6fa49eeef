"""The connections of embedded databases, local files and memory: records only, so that naming one loads no driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ..errors import SpecTypeError
from ..spec.connection import Connection
from ..spec.place import check_format
from .file_formats import check_options

__all__ = ["DuckDBConnection", "MemoryConnection", "ObjectStoreLocalConnection", "SQLiteConnection", "check_files"]


@dataclass(frozen=True, repr=False)
class DuckDBConnection(Connection):
    """A DuckDB file, or `:memory:`, which lasts as long as the project is open."""

    kind: ClassVar[str] = "duckdb"
    schemes: ClassVar[tuple[str, ...]] = ("duckdb",)
    backend: ClassVar[str] = "duckdb:DuckDBBackend"
    local_path: ClassVar[str] = "path"

    path: str
    """The file, or `:memory:`."""
    memory_limit: str = "256MB"
    """What DuckDB may hold in memory before it spills to disk."""


@dataclass(frozen=True, repr=False)
class SQLiteConnection(Connection):
    """A SQLite file, or `:memory:`, which lasts as long as the project is open."""

    kind: ClassVar[str] = "sqlite"
    schemes: ClassVar[tuple[str, ...]] = ("sqlite",)
    backend: ClassVar[str] = "sqlite:SQLiteBackend"
    local_path: ClassVar[str] = "path"

    path: str
    """The file, or `:memory:`."""


@dataclass(frozen=True, repr=False)
class ObjectStoreLocalConnection(Connection):
    """Tables as folders of files: `schema.name` is the folder `<path>/<schema>/<name>`."""

    kind: ClassVar[str] = "object_store_local"
    schemes: ClassVar[tuple[str, ...]] = ("file",)
    backend: ClassVar[str] = "files:FilesBackend"
    local_path: ClassVar[str] = "path"

    path: str
    """The folder that holds the tables."""
    format: str
    """`parquet`, `csv`, `orc` or `json_lines`."""
    options: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Options of the format, such as `delimiter`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_files(self, self.format, self.options)


@dataclass(frozen=True, repr=False)
class MemoryConnection(Connection):
    """Tables in memory; all connections of one name share them."""

    kind: ClassVar[str] = "memory"
    schemes: ClassVar[tuple[str, ...]] = ("memory",)
    backend: ClassVar[str] = "memory:MemoryBackend"


def check_files(connection: Connection, format: str, options: object) -> None:
    """Raise SpecError unless the files of `connection` can have this format and these options."""
    if not isinstance(options, Mapping):
        message = f"connection {connection.name!r}: 'options' is a mapping"
        raise SpecTypeError(message, declared_at=connection.declared_at)
    # What holds a reference is checked when the connection is opened and the reference filled.
    if not connection.is_open("format"):
        owner = f"connection {connection.name!r}"
        check_format(format, owner)
        plain = {name: value for name, value in options.items() if connection.final or "${" not in str(value)}
        check_options(format, plain, owner, connection.declared_at)
