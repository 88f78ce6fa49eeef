"""Handles: what an open connection answers, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import pytest

from ematix_flow import ManagedTable, Project, connect, ematix, pk
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import (
    DuckDBConnection,
    MemoryConnection,
    MySQLConnection,
    PostgresConnection,
    RedshiftConnection,
    SQLiteConnection,
)
from ematix_flow.engine.handle import Handle
from ematix_flow.errors import (
    BackendError,
    ConnectError,
    DriftError,
    FlowError,
    SpecError,
    SpecTypeError,
    UnsupportedError,
)
from ematix_flow.spec.connection import Connection
from ematix_flow.spec.registry import scope
from ematix_flow.types import BigInt, Text
from tests.servers import empty_mysql, empty_postgres

KINDS = {"duckdb": DuckDBConnection, "sqlite": SQLiteConnection}


class Person(ManagedTable):
    __schema__, __tablename__ = "crm", "people"
    id: Annotated[BigInt, pk()]
    name: Text


def no_spark() -> None:
    raise AssertionError("a handle needs no Spark")


def opened(connection: Connection) -> Handle:
    return Handle(connection.open(Workshop(no_spark)))


SERVERS = {
    "postgres": lambda: PostgresConnection("shop", empty_postgres("handles")),
    "mysql": lambda: MySQLConnection("shop", empty_mysql("handles")),
}


@pytest.fixture(params=[*sorted(KINDS), *(pytest.param(name, marks=pytest.mark.server) for name in SERVERS)])
def handle(request: pytest.FixtureRequest, tmp_path: Path) -> Handle:
    if request.param in SERVERS:
        return opened(SERVERS[request.param]())
    return opened(KINDS[request.param]("shop", str(tmp_path / "shop.db")))


@pytest.fixture(params=sorted(KINDS))
def embedded(request: pytest.FixtureRequest, tmp_path: Path) -> Handle:
    return opened(KINDS[request.param]("shop", str(tmp_path / "shop.db")))


@pytest.fixture
def people(handle: Handle) -> Handle:
    handle.execute("CREATE TABLE people (id BIGINT, name TEXT)")
    handle.execute("INSERT INTO people VALUES (1, 'Ada'), (2, 'Bob'), (3, 'Cyd')")
    return handle


# ── statements ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_statement_is_committed_at_once_and_tells_how_many_rows_it_changed(people: Handle) -> None:
    assert people.execute("UPDATE people SET name = 'Eve' WHERE id > 1;") == 2
    assert people.fetch_scalar_int("SELECT COUNT(*) FROM people WHERE name = 'Eve'") == 2


def test_a_query_may_be_executed_and_changes_nothing(people: Handle) -> None:
    assert people.execute("SELECT * FROM people") == 0


def test_statements_of_a_transaction_happen_together_or_not_at_all(people: Handle) -> None:
    assert people.execute_in_transaction(["DELETE FROM people WHERE id = 1", "DELETE FROM people WHERE id = 2"]) == 2
    with pytest.raises(ValueError, match="no_such_table"):
        people.execute_in_transaction(["DELETE FROM people", "DELETE FROM no_such_table"])
    assert people.fetch_scalar_int("SELECT COUNT(*) FROM people") == 1
    assert people.execute_in_transaction([]) == 0


def test_a_statement_that_refuses_transactions_works_by_itself(people: Handle) -> None:
    assert people.execute("TRUNCATE TABLE people" if people.kind == "mysql" else "VACUUM") == 0


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DELETE FROM people; DELETE FROM people", "several statements"),
        ("SELECT 1; -- one\nDROP TABLE people;", "several statements"),
        ("BEGIN", "BEGIN is not a statement to run"),
        ("start transaction", "START is not a statement to run"),
        (" /* now */ commit;", "COMMIT is not"),
        ("ROLLBACK TO here", "ROLLBACK is not"),
        ("SAVEPOINT here", "SAVEPOINT is not"),
        ("", "cannot be empty"),
        ("  -- nothing\n ;", "cannot be empty"),
    ],
)
def test_several_statements_and_control_of_transactions_are_refused(people: Handle, sql: str, message: str) -> None:
    for run in (people.execute, people.query, lambda text: people.execute_in_transaction(["SELECT 1", text])):
        with pytest.raises(SpecError, match=message):
            run(sql)
    assert people.fetch_scalar_int("SELECT COUNT(*) FROM people") == 3


@pytest.mark.parametrize("text", ["SELECT ';' AS a", 'SELECT 1 AS ";"', "SELECT 1 /* ; */", "SELECT 'BEGIN'"])
def test_a_semicolon_or_a_word_inside_a_text_is_no_statement(people: Handle, text: str) -> None:
    assert len(people.query(text)["rows"]) == 1


def test_a_trigger_may_hold_statements(tmp_path: Path) -> None:
    handle = opened(SQLiteConnection("shop", str(tmp_path / "shop.db")))
    handle.execute("CREATE TABLE a (id)")
    handle.execute("CREATE TABLE log (id)")
    handle.execute(
        "CREATE TRIGGER t AFTER INSERT ON a BEGIN INSERT INTO log VALUES (1); INSERT INTO log VALUES (2); END"
    )
    handle.execute("INSERT INTO a VALUES (1)")
    assert handle.fetch_scalar_int("SELECT COUNT(*) FROM log") == 2


@pytest.mark.parametrize("wrong", [None, 5, b"SELECT 1"])
def test_a_statement_is_text(handle: Handle, wrong: object) -> None:
    with pytest.raises(SpecTypeError, match="a statement is text"):
        handle.execute(wrong)
    with pytest.raises(SpecTypeError, match="a list, not one text"):
        handle.execute_in_transaction("SELECT 1")


def test_a_statement_that_changes_something_makes_the_file_and_one_that_looks_does_not(
    embedded: Handle, tmp_path: Path
) -> None:
    handle = embedded
    for look in (handle.execute, handle.query, handle.fetch_scalar_int):
        with pytest.raises(ConnectError, match="does not exist"):
            look("SELECT 1")
    assert list(tmp_path.iterdir()) == []
    handle.execute("CREATE TABLE t (id BIGINT)")
    assert (tmp_path / "shop.db").exists()


# ── questions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_query_gives_names_types_and_rows(people: Handle) -> None:
    answer = people.query("SELECT id, name FROM people ORDER BY id")
    types = {
        "duckdb": ["BIGINT", "VARCHAR"],
        "sqlite": ["integer", "text"],
        "postgres": ["bigint", "text"],
        "mysql": ["bigint", "longtext"],
    }[people.kind]
    assert answer == {
        "columns": [{"name": "id", "type": types[0]}, {"name": "name", "type": types[1]}],
        "rows": [[1, "Ada"], [2, "Bob"], [3, "Cyd"]],
        "truncated": False,
    }
    json.dumps(answer)


@pytest.mark.parametrize(("limit", "ids", "truncated"), [(0, [], True), (2, [1, 2], True), (3, [1, 2, 3], False)])
def test_a_limit_is_kept_and_says_whether_there_is_more(
    people: Handle, limit: int, ids: list[int], truncated: bool
) -> None:
    answer = people.query("SELECT id FROM people ORDER BY id", max_rows=limit)
    assert ([row[0] for row in answer["rows"]], answer["truncated"]) == (ids, truncated)


def test_no_more_rows_are_fetched_than_asked_for(handle: Handle) -> None:
    handle.execute("CREATE TABLE t (id BIGINT)")
    endless = {
        "duckdb": "SELECT * FROM range(9223372036854775807)",
        "mysql": "SELECT seq FROM seq_1_to_1000000000",
    }.get(handle.kind, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n")
    assert len(handle.query(endless, max_rows=5)["rows"]) == 5


@pytest.mark.parametrize("limit", [-1, 1.5, "2"])
def test_a_limit_that_is_no_number_of_rows_is_refused(people: Handle, limit: object) -> None:
    with pytest.raises(SpecError, match="max_rows cannot be"):
        people.query("SELECT 1", max_rows=limit)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM people",
        "WITH old AS (SELECT 1 AS i) DELETE FROM people WHERE id IN (SELECT i FROM old)",
        "INSERT INTO people VALUES (4, 'Dan') RETURNING id",
        "CREATE TABLE more (id BIGINT)",
        "DROP TABLE people",
        "EXPLAIN ANALYZE DELETE FROM people",
        "PRAGMA user_version = 5",
        "VACUUM",
    ],
)
def test_a_query_cannot_change_anything(people: Handle, sql: str) -> None:
    with pytest.raises(SpecError, match="a query only reads"):
        people.query(sql)
    assert people.fetch_scalar_int("SELECT COUNT(*) FROM people") == 3


def test_one_whole_number_is_given_as_such(people: Handle) -> None:
    assert people.fetch_scalar_int("SELECT COUNT(*), 'more' FROM people") == 3
    assert people.fetch_scalar_int("SELECT 3.0") == 3


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT id FROM people WHERE id = 9", "gave no row"),
        ("SELECT NULL", "gave NULL"),
        ("SELECT 'x'", "gave str"),
        ("SELECT 1.5", "gave (float|Decimal)"),
    ],
)
def test_what_is_no_whole_number_is_an_error(people: Handle, sql: str, said: str) -> None:
    with pytest.raises(BackendError, match=f"connection 'shop': a query for one whole number {said}"):
        people.fetch_scalar_int(sql)


@pytest.mark.server
@pytest.mark.parametrize("makes", ["CREATE\nTABLE b (i INT)", "/* b */ CREATE TABLE b (i INT)", "ANALYZE TABLE people"])
@pytest.mark.parametrize("writes", ["DELETE\nFROM people", "INSERT INTO people VALUES (9, 'z')"])
def test_mysql_refuses_what_would_commit_a_transaction_in_its_middle(makes: str, writes: str) -> None:
    people = opened(MySQLConnection("shop", empty_mysql("handles")))
    people.execute("CREATE TABLE people (id BIGINT, name TEXT)")
    people.execute("INSERT INTO people VALUES (1, 'Ada')")
    with pytest.raises(BackendError, match="would commit"):
        people.execute_in_transaction([writes, makes])
    assert people.fetch_scalar_int("SELECT COUNT(*) FROM people WHERE id = 1") == 1
    assert people.fetch_scalar_int("SELECT COUNT(*) FROM people WHERE id = 9") == 0


@pytest.mark.parametrize(
    "connection",
    [
        MySQLConnection("shop", "mysql://u:Sek/ret@127.0.0.1/db"),
        PostgresConnection("shop", "postgresql://u:Sek%zzret@127.0.0.1/db"),
    ],
    ids=["mysql", "postgres"],
)
def test_a_url_that_cannot_be_read_shows_no_piece_of_the_password(connection: Connection) -> None:
    one, other = (connection.open(Workshop(no_spark)) for _ in range(2))
    for attempt in (lambda: one.same_system(other), one.ping):
        with pytest.raises(FlowError) as caught:
            attempt()
        assert "Sek" not in str(caught.value)
        assert "ret@" not in str(caught.value)


def test_a_wrong_query_is_a_value_error_with_the_systems_own_words(people: Handle) -> None:
    with pytest.raises(ValueError, match=r"connection 'shop' \((duckdb|sqlite|postgres|mysql)\).*no_such_column"):
        people.query("SELECT no_such_column FROM people")


def test_duckdb_gives_instants_decimals_and_identifiers_as_python_knows_them(tmp_path: Path) -> None:
    handle = opened(DuckDBConnection("shop", str(tmp_path / "shop.db")))
    handle.execute("CREATE TABLE t AS SELECT TIMESTAMPTZ '2026-01-05 09:30:00+00' AS at_, 1.5::DECIMAL(5, 2) AS price")
    (row,) = handle.query("SELECT at_, price FROM t")["rows"]
    assert row == [datetime(2026, 1, 5, 9, 30, tzinfo=UTC), Decimal("1.50")]


@pytest.mark.parametrize("ask", ["query", "execute", "fetch_scalar_int"])
def test_a_system_without_sql_says_so(ask: str) -> None:
    handle = opened(MemoryConnection("scratch"))
    with pytest.raises(UnsupportedError, match=r"connection 'scratch' \(memory\) runs no queries"):
        getattr(handle, ask)("SELECT 1")


# ── what it is ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_handle_says_what_it_is(embedded: Handle, tmp_path: Path) -> None:
    handle = embedded
    path = str(tmp_path / "shop.db")
    assert (handle.name, handle.kind, handle.dialect(), handle.path) == ("shop", handle.kind, handle.kind, path)
    assert handle.dsn() == handle.url == f"{handle.kind}:///{path}"
    info = handle.connection_info()
    assert [info[key] for key in ("host", "port", "dbname", "user")] == [None, None, path, None]


@pytest.mark.parametrize(
    ("connection", "address"),
    [
        (RedshiftConnection("x", host="h", database="d", user="ada", password="S3cr3t"), ["h", 5439, "d", "ada"]),
        (PostgresConnection("x", "postgres://a%40b:S3cr3t@h:5432/d"), ["h", 5432, "d", "a@b"]),
        (PostgresConnection("x", "postgres://ada:S3cr3t@h:${PORT}/d"), [None, None, None, None]),
    ],
)
def test_the_address_of_a_server_comes_without_its_password(connection: Connection, address: list[object]) -> None:
    # What a handle is made of says this much before any server is asked.
    handle = Handle(SimpleNamespace(connection=connection))  # type: ignore[arg-type]
    info = handle.connection_info()
    assert [info[key] for key in ("host", "port", "dbname", "user")] == address
    assert "S3cr3t" not in str(info) + repr(handle)


# ── tables and bookmarks ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("spec", [Person, Person._table(), Person._to_spec(), json.dumps(Person._to_spec())])
def test_a_missing_table_is_created_and_then_matches(handle: Handle, spec: object) -> None:
    assert handle.ensure_table(spec) == {"action": "created", "differences": []}
    assert handle.ensure_table(spec) == {"action": "matched", "differences": []}


class Wider(ManagedTable):
    __schema__, __tablename__ = "crm", "people"
    id: Annotated[BigInt, pk()]
    name: Text
    email: Text | None


class Other(ManagedTable):
    __schema__, __tablename__ = "crm", "people"
    id: Annotated[BigInt, pk()]
    name: BigInt


@pytest.fixture
def crm(handle: Handle) -> Handle:
    handle.ensure_table(Person)
    return handle


def test_a_table_that_differs_is_an_error_that_names_each_difference(crm: Handle) -> None:
    with pytest.raises(DriftError, match="column 'email' is declared but not in the table"):
        crm.ensure_table(Wider)


def test_with_warn_a_difference_is_a_warning_and_part_of_the_answer(crm: Handle) -> None:
    with pytest.warns(UserWarning, match=r"crm\.people.*'name' has type"):
        state = crm.ensure_table(Other, on_drift="warn")
    assert (state["action"], len(state["differences"])) == ("drift", 1)


def test_with_evolve_missing_columns_are_added(crm: Handle) -> None:
    assert crm.ensure_table(Wider, on_drift="evolve") == {"action": "evolved", "differences": ["added column 'email'"]}
    assert crm.ensure_table(Wider)["action"] == "matched"
    with pytest.raises(DriftError, match="'name' has type"):
        crm.ensure_table(Other, on_drift="evolve")


def test_an_unknown_policy_is_an_error_that_names_it(handle: Handle) -> None:
    with pytest.raises(ValueError, match=r"on_drift='warm' is not possible.*\n.*'warn'"):
        handle.ensure_table(Person, on_drift="warm")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.chdir(tmp_path)
    with scope():
        yield


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_bookmark_is_read_after_the_load_that_made_it(kind: str) -> None:
    ematix.connection(type("shop", (), {"kind": kind, "path": "shop.db"}))

    @ematix.pipeline(target=Person, mode="append", incremental_column="id", target_connection="shop")
    def people(source: Handle) -> str:
        return "SELECT 7 AS id, 'Ada' AS name"

    with connect("shop") as handle:
        assert handle.read_watermark("people") is None
        people.run()
        mark = handle.read_watermark("people") or {}
        assert [mark[key] for key in ("pipeline_name", "column_name", "last_value")] == ["people", "id", "7"]
