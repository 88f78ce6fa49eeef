"""Replace a table as a whole: yesterday's summary is visible until the new one is complete."""
# ruff: noqa: N801 - a connection is written as pipelines name it

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from ematix_flow import Annotated, BigInt, Numeric, Text, ematix, pk

FOLDER = tempfile.TemporaryDirectory()
DATABASE = str(Path(FOLDER.name) / "shop.duckdb")


@ematix.connection
class warehouse:
    kind = "duckdb"
    path = DATABASE


@ematix.table(schema="analytics")
class SalesByCountry:
    country: Annotated[Text, pk()]
    orders: BigInt
    amount: Numeric[12, 2]


@ematix.pipeline(target=SalesByCountry, mode="truncate", target_connection="warehouse")
def sales_by_country(source):
    return "SELECT country, count(*) AS orders, sum(amount) AS amount FROM raw.orders GROUP BY country"


def ask(sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(DATABASE) as database:
        return database.execute(sql).fetchall()


ask("CREATE SCHEMA raw; CREATE TABLE raw.orders (country TEXT, amount DECIMAL(10, 2))")
ask("INSERT INTO raw.orders VALUES ('nl', 10.00), ('nl', 2.50), ('us', 99.00)")
table = Table("after", "country", "orders", "amount")
for change in ("SELECT 1", "DELETE FROM raw.orders WHERE country = 'us'", "INSERT INTO raw.orders VALUES ('at', 7.00)"):
    ask(change)
    sales_by_country.run()
    for row in ask("SELECT country, orders, amount FROM analytics.sales_by_country ORDER BY country"):
        table.add_row("the first load" if change == "SELECT 1" else change, *map(str, row))
    table.add_section()
Console(width=100).print(table)
assert ask("SELECT country FROM analytics.sales_by_country ORDER BY country") == [("at",), ("nl",)]
