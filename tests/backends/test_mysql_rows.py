"""Rows and types of MySQL and MariaDB: read with nothing lost, brought in as they are."""

from __future__ import annotations

import logging
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ematix_flow.backends.base import Actual, SchemaChange
from ematix_flow.backends.mysql import MySQLBackend
from ematix_flow.errors import BackendError, CheckError
from ematix_flow.spec.place import Query, TableRef
from ematix_flow.spec.table import Column, Table
from ematix_flow.types import (
    JSON,
    UUID,
    BigInt,
    Boolean,
    Bytes,
    ColumnType,
    Date,
    Double,
    Float,
    Numeric,
    String,
    Text,
    Timestamp,
    TimestampTZ,
)
from tests.backends.mysql_server import opened, run

pytestmark = pytest.mark.server


@pytest.fixture
def backend(tmp_path: Path) -> MySQLBackend:
    return opened("lab0", tmp_path)


KINDS = [
    ("tinyint(1)", Boolean()), ("int(11)", None), ("int unsigned", BigInt()), ("bigint unsigned", Numeric(20, 0)),
    ("decimal(12,2)", Numeric(12, 2)), ("varchar(7)", String(7)), ("mediumtext", Text()), ("varbinary(9)", Bytes()),
    ("char(36) character set ascii", UUID()), ("json", JSON()), ("float", Float()), ("double", Double()),
    ("date", Date()), ("datetime(6)", Timestamp()), ("timestamp(6)", TimestampTZ()),
]  # fmt: skip


@pytest.mark.parametrize(("made", "kind"), KINDS, ids=[made for made, _ in KINDS])
def test_a_table_of_others_is_read_as_it_is(backend: MySQLBackend, made: str, kind: ColumnType | None) -> None:
    run(backend, f"CREATE TABLE t (c {made} NULL, UNIQUE (c))" if "text" not in made else f"CREATE TABLE t (c {made})")
    actual = backend.columns(TableRef("lab0", "t"))
    assert isinstance(actual, Actual)
    assert actual.columns[0].type == (kind or backend.dialect.column_type("int"))


def test_names_of_tables_are_told_apart_by_case(backend: MySQLBackend) -> None:
    run(backend, "CREATE TABLE People (id INT)")
    assert backend.columns(TableRef("lab0", "People")) is not None
    assert backend.columns(TableRef("lab0", "people")) is None


def export(backend: MySQLBackend, sql: str) -> pa.Table:
    with backend.workshop.bench():
        return backend.read_arrow(Query(sql))


def test_every_type_is_read_with_nothing_lost(backend: MySQLBackend) -> None:
    found = export(
        backend,
        "SELECT CAST(16777217 AS FLOAT) AS f, 5e-324 AS d, 18446744073709551615 AS u, "
        "CAST(-0.5 AS DECIMAL(38,10)) AS n, "
        "CAST('1600-02-29 01:02:03.000004' AS DATETIME(6)) AS t, DATE '0001-01-01' AS day, UNHEX('00FF') AS b, "
        "'🙂 \\\\ \\n' AS s, NULL AS nothing, TIME '10:00:01' AS clock, CAST(1 AS DECIMAL(65,0)) AS wide",
    )
    assert found.to_pylist() == [
        {
            "f": 16777216.0, "d": 5e-324, "u": Decimal(18446744073709551615), "n": Decimal("-0.5000000000"),
            "t": datetime(1600, 2, 29, 1, 2, 3, 4), "day": datetime(1, 1, 1).date(), "b": b"\x00\xff",  # noqa: DTZ001
            "s": "🙂 \\ \n", "nothing": None, "clock": "10:00:01", "wide": "1",
        }
    ]  # fmt: skip


def test_instants_of_timestamp_columns_are_utc_whatever_the_server_thinks(backend: MySQLBackend) -> None:
    run(
        backend,
        "CREATE TABLE t (at TIMESTAMP(6) NULL)",
        "SET time_zone = '+05:00'",
        "INSERT INTO t VALUES ('2026-01-05 10:00')",
    )
    (row,) = export(backend, "SELECT at FROM t").to_pylist()
    assert row["at"].isoformat() == "2026-01-05T05:00:00+00:00"


def test_a_date_that_is_none_is_refused_by_name(backend: MySQLBackend) -> None:
    run(backend, "CREATE TABLE t (day DATE NULL)", "SET sql_mode = ''", "INSERT INTO t VALUES ('0000-00-00')")
    with pytest.raises(CheckError, match="column 'day' holds a date that is none"):
        export(backend, "SELECT day FROM t")
    assert export(backend, "SELECT NULLIF(day, 0) AS day FROM t").to_pylist() == [{"day": None}]


def test_a_truth_value_that_is_another_number_is_not_lost(backend: MySQLBackend) -> None:
    run(backend, "CREATE TABLE nothing (ok TINYINT(1))", "INSERT INTO nothing VALUES (NULL)")
    assert export(backend, "SELECT ok FROM nothing").to_pylist() == [{"ok": None}]
    run(backend, "CREATE TABLE t (ok TINYINT(1))", "INSERT INTO t VALUES (0), (NULL), (1)")
    assert [row["ok"] for row in export(backend, "SELECT ok FROM t").to_pylist()] == [False, None, True]
    run(backend, "INSERT INTO t VALUES (5)")
    with pytest.raises(CheckError, match="column 'ok' is TINYINT"):
        export(backend, "SELECT ok FROM t")
    assert export(backend, "SELECT MAX(CAST(ok AS SIGNED)) AS most FROM t").to_pylist() == [{"most": 5}]


def test_a_query_stops_where_nobody_asked_for_more(backend: MySQLBackend) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT i FROM n"
    result = backend.query(numbers, max_rows=2)
    assert (list(result.rows), result.truncated) == ([(1,), (2,)], True)
    assert len(backend.query(numbers).rows) == 100


AWKWARD = ["", "NULL", "\\N", "a\tb\nc\\d\0e", "🙂", 'it\'s "quoted"', " blank ", None]


@pytest.mark.parametrize("local_infile", [True, False])
def test_rows_from_outside_arrive_as_they_are(tmp_path: Path, local_infile: bool) -> None:
    backend = opened("lab0", tmp_path, local_infile=local_infile)
    count = deliver(backend, tmp_path)
    assert count == len(AWKWARD)
    found = run(backend, "SELECT id, v, HEX(b), CAST(f AS DOUBLE), t, ok FROM mart.rows ORDER BY id")
    assert [row[1] for row in found] == AWKWARD
    assert found[0][2:] == ("00FF0A5C", 3.4028234663852886e38, datetime(9999, 12, 31, 23, 59, 59, 999999), 1)  # noqa: DTZ001
    assert found[-1][1:] == (None, None, None, None, None)


def test_a_server_that_takes_no_files_gets_inserts_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    backend = opened("lab0", tmp_path)
    run(backend, "SET GLOBAL local_infile = 0")
    try:
        with caplog.at_level(logging.INFO, logger="ematix_flow"):
            assert deliver(backend, tmp_path) == len(AWKWARD)
    finally:
        run(backend, "SET GLOBAL local_infile = 1")
    assert "takes no local files" in caplog.text


@pytest.mark.parametrize("local_infile", [True, False])
def test_what_a_bulk_load_cannot_take_is_an_error_and_never_a_warning(tmp_path: Path, local_infile: bool) -> None:
    backend = opened("lab0", tmp_path, local_infile=local_infile)
    deliver(backend, tmp_path)
    with pytest.raises(BackendError, match="Duplicate entry '0' for key 'PRIMARY'"):
        deliver(backend, tmp_path)


def test_nan_is_refused_by_the_name_of_its_column(tmp_path: Path) -> None:
    backend = opened("lab0", tmp_path)
    with pytest.raises(CheckError, match="column 'f' holds NaN"):
        deliver(backend, tmp_path, f=float("nan"))
    assert run(backend, "SELECT COUNT(*) FROM mart.rows") == [(0,)]


def deliver(backend: MySQLBackend, folder: Path, f: float = 3.4028234663852886e38) -> int:
    """Bring the awkward texts and some extreme values straight into `mart.rows`."""
    kinds: dict[str, ColumnType] = {
        "id": BigInt(), "v": Text(), "b": Bytes(), "f": Float(), "t": TimestampTZ(), "ok": Boolean()
    }  # fmt: skip
    height = len(AWKWARD) - 1
    moment = datetime.fromisoformat("9999-12-31 23:59:59.999999+00:00")
    rows = pa.table(
        {
            "id": pa.array(range(len(AWKWARD))),
            "v": AWKWARD,
            "b": pa.array([b"\x00\xff\n\\"] * height + [None]),
            "f": pa.array([f] * height + [None], pa.float32()),
            "t": pa.array([moment] * height + [None], pa.timestamp("us", tz="UTC")),
            "ok": pa.array([True] * height + [None]),
        }
    )
    place = folder / "rows"
    place.mkdir(exist_ok=True)
    pq.write_table(rows, place / "rows.parquet")
    columns = (Column(kind, name=name, primary_key=name == "id", nullable=name != "id") for name, kind in kinds.items())
    table = Table("mart", "rows", tuple(columns))
    with backend.session() as connection:
        if backend.columns_in(connection, TableRef("mart", "rows")) is None:
            backend.change_table(connection, SchemaChange(table, create=True))
        assert backend.delivers(connection, table)
        with backend.transaction(connection):
            return backend.deliver(connection, place, table, {})
