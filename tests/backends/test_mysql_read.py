"""A large table of MySQL is read by several connections: every row once, all as of one moment."""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ematix_flow.backends.mysql import MySQLBackend
from ematix_flow.backends.mysql_cut import cut_points, find_cut
from ematix_flow.backends.parts import Limits
from ematix_flow.backends.progress import Moved
from ematix_flow.connections import MySQLConnection
from ematix_flow.errors import CheckError, SpecError
from ematix_flow.spec.place import Query
from tests.backends.mysql_server import run
from tests.backends.test_postgres_read import Eager, start_no_spark, wait_until
from tests.servers import empty_mysql

pytestmark = pytest.mark.server

PAGE = 16_384
ROWS = 12_000
OTHERS = "SELECT 1 FROM information_schema.processlist WHERE user = 'flow' AND id <> CONNECTION_ID()"


class Small(MySQLBackend):
    """Cuts tables of some pages."""

    def read_limits(self) -> Limits:
        return Limits(super().read_limits().readers, table_bytes=4 * PAGE, part_bytes=4 * PAGE)


class Database:
    """A database and readers of it."""

    def __init__(self, folder: Path) -> None:
        self.url, self.workshop = empty_mysql("parts"), Eager(start_no_spark, folder)
        self.folders = (folder / f"rows{number}" for number in count())

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return run(self.backend(1), *statements)

    def backend(self, readers: int, user: str = "flow:flow") -> MySQLBackend:
        url = self.url.replace("flow:flow@", f"{user}@")
        return Small(MySQLConnection("shop", url, max_connections=readers), self.workshop)

    def read(
        self, sql: str, backend: MySQLBackend, tell: Callable[[Moved], None] = lambda moved: None
    ) -> tuple[list[tuple[Any, ...]], int]:
        """The rows in an order of their own, and the number of files that they came in."""
        folder = next(self.folders)
        folder.mkdir()
        with self.workshop.watched(tell):
            backend.export_rows(Query(sql), folder)
        rows = [tuple(row.values()) for row in pq.read_table(folder).to_pylist()]
        return sorted(rows, key=repr), len(list(folder.iterdir()))


@pytest.fixture
def database(tmp_path: Path) -> Database:
    database = Database(tmp_path)
    database.execute(
        "CREATE TABLE sales (id BIGINT UNSIGNED PRIMARY KEY, note VARCHAR(80), amount DECIMAL(12, 2), paid TINYINT(1), "
        "ratio FLOAT, code BLOB, day DATE, `at` DATETIME(6), clock TIME)",
        "INSERT INTO sales SELECT seq * 7, IF(seq % 11 = 0, NULL, CONCAT(SHA1(seq), '\\n🪙')), seq / 100, seq % 2, "
        "1 / seq, UNHEX(MD5(seq)), DATE '1999-12-31' + INTERVAL seq DAY, "
        f"TIMESTAMP '2026-01-01 00:00:00' + INTERVAL seq MICROSECOND, SEC_TO_TIME(seq) FROM seq_1_to_{ROWS}",
        # The server looks at a table that has grown when it has the time; a test has not.
        "ANALYZE TABLE sales",
    )
    return database


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM sales",
        "SELECT s.amount, ID AS `No` FROM parts.sales AS s WHERE paid AND note LIKE '%a%' -- only those\n",
        "SELECT * FROM (SELECT id, UPPER(note) AS note FROM sales\n) AS _source WHERE id > CAST('7000' AS SIGNED)",
    ],
)
def test_rows_are_the_same_however_a_table_is_cut(database: Database, sql: str) -> None:
    database.execute("DELETE FROM sales WHERE id % 3 = 0 OR id BETWEEN 25000 AND 50000")
    (whole, files), (cut, parts) = (database.read(sql, database.backend(readers)) for readers in (1, 3))
    assert files == 1
    assert parts > 10
    assert len(whole) > 1000
    assert cut == whole


@contextmanager
def moving(database: Database) -> Iterator[list[int]]:
    """Somebody moves rows and money from one end of the table to the other, all the time; counts how often."""
    done, moves, failures = threading.Event(), [0], list[BaseException]()

    def move() -> None:
        highest = ROWS * 7 + 1
        try:
            with database.backend(1).session() as connection:
                for number in count():
                    if done.is_set():
                        return
                    connection.execute("BEGIN")
                    connection.execute(f"UPDATE sales SET id = {highest} - id WHERE id < 71 OR id > {highest - 71}")
                    connection.execute(f"UPDATE sales SET amount = amount + {number} ORDER BY id LIMIT 20")
                    connection.execute(f"UPDATE sales SET amount = amount - {number} ORDER BY id DESC LIMIT 20")
                    connection.execute("COMMIT")
                    moves[0] += 1
        except BaseException as error:  # noqa: BLE001 - told where it is heard
            failures.append(error)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        yield moves
    finally:
        done.set()
        mover.join()
    assert failures == []


class Hesitant(Small):
    """Gives those who write every chance to do so between the beginnings of two readers."""

    moves: list[int]

    @contextmanager
    def reading(self, *, patient: bool = True) -> Iterator[Any]:
        with super().reading(patient=patient) as cursor:
            execute = cursor.execute

            def hesitate(sql: str) -> object:
                began, deadline = self.moves[0], time.monotonic() + 0.1
                while sql.startswith("START TRANSACTION") and self.moves[0] < began + 2 and time.monotonic() < deadline:
                    time.sleep(0.001)
                return execute(sql)

            cursor.execute = hesitate
            yield cursor


def test_all_readers_see_one_moment_while_somebody_moves_rows_between_their_ranges(database: Database) -> None:
    (before,) = database.execute("SELECT COUNT(*), SUM(amount) FROM sales")
    backend = Hesitant(database.backend(3).connection, database.workshop)
    with moving(database) as backend.moves:
        for _ in range(3):
            began = backend.moves[0]
            rows, parts = database.read("SELECT amount FROM sales", backend)
            assert parts > 10
            assert backend.moves[0] > began
            assert (len(rows), sum(row[0] for row in rows)) == before


def test_who_writes_by_a_foreign_key_is_waited_for_too(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    database.execute(
        "CREATE TABLE owners (id BIGINT UNSIGNED PRIMARY KEY)",
        "INSERT INTO owners SELECT id FROM sales",
        "ALTER TABLE sales ADD FOREIGN KEY (id) REFERENCES owners (id) ON DELETE CASCADE",
        "ANALYZE TABLE sales",
    )
    with database.backend(1).session() as other, caplog.at_level(logging.INFO):
        other.execute("BEGIN")
        other.execute("DELETE FROM owners WHERE id = 7")
        rows, files = database.read("SELECT id FROM sales", database.backend(2))
        assert (len(rows), files) == (ROWS, 1)
        other.execute("COMMIT")
    assert "read as one stream, by one connection" in caplog.text
    assert "Lock wait timeout" in caplog.text


def test_who_may_not_lock_the_table_reads_one_stream_and_the_log_says_why(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute("DROP USER IF EXISTS reader@'127.0.0.1'", "CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'r'")
    database.execute("GRANT SELECT ON parts.* TO reader@'127.0.0.1'")
    with caplog.at_level(logging.INFO):
        rows, files = database.read("SELECT id FROM sales", database.backend(3, "reader:r"))
    assert (len(rows), files) == (ROWS, 1)
    assert "sales is read as one stream, by one connection: (1044, \"Access denied for user 'reader'" in caplog.text
    database.execute("GRANT LOCK TABLES ON parts.* TO reader@'127.0.0.1'")
    database.execute("ALTER USER reader@'127.0.0.1' WITH MAX_USER_CONNECTIONS 4")
    # One asks, one is at the gate, and two are left of four.
    rows, files = database.read("SELECT id FROM sales", database.backend(4, "reader:r"))
    assert len(rows) == ROWS
    assert files > 10
    database.execute("DROP USER reader@'127.0.0.1'")


def test_no_more_connections_read_than_are_allowed_and_they_tell_how_far_they_are(database: Database) -> None:
    seen: list[int] = []

    def look(moved: Moved) -> None:
        if not seen:
            seen.append(len(database.execute(OTHERS)))

    told: list[Moved] = []
    _, parts = database.read("SELECT id, note FROM sales", database.backend(3), lambda m: (look(m), told.append(m)))
    # One more asked what the query gives.
    assert seen == [4]
    assert told == sorted(told, key=lambda moved: (moved.parts_done, moved.rows, moved.bytes))
    assert told[-1] == Moved("reading", ROWS, told[-1].bytes, parts, parts)


def test_a_value_that_cannot_be_read_ends_all_readers(database: Database) -> None:
    database.execute("UPDATE sales SET paid = 2 WHERE id = 7 * 6000")
    with pytest.raises(CheckError, match="column 'paid' is TINYINT"):
        database.read("SELECT * FROM sales", database.backend(3))
    wait_until(lambda: database.execute(OTHERS) == [])


WHOLE = (
    "SELECT NOW(), id FROM sales",
    "SELECT id FROM sales WHERE RAND() < 0.5",
    "SELECT id FROM sales WHERE clock < `at`",
    "SELECT COUNT(*) FROM sales",
    "SELECT DISTINCT paid FROM sales",
    "SELECT id FROM sales LIMIT 5",
    "SELECT a.id FROM sales AS a, sales AS b",
    "SELECT id FROM sales WHERE id IN (SELECT 1)",
    "SELECT id FROM sales UNION ALL SELECT 1",
    "SELECT id FROM sales FOR UPDATE",
    "SELECT id FROM sales USE INDEX (PRIMARY)",
    "SELECT @x := id FROM sales",
    "WITH some AS (SELECT * FROM sales) SELECT * FROM some",
    "SELECT * FROM seen",
    "SELECT * FROM loose",
    "SELECT * FROM named",
    "SELECT * FROM paired",
    "SELECT * FROM lasting",
    "SELECT id FROM sales WHERE id < 70",
    "SELECT id FROM sales WHERE day = DATE '2000-01-01'",
    "SELECT * FROM no_such_table",
)


def test_what_cannot_be_divided_is_read_as_one_stream(database: Database) -> None:
    database.execute(
        "CREATE VIEW seen AS SELECT * FROM sales",
        "CREATE TABLE loose AS SELECT * FROM sales",
        "CREATE TABLE named (code CHAR(32) PRIMARY KEY) SELECT HEX(code) AS code, note FROM sales",
        "CREATE TABLE paired (PRIMARY KEY (id, paid)) SELECT * FROM sales",
        "CREATE TABLE lasting (PRIMARY KEY (id)) ENGINE = MyISAM SELECT * FROM sales",
        "CREATE INDEX by_day ON sales (day)",
        "ANALYZE TABLE sales, loose, named, paired, lasting",
    )
    backend, good = database.backend(2), "SELECT id, day FROM sales"
    with backend.session() as connection:
        found = {sql: find_cut(connection, sql, backend.read_limits(), backend.dialect) for sql in (*WHOLE, good)}
        assert find_cut(connection, good, Limits(1, table_bytes=PAGE), backend.dialect) is None
        assert find_cut(connection, good, Limits(2), backend.dialect) is None
    assert [sql for sql, cut in found.items() if cut is not None] == [good]
    # Each reader is sent only the columns that it needs.
    assert "(SELECT `day`, `id` FROM sales WHERE `id` >= " in found[good].parts[-1]  # type: ignore[union-attr]


KEYS = {
    "one after the other": range(1, 1001),
    "with a gap": [*range(500), *range(10**15, 10**15 + 500)],
    "with one far away": [*range(1, 1001), 2**64 - 1],
    "below and above zero": range(-2000, 2000, 4),
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_ranges_have_about_the_same_number_of_rows(keys: Sequence[int]) -> None:
    def rows(begin: int, end: int) -> int:
        return bisect_left(keys, end) - bisect_left(keys, begin)

    points = cut_points(keys[0], keys[-1], 8, rows)
    sizes = [rows(begin, end) for begin, end in pairwise([keys[0], *points, keys[-1] + 1])]
    assert 8 <= len(sizes) <= 16
    assert max(sizes) <= 126


def test_a_single_key_is_one_range() -> None:
    assert cut_points(5, 5, 4, lambda begin, end: end - begin) == []


def test_a_connection_needs_a_reader() -> None:
    with pytest.raises(SpecError, match="'max_connections' is at least 1"):
        MySQLConnection("shop", "mysql://host/shop", max_connections=0)
