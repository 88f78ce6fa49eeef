"""What only Iceberg tables have: one move of the main branch for each load, other programs, catalogs, and a fence."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from pyiceberg.table import StaticTable

from ematix_flow.backends.iceberg import IcebergBackend
from ematix_flow.backends.iceberg_log import IcebergLog, IcebergState, folder_metadata
from ematix_flow.backends.owner import current_owner
from ematix_flow.connections import IcebergConnection
from ematix_flow.errors import CheckError, ConfigError, ConflictError, ConnectError, DriftError, UnknownNameError
from ematix_flow.spec.place import Query, TableRef
from ematix_flow.strategies.base import Append, Upsert
from tests.backends.conftest import BY_NAME
from tests.backends.lab import TARGET, Lab, Lane
from tests.backends.open_load import apply, opened, race

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture
def iceberg(tmp_path: Path, session: Callable[[], SparkSession]) -> Iterator[Lab]:
    iceberg = Lab(Lane(BY_NAME["iceberg"], "spark", BY_NAME["memory"]), tmp_path, session)
    with iceberg.project.workshop.bench():
        yield iceberg
    iceberg.close()


def metadata(iceberg: Lab) -> Any:
    return folder_metadata(iceberg.target.folder(TARGET))  # type: ignore[attr-defined]


def other_reader(iceberg: Lab) -> StaticTable:
    home = iceberg.target.folder(TARGET) / "metadata"  # type: ignore[attr-defined]
    return StaticTable.from_metadata(str(home / f"v{(home / 'version-hint.text').read_text()}.metadata.json"))


def seen(iceberg: Lab, *names: str) -> list[tuple[object, ...]]:
    """The rows as a program sees them that is not Spark."""
    rows = other_reader(iceberg).scan().to_arrow().sort_by("id").to_pylist()
    return [tuple(row[name] for name in names) for row in rows]


def by_others(iceberg: Lab, sql: str) -> None:
    """A statement of somebody else, on the table `{table}`."""
    target: Any = iceberg.target
    spark = iceberg.project.workshop.spark()
    target.catalog.register(spark)
    spark.sql(sql.format(table=target.sql_name(TARGET))).collect()


def operations(iceberg: Lab) -> list[str]:
    """What led to the main branch, the oldest first."""
    snapshots = other_reader(iceberg).metadata.snapshots
    known = {each.snapshot_id: each for each in snapshots}
    found, at = [], metadata(iceberg)["current-snapshot-id"]
    while at is not None:
        found.append(str(known[at].summary.operation.value))  # type: ignore[union-attr]
        at = known[at].parent_snapshot_id
    return found[::-1]


def test_every_load_is_one_snapshot_that_other_readers_see_whole(iceberg: Lab) -> None:
    iceberg.defaults = {"mode": "merge", "dunders": {"__partition_columns__": ("city",)}}
    iceberg("id | city | v", "1 | Bern | a", "2 | '' | b")
    iceberg("id | city | v", "1 | Bern | A", "3 | Bern | c")
    iceberg("id | city | v", "1 | Bern | A")  # changes nothing
    assert operations(iceberg) == ["append", "overwrite", "append"]
    assert seen(iceberg, "id", "city", "v") == [(1, "Bern", "A"), (2, "", "b"), (3, "Bern", "c")]
    read = iceberg.target.read(Query("SELECT MAX(id) AS id FROM shop.customer WHERE city = 'Bern'"))
    assert [tuple(row) for row in read.collect()] == [(3,)]
    assert list(metadata(iceberg)["refs"]) == ["main"]
    assert [field.name for field in other_reader(iceberg).spec().fields] == ["city"]
    with pytest.raises(DriftError, match="partitioned in another way"):
        iceberg("id | city | v", "1 | Bern | A", dunders={})
    with pytest.raises(UnknownNameError, match=r"shop\.customer"):
        iceberg.target.read(TableRef("shop", "customers"))


def test_branches_of_dead_loads_are_removed_and_others_stay(iceberg: Lab) -> None:
    iceberg("id | v", "1 | a", mode="append")
    host, _, start = (quote(part, safe="") for part in current_owner().rsplit(":", 2))
    dead, alive = f"ematix_flow~{host}~999999999~1~run", f"ematix_flow~{host}~{os.getpid()}~{start}~run"
    for branch in (dead, alive, "theirs"):
        by_others(iceberg, f"ALTER TABLE {{table}} CREATE BRANCH `{branch}`")
    iceberg("id | v", "2 | b", mode="append")
    assert set(metadata(iceberg)["refs"]) == {"main", alive, "theirs"}


def test_a_merge_adds_and_widens_columns(iceberg: Lab) -> None:
    iceberg.defaults = {"mode": "merge"}
    iceberg("id | n:SmallInt | p:Numeric[4,1]", "1 | 5 | 1.5", "2 | 6 | 2.5")
    with iceberg.refused(DriftError, r"'p' is Numeric\[4, 1\], and in Iceberg its scale stays"):
        iceberg("id | n:SmallInt | p:Numeric[8,3]", "2 | 7 | 2.5", on_drift="evolve")
    # What a load leaves that died before its rows: a column that nobody has filled.
    by_others(iceberg, "ALTER TABLE {table} ADD COLUMNS (`when it was` TIMESTAMP_NTZ)")
    header = "id | n:BigInt | p:Numeric[8,1] | when it was:Timestamp"
    result = iceberg(header, "2 | 6000000000 | 2.5 | 2026-01-05 10:00:00", on_drift="evolve")
    assert result.drift == [
        "widened column 'n' from SmallInt to BigInt",
        "widened column 'p' from Numeric[4, 1] to Numeric[8, 1]",
    ]
    assert iceberg.rows("id", "n", "when it was") == [(1, 5, None), (2, 6_000_000_000, "2026-01-05T10:00:00")]


def test_a_table_of_somebody_else_takes_loads_and_stays_theirs(iceberg: Lab) -> None:
    by_others(
        iceberg,
        "CREATE TABLE {table} (id BIGINT, v STRING, tags ARRAY<STRING>, _loaded_at TIMESTAMP, _batch_id STRING) "
        "USING iceberg PARTITIONED BY (days(_loaded_at))",
    )
    iceberg.defaults = {"mode": "append", "on_drift": "ignore"}
    iceberg("id | v", "2 | b")  # the table had no snapshot
    by_others(iceberg, "INSERT INTO {table} VALUES (1, 'a', array('x'), current_timestamp(), 'theirs')")
    iceberg("id | v", "2 | B", mode="merge")
    assert seen(iceberg, "id", "v", "tags") == [(1, "a", ["x"]), (2, "B", None)]
    by_others(iceberg, "INSERT INTO {table} VALUES (1, 'twice', array('x'), current_timestamp(), 'theirs')")
    with iceberg.refused(CheckError, r"several rows for one key \(id\)"):
        iceberg("id | v", "1 | c", mode="merge")


def test_of_two_loads_from_one_state_the_second_conflicts(iceberg: Lab) -> None:
    with opened(iceberg, "first", (1, "a")) as first:
        apply(first, Append)
    late = opened(iceberg, "late", (2, "late"))
    apply(late.__enter__(), Append)
    with opened(iceberg, "quick", (1, "quick")) as quick:
        apply(quick, Upsert)
    with pytest.raises(ConflictError, match="committed first") as caught:
        late.__exit__(None, None, None)
    assert caught.value.transient
    with opened(iceberg, "quick", (3, "again")) as again:
        assert again.replayed
    # One that has looked at the table gives way to somebody else, too; rows that are only added have not looked.
    late = opened(iceberg, "late", (2, "late"))
    apply(late.__enter__(), Upsert)
    with opened(iceberg, "added", (3, "ours")) as added:
        apply(added, Append)
        by_others(iceberg, "INSERT INTO {table} VALUES (4, 'theirs')")
    with pytest.raises(ConflictError):
        late.__exit__(None, None, None)
    assert seen(iceberg, "id", "v") == [(1, "quick"), (3, "ours"), (4, "theirs")]


class LastLook(IcebergLog):
    """A log that lets something happen after a load has looked at it in its turn: for the last time."""

    def __init__(self, log: IcebergLog, then: Callable[[], None]) -> None:
        self.__dict__.update(log.__dict__)
        self.then, self.is_turn = then, False

    @contextmanager
    def turn(self) -> Iterator[None]:
        with super().turn():
            self.is_turn = True
            yield

    def state(self) -> IcebergState:
        found = super().state()
        if self.is_turn:
            self.is_turn = False
            self.then()
        return found


class Meddled(IcebergBackend):
    """A backend with such logs."""

    then: Callable[[], None]

    def log(self, table: TableRef) -> IcebergLog:
        return LastLook(super().log(table), self.then)


def test_somebody_who_writes_in_the_last_moment_is_not_overlooked(iceberg: Lab) -> None:
    with opened(iceberg, "first", (1, "a")) as first:
        apply(first, Append)
    target: Any = iceberg.target
    iceberg.target = meddled = Meddled(target.connection, target.workshop)
    meddled.then = lambda: by_others(iceberg, "UPDATE {table} SET v = 'theirs'")
    with pytest.raises(ConflictError), opened(iceberg, "late", (1, "late")) as late:
        apply(late, Upsert)
    iceberg.target = target
    assert seen(iceberg, "id", "v") == [(1, "theirs")]
    assert list(metadata(iceberg)["refs"]) == ["main"]


def test_of_loads_that_race_each_is_whole_or_gives_way(iceberg: Lab) -> None:
    for names in (("one", "two"), ("three", "four")):  # the table is made, and then there
        loads = [opened(iceberg, name, (number, name)) for number, name in enumerate(names)]
        for each in loads:
            apply(each.__enter__(), Append)
        assert race(loads) == ["committed", "gave way"]
    assert len(seen(iceberg, "id")) == 2
    assert len(iceberg.runs()) == 2


def test_a_catalog_in_a_database_serves_as_well(tmp_path: Path, session: Callable[[], SparkSession]) -> None:
    def connect(name: str, folder: Path) -> IcebergConnection:
        uri = f"jdbc:sqlite:{folder / 'catalog.db'}"
        return IcebergConnection(name, str(folder / "tables"), catalog="jdbc", uri=uri)

    system = replace(BY_NAME["iceberg"], connect=connect)
    lab = Lab(Lane(system, "spark", BY_NAME["memory"]), tmp_path, session, mode="merge")
    (tmp_path / "target").mkdir(exist_ok=True)
    with lab.project.workshop.bench():
        lab("id | v", "1 | a", "2 | b")
        lab("id | v", "2 | B", "3 | c", token="twice")
        assert lab("id | v", "9 | x", token="twice").replayed
        frame = lab.target.read(TARGET)
        assert sorted((row["id"], row["v"]) for row in frame.collect()) == [(1, "a"), (2, "B"), (3, "c")]
        assert lab.target.ping().endswith("1 table")
        # Two catalogs cannot have one name in one session.
        other: Any = replace(lab.target.connection, uri="jdbc:sqlite:/nowhere/else.db")  # type: ignore[type-var]
        with pytest.raises(ConfigError, match="another catalog called"):
            other.open(lab.project.workshop).columns(TARGET)
        lost: Any = replace(other, name="lost")
        with pytest.raises(ConnectError, match="does not answer"):
            lost.open(lab.project.workshop).ping()
    lab.close()
