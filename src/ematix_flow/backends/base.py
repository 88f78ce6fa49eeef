"""The contract between the engine and a system: `Backend`, `Load`, `Ledger` and the records they exchange.

This is the page a backend author reads. A backend is opened for one project; it reads rows, tells what a table looks
like and opens loads. A load is one unit of work on one table: leaving its block commits rows and `Commit` together, an
error leaves nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ..errors import UnsupportedError
from ..spec.connection import Connection
from ..spec.place import Place, Query, TableRef
from ..spec.run import Bookmark, Commit, Run
from ..spec.table import Table
from ..strategies.base import Append, Change, Replace, Upsert
from ..types import ColumnType
from .sql_connection import SqlConnection
from .sql_text import strip_terminator

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from sqlglot import exp

    from .dialect import Dialect
    from .workshop import Workshop

__all__ = [
    "Actual",
    "ActualColumn",
    "Applied",
    "Attach",
    "Backend",
    "Brought",
    "Capabilities",
    "Fact",
    "Frame",
    "Ledger",
    "Load",
    "Piped",
    "Pushed",
    "QueryColumn",
    "QueryResult",
    "Relation",
    "SchemaChange",
    "Spooled",
    "run_values",
]


Attach = Callable[[SqlConnection], object]
"""Lets a connection reach what a query speaks of."""


@dataclass(frozen=True)
class Capabilities:
    """Facts about a system that the planner consults before anything is opened."""

    changes: frozenset[type[Change]] = frozenset({Append, Replace, Upsert})
    pushed: bool = False
    """Can run a source query of its own and load the result without moving it."""
    enforces_keys: bool = False
    """Refuses duplicate primary keys by itself; otherwise the load checks them."""
    takes_frames: bool = False
    """Reads rows from elsewhere by itself, as Parquet; otherwise Spark does."""
    takes_typed: bool = False
    """Takes Parquet whose columns have the declared types into a load as it is, without a query of its own."""
    exports: bool = False
    """Gives the rows of a query as Parquet by itself; otherwise Spark does."""
    name_bytes: int | None = None
    """How long a name may be; what is longer would be cut, and is refused."""
    widens: bool = True
    """Can give a column a wider type, inside the load."""
    guarantee: str = "all of a load or none of it, exactly once for one token"
    """What a load promises, in the words that `flow preview` prints."""
    instead: str = "choose another target connection"
    """What to do when a mode needs a change that this system cannot take."""


@dataclass(frozen=True)
class ActualColumn:
    """A column as the system reports it; `type` is None where it is outside the catalogue."""

    name: str
    type: ColumnType | None
    declared: str
    nullable: bool = True
    primary_key: bool = False


@dataclass(frozen=True)
class Actual:
    """A table as the system reports it."""

    columns: tuple[ActualColumn, ...]
    unique: tuple[tuple[str, ...], ...] | None = None
    """Unique constraints; None where the system keeps none."""
    keyed: bool = False
    """The primary key is known."""
    partitions: tuple[str, ...] | None = None
    """The columns that its files are divided by; None where the system has no files, or tells with the load."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(column.name for column in self.columns)

    def has_types(self, types: Mapping[str, ColumnType]) -> bool:
        """Whether the table has these columns, each in its type as the system reports it."""
        kinds = {column.name: column.type for column in self.columns}
        return all(kinds.get(name) == kind for name, kind in types.items())

    def is_unique(self, names: Sequence[str]) -> bool:
        """Whether the system itself lets values of these columns stand only once."""
        if self.unique is None:
            return False
        groups = [tuple(column.name for column in self.columns if column.primary_key), *self.unique]
        return any(set(group) == set(names) for group in groups)


@dataclass(frozen=True)
class SchemaChange:
    """What must happen to a table before rows fit: create it, add or widen columns. Never drops or narrows."""

    table: Table
    create: bool = False
    add: tuple[str, ...] = ()
    widen: tuple[str, ...] = ()
    """Columns that get the declared type in place of a narrower one."""
    indexes: tuple[tuple[str, ...], ...] = ()
    """Columns that loads will look rows up by; a system without indexes ignores them."""


@dataclass(frozen=True)
class Frame:
    """Incoming rows as a Spark frame, already in the declared columns and types."""

    frame: DataFrame


@dataclass(frozen=True)
class Pushed:
    """Incoming rows as a query that the target's own database runs, already in the declared columns and types."""

    sql: str
    once: bool = False
    """The load looks at the rows a single time, or they are in tables of the load's own: nothing needs to be kept."""
    attach: Attach | None = None
    """What the connection must do before the query."""


@dataclass(frozen=True)
class Spooled:
    """Incoming rows as Parquet files, already in the declared columns and types."""

    folder: Path


@dataclass(frozen=True)
class Piped:
    """Incoming rows as a query of another database of the same kind, in the declared columns and types.

    That one sends them in its own binary form, which the target takes as it is.
    """

    source: Backend
    sql: str


@dataclass(frozen=True)
class Brought:
    """Parquet files as a query of a database reads them."""

    sql: str
    attach: Attach | None = None
    """What the connection must do before the query."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """The types of the columns in the database's own words, where it tells them."""


Relation = Frame | Pushed | Spooled | Piped


@dataclass(frozen=True)
class Fact:
    """Something to know of a system that answers, in a few words."""

    name: str
    value: str
    is_warning: bool = False
    """Something will not work because of it."""


@dataclass(frozen=True)
class QueryColumn:
    """A column of a query's result; `type` is in the system's own words, empty where it tells none."""

    name: str
    type: str


@dataclass(frozen=True)
class QueryResult:
    """The rows of a query, and whether there are more than were asked for."""

    columns: tuple[QueryColumn, ...]
    rows: Sequence[tuple[object, ...]]
    truncated: bool = False


@dataclass(frozen=True)
class Applied:
    """What a change did: rows by label, and how many rows came in."""

    read: int
    labels: Mapping[str, int] = field(default_factory=dict)


def run_values(commit: Commit, dialect: Dialect, types: Mapping[str, ColumnType]) -> dict[str, object]:
    """The values that stand behind the placeholders of a strategy's query."""
    values: dict[str, object] = {
        "now": commit.now,
        "run_id": commit.run.run_id,
        "expired_before": commit.expired_before,
    }
    if commit.bookmark is not None:
        values["bookmark"] = dialect.literal(commit.bookmark.value, types[commit.bookmark.column])
    return values


class Ledger(ABC):
    """What a system remembers of runs: their records and bookmarks. Commits are written by the load itself."""

    @abstractmethod
    def start(self, run: Run) -> None:
        """Record that `run` began; mark records of this pipeline whose process has died as failed."""

    @abstractmethod
    def end(self, run: Run) -> None:
        """Record how a run ended that committed nothing: it failed, or its token was committed before."""

    @abstractmethod
    def bookmark(self, pipeline: str) -> Bookmark | None:
        """Where the last committed load of `pipeline` got to."""

    @abstractmethod
    def set_bookmark(self, pipeline: str, bookmark: Bookmark | None, at: datetime) -> None:
        """Let `pipeline` go on from here, or with None from the beginning."""

    @abstractmethod
    def last_instant(self, table: TableRef, *, pipeline: str | None = None) -> datetime | None:
        """The `now` of the newest committed load into `table`, of anybody or of one pipeline.

        It only grows: time never goes backwards, and a run can tell that another one has overtaken it.
        """

    @abstractmethod
    def runs(self, *, pipeline: str | None = None, limit: int = 50) -> Sequence[Run]:
        """Records, newest first; empty where nothing was ever recorded."""

    def find(self, run: Run) -> Run | None:
        """What is recorded of a run; None where nothing is."""
        return next((each for each in self.runs(pipeline=run.pipeline) if each.run_id == run.run_id), None)


class Load(ABC):
    """One unit of work on one table, over the names `incoming` and `target`."""

    replayed: bool = False
    """This token was committed before: apply nothing."""

    @abstractmethod
    def evolve(self, change: SchemaChange) -> None:
        """Create the table, add or widen columns, as part of this unit of work where the system can."""

    @abstractmethod
    def measure(self, query: exp.Query) -> Sequence[tuple[object, ...]]:
        """The rows of a small query over `incoming` and `target`."""

    @abstractmethod
    def apply(self, change: Change) -> Applied:
        """Make the change to the target."""

    @abstractmethod
    def finish(self, run: Run, bookmark: Bookmark | None) -> None:
        """Hand over the final record and bookmark, which are committed with the rows when the block ends."""


class Backend(ABC):
    """One system, opened for one project."""

    can: ClassVar[Capabilities]
    jars: tuple[str, ...] = ()
    """Groups of the jar lock that the Spark session must have before this backend works."""
    load_retries: int = 0
    """How many more times a run tries a load that something passing has stopped."""
    dialect: Dialect
    """How queries over `incoming` and `target` are spelled here."""

    def __init__(self, connection: Connection, workshop: Workshop) -> None:
        self.connection = connection
        self.workshop = workshop

    @property
    @abstractmethod
    def ledger(self) -> Ledger:
        """What this system remembers of runs."""

    @abstractmethod
    def ping(self) -> str:
        """A short description of the system reached, or ConnectError."""

    def facts(self) -> Sequence[Fact]:
        """What a person may want to know of the system before loading into it."""
        return ()

    def obstacles(self, table: TableRef) -> Sequence[str]:
        """What keeps this user from making the table, or the records of its loads, as far as the system tells."""
        return ()

    @abstractmethod
    def read(self, place: Place) -> DataFrame:
        """The rows at `place`, as of now, read once."""

    @abstractmethod
    def columns(self, table: TableRef) -> Actual | None:
        """The table as it is; None where there is no such table."""

    @abstractmethod
    def load(self, incoming: Relation, table: Table, commit: Commit) -> AbstractContextManager[Load]:
        """Open a unit of work that brings `incoming` into `table` (declared and added columns)."""

    def read_arrow(self, query: Query) -> pa.Table:
        """The rows of a query, as of now, in the memory of this process."""
        return self.read(query).toArrow()

    def query_columns(self, sql: str) -> tuple[QueryColumn, ...]:
        """The columns a query would give; only systems that can be pushed to answer."""
        raise self._runs_no_queries()

    def user_sql(self, sql: str) -> str:
        """A user's query as this system must be given it."""
        return strip_terminator(sql, self.dialect.name)

    def relation_sql(self, table: TableRef) -> str:
        """The table as a query of this system names it."""
        return self.dialect.quote(table.schema, table.name)

    def compared_table(self, table: Table) -> exp.Table | exp.Subquery:
        """The table as the query of a change reads it; only systems that can be pushed to answer."""
        raise self._runs_no_queries()

    def explain(self, table: Table, change: Change) -> Sequence[str]:
        """The statements that would make the change, without opening anything."""
        return (self.dialect.render(change.rows, {}, {}),)

    def bring(self, folder: Path) -> Brought:
        """The Parquet files in `folder` for this system's own queries; only systems that take frames answer."""
        raise self._runs_no_queries()

    def export_rows(self, place: Place, folder: Path) -> Mapping[str, ColumnType]:
        """Write the rows at `place` into `folder` as Parquet; gives the types that are known of their columns.

        Only systems that export by themselves answer.
        """
        raise self._runs_no_queries()

    def piped_types(self, sql: str, target: Backend) -> Mapping[str, ColumnType]:
        """The columns of a query and their types, where `target` takes them in the binary form that this one sends."""
        return {}

    def evaluate(self, sql: str, *, attach: Attach | None = None) -> Sequence[tuple[object, ...]]:
        """The few rows of a query of our own; only systems that can be pushed to answer."""
        raise self._runs_no_queries()

    def execute(self, statements: Sequence[str]) -> int:
        """Run statements in one transaction; gives how many rows they changed. Only systems with SQL of their own."""
        raise self._runs_no_queries()

    def query(self, sql: str, max_rows: int | None = None) -> QueryResult:
        """The rows of a query, `max_rows` at most; only systems with SQL of their own."""
        raise self._runs_no_queries()

    def change_schema(self, table: TableRef, decide: Callable[[Actual | None], SchemaChange | None]) -> None:
        """Look at a table and change it as `decide` says, in one unit of work that brings no rows."""
        if decide(self.columns(table)) is not None:
            raise UnsupportedError(
                f"connection {self.connection.name!r} ({self.connection.kind}) makes and changes tables only in loads",
                hint="run a pipeline into the table",
            )

    def same_system(self, other: Backend) -> bool:
        """Whether a query for `other` can run here: the same database, whatever the connections are called."""
        return self is other

    def stored_type(self, type: ColumnType) -> ColumnType:
        """The type a declared one comes back as when the system reports it."""
        return self.dialect.stored_type(type)

    def hold(self) -> AbstractContextManager[None]:
        """Keep the system open between the steps of the block, where opening it costs something."""
        return nullcontext()

    def close(self) -> None:
        """Let go of what is held open."""

    def _runs_no_queries(self) -> UnsupportedError:
        return UnsupportedError(
            f"connection {self.connection.name!r} ({self.connection.kind}) runs no queries of its own"
        )
