"""Pipelines whose function returns a frame: pandas, polars, Arrow and Spark, into every kind of system."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ematix_flow import ematix, pk
from ematix_flow.backends.workshop import Workshop
from ematix_flow.config import Settings
from ematix_flow.connections import DuckDBConnection, MemoryConnection, ObjectStoreLocalConnection, SQLiteConnection
from ematix_flow.engine.result import RunResult
from ematix_flow.errors import CheckError, FlowError, SpecError, SpecTypeError, UnknownNameError
from ematix_flow.normalize import lower, trim
from ematix_flow.project import Project
from ematix_flow.spec import registry as registries
from ematix_flow.spec.pipeline import Pipeline
from ematix_flow.spec.place import TableRef
from ematix_flow.spec.registry import Registry
from ematix_flow.types import (
    JSON,
    BigInt,
    Boolean,
    Bytes,
    Date,
    Double,
    Integer,
    Numeric,
    Text,
    Timestamp,
    TimestampTZ,
)
from tests.backends.store import open_store, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = TableRef("shop", "customer")
KEY = Annotated[BigInt, pk()]
CONNECTIONS: dict[str, Callable[[Path], Any]] = {
    "duckdb": lambda folder: DuckDBConnection("target", str(folder / "shop.duckdb")),
    "duckdb_memory": lambda _: DuckDBConnection("target", ":memory:"),
    "sqlite": lambda folder: SQLiteConnection("target", str(folder / "shop.db")),
    "sqlite_memory": lambda _: SQLiteConnection("target", ":memory:"),
    "memory": lambda _: MemoryConnection("target"),
    "parquet": lambda folder: ObjectStoreLocalConnection("target", str(folder / "tables"), "parquet"),
}
DATABASES = ("duckdb", "sqlite")


class Bench:
    """One target, and loads of frames into one table of it."""

    def __init__(self, system: str, folder: Path, spark: Callable[[], Any]) -> None:
        registry = Registry()
        registry.add_connection(CONNECTIONS[system](folder))
        workshop = Workshop(spark, folder / "scratch")
        self.project = Project(Settings(project_dir=folder), registry, workshop=workshop)
        self.target = self.project.backend("target")

    def load(self, frame: object, columns: dict[str, object], **options: Any) -> RunResult:
        return self.project.run(self.pipeline(frame, columns, **options))

    def pipeline(self, frame: object, columns: dict[str, object], **options: Any) -> Pipeline:
        chosen = {"mode": "append", "name": "customers", "target_connection": "target", **options}
        with registries.scope(Registry()):
            body = {"__annotations__": columns}
            table = ematix.table(schema=TABLE.schema, name=TABLE.name)(type("Customer", (), body))
            return ematix.pipeline(target=table, **chosen)(lambda source: frame).pipeline

    def rows(self, columns: dict[str, Any]) -> list[tuple[object, ...]]:
        found = open_store(self.target).get(TABLE)
        return sorted(tuple(plain(row[name], kind) for name, kind in columns.items()) for row in found)


def start_no_spark() -> NoReturn:
    raise AssertionError("this load needs no Spark")


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A database that takes frames without Spark."""
    bench = Bench(request.param, tmp_path, start_no_spark)
    yield bench
    bench.project.close()


PEOPLE = {"id": [1, 2], "name": ["Ada", "Grace"]}
COLUMNS: dict[str, object] = {"id": KEY, "name": Text | None}
READ: dict[str, Any] = {"id": BigInt(), "name": Text()}


class OnlyAStream:
    """What the Arrow interface asks for, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


FRAMES: dict[str, Callable[[], object]] = {
    "pandas DataFrame": lambda: pd.DataFrame(PEOPLE),
    "polars DataFrame": lambda: pl.DataFrame(PEOPLE),
    "polars LazyFrame": lambda: pl.LazyFrame(PEOPLE),
    "pyarrow Table": lambda: pa.table(PEOPLE),
    "pyarrow RecordBatch": lambda: pa.RecordBatch.from_pydict(PEOPLE),
    "pyarrow RecordBatchReader": lambda: pa.table(PEOPLE).to_reader(),
    "stream of Arrow batches (OnlyAStream)": lambda: OnlyAStream(pa.table(PEOPLE)),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_a_source_and_a_database_takes_it_without_spark(database: Bench, kind: str) -> None:
    result = database.load(FRAMES[kind](), COLUMNS)
    assert (result.path, result.rows_read, result.rows_inserted) == ("cross_db", 2, 2)
    assert database.rows(READ) == [(1, "Ada"), (2, "Grace")]


@pytest.mark.parametrize("kind", FRAMES)
def test_a_preview_says_what_the_rows_are(database: Bench, kind: str) -> None:
    preview = database.project.preview(database.pipeline(FRAMES[kind](), COLUMNS))
    assert preview.source_query == f"rows of a {kind}"
    assert preview.steps[0] == f"read rows of a {kind}"
    assert preview.targets[0].path_reason.startswith("copied: ")


def test_normalizers_apply_to_frames(database: Bench) -> None:
    frame = pd.DataFrame({"id": [1], "name": ["  ADA "]})
    database.load(frame, {"id": KEY, "name": Annotated[Text, trim(), lower()]})
    assert database.rows(READ) == [(1, "ada")]


@pytest.mark.parametrize("mode", ["append", "truncate", "merge", "scd1", "scd2"])
def test_every_mode_takes_a_frame(database: Bench, mode: str) -> None:
    first = database.load(pl.DataFrame(PEOPLE), COLUMNS, mode=mode)
    changed = pl.DataFrame({"id": [3] if mode == "append" else [2], "name": ["Jean"]})
    second = database.load(changed, COLUMNS, mode=mode)
    expected = {
        "append": [(1, "Ada"), (2, "Grace"), (3, "Jean")],
        "truncate": [(2, "Jean")],
        "merge": [(1, "Ada"), (2, "Jean")],
        "scd1": [(1, "Ada"), (2, "Jean")],
        "scd2": [(1, "Ada"), (2, "Grace"), (2, "Jean")],
    }
    assert database.rows(READ) == expected[mode]
    assert (first.rows_inserted, second.rows_read) == (2, 1)


def test_every_type_arrives_as_it_is(database: Bench) -> None:
    moment = datetime(1969, 7, 20, 20, 17, 40, 123456, tzinfo=UTC)
    columns = {
        "id": BigInt(), "n": Integer(), "x": Double(), "d": Numeric(20, 4), "ok": Boolean(), "day": Date(),
        "at": TimestampTZ(), "local": Timestamp(), "raw": Bytes(), "huge": Numeric(20, 0), "doc": JSON(),
        "word": Text(), "nothing": Text(),
    }  # fmt: skip
    values = {
        "id": 1, "n": -5, "x": 0.1, "d": Decimal("12345678901.2500"), "ok": True, "day": date(2026, 1, 5),
        "at": moment, "local": moment.replace(tzinfo=None), "raw": b"a\0b", "huge": 2**64 - 1, "doc": {"a": [1, None]},
        "word": "größe", "nothing": None,
    }  # fmt: skip
    kinds = [
        pa.int64(), pa.int8(), pa.float64(), pa.decimal128(20, 4), pa.bool_(), pa.date64(),
        pa.timestamp("ns", "Europe/Vienna"), pa.timestamp("ms"), pa.large_binary(), pa.uint64(),
        pa.struct({"a": pa.list_(pa.int32())}), pa.dictionary(pa.int8(), pa.string()), pa.null(),
    ]  # fmt: skip
    local = values["local"].replace(microsecond=123000)  # type: ignore[attr-defined]
    arrays = [
        pa.array([local if name == "local" else value], kind)
        for (name, value), kind in zip(values.items(), kinds, strict=True)
    ]
    frame = pa.table(arrays, names=list(values))
    declared: dict[str, Any] = {name: kind | None for name, kind in columns.items()}
    database.load(frame, {**declared, "id": KEY})
    [row] = database.rows(columns)
    assert row == tuple({**values, "local": local, "doc": '{"a":[1,null]}'}.values())


def test_missing_values_of_pandas_are_null(database: Bench) -> None:
    frame = pd.DataFrame({"id": [1, 2], "name": ["Ada", None], "rank": [1.5, float("nan")]})
    database.load(frame, {**COLUMNS, "rank": Double | None})
    assert database.rows({**READ, "rank": Double()}) == [(1, "Ada", 1.5), (2, None, None)]


def test_a_named_index_of_pandas_is_a_column(database: Bench) -> None:
    database.load(pd.DataFrame(PEOPLE).set_index("id"), COLUMNS)
    assert database.rows(READ) == [(1, "Ada"), (2, "Grace")]


def test_a_frame_without_rows_is_a_source(database: Bench) -> None:
    assert database.load(pa.table(PEOPLE).slice(0, 0), COLUMNS, mode="truncate").rows_read == 0


def test_a_value_that_does_not_fit_names_its_column(database: Bench) -> None:
    with pytest.raises(CheckError, match=r"'n' \(Integer\)"):
        database.load(pa.table({"id": [1], "n": ["seven"]}), {"id": KEY, "n": Integer})
    assert database.target.columns(TABLE) is None


def test_a_column_that_the_frame_has_not_suggests_the_nearest(database: Bench) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'nmae'"):
        database.load(pa.table({"id": [1], "nmae": ["Ada"]}), {"id": KEY, "name": Text})


def test_a_bookmark_goes_on_in_a_frame(database: Bench) -> None:
    options = {"incremental_column": "id"}
    database.load(pa.table(PEOPLE), COLUMNS, **options)
    more = pa.table({"id": [1, 2, 3], "name": ["Ada", "Grace", "Jean"]})
    assert database.load(more, COLUMNS, **options).rows_inserted == 1


def test_a_reader_is_never_held_as_a_whole(database: Bench) -> None:
    taken: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(28):
            taken.append(pa.total_allocated_bytes())
            ids = range(number * 10_000, (number + 1) * 10_000)
            yield pa.RecordBatch.from_pydict({"id": list(ids), "name": ["x" * 100] * 10_000})

    schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    result = database.load(pa.RecordBatchReader.from_batches(schema, batches()), COLUMNS)
    assert result.rows_read == 280_000
    # Two row groups of seven batches each: one is written while the next one is gathered.
    assert max(taken[15:]) <= max(taken[:15])


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (pd.DataFrame({"id": [1, "x"]}), "cannot be read as a table"),
        (pd.DataFrame([[1, 2]], columns=["id", "id"]), "cannot be read as a table"),
        (pl.Series("id", [1]), "cannot be read as a table"),
    ],
)
def test_a_frame_that_is_no_table_is_a_type_error(database: Bench, frame: object, complaint: str) -> None:
    with pytest.raises(SpecTypeError, match=complaint):
        database.load(frame, {"id": KEY})


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (pa.table({"id": [1], "ID": [2]}), "'id' and 'ID'"),
        (pa.table({}), "no columns"),
        (pa.table({"id": pa.array([1], pa.duration("s"))}), "no column type keeps"),
        (pd.DataFrame({"id": pd.period_range("2026-01", periods=1, freq="M")}), "no column type keeps"),
    ],
)
def test_columns_that_no_system_can_keep_are_refused(database: Bench, frame: object, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        database.load(frame, {"id": KEY})


def test_sqlite_refuses_nan_in_a_frame(tmp_path: Path) -> None:
    bench = Bench("sqlite", tmp_path, start_no_spark)
    with pytest.raises(CheckError, match="'x': SQLite cannot keep NaN"):
        bench.load(pl.DataFrame({"id": [1], "x": [float("nan")]}), {"id": KEY, "x": Double})


def test_a_frame_cannot_be_forced_to_stay_in_the_database(database: Bench) -> None:
    with pytest.raises(SpecError, match="rows of a pyarrow Table"):
        database.load(pa.table(PEOPLE), COLUMNS, force_path="same_db")


def test_a_dry_run_of_a_frame_leaves_nothing(database: Bench) -> None:
    counted = database.project.dry_run(database.pipeline(pa.table(PEOPLE), COLUMNS))
    assert counted.targets[0].dry_run_rows_affected["rows_inserted"] == 2
    assert database.target.columns(TABLE) is None


# ── through Spark ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("system", CONNECTIONS)
def test_every_frame_goes_into_every_system(system: str, tmp_path: Path, spark: SparkSession) -> None:
    bench = Bench(system, tmp_path, lambda: spark)
    frames = {
        **{kind: make() for kind, make in FRAMES.items()},
        "Spark DataFrame": spark.createDataFrame(pa.table(PEOPLE)),
    }
    for kind, frame in frames.items():
        pipeline = bench.pipeline(frame, COLUMNS, mode="truncate")
        assert bench.project.preview(pipeline).steps[0] == f"read rows of a {kind}"
        assert bench.project.run(pipeline).rows_inserted == 2
        assert bench.rows(READ) == [(1, "Ada"), (2, "Grace")]
    bench.project.close()


@pytest.mark.slow
@pytest.mark.parametrize("system", DATABASES)
def test_a_frame_means_the_same_with_and_without_spark(system: str, tmp_path: Path, spark: SparkSession) -> None:
    bench = Bench(system, tmp_path, lambda: spark)
    frame = pa.table({
        "id": pa.array([1, 2], pa.uint32()), "x": pa.array([0.1, None], pa.float32()), "d": [Decimal("1.50"), None],
        "at": [datetime(2026, 1, 5, 9, 30, tzinfo=UTC), None], "day": [date(2026, 1, 5), None], "ok": [True, None],
        "tags": [["a", "b"], None],
    })  # fmt: skip
    types: dict[str, Any] = {
        "id": BigInt(), "x": Double(), "d": Numeric(10, 1), "at": TimestampTZ(), "day": Text(), "ok": Integer(),
        "tags": JSON(),
    }  # fmt: skip
    columns = {**{name: kind | None for name, kind in types.items()}, "id": KEY}
    seen = []
    for path in (None, "cross_db"):
        bench.load(frame, columns, mode="truncate", force_path=path)
        seen.append(bench.rows(types))
    assert seen[0] == seen[1]
    bench.project.close()


@pytest.mark.slow
def test_a_misfit_in_a_spark_frame_names_its_column(tmp_path: Path, spark: SparkSession) -> None:
    bench = Bench("duckdb", tmp_path, lambda: spark)
    with pytest.raises(FlowError, match=r"'n' \(Integer\)"):
        bench.load(spark.sql("SELECT 1 AS id, 'seven' AS n"), {"id": KEY, "n": Integer})


@pytest.mark.slow
def test_a_nested_value_is_the_same_document_from_arrow_and_from_spark(tmp_path: Path, spark: SparkSession) -> None:
    bench = Bench("duckdb", tmp_path, lambda: spark)
    kind = pa.map_(pa.string(), pa.struct({"n": pa.int64(), "day": pa.date32()}))
    frame = pa.table({"id": [1], "doc": pa.array([[("a", {"n": 1, "day": None})]], kind)})
    seen = []
    for rows in (frame, spark.createDataFrame(frame)):
        bench.load(rows, {"id": KEY, "doc": JSON}, mode="truncate")
        seen.append(bench.rows({"doc": JSON()}))
    assert seen[0] == seen[1] == [('{"a":{"n":1,"day":null}}',)]
    bench.project.close()
