"""Load a folder of CSV files into DuckDB: two systems, so Spark moves the rows."""
# ruff: noqa: N801, RUF012 - a connection is written as pipelines name it, and its class is read once

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from ematix_flow import Annotated, BigInt, Date, Numeric, Text, ematix, pk
from ematix_flow.normalize import parse_date, trim, upper

FOLDER = tempfile.TemporaryDirectory()
LAKE, DATABASE = Path(FOLDER.name, "lake"), str(Path(FOLDER.name, "warehouse.duckdb"))


@ematix.connection
class lake:
    kind = "object_store_local"
    path = str(LAKE)
    format = "csv"
    options = {"delimiter": ";"}


@ematix.connection
class warehouse:
    kind, path = "duckdb", DATABASE


@ematix.table(schema="analytics")
class Payment:
    payment_id: Annotated[BigInt, pk()]
    paid_on: Annotated[Date, parse_date()]
    currency: Annotated[Text, trim(), upper()]
    amount: Numeric[12, 2]


# The table raw.payments is the folder raw/payments of the connection.
@ematix.pipeline(target=Payment, mode="append", source_connection="lake", target_connection="warehouse")
def load_payments(source):
    return "SELECT * FROM raw.payments"


FILES = {
    "monday.csv": "payment_id;paid_on;currency;amount\n1;2026-01-05;eur;10.00\n2;01/05/2026; usd;7.25\n",
    "tuesday.csv": "payment_id;paid_on;currency;amount\n3;20260106;EUR ;99.90\n",
}
(LAKE / "raw" / "payments").mkdir(parents=True)
for name, text in FILES.items():
    (LAKE / "raw" / "payments" / name).write_text(text)
result = load_payments.run()
table = Table("payment_id", "paid_on", "currency", "amount", title=f"{result['rows_inserted']} rows, {result['path']}")
for row in duckdb.connect(DATABASE).execute("SELECT COLUMNS('^[a-z]') FROM analytics.payment ORDER BY 1").fetchall():
    table.add_row(*map(str, row))
Console(width=80).print(table)
assert table.row_count == 3
