"""A laboratory for loads: declare a table by a line of text, load rows into any system, read back plain values.

The differences between systems end here. A test says ``load("id | name", "1 | Ada", at="09:00")`` and compares
what `rows`, `history` and `snapshot` give with what it expects, whatever the system and the path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import pytest

from ematix_flow import ematix, nullable, pk
from ematix_flow import types as catalogue
from ematix_flow.backends.base import Backend
from ematix_flow.backends.workshop import Workshop
from ematix_flow.config import Settings
from ematix_flow.engine.result import RunResult
from ematix_flow.project import Project
from ematix_flow.spec import registry as registries
from ematix_flow.spec.connection import Connection
from ematix_flow.spec.pipeline import Pipeline
from ematix_flow.spec.place import TableRef
from ematix_flow.spec.registry import Registry
from ematix_flow.spec.run import Bookmark, Run
from ematix_flow.types import UUID, BigInt, Boolean, Bytes, ColumnType, Text, TimestampTZ
from tests.backends.store import Row, open_store, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

Route = Literal["pushed", "copied", "spark"]
Test = TypeVar("Test")

DAY = datetime(2026, 1, 5, tzinfo=UTC)
SOURCE = TableRef("raw", "rows")
TARGET = TableRef("shop", "customer")
ADDED: Mapping[str, ColumnType] = {
    "valid_from": TimestampTZ(),
    "valid_to": TimestampTZ(),
    "is_current": Boolean(),
    "row_hash": Bytes(),
    "_loaded_at": TimestampTZ(),
    "_batch_id": UUID(),
    "_is_deleted": Boolean(),
}
"""The columns that loads add to a table."""


@dataclass(frozen=True)
class System:
    """A kind of system that rows can be loaded into and read from."""

    name: str
    connect: Callable[[str, Path], Connection]
    """A connection by its name and a folder of its own."""
    pushed: bool = False
    marks: tuple[pytest.MarkDecorator, ...] = ()
    """What its tests are: those that need a server say so."""
    gaps: Mapping[str, type[Exception]] = field(default_factory=dict)
    """The modes it refuses, and what it raises."""
    is_folder: bool = False
    """Its tables are folders, which other programs may read and write."""
    refused_types: tuple[type[ColumnType], ...] = ()
    keeps_nan: bool = True
    keeps_infinity: bool = True
    lost_names: tuple[str, ...] = ()
    """Names of columns whose values come back empty: to be repaired or refused."""
    lost_values: tuple[object, ...] = ()
    """Values that come back as others: to be repaired or refused."""


@dataclass(frozen=True)
class Lane:
    """A system under test, the path that rows take into it, and the system that they come from."""

    system: System
    path: Route
    source: System | None = None
    """None: the rows are in the target's own system."""

    @property
    def documented(self) -> str:
        """What results and records call the path."""
        return "same_db" if self.path == "pushed" else "cross_db"

    def __str__(self) -> str:
        if self.source is None:
            return f"{self.system.name}-{self.path}"
        return f"{self.source.name}-to-{self.system.name}" + ("-copied" if self.path == "copied" else "")


def everywhere(test: Test) -> Test:
    """Run a test on every lane, the costly ones included, and not only on one lane of each kind."""
    test.everywhere = True  # type: ignore[attr-defined]
    return test


def only(concerned: Callable[[Lane], bool]) -> Callable[[Test], Test]:
    """Run a test only on the lanes that it concerns."""

    def mark(test: Test) -> Test:
        test.concerned = concerned  # type: ignore[attr-defined]
        return test

    return mark


def clock(text: str | datetime) -> datetime:
    """The instant that ``"09:30"`` or ``"09:30:15"`` means on the day of the tests."""
    if isinstance(text, datetime):
        return text
    hour, minute, *second = text.split(":")
    return DAY + timedelta(hours=int(hour), minutes=int(minute), seconds=float(second[0]) if second else 0)


def shown(value: object) -> object:
    """A value as tests write it: instants of the day as ``"09:30"``."""
    if not isinstance(value, datetime):
        return value
    same = value.tzinfo is not None and value.date() == DAY.date() and not (value.second or value.microsecond)
    return value.strftime("%H:%M") if same else value.isoformat()


def read_table(header: str, lines: Sequence[str]) -> tuple[dict[str, ColumnType], list[Row]]:
    """A table as text: columns with optional types (``id | at:TimestampTZ``), rows with ``NULL`` and ``''``.

    ``id`` is a whole number and ``at`` an instant unless the header says otherwise; all else is text.
    """
    types: dict[str, ColumnType] = {}
    for part in header.split("|"):
        name, _, kind = part.strip().partition(":")
        types[name] = _type_named(kind) if kind else _USUAL.get(name, Text())
    rows = []
    for line in lines:
        cells = [cell.strip() for cell in line.split("|")]
        rows.append({name: _cell(text, types[name]) for name, text in zip(types, cells, strict=True)})
    return types, rows


class Lab:
    """One table in one system, and loads into it. Calling it is loading."""

    def __init__(self, lane: Lane, folder: Path, spark: Callable[[], SparkSession], **defaults: Any) -> None:
        self.lane, self.folder = lane, folder
        self.target_ref, self.source_ref = TARGET, SOURCE
        self.name = "load_customers"
        self.defaults: dict[str, Any] = defaults
        self.types: dict[str, ColumnType] = {}
        self.keys: tuple[str, ...] = ("id",)
        self.now = clock("08:00")
        (folder / "target").mkdir(exist_ok=True)
        (folder / "source").mkdir(exist_ok=True)
        self.registry = Registry()
        self.registry.add_connection(lane.system.connect("target", folder / "target"))
        if lane.source is not None:
            self.registry.add_connection(lane.source.connect("source", folder / "source"))
        workshop = Workshop(spark, folder / "scratch")
        self.project = Project(Settings(project_dir=folder), self.registry, workshop=workshop)
        self.target = self.project.backend("target")
        self.source = self.target if lane.source is None else self.project.backend("source")
        self.store, self.source_store = open_store(self.target), open_store(self.source)

    def __call__(self, header: str, *lines: str, at: str | datetime | None = None, **options: Any) -> RunResult:
        """Seed the source with a table as text and load it; the clock goes on by an hour unless `at` is given."""
        types, rows = read_table(header, lines)
        return self.load(types, rows, at=at, **options)

    def load(
        self, types: Mapping[str, ColumnType], rows: Sequence[Row], *, at: str | datetime | None = None, **options: Any
    ) -> RunResult:
        """Seed the source and load it."""
        self.seed(types, rows)
        return self.run(at=at, **options)

    def seed(self, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
        """Make these rows the source."""
        self.types = dict(types)
        self.source_store.put(self.source_ref, types, rows)

    def run(self, *, at: str | datetime | None = None, **options: Any) -> RunResult:
        """Load what the source holds; `token` and `dry_run` are the run's, everything else the pipeline's."""
        self.now = self.now + timedelta(hours=1) if at is None else clock(at)
        run = {name: options.pop(name) for name in ("token", "dry_run") if name in options}
        return self.project.run(self.pipeline(**options), now=self.now, **run)

    def pipeline(
        self, *, columns: Mapping[str, object] | None = None, sql: str | None = None, **options: Any
    ) -> Pipeline:
        """The pipeline as the decorators declare it; `columns` are annotations, by default those of the source."""
        chosen = {**self.defaults, **options}
        event = chosen.get("event_timestamp_column")
        declared = columns or {
            name: Annotated[kind, pk()] if name in self.keys else Annotated[kind, nullable()]
            for name, kind in self.types.items()
            if name != event
        }
        if self.lane.path != "pushed":
            chosen.setdefault("force_path", self.lane.path)
        query = sql or f"SELECT * FROM {self.source.relation_sql(self.source_ref)}"
        with registries.scope(Registry()):
            body = {"__annotations__": dict(declared), **chosen.pop("dunders", {})}
            table = ematix.table(schema=self.target_ref.schema, name=self.target_ref.name)(type("Customer", (), body))
            chosen = {"name": self.name, "target": table, "target_connection": "target", **chosen}
            if self.lane.source is not None:
                chosen["source_connection"] = "source"
            return ematix.pipeline(**chosen)(lambda source: query).pipeline

    def table(self) -> list[Row]:
        """Every row of the target as plain values, in an order of its own; no table is no rows."""
        rows = self.store.get(self.target_ref)
        kinds = {**ADDED, **self.types}
        found = [{name: plain(value, kinds.get(name, Text())) for name, value in row.items()} for row in rows]
        return sorted(found, key=lambda row: [(value is not None, str(value)) for value in row.values()])

    def rows(self, *names: str) -> list[tuple[object, ...]]:
        """The chosen columns of every row, by default those of the source that the table has."""
        table = self.table()
        columns = names or [name for name in self.types if not table or name in table[0]]
        return [tuple(shown(row[name]) for name in columns) for row in table]

    def history(self, *key: object) -> list[tuple[object, ...]]:
        """The versions of one key, oldest first: its other columns, and from when to when."""
        wanted = [row for row in self.table() if tuple(row[name] for name in self.keys) == key]
        names = [name for name in (wanted[0] if wanted else ()) if name not in (*self.keys, *ADDED)]
        versions = sorted(wanted, key=lambda row: row["valid_from"])
        for row in versions:
            assert row["is_current"] == (row["valid_to"] is None)
        return [tuple(shown(row[name]) for name in (*names, "valid_from", "valid_to")) for row in versions]

    def runs(self) -> Sequence[Run]:
        """Recorded runs, newest first."""
        return self.target.ledger.runs()

    def bookmark(self) -> Bookmark | None:
        """Where the pipeline got to."""
        return self.target.ledger.bookmark(self.name)

    def exists(self) -> bool:
        """Whether the target table is there."""
        return self.target.columns(self.target_ref) is not None

    def snapshot(self) -> tuple[object, ...]:
        """All that a load may change, except the records of runs."""
        return self.exists(), self.table(), self.bookmark()

    @contextmanager
    def refused(self, error: type[Exception], match: str) -> Iterator[pytest.ExceptionInfo[Exception]]:
        """The block fails, leaves everything as it was, and one more `failed` record that says why."""
        before, recorded, types = self.snapshot(), len(self.runs()), self.types
        with pytest.raises(error, match=match) as caught:
            yield caught
        self.types = types
        assert self.snapshot() == before
        runs = self.runs()
        assert len(runs) == recorded + 1
        assert runs[0].status == "failed"
        assert str(caught.value) in str(runs[0].error)
        assert runs[0].finished_at is not None

    def close(self) -> None:
        """Let go of both systems; the Spark session goes on."""
        for backend in {id(each): each for each in (self.target, self.source)}.values():
            backend.close()
            _forget(backend)


def counts(result: Mapping[str, object], *names: str) -> tuple[object, ...]:
    """The counts of a result, by default inserted, updated and unchanged, or for scd2 inserted and closed."""
    usual = ("inserted", "closed") if result["mode"] == "scd2" else ("inserted", "updated", "unchanged")
    return tuple(result[name if name.startswith("closed_") else f"rows_{name}"] for name in names or usual)


_USUAL: Mapping[str, ColumnType] = {"id": BigInt(), "at": TimestampTZ()}


def _type_named(text: str) -> ColumnType:
    name, _, arguments = text.strip().partition("[")
    kind = getattr(catalogue, name)
    numbers = [int(number) for number in arguments.rstrip("]").split(",") if number]
    return kind(*numbers) if numbers else kind()


def _cell(text: str, kind: ColumnType) -> object:
    if text == "NULL":
        return None
    if isinstance(kind, TimestampTZ):
        return clock(text)
    if isinstance(kind, catalogue.Date):
        return date.fromisoformat(text)
    return plain("" if text == "''" else text, kind)


def _forget(backend: Backend) -> None:
    """Tables in memory outlive their backend, by the name of the connection."""
    if hasattr(backend, "drop"):
        backend.drop()
