"""Any source pairs with any target: each system gives rows to two others, and takes rows from two others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.backends.conftest import BY_NAME
from tests.backends.lab import Lab, Lane

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RING = (
    "sqlite", "duckdb", "postgres", "parquet", "mysql", "sqlite_memory", "orc", "memory", "csv", "duckdb_memory",
    "json_lines",
)  # fmt: skip
PAIRS = [(source, RING[(at + step) % len(RING)]) for step in (1, 3) for at, source in enumerate(RING)]


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=[f"{source}-to-{target}" for source, target in PAIRS])
def test_rows_go_from_one_system_to_another(
    source: str, target: str, tmp_path: Path, session: Callable[[], SparkSession]
) -> None:
    lab = Lab(Lane(BY_NAME[target], "spark", BY_NAME[source]), tmp_path, session)
    lab.defaults = {"mode": "truncate" if lab.lane.system.gaps else "merge"}
    header = "id | name | n:Integer | at"
    lab(header, "1 | Ada, née 🙂 | 5 | 09:00", "2 | Bob | NULL | 10:00:00.000001")
    result = lab(header, "1 | Ada, née 🙂 | 6 | 09:00", "2 | Bob | NULL | 10:00:00.000001", "3 | Cy | 7 | 11:00")
    assert result.rows_inserted == (3 if lab.lane.system.gaps else 1)
    assert result.path == "cross_db"
    assert lab.rows() == [
        (1, "Ada, née 🙂", 6, "09:00"),
        (2, "Bob", None, "2026-01-05T10:00:00.000001+00:00"),
        (3, "Cy", 7, "11:00"),
    ]
    lab.close()
