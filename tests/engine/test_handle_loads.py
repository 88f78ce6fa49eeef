"""Loads and records that are asked of a handle: the four modes, other systems as sources, steps done by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pytest

from ematix_flow import ManagedTable, pk
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import DuckDBConnection, MemoryConnection, ObjectStoreLocalConnection, SQLiteConnection
from ematix_flow.engine.handle import Handle
from ematix_flow.errors import CheckError, RunError, SpecError, SpecTypeError
from ematix_flow.normalize import trim
from ematix_flow.source import Source
from ematix_flow.spec.place import TableRef
from ematix_flow.types import BigInt, Text

KINDS = {"duckdb": DuckDBConnection, "sqlite": SQLiteConnection}
ROWS = "SELECT 1 AS id, ' Ada ' AS name UNION ALL SELECT 2, 'Bob'"


class Person(ManagedTable):
    __schema__, __tablename__ = "main", "person"
    id: Annotated[BigInt, pk()]
    name: Annotated[Text, trim()]


def no_spark() -> None:
    raise AssertionError("these loads need no Spark")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(no_spark, tmp_path / "scratch")


@pytest.fixture(params=sorted(KINDS))
def handle(request: pytest.FixtureRequest, workshop: Workshop, tmp_path: Path) -> Handle:
    return Handle(KINDS[request.param]("shop", str(tmp_path / "shop.db")).open(workshop))


def names(handle: Handle) -> list[object]:
    return [row[0] for row in handle.query("SELECT name FROM main.person ORDER BY id, name")["rows"]]


# ── loads ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("mode", "inserted"), [("append", 2), ("truncate", 2), ("merge", 2), ("scd2", 2)])
def test_each_mode_has_its_method_and_cleans_like_a_pipeline(handle: Handle, mode: str, inserted: int) -> None:
    result = getattr(handle, f"run_{mode}")(Person, ROWS)
    assert (result.mode, result.rows_inserted, result.pipeline) == (mode, inserted, "main.person")
    assert names(handle) == ["Ada", "Bob"]
    (run,) = handle.backend.ledger.runs()
    assert (run.pipeline, run.mode, run.status) == ("main.person", mode, "success")


def test_a_second_load_follows_the_rules_of_its_mode(handle: Handle) -> None:
    handle.run_append(Person, ROWS)
    with pytest.raises(CheckError, match="id=1"):
        handle.run_append(Person, ROWS)
    changed = "SELECT 2 AS id, 'Bobby' AS name"
    assert handle.run_merge(Person, changed, keys=["id"], handle_deletes="hard").rows_deleted == 1
    assert handle.run_truncate(Person, ROWS).rows_inserted == 2


def test_a_history_keeps_the_old_version(handle: Handle) -> None:
    handle.run_scd2(Person, ROWS)
    result = handle.run_scd2(Person, "SELECT 2 AS id, 'Bobby' AS name")
    assert (result.rows_inserted, result.rows_closed, names(handle)) == (1, 1, ["Ada", "Bob", "Bobby"])


@pytest.mark.parametrize("target", [Person._table(), Person._to_spec(), json.dumps(Person._to_spec())])
def test_the_table_may_be_given_in_every_form_that_ensure_table_takes(handle: Handle, target: object) -> None:
    assert handle.run_merge(target, ROWS).rows_inserted == 2


@pytest.mark.parametrize(
    "source",
    [pa.table({"id": [7], "name": ["Cy"]}), TableRef("main", "raw"), Source("shop", "SELECT id, name FROM main.raw")],
    ids=["frame", "table", "named source"],
)
def test_the_source_is_what_a_function_may_return(handle: Handle, source: object) -> None:
    handle.execute("CREATE TABLE main.raw AS SELECT 7 AS id, 'Cy' AS name")
    assert handle.run_append(Person, source).rows_inserted == 1
    assert names(handle) == ["Cy"]


def test_a_dry_load_counts_and_leaves_nothing(handle: Handle, tmp_path: Path) -> None:
    result = handle.run_merge(Person, ROWS, dry_run=True, pipeline_name="try")
    assert (result.status, result.rows_inserted, result.pipeline) == ("dry_run", 2, "try")
    assert not (tmp_path / "shop.db").exists()


@pytest.mark.parametrize(
    ("options", "kind", "match"),
    [
        ({"transforms_post": ["VACUUM"]}, SpecTypeError, "no keyword 'transforms_post'"),
        ({"target_connection": "other"}, SpecTypeError, "no keyword 'target_connection'"),
        ({"kyes": ["id"]}, SpecTypeError, "no keyword 'kyes'"),
        ({"ttl": "5m"}, SpecError, "ttl= is for mode scd2"),
    ],
)
def test_options_are_checked_before_anything_is_opened(
    handle: Handle, tmp_path: Path, options: Any, kind: type[Exception], match: str
) -> None:
    with pytest.raises(kind, match=match):
        handle.run_merge(Person, ROWS, **options)
    assert not (tmp_path / "shop.db").exists()


def test_what_is_no_source_is_refused(handle: Handle) -> None:
    with pytest.raises(SpecTypeError, match="a dictionary is no source"):
        handle.run_append(Person, {"id": 1})
    with pytest.raises(SpecError, match=r"in connection 'other', by name[^\n]*\nHint: open it: Source\(connect"):
        handle.run_append(Person, Source("other", ROWS))


@pytest.mark.slow
def test_rows_come_from_another_handle(spark: Any, tmp_path: Path) -> None:
    workshop = Workshop(lambda: spark, tmp_path / "scratch")
    there = Handle(SQLiteConnection("there", str(tmp_path / "there.db")).open(workshop))
    here = Handle(DuckDBConnection("here", str(tmp_path / "here.db")).open(workshop))
    there.execute("CREATE TABLE people AS SELECT 1 AS id, 'Ada' AS name")
    result = here.run_merge(Person, Source(there, "SELECT id, name FROM people"))
    assert (result.rows_inserted, result.path, names(here)) == (1, "cross_db", ["Ada"])


# ── bookmarks and steps ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_bookmark_says_since_when_it_stands(handle: Handle) -> None:
    before = datetime.now(UTC)
    handle.run_append(Person, ROWS, incremental_column="id", pipeline_name="people")
    mark = handle.read_watermark("people") or {}
    assert (mark["column_name"], mark["last_value"]) == ("id", "2")
    assert mark["updated_at"].endswith("Z")
    assert before <= datetime.fromisoformat(mark["updated_at"]) <= datetime.now(UTC)


LEDGERS: dict[str, Callable[[Path], Any]] = {
    "duckdb": lambda folder: DuckDBConnection("shop", str(folder / "shop.db")),
    "sqlite": lambda folder: SQLiteConnection("shop", str(folder / "shop.db")),
    "files": lambda folder: ObjectStoreLocalConnection("lake", str(folder / "lake"), "parquet"),
    "memory": lambda folder: MemoryConnection(f"memory-{folder.name}"),
}
PARENT = "6a8f3f5e-8f0d-4f4b-9a55-0d3c0f7c9f10"


@pytest.mark.parametrize("kind", sorted(LEDGERS))
def test_a_step_done_by_hand_stands_in_the_history(kind: str, workshop: Workshop, tmp_path: Path) -> None:
    handle = Handle(LEDGERS[kind](tmp_path).open(workshop))
    done = handle.record_transform_history(
        PARENT, "people", "index", "transform_success", "main", "person", metrics_json={"rows": 7}
    )
    failed = handle.record_transform_history(None, "people", "index", "transform_failed", error="no such table")
    runs = {run.run_id: run for run in handle.backend.ledger.runs(pipeline="people")}
    assert (runs[done].parent_run_id, runs[done].step_name, runs[done].status) == (PARENT, "index", "transform_success")
    assert (runs[done].mode, runs[done].path, runs[done].schema, runs[done].table) == (
        "transform", "post", "main", "person",
    )  # fmt: skip
    assert json.loads(str(runs[done].metrics_json)) == {"rows": 7}
    assert (runs[failed].status, runs[failed].error, runs[failed].table) == ("transform_failed", "no such table", "")
    assert runs[failed].finished_at is not None


@pytest.mark.parametrize(
    ("parent", "status", "metrics", "match"),
    [
        ("monday", "transform_success", None, "'monday' is not the id of a run"),
        (PARENT, "success", None, r"the status 'success'\n.*transform_success"),
        (PARENT, "transform_success", "{", "no JSON"),
    ],
)
def test_a_step_that_cannot_be_right_is_not_recorded(
    handle: Handle, tmp_path: Path, parent: str, status: Any, metrics: Any, match: str
) -> None:
    with pytest.raises(SpecError, match=match):
        handle.record_transform_history(parent, "people", "index", status, metrics_json=metrics)
    assert not (tmp_path / "shop.db").exists()


def test_a_preview_loads_and_records_nothing(handle: Handle) -> None:
    closed = Handle(handle.backend, live=False)
    for ask in (
        lambda: closed.run_append(Person, ROWS),
        lambda: closed.record_transform_history(None, "p", "s", "transform_success"),
    ):
        with pytest.raises(RunError, match="a preview opens nothing"):
            ask()
