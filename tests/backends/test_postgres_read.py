"""A large table of PostgreSQL is read by several connections: every row once, all in one snapshot."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import pyarrow.parquet as pq
import pytest

from ematix_flow.backends.parts import Limits
from ematix_flow.backends.postgres import PostgresBackend
from ematix_flow.backends.postgres_cut import cut_points, find_cut
from ematix_flow.backends.progress import Doing, Moved, Tally
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import PostgresConnection
from ematix_flow.errors import CheckError, SpecError
from ematix_flow.spec.place import Query
from tests.cli.calls import environment
from tests.servers import empty_postgres

pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[2]
PAGE = 8192
NAME = "reads-in-parts"


def start_no_spark() -> NoReturn:
    raise AssertionError("reading needs no Spark")


class Eager(Workshop):
    """Tells of every batch and every part, however soon they follow each other."""

    def tally(self, doing: Doing, *, parts: int = 1, counts_rows: bool = True) -> Tally:
        seconds = count()
        watcher = self._watcher.get()
        return Tally(watcher, Moved(doing, 0 if counts_rows else None, parts=parts), lambda: next(seconds))


class Small(PostgresBackend):
    """Cuts tables of some pages."""

    def read_limits(self) -> Limits:
        return Limits(super().read_limits().readers, table_bytes=4 * PAGE, part_bytes=16 * PAGE)


class Database:
    """A database and readers of it."""

    def __init__(self, folder: Path) -> None:
        self.url, self.workshop = empty_postgres("parts"), Eager(start_no_spark, folder)
        self.folders = (folder / f"rows{number}" for number in count())

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def backend(self, readers: int, kind: type[PostgresBackend] = Small, user: str = "postgres") -> PostgresBackend:
        url = self.url.replace("postgres@", f"{user}@")
        connection = PostgresConnection("shop", url, max_connections=readers, application_name=NAME)
        return kind(connection, self.workshop)

    def read(
        self, sql: str, backend: PostgresBackend, tell: Callable[[Moved], None] = lambda moved: None
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
    return Database(tmp_path)


def fill(database: Database, rows: int = 20_000) -> None:
    database.execute(
        "CREATE TABLE sales (id bigint PRIMARY KEY, note text, amount numeric(10, 2), paid boolean);"
        f"INSERT INTO sales SELECT g, md5(g::text), g / 100.0, g % 2 = 0 FROM generate_series(1, {rows}) AS g"
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM sales",
        "SELECT s.amount, id AS \"No\" FROM public.sales AS s WHERE paid AND note LIKE '%a%' -- only those\n",
        "SELECT * FROM (SELECT id, upper(note) AS note FROM sales\n) AS _source WHERE id > CAST('7000' AS BIGINT)",
    ],
)
def test_rows_are_the_same_however_a_table_is_cut(database: Database, sql: str) -> None:
    fill(database)
    database.execute("DELETE FROM sales WHERE id % 3 = 0 OR id BETWEEN 5000 AND 9000")
    database.execute("UPDATE sales SET amount = -amount WHERE id % 5 = 0")
    (whole, files), (cut, parts) = (database.read(sql, database.backend(readers)) for readers in (1, 3))
    assert files == 1
    assert parts > 10
    assert len(whole) > 1000
    assert cut == whole


def test_partitions_of_different_sizes_are_cut_at_the_same_pages(database: Database) -> None:
    database.execute(
        "CREATE TABLE sales (id bigint, note text) PARTITION BY RANGE (id);"
        "CREATE TABLE sales_few PARTITION OF sales FOR VALUES FROM (0) TO (1000);"
        # The columns of a partition may have another order.
        "CREATE TABLE sales_many (note text, id bigint);"
        "ALTER TABLE sales ATTACH PARTITION sales_many FOR VALUES FROM (1000) TO (90000);"
        "INSERT INTO sales SELECT g, md5(g::text) FROM generate_series(0, 19999) AS g"
    )
    (whole, _), (cut, parts) = (database.read("SELECT * FROM sales", database.backend(readers)) for readers in (1, 2))
    assert parts > 10
    assert len(cut) == 20_000
    assert cut == whole
    assert cut_points([10, 100, 0], 4) == [18, 45, 73]


def test_all_readers_see_what_the_first_one_saw(database: Database) -> None:
    fill(database)
    changes = count(1)

    def change(_: Moved) -> None:
        # Every row moves to another page, and each state of the table has another sum.
        if (number := next(changes)) < 4:
            database.execute(f"UPDATE sales SET amount = {number}; INSERT INTO sales VALUES (-{number}, '', 1, true)")

    (before,) = database.execute("SELECT COUNT(*), SUM(amount) FROM sales")
    rows, parts = database.read("SELECT amount FROM sales", database.backend(3), change)
    assert parts > 10
    assert next(changes) > 10
    assert (len(rows), sum(row[0] for row in rows)) == before


def test_no_more_connections_read_than_are_allowed_and_each_is_sent_only_what_it_needs(database: Database) -> None:
    fill(database)
    seen: list[tuple[int, str]] = []
    others = f"FROM pg_stat_activity WHERE application_name = '{NAME}' AND query LIKE '%ctid%' AND query LIKE 'COPY%'"

    def look(_: Moved) -> None:
        if not seen:
            # The others wait for the one that tells, as soon as they have read something themselves.
            wait_until(lambda: database.execute(f"SELECT COUNT(*) {others}") == [(3,)])
            (total,) = database.execute(f"SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = '{NAME}'")
            seen.extend((total[0], sql) for (sql,) in database.execute(f"SELECT query {others}"))

    database.read("SELECT id FROM sales WHERE paid", database.backend(3), look)
    # One more asked what the query gives, before and after.
    assert [number for number, _ in seen] == [4, 4, 4]
    assert all('(SELECT "id", "paid" FROM sales WHERE ctid' in sql for _, sql in seen)
    assert all("AS sales WHERE paid" in sql.replace('"', "") for _, sql in seen)
    assert all("amount" not in sql for _, sql in seen)


def test_a_read_in_parts_tells_how_far_it_is(database: Database) -> None:
    fill(database)
    told: list[Moved] = []
    _, parts = database.read("SELECT id, note FROM sales", database.backend(3), told.append)
    assert told == sorted(told, key=lambda moved: (moved.parts_done, moved.rows, moved.bytes))
    assert len(told) > parts > 5
    assert told[-1] == Moved("reading", 20_000, told[-1].bytes, parts, parts)


def test_a_reader_that_the_server_refuses_is_done_without(database: Database) -> None:
    fill(database)
    database.execute("DROP ROLE IF EXISTS narrow; CREATE ROLE narrow LOGIN CONNECTION LIMIT 2")
    database.execute("GRANT USAGE ON SCHEMA public TO narrow; GRANT SELECT ON sales TO narrow")
    rows, parts = database.read("SELECT id FROM sales", database.backend(4, user="narrow"))
    assert (len(rows), parts > 10) == (20_000, True)


class Crowded(Small):
    """Somebody asks for the table, before the second reader does."""

    crowd: Callable[[], None]

    def reading(self, functions: Iterable[str]) -> AbstractContextManager[Any]:
        opened = super().reading(functions)
        return self._after_the_crowd(opened) if threading.current_thread().name.startswith("ematix-read") else opened

    @contextmanager
    def _after_the_crowd(self, opened: AbstractContextManager[Any]) -> Iterator[Any]:
        self.crowd()
        with opened as cursor:
            yield cursor


def test_who_waits_for_the_table_to_himself_blocks_nobody(database: Database) -> None:
    fill(database)
    changing = threading.Thread(target=database.execute, args=("ALTER TABLE sales ADD COLUMN more text",))

    def crowd() -> None:
        changing.start()
        waits = "SELECT 1 FROM pg_locks WHERE relation = 'sales'::regclass AND NOT granted"
        wait_until(lambda: database.execute(waits) == [(1,)])

    backend = database.backend(2, Crowded)
    backend.crowd = crowd  # type: ignore[attr-defined]
    waited = threading.Event()

    def wait_for_the_crowd(_: Moved) -> None:
        if not waited.is_set():
            wait_until(lambda: changing.ident is not None)
            waited.set()

    began = time.monotonic()
    rows, _ = database.read("SELECT id FROM sales", backend, wait_for_the_crowd)
    assert time.monotonic() - began < backend.connection.lock_timeout / 2
    changing.join(timeout=30)
    assert len(rows) == 20_000
    assert not changing.is_alive()


def test_a_time_without_end_is_refused_whoever_reads_it(database: Database) -> None:
    for value in (f"'{sign}infinity'::{kind}" for sign in ("", "-") for kind in ("date", "timestamp", "timestamptz")):
        with pytest.raises(CheckError, match="column 'until' holds a time without end"):
            database.read(f"SELECT {value} AS until", database.backend(1))
    fill(database)
    database.execute("ALTER TABLE sales ADD COLUMN until date; UPDATE sales SET until = 'infinity' WHERE id = 20000")
    with pytest.raises(CheckError, match="column 'until' holds a time without end"):
        database.read("SELECT id, until FROM sales", database.backend(3))
    wait_until(lambda: database.execute(f"SELECT 1 FROM pg_stat_activity WHERE application_name = '{NAME}'") == [])


WHOLE = (
    "SELECT now(), id FROM sales",
    "SELECT id FROM sales WHERE ship < 'today'",
    "SELECT id FROM sales WHERE random() < 0.5",
    "SELECT id, ctid FROM sales",
    "SELECT id, sales FROM sales",
    "SELECT COUNT(*) FROM sales",
    "SELECT DISTINCT paid FROM sales",
    "SELECT id FROM sales LIMIT 5",
    "SELECT a.id FROM sales AS a, sales AS b",
    "SELECT id FROM sales WHERE id IN (SELECT 1)",
    "SELECT id FROM sales UNION ALL SELECT 1",
    "SELECT id FROM ONLY sales",
    "SELECT id FROM sales TABLESAMPLE SYSTEM (50)",
    "SELECT id FROM sales FOR UPDATE",
    "WITH some AS (SELECT * FROM sales) SELECT * FROM some",
    "SELECT * FROM seen",
    "SELECT * FROM kept",
    "SELECT * FROM secret",
    "SELECT * FROM small",
    "SELECT * FROM no_such_table",
    "SELECT id FROM sales WHERE id = 7",
    "TABLE sales",
)


def test_what_cannot_be_divided_is_read_as_one_stream(database: Database) -> None:
    fill(database)
    database.execute(
        "ALTER TABLE sales ADD COLUMN ship date; CREATE VIEW seen AS SELECT * FROM sales;"
        "CREATE MATERIALIZED VIEW kept AS SELECT * FROM sales; CREATE TABLE small AS SELECT 1 AS id;"
        "CREATE TABLE secret AS SELECT * FROM sales; ALTER TABLE secret ENABLE ROW LEVEL SECURITY; ANALYZE"
    )
    backend = database.backend(2)
    with backend.session() as connection:
        found = {sql: find_cut(connection, sql, backend.read_limits()) for sql in (*WHOLE, "SELECT id FROM sales")}
        one = Limits(1, table_bytes=PAGE)
        assert find_cut(connection, "SELECT id FROM sales", one) is None
    assert [sql for sql, cut in found.items() if cut is not None] == ["SELECT id FROM sales"]


def test_a_connection_needs_a_reader() -> None:
    with pytest.raises(SpecError, match="'max_connections' is at least 1"):
        PostgresConnection("shop", "postgres://host/shop", max_connections=0)


PEAK = """
import resource, sys
from pathlib import Path
from ematix_flow.spec.place import Query
from tests.backends.test_postgres_read import Eager, PostgresConnection, Small, start_no_spark

connection = PostgresConnection("shop", sys.argv[1], max_connections=2)
for name in ("wide", "wider"):
    (Path(sys.argv[2]) / name).mkdir()
    Small(connection, Eager(start_no_spark)).export_rows(Query(f"SELECT * FROM {name}"), Path(sys.argv[2]) / name)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_memory_does_not_grow_with_the_table(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE wide AS SELECT g AS id, repeat('note', 450) AS note FROM generate_series(1, 10000) g"
    )
    database.execute("CREATE TABLE wider AS SELECT w.* FROM wide AS w, generate_series(1, 4)")
    call = [sys.executable, "-c", PEAK, database.url, str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True, check=True, env=environment(), cwd=ROOT)
    before, after = map(int, done.stdout.split())
    # There are 60 MB more to read.
    assert after < before + 20


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
