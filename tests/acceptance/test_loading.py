"""The documented language, part two: loads, transforms, frames and the command, as users run them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import pytest
from typer.testing import CliRunner

import ematix_flow.df  # noqa: F401 - gives handles their methods for frames
from ematix_flow import BigInt, Text, ematix, pk
from ematix_flow.cli.app import app
from ematix_flow.engine.handle import Handle
from ematix_flow.errors import PartialRunError
from ematix_flow.normalize import default, derive, empty_to_null, lower, parse_bool, parse_int, trim
from ematix_flow.pipeline import get_pipeline, run_transform
from ematix_flow.transforms import deduplicate_by, filter_where
from ematix_flow.types import Boolean

pytestmark = pytest.mark.slow


@pytest.fixture
def customer(conn: Handle) -> type:
    @ematix.table(schema="dw")
    class Customer:
        id: Annotated[BigInt, pk()]
        name: Text | None

    return Customer


class Loads:
    """A pipeline whose source the test writes before each run."""

    def __init__(self, conn: Handle, table: type, **options: Any) -> None:
        self.conn = conn
        self.run = ematix.pipeline(target=table, source_table="raw.customers", **options)(_load)  # type: ignore[arg-type]

    def __call__(self, *rows: str) -> Any:
        self.conn.execute("DELETE FROM raw.customers")
        for row in rows:
            self.conn.execute(f"INSERT INTO raw.customers VALUES ({row})")
        return self.run()

    def stored(self, columns: str = "id, name") -> list[list[object]]:
        return self.conn.query(f"SELECT {columns} FROM dw.customer ORDER BY ALL")["rows"]


def _load() -> None:
    """The source is a table."""


def test_09_append_and_its_bookmark(conn: Handle, customer: type) -> None:
    load = Loads(conn, customer, mode="append", incremental_column="id")
    first = load("1, 'a', NULL", "2, 'b', NULL")
    assert (first.rows_inserted, first.watermark_after) == (2, "2")
    assert load.stored("DISTINCT CAST(_batch_id AS VARCHAR)") == [[first.run_id]]
    assert load("1, 'a', NULL", "2, 'b', NULL").rows_inserted == 0
    assert load("2, 'b', NULL", "3, 'c', NULL").rows_inserted == 1
    with pytest.raises(ValueError, match="NULL"):
        load("NULL, 'd', NULL")
    assert conn.read_watermark("_load")["last_value"] == "3"  # type: ignore[index]


def test_10_truncate_replaces_and_a_failure_keeps_the_old_rows(conn: Handle, customer: type) -> None:
    load = Loads(conn, customer, mode="truncate")
    load("1, 'a', NULL", "2, 'b', NULL")
    load("3, 'c', NULL")
    assert load.stored() == [[3, "c"]]
    with pytest.raises(ValueError, match="id=4"):
        load("4, 'x', NULL", "4, 'y', NULL")
    assert load.stored() == [[3, "c"]]


def test_11_merge_counts_updates_and_deletes(conn: Handle, customer: type) -> None:
    load = Loads(conn, customer, mode="scd1", handle_deletes="hard")
    load("1, 'a', NULL", "2, 'b', NULL", "3, NULL, NULL")
    result = load("1, 'a', NULL", "2, NULL, NULL", "4, 'd', NULL")
    assert (result.rows_inserted, result.rows_updated, result.rows_unchanged, result.rows_deleted) == (1, 1, 1, 1)
    assert load.stored() == [[1, "a"], [2, None], [4, "d"]]
    (mode,) = conn.query("SELECT DISTINCT mode FROM ematix_flow.run_history")["rows"]
    assert mode == ["scd1"]


def test_12_scd2_keeps_every_version(conn: Handle, customer: type) -> None:
    load = Loads(conn, customer, mode="scd2", handle_deletes="soft")
    load("1, 'a', NULL", "2, 'b', NULL")
    assert load("1, 'a', NULL", "2, 'b', NULL").rows_inserted == 0
    changed = load("1, NULL, NULL")
    assert (changed.rows_inserted, changed.rows_closed, changed.closed_missing) == (1, 2, 1)
    assert load("1, NULL, NULL", "2, 'b', NULL").rows_inserted == 1
    assert load.stored("id, name, is_current") == [[1, "a", False], [1, None, True], [2, "b", False], [2, "b", True]]
    counts = "SELECT rows_inserted, rows_updated, rows_unchanged FROM ematix_flow.run_history ORDER BY started_at"
    assert conn.query(counts)["rows"] == [[2, 0, 0], [0, 0, 2], [1, 2, 0], [1, 0, 1]]


def test_13_scd2_by_event_time(conn: Handle, customer: type) -> None:
    load = Loads(conn, customer, mode="scd2", event_timestamp_column="seen_at")
    # A table that is read whole gives its declared columns and the event time.
    load("1, 'a', '2026-01-01 10:00:00+00'")
    load("1, 'b', '2026-01-01 11:00:00+00'", "1, 'c', '2026-01-01 12:00:00+00'")
    hours = load.stored("name, hour(valid_from AT TIME ZONE 'UTC'), hour(valid_to AT TIME ZONE 'UTC')")
    assert hours == [["a", 10, 11], ["b", 11, 12], ["c", 12, None]]
    with pytest.raises(ValueError, match="seen_at before its valid_from"):
        load("1, 'z', '2026-01-01 08:00:00+00'")
    with pytest.raises(ValueError, match="scd2"):
        Loads(conn, customer, mode="append", event_timestamp_column="seen_at", name="wrong")


def test_14_several_targets(conn: Handle, customer: type) -> None:
    @ematix.table(schema="dw")
    class Archive:
        id: Annotated[BigInt, pk()]
        name: Text | None

    def declared(name: str, **options: Any) -> Any:
        both = [ematix.target(customer, mode="merge"), ematix.target(Archive, mode="append")]

        @ematix.pipeline(targets=both, name=name, **options)
        def people(source):
            return "SELECT 1 AS id, 'Ada' AS name"

        return people

    assert set(declared("people")()) == {"dw.customer", "dw.archive"}
    names = conn.query("SELECT pipeline_name FROM ematix_flow.run_history ORDER BY 1")["rows"]
    assert names == [["people::dw.archive"], ["people::dw.customer"]]
    with pytest.raises(ValueError, match="id=1"):
        declared("halts")()
    with pytest.raises(PartialRunError) as caught:
        declared("goes_on", continue_on_failure=True)()
    assert caught.value.outcome["status"] == "partial"
    assert set(caught.value.outcome["errors"]) == {"dw.archive"}


def test_15_normalizers_and_row_transforms(conn: Handle) -> None:
    @ematix.table(schema="dw")
    class Person:
        id: Annotated[BigInt, parse_int(), pk()]
        email: Annotated[Text, trim(), lower(), empty_to_null(), default("none")]
        active: Annotated[Boolean | None, parse_bool()]
        label: Annotated[Text, derive("id || '-' || email")]

    @ematix.pipeline(
        target=Person,
        mode="append",
        transforms_pre=[filter_where("kept = 1"), deduplicate_by("id", order_by="seen DESC")],
    )
    def people(source):
        return """
            SELECT * FROM (VALUES
                ('1', ' ADA@X ', 'Yes', 1, 2), ('1', 'old@x', 'no', 1, 1),
                ('2', '  ', 'maybe', 1, 1), ('3', 'c', 'y', 0, 1)
            ) AS t(id, email, active, kept, seen)"""

    people()
    rows = conn.query("SELECT id, email, active FROM dw.person ORDER BY id")["rows"]
    assert rows == [[1, "ada@x", True], [2, "none", None]]
    with pytest.raises(ValueError, match="derive"):

        @ematix.table(schema="dw")
        class Wrong:
            id: Annotated[BigInt, pk()]
            label: Annotated[Text, trim(), derive("id")]


def test_16_steps_after_the_load(conn: Handle, customer: type) -> None:
    @ematix.transform(name="count_rows")
    def count_rows(connection):
        return {"rows": connection.fetch_scalar_int("SELECT count(*) FROM dw.customer")}

    seen = []

    @ematix.pipeline(
        target=customer,
        mode="merge",
        transforms_post=[
            "DELETE FROM dw.customer WHERE id = 2",
            lambda connection, parent: seen.append(parent.rows_inserted),
            ematix.transform_ref("count_rows"),
        ],
    )
    def people(source):
        return "SELECT 1 AS id, 'Ada' AS name UNION ALL SELECT 2, 'Bob'"

    people()
    assert seen == [2]
    steps = conn.query(
        "SELECT step_name, status, metrics_json FROM ematix_flow.run_history WHERE parent_run_id IS NOT NULL ORDER BY 1"
    )["rows"]
    assert [step[1] for step in steps] == ["transform_success"] * 3
    assert json.loads(str(steps[2][2])) == {"rows": 1}
    assert run_transform("count_rows")["metrics"] == {"rows": 1}

    @ematix.pipeline(target=customer, mode="merge", transforms_post=[ematix.transform_ref("nobody")])
    def lost(source):
        return "SELECT 3 AS id, 'Cy' AS name"

    with pytest.raises(KeyError, match="nobody"):
        lost()
    assert conn.fetch_scalar_int("SELECT count(*) FROM dw.customer") == 1
    assert get_pipeline("people").schedule is None


def test_18_frames_in_and_out(conn: Handle, customer: type) -> None:
    import pandas

    handle: Any = conn
    frame = pandas.DataFrame({"id": [1, 2], "name": ["Ada", None], "more": [1, 2]})
    managed = handle.write_df(frame, "dw.customer", mode="merge", target=customer)
    assert managed["rows_inserted"] == 2
    inferred = handle.write_df(frame, "dw.guest", mode="merge", keys=["id"])
    assert (inferred["rows_inserted"], inferred["path"]) == (2, "inferred_merge")
    again = handle.write_df(frame, "dw.guest", mode="merge", keys=["id"])
    assert (again["rows_inserted"], again["rows_unchanged"]) == (0, 2)
    back = handle.read_df("SELECT id, name FROM dw.guest ORDER BY id", prefer="pandas")
    assert back["id"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="guest"):
        handle.write_df(frame, "guest", mode="append")
    with pytest.raises(TypeError):
        handle.write_df([1, 2], "dw.guest", mode="append")
    with pytest.raises(ValueError, match="keys"):
        handle.write_df(frame, "dw.fresh", mode="merge")


def test_20_commands_answer_as_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def flow(*arguments: str) -> tuple[int, str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = runner.invoke(app, list(arguments))
        return done.exit_code, done.stdout

    assert flow("init", "shop")[0] == 0
    monkeypatch.chdir(tmp_path / "shop")
    assert json.loads(flow("list", "--format", "json")[1])[0]["name"] == "sync_customers"
    assert json.loads(flow("run", "sync_customers")[1])["rows_inserted"] == 3
    assert flow("run", "nobody")[0] == 2
    assert flow("validate", "sync_customers") == (0, "sync_customers: ok\n")
    assert json.loads(flow("preview", "sync_customers", "--format", "json")[1])["mode"] == "scd2"
    assert flow("dry-run", "sync_customers")[0] == 0
    assert json.loads(flow("runs", "list", "--format", "json")[1])[0]["status"] == "success"
    assert flow("connections", "check", "warehouse")[0] == 0
    assert flow("connections", "check", "nobody")[0] == 2
    assert flow("transform", "list") == (0, "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert flow("connections", "set", "lake=duckdb:///lake.duckdb")[0] == 0
    assert "lake" in flow("connections", "list")[1]
    assert json.loads(flow("config", "--format", "json")[1])
    assert flow("init", ".")[0] == 1
