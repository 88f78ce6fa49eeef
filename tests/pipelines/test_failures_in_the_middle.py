"""Loads that fail after they have begun to write: what they did before is undone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ematix_flow.decorators import ematix
from ematix_flow.errors import BackendError
from tests.pipelines.shop import Customer, Shop, everywhere

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
DEFINITION = {
    "duckdb": "SELECT sql FROM duckdb_tables() WHERE table_name = 'customer'",
    "sqlite": "SELECT sql FROM sqlite_master WHERE type = 'table' AND name LIKE '%customer'",
}
"""How a table was made, in databases that add no check to one that is there."""


def refuse_an_id(shop: Shop, refused: int) -> None:
    """Empty the table, and let the database itself refuse one id while rows are written."""
    check = f"CHECK (id <> {refused})"
    if shop.kind not in DEFINITION:
        shop.tell("DELETE FROM main.customer")
        shop.tell(f"ALTER TABLE main.customer ADD CONSTRAINT no_such_customer {check}")
        return
    ((definition,),) = shop.ask(DEFINITION[shop.kind])
    shop.tell("DROP TABLE main.customer")
    shop.tell(str(definition).replace("NOT NULL", f"NOT NULL {check}", 1))


@everywhere
def test_a_load_with_a_time_to_live_that_fails_leaves_expired_versions_open(shop: Shop) -> None:
    def run(hours: int, source: str) -> dict[str, object]:
        @ematix.pipeline(target=Customer, mode="scd2", ttl="1h")
        def people(_source):
            return source

        return shop.project.run(people.pipeline, now=NOON + timedelta(hours=hours))

    everybody = "SELECT 1 AS id, 'Ada' AS name UNION ALL SELECT 2, 'Bob'"
    run(0, everybody)
    refuse_an_id(shop, 9)
    run(1, everybody)
    before = shop.ask("SELECT * FROM main.customer ORDER BY id")
    with pytest.raises(BackendError, match=r"(?i)constraint"):
        run(9, "SELECT 2 AS id, 'Bobby' AS name UNION ALL SELECT 9, 'Zoe'")
    assert shop.ask("SELECT * FROM main.customer ORDER BY id") == before
    assert run(9, "SELECT 2 AS id, 'Bobby' AS name")["closed_ttl"] == 1
