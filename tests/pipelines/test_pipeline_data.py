"""Pipelines and targets written as data: `Pipeline(name, source, target, …)` and `Target(table, connection)`."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest

from ematix_flow.connections import get_connection
from ematix_flow.decorators import ematix
from ematix_flow.errors import FlowError, SpecError, SpecTypeError, UnsupportedError
from ematix_flow.markers import pk
from ematix_flow.pipeline import Pipeline, Source, Target, list_pipelines, run_pipeline, sync
from ematix_flow.spec.place import TableRef
from ematix_flow.spec.table import build_table_class
from ematix_flow.transforms import limit
from ematix_flow.types import BigInt, TimestampTZ
from tests.pipelines.shop import PEOPLE, Archive, Customer, Shop, everywhere


def people(**options: Any) -> Pipeline:
    values = {"source": Source("default", PEOPLE), "target": Target(Customer, "default"), "mode": "merge"}
    return Pipeline(**({"name": "people"} | values | options))


@everywhere
def test_a_pipeline_of_its_documented_parts_runs_like_a_decorated_one(shop: Shop) -> None:
    pipeline = Pipeline("people", Source("default", PEOPLE), Target(Customer, "default"), "merge", ["id"])
    assert pipeline.preview().targets[0].merge_keys_reason == "keys="
    assert pipeline.dry_run().targets[0].dry_run_rows_affected["rows_inserted"] == 2
    assert pipeline.validate().ok
    assert (pipeline.run().rows_inserted, pipeline().rows_unchanged) == (2, 2)
    assert pipeline.sync(mode="truncate", keys=None).rows_inserted == 2
    assert shop.names() == ["Ada", "Bob"]


def test_it_is_known_to_the_project_only_once_it_is_registered(shop: Shop) -> None:
    pipeline = people()
    assert list_pipelines() == []
    assert pipeline.register() is pipeline
    assert [each.name for each in list_pipelines()] == ["people"]
    assert run_pipeline("people").rows_inserted == 2


def test_source_and_target_may_be_what_other_doors_take(shop: Shop) -> None:
    assert people(source=PEOPLE, target=Customer).run().rows_inserted == 2
    archive = Target(table=Archive, connection=get_connection("default"), mode="append")
    assert people(source=TableRef("main", "customer"), target=archive, mode=None).run().rows_inserted == 2


def test_a_connection_is_the_record_or_its_name(shop: Shop) -> None:
    assert Source(get_connection("default"), PEOPLE) == Source("default", PEOPLE)  # type: ignore[arg-type]
    assert people(source=Source("other", PEOPLE)).pipeline.parts[0].source_connection == "other"


@pytest.mark.parametrize(
    ("options", "kind", "match"),
    [
        ({"name": " "}, SpecError, "needs a name"),
        ({"mode": "upsert"}, UnsupportedError, "mode='upsert'"),
        ({"mode": None}, SpecTypeError, "it has no mode"),
        ({"keys": []}, SpecError, "keys= names no column"),
        ({"kyes": ["id"]}, SpecTypeError, "no keyword 'kyes'"),
        ({"targets": []}, SpecTypeError, "exclude each other"),
        ({"target": "main.customer"}, SpecTypeError, "must be a table class"),
        ({"source_connection": "other"}, SpecTypeError, "both name a connection"),
    ],
)
def test_what_cannot_be_right_is_refused(options: Any, kind: type[FlowError], match: str, shop: Shop) -> None:
    with pytest.raises(kind, match=match):
        people(**options)


def test_an_open_handle_is_no_data(shop: Shop) -> None:
    with pytest.raises(SpecTypeError, match="its source is an open handle"):
        people(source=Source(shop.project.connect("default"), PEOPLE))


def test_a_sync_has_one_target(shop: Shop) -> None:
    with pytest.raises(SpecTypeError, match="exclude each other"):
        sync(target=Customer, source=PEOPLE, targets=[Target(Archive)])  # type: ignore[call-arg]


# ── targets ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_target_says_its_connection_in_either_way(shop: Shop) -> None:
    assert Target(Customer, connection="dwh") == ematix.target(Customer, target_connection="dwh")
    several = [Target(table=Customer, connection="default"), Target(Archive, mode="append")]
    result = ematix.pipeline(targets=several, mode="merge")(lambda source: PEOPLE).run()
    assert [each["rows_inserted"] for each in result.values()] == [2, 2]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"connection": ""}, "connection= is empty"),
        ({"connection": "a", "target_connection": "b"}, "connection= and target_connection= say the same thing"),
        ({"connection": 7}, "target_connection= cannot be a int"),
    ],
)
def test_a_connection_is_named_once_and_not_empty(options: Any, match: str) -> None:
    with pytest.raises(SpecError, match=rf"ematix\.target: {match}"):
        Target(Customer, **options)


# ── as dictionaries ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pipeline_is_a_dictionary_of_what_was_declared(shop: Shop) -> None:
    pipeline = people(mode="scd2", ttl=timedelta(days=1), transforms_pre=[limit(5)])
    spec = pipeline.to_spec_dict()
    assert spec == {
        "name": "people",
        "source": {"connection": "default", "query": PEOPLE},
        "target": {"connection": "default", "table": Customer._to_spec()},
        "mode": "scd2",
        "keys": ["id"],
        "ttl": 86400.0,
        "transforms_pre": ["limit(n=5)"],
    }
    json.dumps(spec)


@pytest.mark.parametrize("options", [
    {"mode": "append"},
    {"mode": "append", "keys": ()},
    {"mode": "append", "incremental_column": "id", "column_map": {"name": "upper(name)"}},
    {"mode": "truncate", "transforms_post": ["DELETE FROM main.archive", ematix.transform_ref("tidy")]},
    {"mode": "merge", "handle_deletes": "soft"},
    {"mode": "merge", "keys": ["name"], "incremental_column": "id", "lookback": Decimal("1.0")},
    {"mode": "scd1", "update_columns": ["name"]},
    {"mode": "scd2", "ttl": "1d", "on_drift": "warn"},
])  # fmt: skip
def test_a_pipeline_can_be_made_of_its_own_dictionary(options: Any) -> None:
    spec = people(**options).to_spec_dict()
    given = {**json.loads(json.dumps(spec)), "source": Source(**spec["source"])}  # type: ignore[arg-type]
    again = Pipeline(**{**given, "target": Target(Customer, spec["target"]["connection"])})  # type: ignore[arg-type, index]
    assert again.to_spec_dict() == spec


def test_a_length_of_time_to_look_back_is_kept_too() -> None:
    class Visit:
        id: Annotated[BigInt, pk()]
        at: TimestampTZ

    options = {"target": build_table_class(Visit, schema="main"), "incremental_column": "at"}
    lookback = people(**options, lookback="1h30m").to_spec_dict()["lookback"]
    assert people(**options, lookback=lookback).pipeline.lookback == timedelta(minutes=90)  # type: ignore[union-attr]


def test_its_normalized_form_has_keys_connections_and_the_fingerprint(shop: Shop) -> None:
    pipeline = Pipeline("people", PEOPLE, Customer, "merge")
    assert pipeline.to_spec_dict()["source"] == {"connection": None, "query": PEOPLE}
    assert pipeline.to_normalized_dict() == {
        "name": "people",
        "source": {"connection": "default", "query": PEOPLE},
        "target": {"connection": "default", "table": Customer._to_normalized_spec()},
        "mode": "merge",
        "keys": ["id"],
    }


def test_what_only_a_function_knows_is_no_part_of_the_dictionary(shop: Shop) -> None:
    from ematix_flow.spec.pipeline_data import pipeline_spec

    asked = ematix.pipeline(target=Customer, mode="append", name="asked")(lambda source: PEOPLE)
    read = ematix.pipeline(target=Customer, mode="append", name="read", source_table="main.raw")(lambda: None)
    queries = [pipeline_spec(each.pipeline.parts[0])["source"]["query"] for each in (asked, read)]  # type: ignore[index]
    assert queries == [None, "main.raw"]
