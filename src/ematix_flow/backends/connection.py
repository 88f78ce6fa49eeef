"""The connections of this package's systems: records only, so that naming one loads no driver and no query engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ..errors import SpecTypeError
from ..spec.connection import Connection
from ..spec.place import check_format
from .file_formats import check_options

__all__ = ["DuckDBConnection", "MemoryConnection", "ObjectStoreLocalConnection", "SQLiteConnection"]


@dataclass(frozen=True, repr=False)
class DuckDBConnection(Connection):
    """A DuckDB file, or `:memory:`, which lasts as long as the project is open."""

    kind: ClassVar[str] = "duckdb"
    schemes: ClassVar[tuple[str, ...]] = ("duckdb",)
    backend: ClassVar[str] = "duckdb:DuckDBBackend"

    path: str
    memory_limit: str = "256MB"
    """What DuckDB may hold in memory before it spills to disk."""


@dataclass(frozen=True, repr=False)
class SQLiteConnection(Connection):
    """A SQLite file, or `:memory:`, which lasts as long as the project is open."""

    kind: ClassVar[str] = "sqlite"
    schemes: ClassVar[tuple[str, ...]] = ("sqlite",)
    backend: ClassVar[str] = "sqlite:SQLiteBackend"

    path: str


@dataclass(frozen=True, repr=False)
class ObjectStoreLocalConnection(Connection):
    """Tables as folders of files: `schema.name` is the folder `<path>/<schema>/<name>`."""

    kind: ClassVar[str] = "object_store_local"
    schemes: ClassVar[tuple[str, ...]] = ("file",)
    backend: ClassVar[str] = "files:FilesBackend"

    path: str
    format: str
    options: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.options, Mapping):
            raise SpecTypeError(f"connection {self.name!r}: 'options' is a mapping", declared_at=self.declared_at)
        # What holds a reference is checked when the connection is opened and the reference filled.
        if "${" not in self.format:
            owner = f"connection {self.name!r}"
            check_format(self.format, owner)
            plain = {name: value for name, value in self.options.items() if "${" not in str(value)}
            check_options(self.format, plain, owner, self.declared_at)


@dataclass(frozen=True, repr=False)
class MemoryConnection(Connection):
    """Tables in memory; all connections of one name share them."""

    kind: ClassVar[str] = "memory"
    schemes: ClassVar[tuple[str, ...]] = ("memory",)
    backend: ClassVar[str] = "memory:MemoryBackend"
