"""`ematix_flow.pipeline` and `ematix_flow.preview`: the documented functions, and what a decorated function can do."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ematix_flow import pipeline
from ematix_flow.connections import ObjectStoreLocalConnection, get_connection, register_connection
from ematix_flow.decorators import PipelineHandle, ematix
from ematix_flow.errors import DuplicateNameError, SpecError, SpecTypeError, UnknownNameError, UserCodeError
from ematix_flow.preview import PreviewResult, TargetPlan, render_text
from ematix_flow.spec.place import TableRef
from tests.pipelines.shop import PEOPLE, Archive, Customer, Shop, everywhere


def sync(**options: Any) -> Any:
    return pipeline.sync(**({"target": Customer, "source": PEOPLE, "target_connection": "default"} | options))


def declare(**options: Any) -> PipelineHandle:
    def people(source):
        return PEOPLE

    return ematix.pipeline(**({"target": Customer, "mode": "merge"} | options))(people)


# ── sync ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sync_loads_at_once_and_declares_nothing(shop: Shop) -> None:
    result = sync()
    assert (result.mode, result.rows_inserted, result["pipeline"]) == ("append", 2, "main.customer")
    assert shop.project.registry.pipelines == {}
    backend = shop.project.backend("default")
    assert [run.pipeline for run in backend.ledger.runs()] == ["main.customer"]


def test_a_sync_takes_a_table_a_name_and_a_connection_itself(shop: Shop) -> None:
    sync()
    result = sync(
        target=Archive, source=TableRef("main", "customer"), pipeline_name="keep", mode="merge",
        target_connection=get_connection("default"),
    )  # fmt: skip
    assert (result["pipeline"], result.rows_inserted, shop.names("archive")) == ("keep", 2, ["Ada", "Bob"])


@everywhere
def test_a_dry_sync_counts_and_leaves_nothing(shop: Shop) -> None:
    result = sync(dry_run=True)
    assert (result.status, result.rows_inserted) == ("dry_run", 2)
    assert shop.is_untouched()


@pytest.mark.parametrize(
    ("options", "kind", "match"),
    [
        ({"mode": "upsert", "force_path": "x"}, NotImplementedError, "mode='upsert'"),
        ({"force_path": "x", "mode": "merge", "incremental_column": "id"}, ValueError, "force_path='x'"),
        ({"mode": "truncate", "incremental_column": "id", "ttl": 5}, ValueError, "incremental_column"),
        ({"event_timestamp_column": "at", "ttl": 5}, ValueError, "event_timestamp_column"),
        ({"ttl": timedelta(days=1), "handle_deletes": "x"}, ValueError, "ttl= is for mode scd2"),
        ({"handle_deletes": "x"}, ValueError, "handle_deletes='x'"),
        ({"handle_deletes": "hard"}, ValueError, "handle_deletes= is for mode merge"),
        ({"mode": "truncate", "handle_deletes": "soft"}, ValueError, "handle_deletes= is for mode merge"),
        ({"mode": "scd2", "handle_deletes": "hard"}, ValueError, "never deletes"),
        ({"mode": "merge", "keys": []}, ValueError, "keys= names no column"),
        ({"mode": "scd2", "keys": ["id", "name"]}, ValueError, "no columns to compare"),
        ({"target": "main.customer"}, TypeError, "must be a table class"),
    ],
)
def test_a_sync_refuses_in_the_documented_order_before_it_opens_anything(
    options: dict[str, Any], kind: type[Exception], match: str, shop: Shop
) -> None:
    with pytest.raises(kind, match=match):
        sync(**options)
    assert shop.is_untouched()


# ── the decorated function ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_result_has_every_documented_key_as_an_attribute_too(shop: Shop) -> None:
    result = declare().run()
    assert set(result) == {
        "run_id", "status", "path", "pipeline", "target", "mode", "rows_read", "rows_inserted", "rows_updated",
        "rows_unchanged", "rows_deleted", "started_at", "finished_at", "watermark_before", "watermark_after", "drift",
    }  # fmt: skip
    assert all(getattr(result, key) == value for key, value in result.items() if key != "pipeline")
    json.dumps(result)


@everywhere
def test_deleted_rows_are_counted(shop: Shop) -> None:
    handle = declare(handle_deletes="hard")
    handle.run()
    shop.tell("INSERT INTO main.customer SELECT 3, 'Cy', _loaded_at, _batch_id FROM main.customer WHERE id = 1")
    assert handle.run().rows_deleted == 1
    assert [run.rows["rows_deleted"] for run in shop.runs("people")] == [0, 1]


def test_a_sync_of_a_declared_pipeline_may_differ_from_the_declaration(shop: Shop) -> None:
    handle = declare()
    handle.run()
    assert handle.sync(mode="truncate").mode == "truncate"
    assert handle.sync(dry_run=True).status == "dry_run"
    assert handle.pipeline.mode == "merge"
    with pytest.raises(SpecTypeError, match="no keyword 'mdoe'"):
        handle.sync(mdoe="append")  # type: ignore[call-arg]


def test_a_dictionary_that_the_function_returns_is_the_result_and_nothing_else_happens(shop: Shop) -> None:
    @ematix.pipeline(target=Customer, mode="merge", transforms_post=["SELECT * FROM no_such_table"])
    def people(source):
        return {"rows": 7}

    assert people.run() == {"rows": 7}
    assert shop.runs() == []


def test_the_function_stays_reachable(shop: Shop) -> None:
    handle = declare()
    assert handle.__wrapped__(None) == PEOPLE
    assert handle().status == "success"


def test_a_module_may_be_executed_again_but_a_name_has_one_home(shop: Shop) -> None:
    source = (
        "@ematix.pipeline(target=Customer, mode='merge', transforms_post=[lambda c: None])\ndef people(source): ...\n"
        "@ematix.transform()\ndef tidy(connection): ...\n"
        "@pipeline.register(name='own')\ndef own(): ...\n"
    )
    names = {"ematix": ematix, "pipeline": pipeline, "Customer": Customer}
    for _ in range(2):
        exec(compile(source, "first.py", "exec"), names)  # noqa: S102
    for declaration in source.split("@")[1:]:
        with pytest.raises(DuplicateNameError, match=r"is declared already at first\.py"):
            exec(compile(f"@{declaration}", "second.py", "exec"), names)  # noqa: S102


# ── the registry ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_registered_function_runs_by_its_name(shop: Shop) -> None:
    @pipeline.register(name="own", schedule="0 5 * * *", timezone="Europe/Berlin")
    def own():
        return {"rows": 7}

    assert own() == {"rows": 7}
    assert pipeline.run_pipeline("own") == {"rows": 7}
    assert (pipeline.get_pipeline("own").schedule, pipeline.get_pipeline("own").timezone) == (
        "0 5 * * *", "Europe/Berlin",
    )  # fmt: skip
    for asked in (pipeline.preview, pipeline.dry_run, pipeline.validate):
        with pytest.raises(TypeError, match="pipeline 'own': its function loads by itself"):
            asked("own")


def test_a_registered_function_that_fails_is_named(shop: Shop) -> None:
    pipeline.register(name="own")(lambda: {}["x"])
    with pytest.raises(UserCodeError, match="pipeline 'own': its function failed with KeyError"):
        pipeline.run_pipeline("own")


@pytest.mark.parametrize(
    ("options", "function", "match"),
    [
        ({"schedule": "every day"}, lambda: None, "not a cron text"),
        ({"schedule": "0 5 * * *", "timezone": "Berlin"}, lambda: None, "no time zone 'Berlin'"),
        ({}, lambda source: None, "must take no arguments"),
        ({}, "own", "must take no arguments"),
    ],
)
def test_what_is_registered_is_checked(options: Any, function: Any, match: str, shop: Shop) -> None:
    with pytest.raises(SpecError, match=match):
        pipeline.register(name="own", **options)(function)


def test_pipelines_and_transforms_are_listed_by_name(shop: Shop) -> None:
    declare(schedule="0 5 * * *")
    pipeline.register(name="own")(dict)
    ematix.transform(name="between", schedule="0 6 * * *")(lambda target: None)
    assert [(entry.name, entry.kind, entry.schedule) for entry in pipeline.list_entries()] == [
        ("between", "transform", "0 6 * * *"), ("own", "pipeline", None), ("people", "pipeline", "0 5 * * *"),
    ]  # fmt: skip
    assert [each.name for each in pipeline.list_pipelines()] == ["own", "people"]
    assert [each.name for each in pipeline.list_transforms()] == ["between"]
    assert pipeline.list_pipelines()[1].function()["rows_inserted"] == 2


@pytest.mark.parametrize("asked", [pipeline.run_pipeline, pipeline.get_pipeline, pipeline.preview, pipeline.validate])
def test_an_unknown_pipeline_is_a_key_error(asked: Any, shop: Shop) -> None:
    declare()
    with pytest.raises(KeyError, match="unknown pipeline 'peolpe'"):
        asked("peolpe")
    with pytest.raises(UnknownNameError, match="peolpe"):
        asked("peolpe")


# ── preview and dry run ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_is_data_and_text(shop: Shop) -> None:
    declare(transforms_post=["VACUUM"])
    plan = pipeline.preview("people")
    assert isinstance(plan, PreviewResult)
    assert isinstance(plan.targets[0], TargetPlan)
    assert json.loads(plan.to_json())["transforms_post"] == [
        {"kind": "sql", "summary": "VACUUM", "target": "main.customer"}
    ]
    text = render_text(plan)
    assert text.startswith("PREVIEW people\n")
    assert "- sql: VACUUM" in " ".join(text.split())
    assert "\x1b[" not in text
    assert "\x1b[" in render_text(plan, color=True)


@everywhere
def test_a_dry_run_honours_the_options_of_the_run(shop: Shop) -> None:
    handle = declare(mode="append", incremental_column="id")
    handle.run()
    assert pipeline.dry_run("people").targets[0].dry_run_rows_affected["rows_inserted"] == 0
    assert len(shop.runs()) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_several_targets_and_steps_where_rows_travel(shop: Shop, tmp_path: Path) -> None:
    register_connection(ObjectStoreLocalConnection("lake", str(tmp_path / "lake"), "parquet"))
    shop.tell(f"CREATE TABLE main.raw AS {PEOPLE}")
    seen: list[tuple[str, int]] = []
    targets = [
        ematix.target(Archive, mode="append", target_connection="lake"),
        ematix.target(Customer, mode="merge", transforms_post=["UPDATE main.customer SET name = upper(name)"]),
        ematix.target(Customer, mode="scd2", target_connection="other"),
    ]

    @ematix.pipeline(
        targets=targets,
        source_connection="default",
        source_table="main.raw",
        transforms_post=[lambda target, parent: seen.append((target.name, parent.rows_inserted))],
    )
    def people(): ...

    result = people.run()
    assert {name: each["path"] for name, each in result.items()} == {
        "main.archive": "cross_db", "main.customer@default": "same_db", "main.customer@other": "cross_db",
    }  # fmt: skip
    assert (seen, shop.names()) == ([("lake", 2), ("other", 2)], ["ADA", "BOB"])
    lake = shop.project.backend("lake").ledger.runs()
    assert [(run.step_name, run.status) for run in lake if run.parent_run_id] == [
        ("transform[0]:<lambda>", "transform_success")
    ]
