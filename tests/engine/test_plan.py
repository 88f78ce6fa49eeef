"""From a declaration to the steps of a run: keys, columns, paths, and what is refused before anything is opened."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import pytest

from ematix_flow.backends.base import Backend
from ematix_flow.backends.dialect import Dialect
from ematix_flow.backends.duckdb_dialect import DuckDBDialect
from ematix_flow.backends.hooks import Hook
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import DuckDBConnection, PostgresConnection, SQLiteConnection
from ematix_flow.engine.explain import explain
from ematix_flow.engine.plan import Plan, build_plan
from ematix_flow.errors import SpecError, UnknownNameError, UnsupportedError
from ematix_flow.markers import natural_key, pk
from ematix_flow.normalize import clamp, derive, regex_replace, sql, trim
from ematix_flow.spec.origin import Origin
from ematix_flow.spec.pipeline import Pipeline, build_pipeline
from ematix_flow.spec.place import Query, TableRef
from ematix_flow.spec.table import ManagedTable, build_table_class
from ematix_flow.transforms import deduplicate_by, filter_where, limit
from ematix_flow.types import BigInt, Text, TimestampTZ

Planner = Callable[[Pipeline], Plan]
PLACE = Origin("pipelines.py", 7)
ROWS = Query("SELECT 1 AS id")


def table(cls: type) -> type[ManagedTable]:
    return build_table_class(cls, schema="dw")


@table
class Customer:
    id: Annotated[BigInt, pk()]
    email: Text
    name: Text


@table
class Person:
    id: Annotated[BigInt, pk()]
    email: Annotated[Text, natural_key()]
    name: Text


@table
class Town:
    __merge_keys__ = ("name",)
    id: Annotated[BigInt, pk()]
    name: Text
    mayor: Text


@table
class Stamped:
    id: Annotated[BigInt, pk()]
    name: Text
    _loaded_at: TimestampTZ


@table
class Clashing:
    id: Annotated[BigInt, pk()]
    name: Text
    valid_from: Text


def customers(source: object) -> None: ...


def declared(**options: Any) -> Pipeline:
    return build_pipeline(customers, {"target": Customer, "mode": "append"} | options, PLACE)


def start_no_spark() -> NoReturn:
    raise AssertionError("planning needs no Spark")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(start_no_spark, tmp_path)


@pytest.fixture
def warehouse(workshop: Workshop, tmp_path: Path) -> Backend:
    return DuckDBConnection(name="warehouse", path=str(tmp_path / "warehouse.duckdb")).open(workshop)


@pytest.fixture
def shop(workshop: Workshop, tmp_path: Path) -> Backend:
    return SQLiteConnection(name="shop", path=str(tmp_path / "shop.db")).open(workshop)


@pytest.fixture
def plan(warehouse: Backend) -> Planner:
    """The plan of a load inside one database."""
    return lambda pipeline: build_plan(pipeline, warehouse, warehouse, ROWS)


def test_a_name_that_the_target_would_cut_is_refused(shop: Backend, workshop: Workshop) -> None:
    named = replace(declared().table, name="n" * 64)
    server = PostgresConnection("server", "postgresql://u@127.0.0.1/db").open(workshop)
    with pytest.raises(UnsupportedError, match="cuts names after 63 bytes, and 'nnn"):
        build_plan(replace(declared(), table=named), shop, server, ROWS)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["merge", "scd1", "scd2"])
@pytest.mark.parametrize(("target", "keys"), [(Person, "email"), (Town, "name")])
def test_keys_beside_the_primary_key_come_with_a_warning(plan: Planner, target: type, keys: str, mode: str) -> None:
    with pytest.warns(UserWarning, match=rf"pipeline 'customers'.*\({keys}\).*primary key") as caught:
        planned = plan(declared(target=target, mode=mode))
    assert planned.load.intent.keys == (keys,)
    assert planned.notes == (str(caught[0].message),)


@pytest.mark.parametrize("keys", [["email"], ["id"]])
def test_named_keys_need_no_warning(plan: Planner, keys: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        planned = plan(declared(target=Person, mode="merge", keys=keys))
    assert (planned.load.intent.keys, planned.notes) == (tuple(keys), ())


@pytest.mark.parametrize(("target", "mode"), [(Customer, "merge"), (Person, "append"), (Person, "truncate")])
def test_there_is_no_warning_where_nothing_is_surprising(plan: Planner, target: type, mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plan(declared(target=target, mode=mode)).notes == ()


# ── columns ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_merge_updates_all_but_the_keys(plan: Planner) -> None:
    planned = plan(declared(mode="merge"))
    assert (planned.load.intent.update, planned.compare_reason) == (("email", "name"), "auto-derived")


@pytest.mark.parametrize("keyword", ["update_columns", "compare_columns"])
def test_a_merge_takes_its_columns_by_either_name(plan: Planner, keyword: str) -> None:
    planned = plan(declared(mode="merge", **{keyword: ["name"]}))
    assert (planned.load.intent.update, planned.compare_reason) == (("name",), "explicit")


def test_history_does_not_compare_the_event_time(plan: Planner) -> None:
    planned = plan(declared(mode="scd2", event_timestamp_column="email"))
    assert planned.load.intent.compare == ("name",)


def test_the_incremental_column_reaches_the_load(plan: Planner) -> None:
    assert plan(declared(incremental=True, watermark_column="id")).load.intent.incremental == "id"


# ── errors name the pipeline and its place ────────────────────────────────────────────────────────────────────────────


def test_an_error_of_the_strategy_names_the_pipeline_and_its_place(plan: Planner) -> None:
    # A record made by hand has not passed the checks of a declaration.
    pipeline = replace(declared(mode="merge"), update_columns=("id",))
    with pytest.raises(SpecError, match="pipeline 'customers': 'id' is a key and a update column") as caught:
        plan(pipeline)
    assert caught.value.declared_at == PLACE


def test_an_error_keeps_its_kind_and_its_hint(plan: Planner) -> None:
    pipeline = replace(declared(target=Stamped, mode="merge"), update_columns=("_loaded_at",))
    with pytest.raises(UnknownNameError, match="pipeline 'customers': the table has no update column") as caught:
        plan(pipeline)
    assert caught.value.declared_at == PLACE
    assert "Known: id, name." in str(caught.value)


def test_a_column_in_the_way_of_an_added_one_names_the_pipeline(plan: Planner) -> None:
    with pytest.raises(SpecError, match=r"pipeline 'customers': .*'valid_from'"):
        plan(declared(target=Clashing, mode="scd2"))


def test_no_answer_and_no_source_table_is_refused(warehouse: Backend) -> None:
    with pytest.raises(RuntimeError, match=r"pipeline 'customers'.*no source_table=") as caught:
        build_plan(declared(), warehouse, warehouse, None)
    assert isinstance(caught.value, SpecError)
    assert caught.value.declared_at == PLACE


# ── the source ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_returned_query_beats_the_source_table(plan: Planner) -> None:
    assert plan(declared(source_table="raw.people")).read.place == ROWS


def test_the_source_table_is_read_where_the_function_returns_nothing(warehouse: Backend) -> None:
    pipeline = declared(source_table="raw.people", column_map={"id": "cid"})
    read = build_plan(pipeline, warehouse, warehouse, None).read
    assert read.place == TableRef("raw", "people")
    assert read.sql == 'SELECT "cid" AS "id", "email", "name" FROM "raw"."people"'


# ── the path ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_database_is_the_shortest_path(plan: Planner) -> None:
    assert plan(declared()).path == "same_db"


def test_two_systems_need_spark(shop: Backend, warehouse: Backend) -> None:
    assert build_plan(declared(), shop, warehouse, ROWS).path == "cross_db"


def test_spark_can_be_forced(plan: Planner) -> None:
    planned = plan(declared(force_path="cross_db"))
    assert (planned.path, planned.path_reason) == ("cross_db", "force_path=")


def test_one_database_cannot_be_forced_where_there_are_two(shop: Backend, warehouse: Backend) -> None:
    with pytest.raises(SpecError, match=r"pipeline 'customers': force_path='same_db'") as caught:
        build_plan(declared(force_path="same_db"), shop, warehouse, ROWS)
    assert caught.value.declared_at == PLACE


# ── where the cleaning is done ────────────────────────────────────────────────────────────────────────────────────────


class Silent(DuckDBDialect):
    """A dialect that says of normalizers what plain SQL says."""

    def hooks(self) -> Mapping[str, Hook]:
        return Dialect.hooks(self)


@pytest.fixture
def silent(warehouse: Backend) -> Backend:
    warehouse.dialect = Silent()  # type: ignore[misc]
    return warehouse


@table
class Cleaned:
    id: Annotated[BigInt, pk()]
    name: Annotated[Text, trim(), regex_replace("[0-9]", "")]


@table
class Computed:
    id: Annotated[BigInt, pk()]
    name: Annotated[Text, derive("first || last"), trim()]
    score: Annotated[BigInt, clamp(0, 9)]
    email: Annotated[Text, sql("replace(col, '@', ' at ')")]


def test_spark_cleans_what_the_database_has_no_exact_form_of(silent: Backend) -> None:
    planned = build_plan(declared(target=Cleaned), silent, silent, ROWS)
    assert planned.path == "cross_db"
    assert planned.path_reason == "spark: duckdb has no exact form of regex_replace() and phone_normalize()"
    assert not planned.transform.at_source


def test_a_forced_path_that_cannot_clean_is_refused(silent: Backend) -> None:
    with pytest.raises(UnsupportedError, match="has no exact form of regex_replace") as caught:
        build_plan(declared(target=Cleaned, force_path="same_db"), silent, silent, ROWS)
    assert caught.value.declared_at == PLACE


def test_a_plain_table_needs_nothing_of_the_dialect(silent: Backend) -> None:
    assert build_plan(declared(), silent, silent, ROWS).path == "same_db"


@pytest.mark.parametrize(
    ("target", "transforms", "at_source"),
    [
        (Cleaned, (), False),
        (Cleaned, (limit(3), deduplicate_by("id")), False),
        (Cleaned, (filter_where("id > 1"),), True),
        (Cleaned, (deduplicate_by("id", order_by="name"),), True),
        (Computed, (), True),
    ],
)
def test_the_source_cleans_where_sql_is_in_its_words(
    shop: Backend, warehouse: Backend, target: type, transforms: tuple[Any, ...], *, at_source: bool
) -> None:
    planned = build_plan(declared(target=target, transforms_pre=list(transforms)), shop, warehouse, ROWS)
    assert (planned.path, planned.transform.at_source) == ("cross_db", at_source)


def test_a_source_that_cannot_clean_exactly_cannot_run_sql_of_ones_own(silent: Backend, shop: Backend) -> None:
    with pytest.raises(UnsupportedError, match="it has no exact form of clamp") as caught:
        build_plan(declared(target=Computed), silent, shop, ROWS)
    assert "source query" in str(caught.value.hint)


def test_a_preview_shows_who_cleans_and_notes_sql_of_ones_own(shop: Backend, warehouse: Backend) -> None:
    pipeline = declared(target=Computed, transforms_pre=[filter_where("score > 1")])
    shown = explain(build_plan(pipeline, shop, warehouse, ROWS), shop, warehouse)
    assert shown.notes == (
        "column 'name' holds SQL in the words of sqlite: derive(expression='first || last')",
        "column 'email' holds SQL in the words of sqlite: sql(expression=\"replace(col, '@', ' at ')\")",
    )
    assert shown.steps[1] == "clean 3, filter_where(expr='score > 1') and cast 4 columns"
    asked, made = str(shown.source_sql).split("-- warehouse (duckdb) makes of it")
    assert "first || last" in asked
    assert "score > 1" in asked
    assert "CASE WHEN" not in asked.partition("score > 1")[2]
    assert "first" not in made
