"""`validate`: every problem at once, found without reading or writing a row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest

from ematix_flow.connections import ObjectStoreLocalConnection, register_connection
from ematix_flow.decorators import PipelineHandle, ematix
from ematix_flow.engine.validate import ValidateResult
from ematix_flow.errors import SpecTypeError
from ematix_flow.markers import pk
from ematix_flow.spec.table import build_table_class
from ematix_flow.types import BigInt, Date, Text
from tests.pipelines.shop import PEOPLE, Archive, Customer, Seen, Shop, everywhere, open_shop


class _Person:
    id: Annotated[BigInt, pk()]
    name: Text
    born: Date
    seen_on: Date


Person = build_table_class(_Person, schema="main", name="person")
SHOUT = "UPDATE main.customer SET name = upper(name)"


def declare(sql: str = PEOPLE, **options: Any) -> PipelineHandle:
    def people(source):
        return sql

    return ematix.pipeline(**({"target": Customer, "mode": "merge"} | options))(people)


def test_a_pipeline_that_would_run_is_ok_and_nothing_is_made(shop: Shop, tmp_path: Path) -> None:
    result = declare().validate()
    assert (result.ok, result.errors, result.source_sql) == (True, (), PEOPLE)
    assert (result.pipeline_name, result.target_connection_name) == ("people", "default")
    assert result.notes == ("table main.customer does not exist yet; the first run creates it",)
    assert shop.is_untouched()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [
    {"mode": "append"}, {"mode": "truncate"}, {"mode": "merge", "handle_deletes": "hard"}, {"mode": "scd2"},
    {"mode": "scd2", "ttl": "5m", "handle_deletes": "soft"}, {"mode": "append", "incremental_column": "id"},
    {"mode": "scd2", "event_timestamp_column": "at", "late_events": "insert"},
])  # fmt: skip
def test_every_mode_is_analysed_on_a_new_table_and_on_one_that_exists(options: Any, shop: Shop) -> None:
    handle = declare("SELECT 1 AS id, 'Ada' AS name, '2026-01-01 00:00:00+00' AS at", **options)
    assert handle.validate().errors == ()
    handle.run()
    before = shop.names()
    assert handle.validate() == ValidateResult("people", True, handle.validate().source_sql, (), "default", ())
    assert shop.names() == before
    assert len(shop.runs()) == 1


def test_every_column_that_the_source_lacks_is_told_at_once(shop: Shop) -> None:
    result = declare("SELECT 1 AS id", target=Person).validate()
    assert not result.ok
    assert [error.partition(" (hint")[0] for error in result.errors] == [
        f"the source of pipeline 'people' has no column '{name}'" for name in ("name", "born", "seen_on")
    ]


def test_an_event_column_that_the_source_lacks_is_told(shop: Shop) -> None:
    (error,) = declare(mode="scd2", event_timestamp_column="at").validate().errors
    assert "has no column 'at'" in error


def test_a_query_that_the_source_refuses_is_told(shop: Shop) -> None:
    (error,) = declare("SELECT * FROM no_such_table").validate().errors
    assert "no_such_table" in error


@everywhere
def test_no_row_is_read(shop: Shop) -> None:
    shop.tell("CREATE TABLE main.raw (id BIGINT, name TEXT)")
    shop.tell("INSERT INTO main.raw VALUES (1, 'Ada')")
    broken = {
        "duckdb": "error('a row was read')",
        "mysql": "(SELECT name FROM main.raw UNION ALL SELECT name FROM main.raw)",
        "postgres": "CAST(name AS INTEGER)",
        "sqlite": "json('a row was read')",
    }[shop.kind]
    assert declare(f"SELECT id, {broken} AS name FROM main.raw").validate().errors == ()


@everywhere
def test_a_table_that_drifted_is_told_with_each_difference(shop: Shop) -> None:
    shop.tell("CREATE TABLE main.customer (id BIGINT PRIMARY KEY, surprise TEXT)")
    (error,) = declare().validate().errors
    assert "'surprise' is in the table but not declared" in error
    assert "'name' is declared but not in the table" in error


def test_a_difference_that_the_pipeline_accepts_is_a_note(shop: Shop) -> None:
    declare().run()
    shop.tell("ALTER TABLE main.customer ADD COLUMN more TEXT")
    result = declare(on_drift="warn", name="warned").validate()
    assert result.ok
    assert result.notes == ("table main.customer differs: column 'more' is in the table but not declared",)


def test_every_unknown_connection_is_told(shop: Shop) -> None:
    result = declare(source_connection="nowhere", target_connection="elsewhere").validate()
    assert ["nowhere" in " ".join(result.errors), "elsewhere" in " ".join(result.errors)] == [True, True]
    assert result.source_sql is None


def test_a_function_that_fails_is_told(shop: Shop) -> None:
    @ematix.pipeline(target=Customer, mode="merge")
    def people(source):
        return 1 / 0

    (error,) = people.validate().errors
    assert "ZeroDivisionError" in error
    assert shop.runs() == []


@everywhere
def test_the_whole_of_a_steps_sql_is_analysed(shop: Shop) -> None:
    declare().run()
    long = f"{SHOUT}\nWHERE id IN (SELECT id FROM main.customer WHERE {' OR '.join(['id = 1'] * 60)})\nAND nmae = 'x'"
    result = declare(transforms_post=[SHOUT, long], name="stepped").validate()
    (error,) = result.errors
    assert error.startswith("step transform[1]:sql: ")
    assert "nmae" in error
    assert shop.names() == ["Ada", "Bob"]


def test_a_steps_sql_over_a_table_that_the_first_run_creates_is_a_note(shop: Shop) -> None:
    result = declare(transforms_post=[SHOUT]).validate()
    assert result.ok
    assert "step transform[0]:sql was not analysed: its table does not exist yet" in result.notes


@everywhere
def test_what_cannot_be_looked_into_is_noted_and_unknown_references_are_told(shop: Shop) -> None:
    declare().run()
    steps = [
        lambda target: None,
        "CREATE INDEX x ON customer (name)",
        ematix.transform_ref("nothing"),
        f"{SHOUT};{SHOUT}",
    ]
    result = declare(transforms_post=steps, name="stepped").validate()
    assert [note.partition(" was")[0] for note in result.notes] == [
        "step transform[0]:<lambda>",
        "step transform[1]:sql",
    ]
    assert ["'nothing'" in result.errors[0], "several statements" in result.errors[1]] == [True, True]
    assert shop.names() == ["Ada", "Bob"]


def test_several_targets_are_told_apart(shop: Shop) -> None:
    targets = [ematix.target(Customer), ematix.target(Person), ematix.target(Seen)]
    result = declare(target=None, targets=targets, mode="append").validate()
    assert [error.partition(":")[0] for error in result.errors] == ["main.person", "main.person"]
    assert len(result.notes) == 3


def test_a_function_that_loads_by_itself_cannot_be_validated(shop: Shop) -> None:
    @ematix.pipeline(target=Archive, mode="append")
    def people(source):
        return {"rows": 1}

    assert "loads by itself" in people.validate().errors[0]
    with pytest.raises(SpecTypeError, match="loads by itself"):
        people.preview()


def test_a_cast_that_can_never_work_is_told_column_by_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_shop("duckdb", tmp_path):
        rows = "SELECT DATE '2026-01-01' AS id, 'Ada' AS name, TRUE AS born, DATE '2026-01-01' AS seen_on"
        result = declare(rows, target=Person).validate()
    assert [error.partition(" cannot")[0] for error in result.errors] == ["column 'id'", "column 'born'"]


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_rows_that_travel_are_analysed_by_spark(shop: Shop, tmp_path: Path) -> None:
    register_connection(ObjectStoreLocalConnection("lake", str(tmp_path / "lake"), "parquet"))
    shop.tell("CREATE TABLE main.raw (id BIGINT, name TEXT, born TEXT, seen_on TEXT)")
    options = {"source_connection": "default", "target_connection": "lake", "mode": "append"}
    assert declare("SELECT * FROM main.raw", target=Person, **options).validate().errors == ()
    result = declare("SELECT id, id AS born FROM main.raw", target=Person, name="bad", **options).validate()
    assert ["'name'" in result.errors[0], "'seen_on'" in result.errors[1]] == [True, True]
    # SQLite's values have types, its columns have none.
    told = ("column 'born' cannot become Date: the source gives BigInt",)
    assert result.errors[2:] == (() if shop.kind == "sqlite" else told)
    assert not (tmp_path / "lake").exists() or not any((tmp_path / "lake").rglob("*.parquet"))
