"""Any source pairs with any target: each system gives rows to two others, and takes rows from two others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.backends.conftest import BY_NAME
from tests.backends.lab import Lab, Lane
from tests.backends.test_contract_types import columns_for, comparable, rows_for

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


DATABASES = ("sqlite", "duckdb", "postgres", "mysql")
COPIED = [(source, target) for source in DATABASES for target in DATABASES if source != target]


def no_spark() -> NoReturn:
    raise AssertionError("rows go from one database to another without Spark")


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(("source", "target"), COPIED, ids=[f"{source}-to-{target}" for source, target in COPIED])
def test_every_value_goes_from_one_database_to_another_without_spark(source: str, target: str, tmp_path: Path) -> None:
    lab = Lab(Lane(BY_NAME[target], "copied", BY_NAME[source]), tmp_path, no_spark, mode="merge")
    types = columns_for(lab)
    rows = rows_for(types)
    result = lab.load(types, rows)
    assert (result.rows_inserted, result.path) == (len(rows), "cross_db")
    assert comparable(lab.table(), types) == comparable(rows, types)
    assert lab.load(types, rows).rows_unchanged == len(rows)
    found = lab.project.validate(lab.pipeline())
    assert found.errors == ()
    lab.close()


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize("target", DATABASES)
def test_rows_brought_from_elsewhere_can_be_looked_at_again_and_again(target: str, tmp_path: Path) -> None:
    lab = Lab(Lane(BY_NAME[target], "copied"), tmp_path, no_spark)
    with lab.target.creating() if hasattr(lab.target, "creating") else nullcontext():
        lab.target.execute(["CREATE TABLE made (id INTEGER)"])
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "rows.parquet")
    with lab.project.workshop.bench(), lab.target.hold():
        brought = lab.target.bring(tmp_path)
        for _ in range(2):
            assert lab.target.evaluate(f"SELECT SUM(id) FROM ({brought.sql}) AS r", attach=brought.attach)[0][0] == 3
    lab.close()
