"""Bring new orders from MySQL or MariaDB into PostgreSQL, without Spark, and only those that are new.

Needs two databases: `export EMATIX_FLOW_DSN=postgres://user:password@host/database` for the target, and
`export EMATIX_FLOW_DSN_SHOP=mysql://user:password@host/database` for the shop.
"""

from __future__ import annotations

from ematix_flow import Annotated, BigInt, Numeric, Text, TimestampTZ, ematix, pk
from ematix_flow.config import connect


@ematix.table(schema="analytics")
class Order:
    order_id: Annotated[BigInt, pk()]
    item: Text
    price: Numeric[10, 2]
    placed_at: TimestampTZ


@ematix.pipeline(target=Order, mode="append", source_connection="shop", incremental_column="order_id")
def orders(source):
    return "SELECT order_id, item, price, placed_at FROM orders"


shop, warehouse = connect("shop"), connect("default")
warehouse.execute("DROP SCHEMA IF EXISTS analytics CASCADE")
shop.execute("DROP TABLE IF EXISTS orders")
shop.execute("CREATE TABLE orders (order_id BIGINT, item VARCHAR(40), price DECIMAL(10, 2), placed_at TIMESTAMP(6))")

print(orders.preview().steps[0])
for placed in (
    "(1, 'lamp', 25.00, '2026-03-01 09:00:00'), (2, 'desk', 180.00, '2026-03-01 09:30:00.000001')",
    "(3, '🪴 plant', 12.50, '2026-03-02 10:00:00')",
):
    shop.execute(f"INSERT INTO orders VALUES {placed}")
    result = orders.run()
    print(f"{result.rows_inserted} new orders, up to {result.watermark_after}")

assert warehouse.query('SELECT order_id, item FROM analytics."order" ORDER BY 1')["rows"] == [
    [1, "lamp"],
    [2, "desk"],
    [3, "🪴 plant"],
]
