"""The pipeline of the benchmark as a user writes it; two releases run the same file by `flow run orders`.

The columns come as JSON in the variable BENCH_COLUMNS: names with their types in PostgreSQL.
"""

from __future__ import annotations

import json
import os
from typing import Annotated

from ematix_flow import ematix, pk
from ematix_flow.types import BigInt, Boolean, Date, Double, Integer, Text, TimestampTZ

TYPES = {
    "BIGINT": BigInt, "BOOLEAN": Boolean, "DATE": Date, "DOUBLE PRECISION": Double, "INTEGER": Integer, "TEXT": Text,
    "TIMESTAMPTZ": TimestampTZ,
}  # fmt: skip
COLUMNS = {name: TYPES[declared] for name, declared in json.loads(os.environ["BENCH_COLUMNS"]).items()}
COLUMNS["id"] = Annotated[BigInt, pk()]

Orders = ematix.table(schema="mart", name="orders")(type("Orders", (), {"__annotations__": COLUMNS}))


@ematix.pipeline(target=Orders, mode="append", source_connection="source", target_connection="target")
def orders(source: object, target: object) -> str:
    return "SELECT * FROM raw.orders"
