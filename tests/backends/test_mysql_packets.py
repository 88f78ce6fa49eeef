"""How rows come out of MySQL: long values, rows of several packets, many parts, and results that break off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pymysql.cursors import SSCursor
from pymysql.err import OperationalError

from ematix_flow.backends.mysql import MySQLBackend
from ematix_flow.backends.mysql_rows import packets
from ematix_flow.backends.mysql_session import open_driver
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import MySQLConnection
from ematix_flow.errors import BackendError, CheckError, ConnectError
from ematix_flow.spec.place import Query
from tests.servers import empty_mysql

pytestmark = pytest.mark.server

NUMBERS = (
    "WITH RECURSIVE d(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM d WHERE i < 199), "
    "n AS (SELECT a.i * 200 + b.i AS i FROM d AS a CROSS JOIN d AS b) SELECT {shown} FROM n WHERE i < {count}"
)
"""Up to 40,000 rows; servers stop a recursion at 1,000."""


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[MySQLBackend]:
    connection = MySQLConnection("shop", empty_mysql("lab0"))
    backend = MySQLBackend(connection, Workshop(lambda: pytest.fail("Spark is not needed"), tmp_path))
    with backend.workshop.bench():
        yield backend


def rows(backend: MySQLBackend, sql: str) -> pa.Table:
    return backend.read_arrow(Query(sql))


def test_values_of_every_length_come_back(backend: MySQLBackend) -> None:
    lengths = [0, 1, 250, 251, 252, 65_535, 65_536, 70_000]
    parts = [f"SELECT {n} AS n, REPEAT('ä', {n}) AS v, NULLIF(REPEAT('\\0', {n}), '') AS b" for n in lengths]
    found = rows(backend, " UNION ALL ".join(parts)).to_pylist()
    assert [(row["n"], row["v"], row["b"]) for row in found] == [(n, "ä" * n, "\0" * n or None) for n in lengths]


def test_a_row_that_comes_in_several_packets_is_one_row(backend: MySQLBackend) -> None:
    half = 9 * 2**20
    shown = f"REPEAT('a', {half}) AS a, i, IF(i = 1, NULL, REPEAT('b', {half})) AS b"
    found = rows(backend, NUMBERS.format(count=3, shown=shown))
    assert pc.binary_length(found["a"]).to_pylist() == [half] * 3
    assert found["i"].to_pylist() == [0, 1, 2]
    assert pc.binary_length(found["b"]).to_pylist() == [half, None, half]
    assert pc.count_substring(found["b"], "b").to_pylist() == [half, None, half]


def test_a_row_of_exactly_one_packet_is_one_row(backend: MySQLBackend) -> None:
    # Four bytes say how long such a text is; the packet is as long as a packet can be, so an empty one follows it.
    wanted = 0xFFFFFF - 4 - 2
    found = rows(backend, f"SELECT REPEAT('a', {wanted}) AS a, 7 AS n UNION ALL SELECT 'x', 8")
    assert pc.binary_length(found["a"]).to_pylist() == [wanted, 1]
    assert found["n"].to_pylist() == [7, 8]


def test_a_large_result_is_read_in_parts(backend: MySQLBackend, tmp_path: Path) -> None:
    shown = "i, IF(i % 3 = 0, NULL, i * 10) AS n, REPEAT(CHAR(97 + i % 26 USING utf8mb4), i % 600) AS v"
    with backend.session() as connection:
        backend.export(connection, NUMBERS.format(count=40_000, shown=shown), tmp_path)
    file = pq.ParquetFile(tmp_path / "rows.parquet")
    assert file.num_row_groups > 2
    found = file.read().sort_by("i")
    numbers = range(40_000)
    assert found["i"].to_pylist() == list(numbers)
    assert found["n"].to_pylist() == [None if i % 3 == 0 else i * 10 for i in numbers]
    assert found["v"].to_pylist() == [chr(97 + i % 26) * (i % 600) for i in numbers]


def test_columns_of_tables_come_back_in_their_types(backend: MySQLBackend) -> None:
    with backend.session() as connection:
        connection.execute(
            "CREATE TABLE t (year YEAR, bits BIT(12), doc JSON, kind ENUM('x', 'ä'), kinds SET('x', 'y'), f FLOAT, "
            "u BIGINT UNSIGNED, n DECIMAL(65, 30), old VARCHAR(9) CHARACTER SET latin1, clock TIME(6), b VARBINARY(9))"
        )
        connection.execute(
            "INSERT INTO t VALUES (2026, b'101010101010', '{\"a\": [1, null]}', 'ä', 'x,y', 0.1, 18446744073709551615, "
            "-12345678901234567890123456789012345.5, 'é\n\"', '-838:59:58.999999', UNHEX('00FFFB0A'))"
        )
        connection.execute("INSERT INTO t (year) VALUES (NULL)")
    full, empty = rows(backend, "SELECT * FROM t ORDER BY year IS NULL").to_pylist()
    assert full == {
        "year": 2026, "bits": b"\x0a\xaa", "doc": '{"a": [1, null]}', "kind": "ä", "kinds": "x,y",
        "f": 0.10000000149011612, "u": Decimal(2**64 - 1),
        "n": f"-12345678901234567890123456789012345.5{'0' * 29}", "old": 'é\n"', "clock": "-838:59:58.999999",
        "b": b"\x00\xff\xfb\n",
    }  # fmt: skip
    assert set(empty.values()) == {None}


def test_no_rows_are_a_file_with_columns(backend: MySQLBackend) -> None:
    found = rows(backend, "SELECT 1 AS n, 'a' AS v FROM (SELECT 1) AS s WHERE 1 = 0")
    assert (found.num_rows, found.column_names) == (0, ["n", "v"])


def test_an_error_behind_many_rows_is_told(backend: MySQLBackend) -> None:
    shown = "i, REPEAT('x', 500) AS v, IF(i < 30000, 1, (SELECT 1 UNION SELECT i)) AS n"
    with pytest.raises(BackendError, match="more than 1 row"):
        rows(backend, NUMBERS.format(count=40_000, shown=shown))


def test_a_connection_that_ends_behind_many_rows_is_told(backend: MySQLBackend) -> None:
    shown = "i, REPEAT('x', 500) AS v, IF(i < 30000, 1, SLEEP(60)) AS n"
    with backend.session() as watching, closing(open_driver(backend.connection, cursorclass=SSCursor)) as reading:
        cursor = reading.cursor()
        cursor.execute(NUMBERS.format(count=40_000, shown=shown))
        parts = packets(cursor)
        assert len(next(parts).starts) > 1
        watching.execute(f"KILL {reading.thread_id()}")
        with pytest.raises(OperationalError) as caught:
            list(parts)
    assert isinstance(backend.translate(caught.value), ConnectError)


def test_bytes_that_are_no_text_are_refused_by_name(backend: MySQLBackend) -> None:
    with pytest.raises(CheckError, match="column 'place' holds bytes that are no text"):
        rows(backend, "SELECT POINT(1, 200) AS place")


@pytest.mark.parametrize("day", ["0000-00-00", "2026-00-01", "2026-02-00", "0000-05-01"])
def test_a_date_that_is_none_is_refused(backend: MySQLBackend, day: str) -> None:
    with backend.session() as connection:
        connection.execute("CREATE TABLE t (day DATE NULL, at DATETIME(6) NULL)")
        connection.execute("SET sql_mode = ''")
        connection.execute(f"INSERT INTO t VALUES ('{day}', '{day}')")
    for column in ("day", "at"):
        with pytest.raises(CheckError, match=f"column '{column}' holds a date that is none"):
            rows(backend, f"SELECT {column} FROM t")
