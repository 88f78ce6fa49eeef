"""What the databases inside this process share: a file that only a load creates, or a memory that the project holds."""

from __future__ import annotations

import os
import tempfile
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from ..errors import ConnectError
from ..spec.place import TableRef
from ..spec.run import Bookmark, Commit, Run
from ..spec.table import Table
from .base import Actual, Backend, Load, Relation, SchemaChange
from .connection import DuckDBConnection, SQLiteConnection
from .sql import SqlBackend, SqlConnection
from .sql_ledger import SqlLedger
from .sql_text import is_query
from .workshop import Workshop

__all__ = ["MEMORY", "EmbeddedBackend", "EmbeddedLedger"]

MEMORY = ":memory:"
"""The path of a database that lasts as long as the project is open."""


class EmbeddedBackend(SqlBackend):
    """A database in this process.

    Looking never makes a file: a missing one has no tables and no runs, and cannot be queried. The record of a run and
    its load make it, as a statement that changes something does. A dry run works on an empty database in its place,
    which is gone afterwards.
    """

    PRODUCT: ClassVar[str]
    """What the database calls itself."""
    connection: DuckDBConnection | SQLiteConnection

    def __init__(self, connection: DuckDBConnection | SQLiteConnection, workshop: Workshop) -> None:
        super().__init__(connection, workshop)
        self.memory_name = f"ematix_{uuid.uuid4().hex}"
        """What this backend's own database in memory is called."""
        self._anchor: SqlConnection | None = None
        self._may_create: ContextVar[bool] = ContextVar("may_create", default=False)
        self._stand_in: ContextVar[Path | None] = ContextVar("stand_in", default=None)

    @abstractmethod
    def open_database(self, file: Path | None) -> SqlConnection:
        """A connection to the file, which is made where it is missing; None is this backend's database in memory."""

    @abstractmethod
    def version(self, connection: SqlConnection) -> str:
        """The version of the database, from a connection that proves to answer."""

    @property
    def ledger(self) -> EmbeddedLedger:
        """Run records and bookmarks in the schema `ematix_flow` of this database."""
        return EmbeddedLedger(self)

    @property
    def in_memory(self) -> bool:
        """Whether there is no file."""
        return self.connection.path == MEMORY

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.connection.path).expanduser().absolute()

    def exists(self) -> bool:
        """Whether there is something to look at."""
        return self.in_memory or self.path.exists()

    @contextmanager
    def creating(self) -> Iterator[None]:
        """Inside the block, a missing file is made."""
        token = self._may_create.set(True)
        try:
            yield
        finally:
            self._may_create.reset(token)

    @contextmanager
    def standing_in(self) -> Iterator[None]:
        """Inside the block, an empty database stands in for a missing file, until the file is made."""
        if self.exists() or self._stand_in.get() is not None:
            yield
            return
        self._check_folder()
        with tempfile.TemporaryDirectory(prefix="ematix-stand-in-") as folder:
            # The name stays: DuckDB names the database after it.
            token = self._stand_in.set(Path(folder) / self.path.name)
            try:
                yield
            finally:
                self._stand_in.reset(token)

    def connect(self) -> SqlConnection:
        if not self.in_memory:
            return self.open_database(self._file())
        if self._anchor is None:
            # The database lives as long as one connection to it is open.
            self._anchor = self.open_database(None)
        return self.open_database(None)

    def close(self) -> None:
        if self._anchor is not None:
            self._anchor.close()
            self._anchor = None

    def ping(self) -> str:
        if not self.exists():
            self._check_folder()
            return f"{self.PRODUCT} file {self.path} does not exist yet; the first load creates it"
        with self.session() as connection:
            return f"{self.PRODUCT} {self.version(connection)}, {self.connection.path}"

    def same_system(self, other: Backend) -> bool:
        if self is other:
            return True
        if not isinstance(other, EmbeddedBackend) or type(self) is not type(other):
            return False
        return not (self.in_memory or other.in_memory) and self.path.resolve() == other.path.resolve()

    def columns(self, table: TableRef) -> Actual | None:
        return super().columns(table) if self.exists() or self._stand_in.get() else None

    def change_schema(self, table: TableRef, decide: Callable[[Actual | None], SchemaChange | None]) -> None:
        with self.creating():
            super().change_schema(table, decide)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """One connection for all steps of the block; where the file is missing, there is none to hold yet."""
        with super().hold() if self.exists() else self.standing_in():
            yield

    @contextmanager
    def load(self, incoming: Relation, table: Table, commit: Commit) -> Iterator[Load]:
        with (
            self.standing_in() if commit.dry_run else self.creating(),
            super().load(incoming, table, commit) as load,
        ):
            yield load

    def execute(self, statements: Sequence[str]) -> int:
        if all(is_query(sql, self.dialect.name) for sql in statements):
            return super().execute(statements)
        with self.creating():
            return super().execute(statements)

    def _file(self) -> Path:
        if self.exists() or self._may_create.get():
            return self.path
        stand_in = self._stand_in.get()
        if stand_in is None:
            self._check_folder()
            raise ConnectError(
                f"{self._where}: the file {self.path} does not exist",
                hint="check the path; the first load into this connection creates the file",
                declared_at=self.connection.declared_at,
            )
        return stand_in

    def _check_folder(self) -> None:
        """A file that is missing can be made by a load, if its folder allows it."""
        folder = self.path.parent
        if not folder.is_dir():
            trouble, hint = f"the folder {folder} does not exist", "check the path, or create the folder"
        elif not os.access(folder, os.W_OK | os.X_OK):
            trouble, hint = f"{self.path} does not exist and cannot be created", f"allow writing in {folder}"
        else:
            return
        raise ConnectError(f"{self._where}: {trouble}", hint=hint, declared_at=self.connection.declared_at)

    @property
    def _where(self) -> str:
        return f"connection {self.connection.name!r} ({self.connection.kind})"


class EmbeddedLedger(SqlLedger):
    """A ledger whose first record makes the file."""

    backend: EmbeddedBackend

    def start(self, run: Run) -> None:
        with self.backend.creating():
            super().start(run)

    def set_bookmark(self, pipeline: str, bookmark: Bookmark | None, at: datetime) -> None:
        with self.backend.creating():
            super().set_bookmark(pipeline, bookmark, at)
