"""Append what is new: a bookmark on `placed_at` remembers how far the last load got."""
# ruff: noqa: N801 - a connection is written as pipelines name it

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ematix_flow import Annotated, BigInt, Numeric, TimestampTZ, ematix, pk

FOLDER = tempfile.TemporaryDirectory()
DATABASE = Path(FOLDER.name) / "shop.db"


@ematix.connection
class shop:
    kind = "sqlite"
    path = str(DATABASE)


@ematix.table(schema="analytics")
class Orders:
    order_id: Annotated[BigInt, pk()]
    placed_at: TimestampTZ
    amount: Numeric[10, 2]


# Source and target are one database, so the rows never leave it and Spark does not start.
@ematix.pipeline(target=Orders, mode="append", target_connection="shop", incremental_column="placed_at")
def new_orders(source):
    return "SELECT order_id, placed_at, amount FROM raw.orders"


def add(*orders: tuple[int, str, float]) -> None:
    with sqlite3.connect(DATABASE) as database:
        database.execute('CREATE TABLE IF NOT EXISTS "raw.orders" (order_id INTEGER, placed_at TEXT, amount REAL)')
        database.executemany('INSERT INTO "raw.orders" VALUES (?, ?, ?)', orders)


table = Table("load", "rows read", "rows inserted", "bookmark before", "bookmark after")
for name, orders in {
    "first": [(1, "2026-01-01 09:00:00", 19.9), (2, "2026-01-01 10:00:00", 5.0)],
    # Order 3 has the bookmark's own instant; it came after the first load, so it must not be lost.
    "second": [(3, "2026-01-01 10:00:00", 7.5), (4, "2026-01-02 08:30:00", 120.0)],
    "nothing new": [],
}.items():
    add(*orders)
    result = new_orders.run()
    marks = (str(result[f"watermark_{when}"] or "—")[:19] for when in ("before", "after"))
    table.add_row(name, str(result["rows_read"]), str(result["rows_inserted"]), *marks)
Console(width=100).print(table)
with sqlite3.connect(DATABASE) as database:
    loaded = database.execute('SELECT order_id FROM "analytics.orders" ORDER BY order_id').fetchall()
assert loaded == [(1,), (2,), (3,), (4,)], "every order is there, once"
