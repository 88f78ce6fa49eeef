"""`read_spark_df` and `write_spark_df` of a connection's handle."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import pytest

import ematix_flow.spark  # noqa: F401 - gives handles their methods
from ematix_flow import ematix, pk
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import DuckDBConnection, MemoryConnection, ObjectStoreLocalConnection, SQLiteConnection
from ematix_flow.engine.handle import Handle
from ematix_flow.errors import FlowError
from ematix_flow.spec import registry as registries
from ematix_flow.types import BigInt, Text
from tests.engine.test_frames import start_no_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS: dict[str, Any] = {
    "duckdb": lambda folder: DuckDBConnection("shop", str(folder / "shop.duckdb")),
    "sqlite": lambda folder: SQLiteConnection("shop", str(folder / "shop.db")),
    "memory": lambda _: MemoryConnection("shop"),
    "parquet": lambda folder: ObjectStoreLocalConnection("shop", str(folder / "lake"), "parquet"),
}
PEOPLE = "SELECT * FROM VALUES (1L, 'Ada'), (2L, 'Grace') AS people (id, name)"


@pytest.fixture(params=KINDS)
def conn(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Iterator[Any]:
    """A handle of an empty system."""
    backend = KINDS[request.param](tmp_path).open(Workshop(lambda: spark, tmp_path / "scratch"))
    yield Handle(backend)
    backend.close()
    if hasattr(backend, "drop"):
        backend.drop()


@pytest.mark.slow
def test_a_spark_frame_goes_in_and_comes_back(conn: Any, spark: SparkSession) -> None:
    result = conn.write_spark_df(spark.sql(PEOPLE), "dw.person", mode="append")
    assert (result.rows_inserted, result.path, result.pipeline) == (2, "inferred", "write_spark_df:dw.person")
    frame = conn.read_spark_df(spark, "SELECT * FROM dw.person WHERE id = 2")
    assert frame.columns == ["id", "name"]
    # The frame is evaluated after the call, as often as it is asked.
    assert [tuple(row) for row in frame.collect()] == [(2, "Grace")]
    assert frame.count() == 1


@pytest.mark.slow
def test_a_declared_table_takes_a_spark_frame(conn: Any, spark: SparkSession) -> None:
    with registries.scope():

        @ematix.table(schema="dw")
        class Person:
            id: Annotated[BigInt, pk()]
            name: Text

    result = conn.from_pyspark(spark.sql(PEOPLE), "dw.person", mode="truncate", target=Person)
    assert (result.rows_inserted, result.path) == (2, "cross_db")
    assert "_loaded_at" in conn.to_pyspark(spark, "SELECT * FROM dw.person").columns


@pytest.mark.slow
def test_nested_columns_become_json(conn: Any, spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1L AS id, array('a', 'b') AS tags, named_struct('x', 1, 'y', null) AS place")
    conn.write_spark_df(frame, "dw.things", mode="append")
    [row] = conn.read_spark_df(spark, "SELECT tags, place FROM dw.things").collect()
    assert tuple(row) == ('["a","b"]', '{"x":1,"y":null}')


@pytest.mark.slow
def test_a_merge_makes_its_key(spark: SparkSession, tmp_path: Path) -> None:
    backend = KINDS["duckdb"](tmp_path).open(Workshop(lambda: spark, tmp_path / "scratch"))
    conn: Any = Handle(backend)
    for _ in range(2):
        result = conn.write_spark_df(spark.sql(PEOPLE), "dw.person", mode="merge", keys=["id"])
    assert (result.rows_inserted, result.rows_unchanged) == (0, 2)


@pytest.fixture
def lone(tmp_path: Path) -> Any:
    """A handle that must not need Spark."""
    return Handle(KINDS["duckdb"](tmp_path).open(Workshop(start_no_spark, tmp_path / "scratch")))


@pytest.mark.parametrize("session", [None, "spark", pickle])
def test_what_is_no_session_is_a_type_error(lone: Any, session: object) -> None:
    with pytest.raises(TypeError, match="takes a SparkSession"):
        lone.read_spark_df(session, "SELECT 1")


@pytest.mark.parametrize("frame", [[1], pa.table({"id": [1]})])
def test_what_is_no_spark_frame_is_a_type_error(lone: Any, frame: object) -> None:
    with pytest.raises(TypeError, match="takes a Spark DataFrame"):
        lone.write_spark_df(frame, "dw.person", mode="append")


@pytest.mark.parametrize("name", ["person", "a.b.person", ".person", ""])
def test_a_table_name_without_a_schema_is_a_value_error(lone: Any, name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"'{name}' does not name a table\nHint: write 'schema.table'"):
        lone.write_spark_df(_Frame(), name, mode="append")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("declared", [True, False])
def test_a_history_takes_a_spark_frame(declared: bool, spark: SparkSession, tmp_path: Path) -> None:
    with registries.scope():

        @ematix.table(schema="dw")
        class Person:
            id: Annotated[BigInt, pk()]
            name: Text

    conn: Any = Handle(KINDS["duckdb"](tmp_path).open(Workshop(lambda: spark, tmp_path / "scratch")))
    options = {"target": Person} if declared else {"keys": ["id"]}
    conn.write_spark_df(spark.sql(PEOPLE), "dw.person", mode="scd2", **options)
    changed = spark.sql("SELECT 2L AS id, 'Hopper' AS name")
    result = conn.write_spark_df(changed, "dw.person", mode="scd2", **options)
    assert (result.rows_inserted, result.rows_closed) == (1, 1)
    versions = conn.query("SELECT id, name, is_current, valid_to IS NULL FROM dw.person ORDER BY id, valid_from")
    assert versions["rows"] == [[1, "Ada", True, True], [2, "Grace", False, False], [2, "Hopper", True, True]]


@pytest.mark.slow
def test_a_history_without_keys_is_refused(conn: Any, spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="write_spark_df: mode scd2 needs keys"):
        conn.write_spark_df(spark.sql(PEOPLE), "dw.person", mode="scd2")


def test_a_preview_gives_no_frames(tmp_path: Path, lone: Any) -> None:
    closed: Any = Handle(lone._backend, live=False)
    with pytest.raises(FlowError, match="a preview opens nothing"):
        closed.write_spark_df(_Frame(), "dw.person", mode="append")


class _Frame:
    """Looks like a frame of Spark to whoever only looks."""


_Frame.__module__, _Frame.__name__ = "pyspark.sql.dataframe", "DataFrame"
