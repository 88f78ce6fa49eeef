"""Keep the history of customers inside PostgreSQL, exactly once: a load that is repeated with its token does nothing.

Needs a database: `export EMATIX_FLOW_DSN=postgres://user:password@host/database`.
"""

from __future__ import annotations

import os

import psycopg
from rich.console import Console
from rich.table import Table

from ematix_flow import Annotated, BigInt, Text, ematix, pk
from ematix_flow.normalize import lower, trim


@ematix.table(schema="analytics")
class CustomerDim:
    customer_id: Annotated[BigInt, pk()]
    email: Annotated[Text, trim(), lower()]


@ematix.pipeline(target=CustomerDim, mode="scd2", handle_deletes="soft")
def customers(source):
    return "SELECT customer_id, email FROM raw.customers"


def execute(sql: str) -> list[tuple]:
    with psycopg.connect(os.environ["EMATIX_FLOW_DSN"]) as database:
        cursor = database.execute(sql)
        return cursor.fetchall() if cursor.description else []


execute("DROP SCHEMA IF EXISTS raw, analytics CASCADE; CREATE SCHEMA raw")
execute("CREATE TABLE raw.customers (customer_id bigint PRIMARY KEY, email text)")

table = Table("day", "inserted", "closed", "replayed")
for day, changes in (
    ("monday", "INSERT INTO raw.customers VALUES (1, ' Ada@Example.com '), (2, 'grace@navy.example')"),
    ("tuesday", "UPDATE raw.customers SET email = 'grace@yale.example' WHERE customer_id = 2"),
    ("tuesday", "DELETE FROM raw.customers WHERE customer_id = 1"),
    ("wednesday", "SELECT 'nothing else happens'"),
):
    execute(changes)
    # The day is the token: what was loaded under it is not loaded again.
    result = customers.run(token=day)
    table.add_row(day, str(result.rows_inserted), str(result.rows_closed), str(result.get("replayed", False)))
Console(width=80).print(table)

versions = execute("SELECT customer_id, email, is_current FROM analytics.customer_dim ORDER BY customer_id, valid_from")
for version in versions:
    print(*version)
assert versions == [
    (1, "ada@example.com", False),
    (2, "grace@navy.example", False),
    (2, "grace@yale.example", True),
]
