"""A connection to a folder in which every table is a folder of its own: `FolderBackend`."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import ConnectError, SpecError
from ..spec.place import TableRef
from .base import Backend
from .connection import ObjectStoreLocalConnection
from .lake_connection import DeltaLocalConnection

__all__ = ["FolderBackend"]


class FolderBackend(Backend):
    """Tables in a folder: `schema.name` is the folder `<path>/<schema>/<name>`."""

    connection: DeltaLocalConnection | ObjectStoreLocalConnection

    @property
    def root(self) -> Path:
        """The folder of the connection."""
        return Path(self.connection.path).expanduser().absolute()

    def folder(self, table: TableRef) -> Path:
        """The folder of `table`."""
        for part in (table.schema, table.name):
            if part.startswith(("_", ".")) or "/" in part or os.sep in part or "\0" in part:
                hint = "names of folders hold no separators and do not begin with _ or ."
                raise SpecError(f"{part!r} in {table} cannot be the name of a folder", hint=hint)
        return self.root / table.schema / table.name

    def ping(self) -> str:
        """The folder and how many tables it holds."""
        existing = next(path for path in (self.root, *self.root.parents) if path.exists())
        if not existing.is_dir():
            raise ConnectError(
                f"connection {self.connection.name!r}: {existing} is not a folder", hint="change its path"
            )
        if existing != self.root:
            if not os.access(existing, os.W_OK):
                raise ConnectError(
                    f"connection {self.connection.name!r}: {self.root} does not exist and cannot be created",
                    hint=f"create it, or allow writing in {existing}",
                )
            return f"{self.root} does not exist yet; the first load creates it"
        return self.described(len(self.known_tables()))

    def described(self, tables: int) -> str:
        """The folder's content in words."""
        return f"{self.root}: {tables} {'table' if tables == 1 else 'tables'}"

    def known_tables(self) -> list[str]:
        """The tables that are there, as `schema.name`."""
        if not self.root.is_dir():
            return []
        folders = (path for path in self.root.glob("[!_.]*/[!_.]*") if path.is_dir())
        return sorted(f"{path.parent.name}.{path.name}" for path in folders)
