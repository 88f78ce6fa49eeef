"""The table of systems under test, and one lab per test for each system and path that can do the test's mode.

To put a system under the contract, add its row to `SYSTEMS`. What it cannot do stands beside it, with the exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ematix_flow.connections import (
    DeltaLocalConnection,
    DuckDBConnection,
    IcebergConnection,
    MemoryConnection,
    MySQLConnection,
    ObjectStoreLocalConnection,
    PostgresConnection,
    SQLiteConnection,
)
from ematix_flow.errors import UnsupportedError
from ematix_flow.spec.connection import Connection
from ematix_flow.types import Bytes
from tests.backends.lab import Lab, Lane, System
from tests.servers import empty_mysql, empty_postgres, forget_databases, next_database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST_OF_1969 = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
NO_ROW_CHANGES = {"merge": UnsupportedError, "scd1": UnsupportedError, "scd2": UnsupportedError}


def files(format: str) -> Callable[[str, Path], Connection]:
    return lambda name, folder: ObjectStoreLocalConnection(name, str(folder / "tables"), format)


SYSTEMS = (
    System("duckdb", lambda name, folder: DuckDBConnection(name, str(folder / "shop.duckdb")), pushed=True),
    System("duckdb_memory", lambda name, _: DuckDBConnection(name, ":memory:"), pushed=True),
    System(
        "sqlite", lambda name, folder: SQLiteConnection(name, str(folder / "shop.db")), pushed=True, keeps_nan=False
    ),
    System("sqlite_memory", lambda name, _: SQLiteConnection(name, ":memory:"), pushed=True, keeps_nan=False),
    System(
        "postgres",
        lambda name, _: PostgresConnection(name, empty_postgres(next_database())),
        pushed=True,
        marks=(pytest.mark.server,),
    ),
    System(
        "mysql",
        lambda name, _: MySQLConnection(name, empty_mysql(next_database())),
        pushed=True,
        keeps_nan=False,
        keeps_infinity=False,
        marks=(pytest.mark.server,),
    ),
    System("memory", lambda name, _: MemoryConnection(name)),
    System("delta", lambda name, folder: DeltaLocalConnection(name, str(folder / "tables")), is_folder=True),
    System("iceberg", lambda name, folder: IcebergConnection(name, str(folder / "tables")), is_folder=True),
    System("parquet", files("parquet"), is_folder=True, gaps=NO_ROW_CHANGES),
    # The ORC library moves fractions of the last second before 1970 by a second.
    System(
        "orc", files("orc"), is_folder=True, gaps=NO_ROW_CHANGES, lost_names=("back`tick",), lost_values=(LAST_OF_1969,)
    ),
    System("json_lines", files("json_lines"), is_folder=True, gaps=NO_ROW_CHANGES),
    System("csv", files("csv"), is_folder=True, gaps=NO_ROW_CHANGES, refused_types=(Bytes,)),
)
BY_NAME = {system.name: system for system in SYSTEMS}

LANES = (
    *(Lane(system, "pushed") for system in SYSTEMS if system.pushed),
    *(Lane(system, "copied") for system in SYSTEMS if system.pushed),
    *(Lane(system, "spark") for system in SYSTEMS if not system.is_folder),
    # Folders can be a source too, but rows in memory are seeded faster.
    *(Lane(system, "spark", BY_NAME["memory"]) for system in SYSTEMS if system.is_folder),
)
USUAL = {
    "pushed": ("duckdb_memory", "sqlite", "postgres", "mysql"),
    "copied": ("postgres",),
    "spark": ("memory", "parquet"),
}
"""The systems that every test runs on, each way of rows; tests that say `everywhere` run on all of them."""

SAMPLES = {
    "delta": (
        "test_a_resumed_load_takes_what_is_new_and_keeps_its_bookmark",
        "test_a_repeated_token_changes_nothing_and_says_so",
        "test_a_row_that_returns_after_a_soft_delete_opens_a_new_version",
        "test_evolve_widens_a_column_inside_the_load",
        "test_every_value_comes_back_as_it_was_given",
        "test_hard_deletes_remove_keys_that_the_source_no_longer_has",
        "test_late_events_can_be_inserted_and_the_timeline_is_repaired",
        "test_new_rows_take_the_place_of_all_old_ones",
        "test_reserved_words_quotes_and_other_alphabets_are_names_like_any_other",
    ),
    # What the loads into both formats share is shown by the other one.
    "iceberg": (
        "test_a_resumed_load_takes_what_is_new_and_keeps_its_bookmark",
        "test_every_value_comes_back_as_it_was_given",
        "test_new_rows_take_the_place_of_all_old_ones",
        "test_reserved_words_quotes_and_other_alphabets_are_names_like_any_other",
        "test_soft_deletes_mark_keys_that_the_source_no_longer_has",
        "test_versions_open_close_and_stay",
    ),
}
"""Every load into these systems takes seconds, so a few tests stand for all; without its row a system does all."""


def _is_twin(lane: Lane, module: str) -> bool:
    """Whether another lane shows the same: few modules are enough for it.

    Rows from outside go into a database in memory as into a file; and those that Spark wrote down go into a database
    as those do that were copied.
    """
    if lane.path != "pushed" and lane.system.name in ("duckdb_memory", "sqlite_memory"):
        return not module.endswith("test_contract_append")
    if lane.path == "spark" and lane.system.pushed:
        return not module.endswith(("test_contract_append", "test_contract_types", "test_contract_merge", "test_fence"))
    return False


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `lab` runs on the lanes that can do the `MODE` of its module; only pushed lanes are fast."""
    if "lab" not in metafunc.fixturenames:
        return
    mode = getattr(metafunc.module, "MODE", None)
    whole = getattr(metafunc.function, "everywhere", False)
    concerned = getattr(metafunc.function, "concerned", lambda lane: True)
    lanes = [lane for lane in LANES if mode not in lane.system.gaps and (whole or lane.system.name in USUAL[lane.path])]
    lanes = [lane for lane in lanes if concerned(lane) and not _is_twin(lane, metafunc.module.__name__)]
    name = metafunc.function.__name__
    lanes = [lane for lane in lanes if name in SAMPLES.get(lane.system.name, (name,))]
    marks = {"pushed": (), "copied": (pytest.mark.slow,), "spark": (pytest.mark.slow,)}
    metafunc.parametrize(
        "lane", [pytest.param(lane, id=str(lane), marks=(*marks[lane.path], *lane.system.marks)) for lane in lanes]
    )


@pytest.fixture(autouse=True)
def _databases() -> Iterator[None]:
    yield
    forget_databases()


@pytest.fixture
def lab(lane: Lane, tmp_path: Path, session: Callable[[], SparkSession]) -> Iterator[Lab]:
    lab = Lab(lane, tmp_path, session)
    yield lab
    lab.close()
