"""`read_df` and `write_df` of a connection's handle: pandas, polars and Arrow, declared and inferred tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NoReturn

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ematix_flow.df  # noqa: F401 - gives handles their methods
from ematix_flow import ManagedTable, ematix, pk
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import DuckDBConnection, MySQLConnection, PostgresConnection, SQLiteConnection
from ematix_flow.engine.handle import Handle
from ematix_flow.errors import CheckError, DriftError, FlowError
from ematix_flow.normalize import trim
from ematix_flow.spec import registry as registries
from ematix_flow.spec.connection import Connection
from ematix_flow.spec.place import TableRef
from ematix_flow.types import BigInt, Text
from tests.servers import empty_mysql, empty_postgres

PEOPLE = {"id": [1, 2], "name": ["Ada", "Grace"]}


def start_no_spark() -> NoReturn:
    raise AssertionError("frames of this process need no Spark")


@pytest.fixture(
    params=["duckdb", "sqlite", *(pytest.param(name, marks=pytest.mark.server) for name in ("postgres", "mysql"))]
)
def conn(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A handle of an empty database."""
    workshop = Workshop(start_no_spark, tmp_path / "scratch")
    kinds: dict[str, Callable[[], Connection]] = {
        "duckdb": lambda: DuckDBConnection("shop", str(tmp_path / "shop.db")),
        "sqlite": lambda: SQLiteConnection("shop", str(tmp_path / "shop.db")),
        "postgres": lambda: PostgresConnection("shop", empty_postgres("frames")),
        "mysql": lambda: MySQLConnection("shop", empty_mysql("frames")),
    }
    backend = kinds[request.param]().open(workshop)
    yield Handle(backend)
    backend.close()


@pytest.fixture
def person() -> type[ManagedTable]:
    """A declared table."""
    with registries.scope():

        @ematix.table(schema="dw")
        class Person:
            id: Annotated[BigInt, pk()]
            name: Annotated[Text, trim()]

        return Person


def rows(conn: Any, table: str = "dw.person", columns: str = "id, name") -> list[tuple[object, ...]]:
    """Every row, in an order of its own: databases order texts and documents in ways of theirs, or not at all."""
    found = conn.read_df(f"SELECT {columns} FROM {table}", prefer="polars").rows()
    return sorted(found, key=lambda row: [(value is not None, str(value)) for value in row])


def columns_of(conn: Any, table: str = "dw.person") -> dict[str, str]:
    found = conn._backend.columns(TableRef.parse(table))
    return {column.name: str(column.type) for column in found.columns}


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("prefer", "kind"), [("auto", pl.DataFrame), ("polars", pl.DataFrame), ("pandas", pd.DataFrame)]
)
def test_a_query_becomes_a_frame(conn: Any, prefer: str, kind: type) -> None:
    conn.write_df(pa.table(PEOPLE), "dw.person", mode="append")
    frame = conn.read_df("SELECT id, name FROM dw.person WHERE id = 2;", prefer=prefer)
    assert isinstance(frame, kind)
    assert list(frame.columns) == ["id", "name"]
    assert frame.to_dict(**({"as_series": False} if kind is pl.DataFrame else {"orient": "list"})) == {
        "id": [2], "name": ["Grace"],
    }  # fmt: skip


def test_the_other_names_of_reading(conn: Any) -> None:
    conn.write_df(pa.table(PEOPLE), "dw.person", mode="append")
    sql = "SELECT id FROM dw.person ORDER BY id"
    assert conn.to_polars(sql).rows() == [(1,), (2,)]
    assert conn.to_pandas(sql)["id"].to_list() == [1, 2]
    assert conn.read_arrow(sql).to_pylist() == [{"id": 1}, {"id": 2}]


def test_another_library_is_a_value_error(conn: Any) -> None:
    with pytest.raises(ValueError, match="prefer='dask'"):
        conn.read_df("SELECT 1 AS one", prefer="dask")


def test_pandas_is_taken_where_polars_is_not_installed(conn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    conn.write_df(pa.table(PEOPLE), "dw.person", mode="append")
    monkeypatch.setitem(sys.modules, "polars", None)
    assert isinstance(conn.read_df("SELECT * FROM dw.person"), pd.DataFrame)


@pytest.mark.parametrize("prefer", ["polars", "pandas", "auto"])
def test_a_library_that_is_not_installed_is_named_with_its_command(
    conn: Any, prefer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("polars", "pandas"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=r"pip install 'ematix-flow-spark\[df\]'"):
        conn.read_df("SELECT 1 AS one", prefer=prefer)


def test_an_error_of_the_database_is_ours(conn: Any) -> None:
    conn.write_df(pa.table(PEOPLE), "dw.person", mode="append")
    with pytest.raises(FlowError, match="nobody"):
        conn.read_df("SELECT * FROM dw.nobody")


# ── declared tables ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["append", "truncate", "merge", "scd1", "scd2"])
def test_a_declared_table_takes_a_frame_with_its_normalizers(conn: Any, person: type[ManagedTable], mode: str) -> None:
    frame = pd.DataFrame({"name": [" Ada ", "Grace"], "id": [1, 2], "extra": [0, 0]})
    result = conn.write_df(frame, "dw.person", mode=mode, target=person)
    assert (result.rows_inserted, result.path, result.mode) == (2, "cross_db", mode)
    assert result.pipeline == "write_df:dw.person"
    assert rows(conn) == [(1, "Ada"), (2, "Grace")]
    assert "_loaded_at" in columns_of(conn)


def test_a_write_is_a_recorded_run(conn: Any, person: type[ManagedTable]) -> None:
    conn.write_df(pl.DataFrame(PEOPLE), "dw.person", mode="merge", target=person)
    with pytest.raises(CheckError):
        conn.write_df(pl.DataFrame({"id": [3, 3], "name": ["a", "b"]}), "dw.person", mode="merge", target=person)
    recorded = conn._backend.ledger.runs()
    assert [(run.pipeline, run.status) for run in recorded] == [
        ("write_df:dw.person", "failed"), ("write_df:dw.person", "success"),
    ]  # fmt: skip
    assert rows(conn) == [(1, "Ada"), (2, "Grace")]


def test_all_declared_columns_must_be_in_the_frame(conn: Any, person: type[ManagedTable]) -> None:
    with pytest.raises(ValueError, match="no column for 'id', 'name'"):
        conn.write_df(pl.DataFrame({"key": [1]}), "dw.person", mode="append", target=person)


def test_event_time_and_compared_columns_reach_the_strategy(conn: Any, person: type[ManagedTable]) -> None:
    for hour, name in ((9, "Ada"), (10, "ADA")):
        frame = pl.DataFrame({"id": [1], "name": [name], "at": [datetime(2026, 1, 5, hour, tzinfo=UTC)]})
        conn.write_df(
            frame, "dw.person", mode="scd2", target=person, event_timestamp_column="at", compare_columns=["name"]
        )
    assert rows(conn) == [(1, "ADA"), (1, "Ada")]


# ── inferred tables ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_inferred_table_has_the_columns_of_the_frame_and_no_others(conn: Any) -> None:
    frame = pl.DataFrame(
        {
            "tiny": pl.Series([1], dtype=pl.Int8),
            "small": pl.Series([1], dtype=pl.UInt16),
            "whole": [1],
            "huge": pl.Series([2**64 - 1], dtype=pl.UInt64),
            "single": pl.Series([0.5], dtype=pl.Float32),
            "double": [0.5],
            "ok": [True],
            "word": ["a"],
            "day": [date(2026, 1, 5)],
            "at": pl.Series([datetime(2026, 1, 5, tzinfo=UTC)], dtype=pl.Datetime("ms", "UTC")),
            "local": pl.Series([date(2026, 1, 5)]).cast(pl.Datetime("ns")),
            "price": [Decimal("1.50")],
            "tags": [["a", "b"]],
            "kind": pl.Series(["x"], dtype=pl.Categorical),
        }
    )
    result = conn.write_df(frame, "dw.things", mode="append")
    assert (result.rows_inserted, result.path) == (1, "inferred_append")
    types = columns_of(conn, "dw.things")
    assert types | {"price": ""} == {
        "tiny": "SmallInt", "small": "Integer", "whole": "BigInt", "huge": "Numeric[20, 0]", "single": "Float",
        "double": "Double", "ok": "Boolean", "word": "Text", "day": "Date", "local": "Timestamp",
        "at": "Timestamp" if conn.kind == "mysql" else "TimestampTZ",
        "price": "", "tags": "JSON", "kind": "Text",
    }  # fmt: skip
    assert types["price"].startswith("Numeric")
    assert rows(conn, "dw.things", "tags, kind") == [('["a","b"]', "x")]


def test_append_adds_and_truncate_replaces(conn: Any) -> None:
    frame = pd.DataFrame(PEOPLE)
    assert conn.write_df(frame, "dw.person", mode="append").path == "inferred_append"
    conn.write_df(frame, "dw.person", mode="append")
    assert len(rows(conn)) == 4
    assert conn.write_df(frame.head(1), "dw.person", mode="truncate").path == "inferred_truncate"
    assert rows(conn) == [(1, "Ada")]


@pytest.mark.parametrize("mode", ["merge", "scd1"])
def test_a_merge_into_a_table_that_it_made_itself_works(conn: Any, mode: str) -> None:
    conn.write_df(pl.DataFrame(PEOPLE), "dw.person", mode=mode, keys=["id"])
    changed = pl.DataFrame({"id": [2, 3], "name": ["Jean", "Mary"]})
    result = conn.write_df(changed, "dw.person", mode=mode, keys=["id"])
    assert (result.rows_inserted, result.rows_updated, result.path) == (1, 1, "inferred_merge")
    assert rows(conn) == [(1, "Ada"), (2, "Jean"), (3, "Mary")]
    assert list(columns_of(conn)) == ["id", "name"]


def test_keys_in_another_order_than_the_columns_are_the_same_key(conn: Any) -> None:
    frame = pl.DataFrame({"a": [1], "b": [2], "v": ["x"]})
    for _ in range(2):
        conn.write_df(frame, "dw.pairs", mode="merge", keys=["b", "a"])
    assert rows(conn, "dw.pairs", "a, b, v") == [(1, 2, "x")]


def test_a_history_needs_no_declaration(conn: Any) -> None:
    conn.write_df(pl.DataFrame(PEOPLE), "dw.person", mode="scd2", keys=["id"])
    result = conn.write_df(pl.DataFrame({"id": [2], "name": ["Jean"]}), "dw.person", mode="scd2", keys=["id"])
    assert (result.rows_inserted, result.rows_closed) == (1, 1)
    assert rows(conn, columns="id, name") == [(1, "Ada"), (2, "Grace"), (2, "Jean")]


def test_a_table_that_exists_keeps_its_types_and_its_other_columns(conn: Any, person: type[ManagedTable]) -> None:
    conn.write_df(
        pl.DataFrame({"id": pl.Series([1], dtype=pl.Int16), "n": ["a"], "note": ["x"]}), "dw.t", mode="append"
    )
    conn.write_df(pl.DataFrame({"ID": [2]}), "dw.t", mode="append")
    assert rows(conn, "dw.t", "id, n, note") == [(1, "a", "x"), (2, None, None)]
    assert columns_of(conn, "dw.t")["id"] == "SmallInt"
    with pytest.raises(CheckError, match="'id'"):
        conn.write_df(pl.DataFrame({"id": [70_000]}), "dw.t", mode="append")


def test_a_column_that_the_existing_table_has_not_is_drift(conn: Any) -> None:
    conn.write_df(pl.DataFrame({"id": [1]}), "dw.t", mode="append")
    with pytest.raises(DriftError, match="'city'"):
        conn.write_df(pl.DataFrame({"id": [2], "city": ["Bern"]}), "dw.t", mode="append")


def test_a_failed_truncate_keeps_the_rows(conn: Any) -> None:
    conn.write_df(pl.DataFrame({"id": pl.Series([1], dtype=pl.Int16)}), "dw.t", mode="append")
    with pytest.raises(FlowError):
        conn.write_df(pl.DataFrame({"id": [70_000]}), "dw.t", mode="truncate")
    assert rows(conn, "dw.t", "id") == [(1,)]


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("frame", "name", "options", "error", "complaint"),
    [
        (pa.table(PEOPLE), "person", {"mode": "append"}, ValueError, "'person' does not name a table"),
        ([1, 2], "dw.person", {"mode": "append"}, TypeError, "not list"),
        (pa.table(PEOPLE), "dw.person", {"mode": "upsert"}, ValueError, "mode='upsert'"),
        (pa.table(PEOPLE), "dw.person", {"mode": "merge"}, ValueError, "merge needs keys"),
        (pa.table(PEOPLE), "dw.person", {"mode": "scd2"}, ValueError, "scd2 needs keys"),
        (pa.table(PEOPLE), "dw.person", {"mode": "merge", "keys": "id"}, TypeError, "a list of column names"),
        (pa.table(PEOPLE), "dw.person", {"mode": "merge", "keys": ["idd"]}, ValueError, "no column 'idd'"),
        (pa.table(PEOPLE), "dw.person", {"mode": "append", "target": "x"}, TypeError, "must be a table class"),
        (pa.table({"_x": [1]}), "dw.person", {"mode": "append"}, ValueError, "underscore"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(
    conn: Any, frame: object, name: str, options: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        conn.write_df(frame, name, **options)
    assert conn._backend.columns(TableRef("dw", "person")) is None


def test_a_preview_reads_and_writes_nothing(conn: Any) -> None:
    closed: Any = Handle(conn._backend, live=False)
    with pytest.raises(FlowError, match="a preview opens nothing"):
        closed.read_df("SELECT 1")
    with pytest.raises(FlowError, match="a preview opens nothing"):
        closed.write_df(pa.table(PEOPLE), "dw.person", mode="append")
