"""Tables in memory: all strategies, whole loads, and SQL over what was put there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ematix_flow.backends.base import Applied, Frame, SchemaChange
from ematix_flow.backends.frames import schema_ddl
from ematix_flow.backends.memory import MemoryBackend, MemoryConnection
from ematix_flow.backends.workshop import Workshop
from ematix_flow.errors import CheckError, ConflictError, SpecError, UnknownNameError, UnsupportedError
from ematix_flow.spec.place import Prefix, Query, TableRef
from ematix_flow.spec.run import Bookmark, Commit, Run
from ematix_flow.spec.table import Column, Table
from ematix_flow.strategies.base import Intent, strategy_for
from ematix_flow.types import BigInt, Integer, Numeric, Text, Timestamp, TimestampTZ

pytestmark = pytest.mark.slow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
REF = TableRef("s", "t")
USERS = Table("s", "t", (Column(BigInt(), primary_key=True, name="id"), Column(Text(), name="name")))


def augmented(mode: str, declared: Table = USERS) -> Table:
    return declared.with_columns(
        Column(each.type, nullable=each.nullable, primary_key=each.primary_key, name=each.name)
        for each in strategy_for(mode).adds
    )


class Loader:
    """Loads rows into `s.t` the way the engine does."""

    def __init__(self, backend: MemoryBackend, spark: SparkSession) -> None:
        self.backend, self.spark = backend, spark

    def commit(self, mode: str, **changes: Any) -> Commit:
        run = Run(
            run_id=str(uuid4()), pipeline="p", schema="s", table="t", mode=mode, path="spark", started_at=NOON
        )  # fmt: skip
        return Commit(**{"token": run.run_id, "run": run, "now": NOON, **changes})

    def opened(self, rows: Sequence[tuple[object, ...]], mode: str, commit: Commit) -> Any:
        frame = self.spark.createDataFrame(list(rows), schema_ddl(USERS.columns))
        return self.backend.load(Frame(frame), augmented(mode), commit)

    def __call__(
        self, rows: Sequence[tuple[object, ...]], mode: str = "append", bookmark: str | None = None, **changes: Any
    ) -> Applied | None:
        asked = {name: changes.pop(name) for name in ("deletes",) if name in changes}
        commit, table, strategy = self.commit(mode, **changes), augmented(mode), strategy_for(mode)
        intent = Intent(
            columns=USERS.column_names, types={column.name: column.type for column in table.columns}, keys=("id",),
            update=("name",) if mode == "merge" else (), compare=("name",) if mode == "scd2" else (),
            primary_key=("id",), **asked,
        )  # fmt: skip
        with self.opened(rows, mode, commit) as load:
            if load.replayed:
                return None
            if self.backend.columns(REF) is None:
                load.evolve(SchemaChange(table, create=True))
            for guard in strategy.guards(intent):
                if offences := load.measure(guard.query):
                    raise CheckError(guard.message(offences))
            applied: Applied = load.apply(strategy.change(intent))
            done = commit.run.with_outcome("success", NOON)
            load.finish(done, None if bookmark is None else Bookmark("p", "id", bookmark))
        return applied

    def rows(self, *names: str) -> list[tuple[object, ...]]:
        kept = self.backend.get(REF).select(list(names or USERS.column_names))
        return sorted((tuple(row.values()) for row in kept.to_pylist()), key=str)


@pytest.fixture
def load(session: Callable[[], SparkSession], tmp_path: Path) -> Iterator[Loader]:
    backend = MemoryBackend(MemoryConnection(f"memory-{uuid4()}"), Workshop(session, tmp_path))
    yield Loader(backend, session())
    backend.drop()


def test_append_adds_and_truncate_takes_the_place_of_everything(load: Loader) -> None:
    assert load([(1, "a"), (2, None)]) == Applied(read=2, labels={"insert": 2})
    load([(3, "")])
    assert load.rows() == [(1, "a"), (2, None), (3, "")]
    load([(9, "new")], "truncate")
    assert load.rows() == [(9, "new")]


def test_merge_inserts_updates_and_removes(load: Loader) -> None:
    load([(1, "a"), (2, "b"), (3, "c")], "merge")
    applied = load([(1, "a"), (2, "B"), (4, "d")], "merge", deletes="hard")
    assert applied is not None
    assert (applied.read, dict(applied.labels)) == (3, {"insert": 1, "update": 1, "remove": 1})
    assert load.rows() == [(1, "a"), (2, "B"), (4, "d")]


def test_scd2_keeps_the_versions_of_a_row(load: Loader) -> None:
    load([(1, "a"), (2, "b")], "scd2")
    later = NOON + timedelta(hours=1)
    load([(1, "A"), (2, "b")], "scd2", now=later)
    assert load.rows("id", "name", "valid_from", "valid_to", "is_current") == [
        (1, "A", later, None, True),
        (1, "a", NOON, later, False),
        (2, "b", NOON, None, True),
    ]


def test_a_key_that_is_there_already_is_refused(load: Loader) -> None:
    load([(1, "a")])
    with pytest.raises(CheckError, match="id=1"):
        load([(1, "b")])
    assert load.rows() == [(1, "a")]


def test_a_repeated_token_and_a_dry_run_change_nothing(load: Loader) -> None:
    assert load([(1, "a")], dry_run=True) == Applied(read=1, labels={"insert": 1})
    assert load.backend.columns(REF) is None
    load([(1, "a")], token="once")
    assert load([(2, "b")], token="once") is None
    assert load.rows() == [(1, "a")]


def test_a_table_that_moved_since_the_load_opened_is_a_conflict(load: Loader) -> None:
    load([(1, "a")])
    slow = load.commit("append")
    opened = load.opened([(2, "slow")], "append", slow)
    late = opened.__enter__()
    late.apply(strategy_for("append").change(Intent(columns=USERS.column_names, types={})))
    load([(3, "fast")])
    late.finish(slow.run, Bookmark("p", "id", "2"))
    with pytest.raises(ConflictError):
        opened.__exit__(None, None, None)
    assert load.rows() == [(1, "a"), (3, "fast")]
    assert load.backend.ledger.bookmark("p") is None


def test_record_bookmark_and_instant_come_with_the_rows(load: Loader) -> None:
    load([(1, "a")], bookmark="1")
    ledger = load.backend.ledger
    assert [run.status for run in ledger.runs(pipeline="p")] == ["success"]
    assert ledger.bookmark("p") == Bookmark("p", "id", "1")
    assert ledger.last_instant(REF) == NOON


def test_a_null_where_none_may_be_is_refused(load: Loader) -> None:
    with pytest.raises(CheckError, match="NULL in the column 'id'"):
        load([(None, "a")])


def test_connections_of_one_name_share_their_tables(load: Loader) -> None:
    load.backend.put(REF, pa.table({"id": [1]}))
    twin = MemoryBackend(MemoryConnection(load.backend.connection.name), load.backend.workshop)
    assert twin.get(REF).to_pylist() == [{"id": 1}]
    assert twin.ping() == "memory of this process: 1 table"


def test_what_was_put_is_read_with_its_types(load: Loader) -> None:
    clock = datetime(1901, 2, 3)  # noqa: DTZ001 - a time of day without a zone is what is tested
    rows = pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "price": pa.array([Decimal("1.50")], pa.decimal128(12, 2)),
            "clock": pa.array([clock], pa.timestamp("ms")),
            "at": pa.array([NOON], pa.timestamp("ns", tz="Europe/Berlin")),
        }
    )
    load.backend.put(REF, rows)
    actual = load.backend.columns(REF)
    assert actual is not None
    assert [column.type for column in actual.columns] == [Integer(), Numeric(12, 2), Timestamp(), TimestampTZ()]
    read = load.backend.read(REF)
    assert read.schema.simpleString() == "struct<id:int,price:decimal(12,2),clock:timestamp_ntz,at:timestamp>"
    assert tuple(read.selectExpr("id", "price", "clock", "unix_micros(at)").collect()[0]) == (
        1, Decimal("1.50"), clock, int(NOON.timestamp() * 1_000_000),
    )  # fmt: skip
    with pytest.raises(SpecError, match="column 'x'"):
        load.backend.put(REF, pa.table({"x": pa.array([1], pa.duration("s"))}))


def test_a_query_joins_tables_of_the_connection(load: Loader) -> None:
    load.backend.put(TableRef("s", "one"), pa.table({"id": [1, 2], "name": ["a", "b"]}))
    load.backend.put(TableRef("s", "two"), pa.table({"id": [2]}))
    read = load.backend.read(Query("SELECT one.name FROM s.one JOIN s.two AS x ON one.id = x.id"))
    assert [row.name for row in read.collect()] == ["b"]
    with pytest.raises(UnknownNameError, match=r"did you mean 's\.one'"):
        load.backend.read(Query("SELECT * FROM s.onee"))
    with pytest.raises(UnsupportedError):
        load.backend.read(Prefix("x", "csv"))
