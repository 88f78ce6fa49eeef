"""Keep a table equal to its source: new rows in, changed rows updated, rows that vanished deleted."""
# ruff: noqa: N801 - a connection is written as pipelines name it

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ematix_flow import Annotated, Numeric, String, Text, ematix, pk
from ematix_flow.normalize import trim, upper

FOLDER = tempfile.TemporaryDirectory()
DATABASE = Path(FOLDER.name) / "shop.db"


@ematix.connection
class shop:
    kind = "sqlite"
    path = str(DATABASE)


@ematix.table(schema="analytics")
class Product:
    sku: Annotated[String[12], pk(), trim(), upper()]
    title: Text
    price: Numeric[10, 2]


@ematix.pipeline(target=Product, mode="merge", target_connection="shop", handle_deletes="hard")
def sync_products(source):
    return "SELECT sku, title, price FROM raw.products"


def replace_source(*products: tuple[str, str, float]) -> None:
    with sqlite3.connect(DATABASE) as database:
        database.execute('DROP TABLE IF EXISTS "raw.products"')
        database.execute('CREATE TABLE "raw.products" (sku TEXT, title TEXT, price REAL)')
        database.executemany('INSERT INTO "raw.products" VALUES (?, ?, ?)', products)


table = Table("source", "inserted", "updated", "unchanged", "deleted", "table afterwards")
for products in (
    [("lamp-1", "Lamp", 25.0), ("desk-1", "Desk", 180.0), ("rug-1", "Rug", 60.0)],
    [(" lamp-1 ", "Lamp", 25.0), ("desk-1", "Desk", 165.0), ("vase-1", "Vase", 12.5)],
):
    replace_source(*products)
    result = sync_products.run()
    with sqlite3.connect(DATABASE) as database:
        rows = database.execute('SELECT sku, price FROM "analytics.product" ORDER BY sku').fetchall()
    counts = (str(result[f"rows_{word}"]) for word in ("inserted", "updated", "unchanged", "deleted"))
    table.add_row("\n".join(f"{sku!r} {price}" for sku, _, price in products), *counts, "\n".join(map(str, rows)))
    table.add_section()
Console(width=110).print(table)
assert rows == [("DESK-1", 165), ("LAMP-1", 25), ("VASE-1", 12.5)]
