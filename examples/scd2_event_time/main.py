"""Keep history by the time things happened, and repair it when an event arrives late."""
# ruff: noqa: N801 - a connection is written as pipelines name it

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ematix_flow import Annotated, BigInt, Text, TimestampTZ, ematix, pk

FOLDER = tempfile.TemporaryDirectory()
DATABASE = Path(FOLDER.name) / "crm.db"


@ematix.connection
class crm:
    kind = "sqlite"
    path = str(DATABASE)


@ematix.table(schema="analytics")
class Plan:
    customer_id: Annotated[BigInt, pk()]
    plan: Text
    happened_at: TimestampTZ


@ematix.pipeline(
    target=Plan, mode="scd2", target_connection="crm", event_timestamp_column="happened_at", late_events="insert"
)
def plan_history(source):
    return "SELECT customer_id, plan, happened_at FROM raw.events"


table = Table("after", "plan", "valid_from", "valid_to")
for name, events in {
    "two events in one batch": [(1, "free", "2026-01-01"), (1, "team", "2026-03-01")],
    "the same events again": [(1, "free", "2026-01-01"), (1, "team", "2026-03-01")],
    "a late event": [(1, "pro", "2026-02-01")],
}.items():
    with sqlite3.connect(DATABASE) as database:
        database.execute('DROP TABLE IF EXISTS "raw.events"')
        database.execute('CREATE TABLE "raw.events" (customer_id INTEGER, plan TEXT, happened_at TEXT)')
        database.executemany('INSERT INTO "raw.events" VALUES (?, ?, ?)', events)
    plan_history.run()
    query = 'SELECT plan, valid_from, valid_to FROM "analytics.plan" ORDER BY valid_from'
    history = database.execute(query).fetchall()
    for plan, begins, ends in history:
        table.add_row(name, plan, begins[:10], ends[:10] if ends else "—")
    table.add_section()
Console(width=90).print(table)
assert [plan for plan, _, _ in history] == ["free", "pro", "team"]
