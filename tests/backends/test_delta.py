"""What only Delta tables have: one commit for each load, other programs that read and write them, and a fence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest

from ematix_flow.errors import CheckError, ConflictError, DriftError, UnknownNameError
from ematix_flow.spec.place import Query, TableRef
from ematix_flow.strategies.base import Append, Upsert
from tests.backends.conftest import BY_NAME
from tests.backends.lab import TARGET, Lab, Lane, clock
from tests.backends.open_load import apply, opened, race

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture
def delta(tmp_path: Path, session: Callable[[], SparkSession]) -> Iterator[Lab]:
    delta = Lab(Lane(BY_NAME["delta"], "spark", BY_NAME["memory"]), tmp_path, session)
    with delta.project.workshop.bench():
        yield delta
    delta.close()


def other_reader(delta: Lab) -> deltalake.DeltaTable:
    return deltalake.DeltaTable(delta.target.folder(TARGET))  # type: ignore[attr-defined]


def other_writer(delta: Lab, rows: pa.Table) -> None:
    folder = delta.target.folder(TARGET)  # type: ignore[attr-defined]
    folder.mkdir(parents=True, exist_ok=True)
    deltalake.write_deltalake(folder, rows, mode="append")


def test_every_load_is_one_commit_that_other_readers_see_whole(delta: Lab) -> None:
    delta.defaults = {"mode": "merge", "dunders": {"__partition_columns__": ("city",)}}
    with delta.refused(CheckError, "empty text in the column 'city'"):
        delta("id | city | v", "1 | '' | a")
    delta("id | city | v", "1 | Bern | a", "2 | Basel | b")
    delta("id | city | v", "1 | Bern | A", "3 | Bern | c")
    delta("id | city | v", "1 | Bern | A")  # changes nothing
    seen = other_reader(delta)
    assert [each["operation"] for each in seen.history()] == ["WRITE", "MERGE", "WRITE"]
    assert seen.metadata().partition_columns == ["city"]
    assert seen.transaction_version("ematix_flow") == 3
    rows = seen.to_pyarrow_table().sort_by("id").select(["id", "city", "v"]).to_pylist()
    assert rows == [
        {"id": 1, "city": "Bern", "v": "A"},
        {"id": 2, "city": "Basel", "v": "b"},
        {"id": 3, "city": "Bern", "v": "c"},
    ]
    assert (delta.folder / "target/tables/shop/customer/city=Bern").is_dir()
    read = delta.target.read(Query("SELECT MAX(id) AS id FROM shop.customer WHERE city = 'Bern'"))
    assert [tuple(row) for row in read.collect()] == [(3,)]
    with pytest.raises(DriftError, match="partitioned in another way"):
        delta("id | city | v", "1 | Bern | A", dunders={})
    with pytest.raises(UnknownNameError, match=r"shop\.customer"):
        delta.target.read(TableRef("shop", "customers"))


def test_a_table_of_somebody_else_takes_loads_and_stays_theirs(delta: Lab) -> None:
    stamps = {"_loaded_at": pa.array([clock("08:00")] * 2, pa.timestamp("us", "UTC")), "_batch_id": ["theirs"] * 2}
    theirs = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"], "tags": [["x"], ["y"]], **stamps})
    other_writer(delta, theirs)
    delta.defaults = {"mode": "merge"}
    with delta.refused(DriftError, "'tags' is in the table but not declared"):
        delta("id | v", "2 | B", "3 | c")
    delta.defaults["on_drift"] = "ignore"
    delta("id | v", "2 | B", "3 | c")
    other_writer(delta, theirs.slice(0, 1).set_column(0, "id", pa.array([4], pa.int64())))
    delta("id | v", "4 | d")
    rows = other_reader(delta).to_pyarrow_table().sort_by("id").to_pylist()
    assert [(row["id"], row["v"], row["tags"]) for row in rows] == [
        (1, "a", ["x"]),
        (2, "B", ["y"]),
        (3, "c", None),
        (4, "d", ["x"]),
    ]


def test_a_merge_adds_and_widens_columns_in_its_own_commit(delta: Lab) -> None:
    delta.defaults = {"mode": "merge"}
    delta("id | n:Integer", "1 | 5", "2 | 6")
    result = delta("id | n:BigInt | when it was:Timestamp", "2 | 6000000000 | 2026-01-05 10:00:00", on_drift="evolve")
    assert result.drift == ["added column 'when it was'", "widened column 'n' from Integer to BigInt"]
    assert delta.rows() == [(1, 5, None), (2, 6_000_000_000, "2026-01-05T10:00:00")]
    # What the table must be able to do is said in a commit of its own, before.
    operations = [each["operation"] for each in other_reader(delta).history()]
    assert operations == ["MERGE", "SET TBLPROPERTIES", "WRITE"]


def test_of_two_loads_from_one_state_the_second_conflicts(delta: Lab) -> None:
    with opened(delta, "first", (1, "a")) as first:
        apply(first, Append)
    late = opened(delta, "late", (2, "late"))
    apply(late.__enter__(), Append)
    with opened(delta, "quick", (1, "quick")) as quick:
        apply(quick, Upsert)
    with pytest.raises(ConflictError, match="committed first") as caught:
        late.__exit__(None, None, None)
    assert caught.value.transient
    assert other_reader(delta).to_pyarrow_table().to_pylist() == [{"id": 1, "v": "quick"}]
    with opened(delta, "quick", (3, "again")) as again:
        assert again.replayed


def test_a_load_that_looked_at_the_table_gives_way_to_somebody_who_wrote_meanwhile(delta: Lab) -> None:
    with opened(delta, "first", (1, "a")) as first:
        apply(first, Append)
    late = opened(delta, "late", (2, "late"))
    apply(late.__enter__(), Upsert)
    other_writer(delta, pa.table({"id": pa.array([2], pa.int64()), "v": ["theirs"]}))
    with pytest.raises(ConflictError):
        late.__exit__(None, None, None)
    assert other_reader(delta).to_pyarrow_table().num_rows == 2
    # Rows that are only added have looked at nothing.
    with opened(delta, "added", (3, "ours")) as added:
        apply(added, Append)
        other_writer(delta, pa.table({"id": pa.array([4], pa.int64()), "v": ["theirs"]}))
    assert sorted(other_reader(delta).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3, 4]


def test_a_key_that_the_table_holds_twice_is_refused(delta: Lab) -> None:
    other_writer(delta, pa.table({"id": pa.array([1, 1], pa.int64()), "v": ["a", "b"]}))
    one = opened(delta, "one", (1, "c"))
    apply(one.__enter__(), Upsert)
    with pytest.raises(CheckError, match=r"several rows for one key \(id\)"):
        one.__exit__(None, None, None)
    assert other_reader(delta).version() == 0


def test_of_loads_that_race_each_is_whole_or_gives_way(delta: Lab) -> None:
    loads = [opened(delta, name, (number, name)) for number, name in enumerate(("one", "two", "three"))]
    for each in loads:
        apply(each.__enter__(), Append)
    assert race(loads) == ["committed", "gave way", "gave way"]
    assert other_reader(delta).to_pyarrow_table().num_rows == 1
    (run,) = delta.runs()
    assert (run.status, run.finished_at) == ("success", None)
