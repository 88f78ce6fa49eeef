"""The quickstart on PostgreSQL, by the command line alone: inside one database, and from one database to another."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.calls import command, environment
from tests.servers import empty_postgres

pytestmark = [pytest.mark.slow, pytest.mark.server]

PIPELINES = """
from ematix_flow import Annotated, BigInt, Numeric, String, Text, TimestampTZ, ematix, pk
from ematix_flow.normalize import empty_to_null, lower, parse_timestamp, trim

@ematix.table(schema="analytics")
class CustomerDim:
    customer_id: Annotated[BigInt, pk()]
    email: Annotated[String[256] | None, trim(), lower(), empty_to_null()]
    full_name: Annotated[Text, trim()]
    signed_up_at: Annotated[TimestampTZ | None, parse_timestamp()]

@ematix.table(schema="analytics")
class Customer:
    customer_id: Annotated[BigInt, pk()]
    email: Annotated[Text | None, trim(), lower(), empty_to_null()]

@ematix.table(schema="analytics")
class OrderFact:
    order_id: Annotated[BigInt, pk()]
    customer_id: BigInt
    amount: Numeric[12, 2]

@ematix.table(schema="analytics")
class Visit:
    visit_id: Annotated[BigInt, pk()]
    page: Text

@ematix.pipeline(target=CustomerDim, mode="scd2", source_connection="crm", compare_columns=["email", "full_name"])
def sync_customers(source):
    return "SELECT customer_id, email, full_name, signed_up_at FROM raw.customers"

@ematix.pipeline(target=Customer, mode="merge", source_connection="crm", handle_deletes="hard")
def current_customers(source):
    return "SELECT customer_id, email FROM raw.customers"

@ematix.pipeline(target=OrderFact, mode="append", source_connection="crm", incremental_column="order_id")
def new_orders(source):
    return "SELECT order_id, customer_id, amount FROM raw.orders"

@ematix.pipeline(target=Visit, mode="append", source_connection="crm", source_table="raw.visits")
def visits(): ...
"""
SOURCE = """
CREATE SCHEMA raw;
CREATE TABLE raw.customers (customer_id bigint PRIMARY KEY, email text, full_name text, signed_up_at text);
INSERT INTO raw.customers VALUES
  (1, ' ADA@Example.com ', 'Ada', '2026-01-02'), (2, '', ' Bob', NULL),
  (3, 'jörg@straße.example', 'Jörg', '2026-01-03T10:20:30Z');
CREATE TABLE raw.orders (order_id bigint, customer_id bigint, amount numeric);
INSERT INTO raw.orders VALUES (10, 1, 9.999), (11, 2, 5);
CREATE TABLE raw.visits (visit_id bigint, page text);
INSERT INTO raw.visits VALUES (1, '/'), (2, '/');
"""


@dataclass(frozen=True)
class Shop:
    """A project in a folder, the database that it reads and the one that it loads."""

    folder: Path
    source: str
    target: str

    def flow(self, *arguments: str, code: int = 0) -> str:
        """What a command answers, in a process of its own."""
        variables = {"EMATIX_FLOW_DSN": self.target, "EMATIX_FLOW_DSN_CRM": self.source}
        done = subprocess.run(
            command(*arguments),
            cwd=self.folder,
            env={**environment(), **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def run(self, name: str) -> dict[str, Any]:
        """The outcome of a run."""
        result: dict[str, Any] = json.loads(self.flow("run", name))
        return result

    def change(self, *statements: str) -> None:
        """What the people of the shop do meanwhile."""
        with psycopg.connect(self.source) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What another program sees."""
        with psycopg.connect(self.target) as connection:
            return connection.execute(sql).fetchall()  # type: ignore[call-overload, no-any-return]


@pytest.fixture(params=["same_db", "cross_db"])
def path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(path: str, tmp_path: Path) -> Shop:
    target = empty_postgres("journey")
    source = target if path == "same_db" else empty_postgres("journey_crm")
    (tmp_path / "pipelines.py").write_text(PIPELINES, encoding="utf-8")
    (tmp_path / ".ematix-flow.toml").write_text('[project]\nmodules = ["pipelines"]\n', encoding="utf-8")
    shop = Shop(tmp_path, source, target)
    shop.change(SOURCE)
    return shop


def test_a_dimension_a_copy_and_a_fact_table_follow_their_sources(shop: Shop, path: str) -> None:
    assert shop.flow("connections", "check", "crm").startswith("crm: ok (PostgreSQL ")
    way = "pushed: source and target" if path == "same_db" else "copied: the target reads"
    assert way in shop.flow("preview", "sync_customers")

    names = ("sync_customers", "current_customers", "new_orders", "visits")
    first = {name: shop.run(name) for name in names}
    assert {each["path"] for each in first.values()} == {path}
    assert [first[name]["rows_inserted"] for name in names] == [3, 3, 2, 2]

    shop.change(
        "UPDATE raw.customers SET full_name = 'Ada Lovelace', email = 'ada@EXAMPLE.com' WHERE customer_id = 1",
        "DELETE FROM raw.customers WHERE customer_id = 2",
        "INSERT INTO raw.orders VALUES (12, 3, 0.005)",
    )
    again = names[:3]
    second = {name: shop.run(name) for name in again}
    assert (second["sync_customers"]["rows_inserted"], second["sync_customers"]["rows_closed"]) == (1, 1)
    assert (second["current_customers"]["rows_deleted"], second["current_customers"]["rows_unchanged"]) == (1, 2)
    assert (second["new_orders"]["rows_inserted"], second["new_orders"]["watermark_after"]) == (1, "12")

    runs = json.loads(shop.flow("runs", "list", "--format", "json"))
    ran = [result["run_id"] for results in (second, first) for result in reversed(results.values())]
    assert [run["run_id"] for run in runs] == ran
    assert {run["status"] for run in runs} == {"success"}
    dimension = "SELECT customer_id, email, full_name, signed_up_at::text, is_current FROM analytics.customer_dim"
    assert shop.rows(f"{dimension} ORDER BY customer_id, valid_from") == [
        (1, "ada@example.com", "Ada", "2026-01-02 00:00:00+00", False),
        (1, "ada@example.com", "Ada Lovelace", "2026-01-02 00:00:00+00", True),
        (2, None, "Bob", None, True),
        (3, "jörg@straße.example", "Jörg", "2026-01-03 10:20:30+00", True),
    ]
    assert shop.rows("SELECT customer_id FROM analytics.customer ORDER BY 1") == [(1,), (3,)]
    assert shop.rows("SELECT order_id, amount::text FROM analytics.order_fact ORDER BY 1") == [
        (10, "10.00"), (11, "5.00"), (12, "0.01"),
    ]  # fmt: skip
    assert shop.rows("SELECT page, COUNT(*) FROM analytics.visit GROUP BY 1") == [("/", 2)]


@pytest.mark.parametrize("path", ["cross_db"])
def test_a_load_that_cannot_be_right_says_why_and_leaves_the_dimension(shop: Shop) -> None:
    shop.run("sync_customers")
    before = shop.rows("SELECT * FROM analytics.customer_dim ORDER BY 1")
    shop.change("UPDATE raw.customers SET full_name = NULL WHERE customer_id = 2")
    assert "full_name" in shop.flow("run", "sync_customers", code=1)
    assert shop.rows("SELECT * FROM analytics.customer_dim ORDER BY 1") == before
    runs = json.loads(shop.flow("runs", "list", "--format", "json"))
    assert [run["status"] for run in runs] == ["failed", "success"]
