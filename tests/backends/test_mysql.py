"""What is particular to MySQL and MariaDB: tables that commit by themselves, collations, local files, turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from ematix_flow.backends.base import SchemaChange
from ematix_flow.backends.mysql import MySQLBackend
from ematix_flow.backends.mysql_facts import _version
from ematix_flow.backends.sql_connection import SqlConnection
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import MySQLConnection
from ematix_flow.errors import BackendError, CheckError, ConfigError, ConflictError, ConnectError, DriftError, FlowError
from ematix_flow.spec.place import TableRef
from ematix_flow.spec.table import Column, Table
from ematix_flow.types import BigInt, Text
from tests.backends.conftest import BY_NAME
from tests.backends.lab import Lab, Lane, System
from tests.backends.mysql_server import opened, run
from tests.servers import empty_mysql, mariadb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
pytestmark = pytest.mark.server

PUSHED = Lane(BY_NAME["mysql"], "same_db")


class OpensOnce(MySQLBackend):
    """As if the server opened a temporary table once in a query, which is what MySQL does."""

    def connect(self) -> SqlConnection:
        session: Any = super().connect()
        session.reopens = False
        return session


class OpensOnceConnection(MySQLConnection):
    def open(self, workshop: Any) -> Any:
        return OpensOnce(self, workshop)


ONCE = System("mysql_once", lambda name, _: OpensOnceConnection(name, empty_mysql("lab0")), pushed=True)


@pytest.fixture
def make(tmp_path: Path, session: Callable[[], SparkSession]) -> Iterator[Callable[..., Lab]]:
    made: list[Lab] = []

    def make(lane: Lane = PUSHED, **defaults: Any) -> Lab:
        made.append(Lab(lane, tmp_path, session, **defaults))
        return made[-1]

    yield make
    for lab in made:
        lab.close()


@pytest.fixture
def backend(tmp_path: Path) -> MySQLBackend:
    return opened("lab0", tmp_path)


def test_the_server_says_what_it_is(backend: MySQLBackend) -> None:
    assert backend.ping().startswith("MariaDB 11.4")


def test_two_databases_of_one_server_are_one_system() -> None:
    one, other = (MySQLConnection("x", f"mysql://u:p@h/{each}").open(None) for each in ("a", "b"))
    assert one.same_system(other)
    assert not one.same_system(MySQLConnection("x", "mysql://v:p@h/a").open(None))


@pytest.mark.parametrize(("given", "wanted"), [("flow:wrong@", "Access denied"), ("nobody:x@", "Access denied")])
def test_a_login_that_is_wrong_is_a_connect_error(backend: MySQLBackend, given: str, wanted: str) -> None:
    url = mariadb().url().replace("flow:flow@", given)
    with pytest.raises(ConnectError, match=wanted):
        MySQLConnection("shop", url).open(None).ping()


def test_a_password_may_have_any_letter(backend: MySQLBackend) -> None:
    password = "p@ss:w/rd%25?#ü"
    run(backend, "DROP USER IF EXISTS odd@'127.0.0.1'", f"CREATE USER odd@'127.0.0.1' IDENTIFIED BY '{password}'")
    run(backend, "GRANT SELECT ON lab0.* TO odd@'127.0.0.1'")
    url = backend.connection.url.replace("flow:flow@", f"odd:{quote(password, safe='')}@")
    odd = MySQLBackend(MySQLConnection("odd", url), backend.workshop)
    assert run(odd, "SELECT CURRENT_USER()") == [("odd@127.0.0.1",)]


def test_a_database_that_is_not_there_and_a_server_that_is_not_are_connect_errors(backend: MySQLBackend) -> None:
    with pytest.raises(ConnectError, match="Unknown database 'nowhere'"):
        MySQLConnection("shop", mariadb().url("nowhere")).open(None).ping()
    with pytest.raises(ConnectError, match="Can't connect"):
        MySQLConnection("shop", "mysql://u:p@127.0.0.1:1/d", connect_timeout=1).open(None).ping()


@pytest.mark.parametrize(
    ("url", "message"),
    [("mysql://u:p@h", "names no database"), ("mysql://u:p@h/d?ssl_ca=/x", "'/x', which is no file")],
)
def test_a_url_that_says_too_little_or_what_is_not_there_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MySQLConnection("shop", url).open(None).ping()


def test_a_first_load_that_fails_leaves_no_table(make: Callable[..., Lab]) -> None:
    lab = make(mode="merge")
    with lab.refused(CheckError, "id"):
        lab("id | v", "1 | a", "1 | b")
    assert not lab.exists()


def test_a_dry_run_makes_no_table_and_no_column(make: Callable[..., Lab]) -> None:
    lab = make(mode="scd2")
    assert lab("id | v", "1 | a", dry_run=True).rows_inserted == 1
    assert not lab.exists()
    lab("id | v", "1 | a")
    result = lab("id | v | city", "1 | b | Bern", "2 | c | Biel", dry_run=True, on_drift="evolve")
    assert (result.rows_inserted, result.drift) == (2, ["added column 'city'"])
    assert "city" not in lab.table()[0]
    assert lab.history(1) == [("a", "10:00", None)]


def test_a_table_that_others_have_written_to_is_not_taken_back(backend: MySQLBackend) -> None:
    table = Table("mart", "people", (Column(BigInt(), nullable=False, primary_key=True, name="id"),))
    with backend.hold(), backend.session() as connection:
        change = SchemaChange(table, create=True)
        backend.change_table(connection, change)
        connection.execute("INSERT INTO mart.people VALUES (1)")
        backend._take_back(connection, change)
        assert connection.execute("SELECT id FROM mart.people").fetchall() == [(1,)]
        connection.execute("DELETE FROM mart.people")
        backend._take_back(connection, change)
    assert backend.columns(TableRef("mart", "people")) is None


def test_rows_that_were_written_are_not_committed_by_a_table_that_is_made(backend: MySQLBackend) -> None:
    run(backend, "CREATE TABLE lab0.t (id INT)")
    with pytest.raises(BackendError, match="would commit the rows"):
        backend.execute(["INSERT INTO t VALUES (1)", "CREATE TABLE u (id INT)"])
    assert run(backend, "SELECT COUNT(*) FROM t") == [(0,)]
    backend.execute(["CREATE TABLE u (id INT)", "INSERT INTO t VALUES (1)"])
    assert run(backend, "SELECT COUNT(*) FROM t") == [(1,)]


@pytest.mark.parametrize("mode", ["merge", "scd2"])
def test_a_server_that_opens_a_temporary_table_once_gets_copies(make: Callable[..., Lab], mode: str) -> None:
    lab = make(Lane(ONCE, "same_db"), mode=mode, handle_deletes="hard" if mode == "merge" else "soft")
    lab("id | v", "1 | a", "2 | b")
    lab("id | v", "1 | A", "3 | c")
    current = (
        [row[:2] for row in lab.rows("id", "v", "is_current") if row[2]] if mode == "scd2" else lab.rows("id", "v")
    )
    assert current == [(1, "A"), (3, "c")]


def test_a_copy_has_the_rows_of_its_table(tmp_path: Path) -> None:
    backend = OpensOnce(MySQLConnection("shop", empty_mysql("lab0")), Workshop(lambda: pytest.fail("no"), tmp_path))
    with backend.session() as connection:
        connection.execute("CREATE TEMPORARY TABLE _ematix_incoming AS SELECT 7 AS id")
        found = connection.execute("SELECT a.id, b.id FROM _ematix_incoming AS a, `_ematix_incoming_2` AS b").fetchall()
    assert found == [(7, 7)]


@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb4_unicode_ci", "latin1_swedish_ci"])
def test_case_and_blanks_count_in_tables_that_others_made(make: Callable[..., Lab], collation: str) -> None:
    lab = make(mode="merge", on_drift="ignore")
    lab.store.make_schema("shop")
    characters = collation.partition("_")[0]
    lab.store.execute(
        f"CREATE TABLE shop.customer (id BIGINT PRIMARY KEY, v LONGTEXT CHARACTER SET {characters} COLLATE {collation} "
        "NOT NULL, _loaded_at DATETIME(6), _batch_id CHAR(36))"
    )
    lab("id | v", "1 | a", "2 | b")
    assert lab("id | v", "1 | A", "2 | b").rows_updated == 1
    types = {"id": BigInt(), "v": Text()}
    assert lab.load(types, [{"id": 1, "v": "A "}, {"id": 2, "v": "b"}]).rows_updated == 1
    assert lab.rows("id", "v") == [(1, "A "), (2, "b")]


def test_a_collation_that_cannot_be_compared_is_refused_with_a_way_out(make: Callable[..., Lab]) -> None:
    lab = make(mode="merge", on_drift="ignore")
    lab.store.make_schema("shop")
    lab.store.execute(
        "CREATE TABLE shop.customer (id BIGINT PRIMARY KEY, v LONGTEXT COLLATE utf8mb4_bin, _loaded_at DATETIME(6), "
        "_batch_id CHAR(36))"
    )
    with lab.refused(BackendError, "Illegal mix of collations") as caught:
        lab("id | v", "1 | a")
    assert "utf8mb4_nopad_bin" in str(caught.value.hint)


def test_a_table_without_transactions_is_refused(make: Callable[..., Lab]) -> None:
    lab = make(mode="append")
    lab.store.make_schema("shop")
    lab.store.execute("CREATE TABLE shop.customer (id BIGINT PRIMARY KEY, v LONGTEXT) ENGINE = MyISAM")
    with lab.refused(BackendError, "the engine MyISAM"):
        lab("id | v", "1 | a")


def test_zero_is_a_key_like_any_other(make: Callable[..., Lab]) -> None:
    lab = make(mode="merge", on_drift="ignore")
    lab.store.make_schema("shop")
    lab.store.execute(
        "CREATE TABLE shop.customer (id BIGINT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT, _loaded_at DATETIME(6), "
        "_batch_id CHAR(36))"
    )
    lab("id | v", "0 | a", "5 | b")
    assert lab.rows("id", "v") == [(0, "a"), (5, "b")]


def test_a_text_may_be_a_key_up_to_255_characters(make: Callable[..., Lab]) -> None:
    lab = make(mode="merge")
    lab.keys = ("code",)
    types = {"code": Text(), "n": BigInt()}
    rows = [{"code": code, "n": 1} for code in ("x" * 255, "a", "A", "a ")]
    assert lab.load(types, rows).rows_inserted == 4
    assert lab.load(types, rows).rows_unchanged == 4
    with lab.refused(FlowError, "code"):
        lab.load(types, [{"code": "x" * 256, "n": 1}])


def test_a_column_that_would_round_instants_is_a_difference(make: Callable[..., Lab]) -> None:
    lab = make(mode="append")
    lab.store.make_schema("shop")
    lab.store.execute("CREATE TABLE shop.customer (id BIGINT PRIMARY KEY, t DATETIME)")
    with lab.refused(DriftError, "column 't' has type datetime"):
        lab("id | t:Timestamp", "1 | 2026-01-05 10:00:00.5")


def test_a_lock_of_another_is_waited_for_and_then_a_conflict(tmp_path: Path) -> None:
    backend = opened("lab0", tmp_path, lock_timeout=1)
    run(backend, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    held, tried = threading.Event(), threading.Event()

    def hold() -> None:
        with backend.session() as connection, backend.transaction(connection):
            connection.execute("UPDATE t SET id = 2 WHERE id = 1")
            backend.take_turn(connection, TableRef("lab0", "t"))
            held.set()
            tried.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        with pytest.raises(ConflictError, match="Lock wait timeout"):
            run(backend, "UPDATE t SET id = 3 WHERE id = 1")
        with backend.session() as connection, pytest.raises(ConflictError, match=r"another load into lab0\.t"):
            backend.take_turn(connection, TableRef("lab0", "t"))
    finally:
        tried.set()
        holder.join()


def test_a_statement_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    backend = opened("lab0", tmp_path, statement_timeout=1)
    with pytest.raises(BackendError, match="max_statement_time"):
        run(backend, "SELECT COUNT(*) FROM seq_1_to_100000000 AS a JOIN seq_1_to_100000000 AS b ON a.seq <> b.seq")


def test_a_server_that_dies_while_a_load_is_under_way_leaves_nothing_of_it(make: Callable[..., Lab]) -> None:
    lab = make(mode="merge")
    lab("id | v", "1 | a")
    backend: Any = lab.target

    def lose() -> None:
        with backend.session() as connection, backend.transaction(connection):
            connection.execute("UPDATE shop.customer SET v = 'lost'")
            mariadb().stop()
            connection.execute("SELECT 1")

    with pytest.raises(ConnectError):
        lose()
    mariadb().start()
    assert lab.rows("id", "v") == [(1, "a")]
    assert lab("id | v", "1 | b").rows_updated == 1


@pytest.mark.parametrize(
    ("version", "is_old"),
    [("11.4.5-MariaDB", False), ("10.5.29-MariaDB-log", True), ("8.0.17", False), ("8.0.16", True), ("5.7.44", True)],
)
def test_a_server_that_is_too_old_is_a_warning(version: str, is_old: bool) -> None:
    assert _version(version).is_warning == is_old
