"""Run records, bookmarks and tokens in a schema of one's choice, for users who may create none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pymysql
import pytest

from ematix_flow.connections import MySQLConnection, PostgresConnection
from ematix_flow.errors import SpecError
from tests.cli.calls import Flow
from tests.servers import empty_mysql, empty_postgres, mariadb

PIPELINES = """\
from ematix_flow import Annotated, BigInt, ematix, pk


@ematix.table(schema="mart")
class Orders:
    id: Annotated[BigInt, pk()]
    n: BigInt


@ematix.pipeline(target=Orders, mode="merge", target_connection="shop", incremental_column="n")
def orders(source):
    return "SELECT 1 AS id, 10 AS n"


@ematix.pipeline(target=Orders, mode="append", source_connection="shop", target_connection="shop")
def asks(shop):
    return f"SELECT 2 AS id, {shop.read_watermark('orders')['last_value']} AS n"
"""


@pytest.fixture
def narrow_postgres() -> Iterator[str]:
    """A database in which the user may create no schema, but tables in two that are there."""
    url = empty_postgres("books")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS bookkeeper")
        admin.execute("CREATE ROLE bookkeeper LOGIN; CREATE SCHEMA mart; CREATE SCHEMA audit")
        admin.execute("GRANT USAGE, CREATE ON SCHEMA mart, audit TO bookkeeper")
        yield url.replace("postgres@", "bookkeeper@")
        admin.execute("DROP OWNED BY bookkeeper; DROP ROLE bookkeeper")


@pytest.fixture
def narrow_mysql() -> Iterator[str]:
    """The same on a server on which a schema is a database."""
    empty_mysql("mart")
    server = mariadb()
    with closing(pymysql.connect(host="127.0.0.1", port=server.port, user=server.USER, password="flow")) as admin:
        cursor = admin.cursor()
        cursor.execute("CREATE DATABASE audit")
        cursor.execute("CREATE OR REPLACE USER bookkeeper@'127.0.0.1' IDENTIFIED BY 'flow'")
        for database in ("mart", "audit"):
            cursor.execute(f"GRANT ALL ON {database}.* TO bookkeeper@'127.0.0.1'")
        yield server.url("mart").replace("flow:", "bookkeeper:", 1)
        cursor.execute("DROP USER bookkeeper@'127.0.0.1'")


@pytest.fixture(params=["narrow_postgres", "narrow_mysql"])
def declare(request: pytest.FixtureRequest, empty_folder: Path) -> Callable[[str | None], None]:
    """Writes the project down, its bookkeeping in the given schema."""
    url = request.getfixturevalue(request.param)
    (empty_folder / "loads.py").write_text(PIPELINES)

    def declare(schema: str | None) -> None:
        chosen = "" if schema is None else f'bookkeeping_schema = "{schema}"\n'
        text = f'[project]\nmodules = ["loads"]\n\n[connections.shop]\nurl = "{url}"\n{chosen}'
        (empty_folder / ".ematix-flow.toml").write_text(text)

    return declare


@pytest.mark.server
def test_a_user_who_may_create_no_schema_keeps_books_in_one_that_is_given(
    flow: Flow, declare: Callable[[str | None], None]
) -> None:
    declare(None)
    lines = flow("connections", "check", "shop").stdout.splitlines()
    (told,) = [line for line in lines if line.startswith("  bookkeeping: ematix_flow is missing")]
    assert told.endswith("bookkeeping_schema= of the connection (warning)")
    refused, foreseen = flow("run", "orders"), flow("validate", "orders")
    assert (refused.exit_code, foreseen.exit_code) != (0, 0)
    assert "'ematix_flow'" in refused.stderr
    assert "bookkeeping_schema=" in refused.stderr
    assert "bookkeeping_schema= of the connection" in foreseen.output

    declare("audit")
    assert "  bookkeeping: in audit" in flow("connections", "check", "shop").stdout.splitlines()
    first, again = (json.loads(flow("run", "orders", "--token", "day 1").stdout) for _ in range(2))
    assert (first["rows_inserted"], again["replayed"]) == (1, True)
    assert json.loads(flow("run", "asks").stdout)["rows_inserted"] == 1
    recorded = json.loads(flow("runs", "list", "--format", "json").stdout)
    assert [(run["pipeline"], run["status"]) for run in recorded] == [
        ("asks", "success"), ("orders", "success"), ("orders", "success")
    ]  # fmt: skip
    (mark,) = json.loads(flow("watermark", "get", "orders", "--format", "json").stdout)
    assert (mark["column"], mark["value"]) == ("n", "10")


@pytest.mark.server
def test_a_schema_that_may_not_be_made_is_foreseen_and_named(
    flow: Flow, declare: Callable[[str | None], None], empty_folder: Path
) -> None:
    declare("audit")
    (empty_folder / "loads.py").write_text(PIPELINES.replace('schema="mart"', 'schema="vault"'))
    foreseen, refused = flow("validate", "orders"), flow("run", "orders")
    assert "schema 'vault' is missing, and this user may not make it" in foreseen.output
    assert "pipeline 'orders': schema 'vault' could not be made for table vault.orders" in refused.stderr
    assert "create the schema and let this user make tables in it" in refused.stderr


@pytest.mark.server
@pytest.mark.parametrize("declare", ["narrow_postgres"], indirect=True)
def test_books_that_their_user_may_not_open_are_told_with_the_option(
    flow: Flow, narrow_postgres: str, declare: Callable[[str | None], None]
) -> None:
    declare("closed")
    with psycopg.connect(narrow_postgres.replace("bookkeeper@", "postgres@"), autocommit=True) as admin:
        admin.execute("CREATE SCHEMA closed CREATE TABLE run_history (run_id uuid)")
    for call in (("run", "orders"), ("runs", "list"), ("validate", "orders")):
        said = flow(*call).output
        assert "closed" in said
        assert "bookkeeping_schema= of the connection" in said


@pytest.mark.server
def test_a_schema_that_its_user_may_not_fill_is_told(flow: Flow, declare: Callable[[str | None], None]) -> None:
    declare("information_schema")
    assert "may not make tables in information_schema" in flow("connections", "check", "shop").stdout
    refused = flow("run", "orders")
    assert refused.exit_code != 0
    assert "'information_schema'" in refused.stderr


@pytest.mark.parametrize("name", ["", " ", " audit"])
@pytest.mark.parametrize("kind", [PostgresConnection, MySQLConnection])
def test_a_schema_needs_a_name(kind: type[PostgresConnection | MySQLConnection], name: str) -> None:
    with pytest.raises(SpecError, match="'bookkeeping_schema' cannot be"):
        kind("shop", f"{kind.kind}://y/z", bookkeeping_schema=name)
    assert kind("shop", f"{kind.kind}://y/z", bookkeeping_schema="${BOOKS}").bookkeeping_schema == "${BOOKS}"
