"""Pipelines with several targets: one call of the function, a load of its own for each table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ematix_flow.decorators import PipelineHandle, ematix
from ematix_flow.errors import (
    BackendError,
    DriftError,
    FlowError,
    PartialRunError,
    SpecError,
    SpecTypeError,
    UnknownNameError,
    UserCodeError,
)
from tests.pipelines.shop import PEOPLE, Archive, Customer, Seen, Shop, everywhere

BOTH = [ematix.target(Customer, mode="merge"), ematix.target(Archive, mode="append")]
BAD_ARCHIVE = "CREATE TABLE main.archive (id TEXT, surprise TEXT)"


def declare(sql: str = PEOPLE, **options: Any) -> PipelineHandle:
    def people(source):
        return sql

    return ematix.pipeline(**({"targets": BOTH} | options))(people)


def refusal(kind: type[FlowError], **options: Any) -> str:
    with pytest.raises(kind) as caught:
        declare(**options)
    return str(caught.value)


@everywhere
def test_each_target_is_loaded_in_its_own_mode_with_its_own_normalizers(shop: Shop) -> None:
    result = declare().run()
    assert list(result) == ["main.customer", "main.archive"]
    assert [result[name]["rows_inserted"] for name in result] == [2, 2]
    assert (shop.names(), shop.names("archive")) == (["Ada", "Bob"], [" Ada ", "Bob"])


def test_the_function_is_called_once(shop: Shop) -> None:
    calls = []

    @ematix.pipeline(targets=BOTH)
    def people(source):
        calls.append(source.name)
        return PEOPLE

    people.run()
    assert calls == ["default"]


def test_each_target_is_recorded_under_the_name_of_the_pipeline_and_its_table(shop: Shop) -> None:
    declare().run()
    assert [(run.pipeline, run.mode, run.status) for run in shop.runs("people")] == [
        ("people::main.customer", "merge", "success"),
        ("people::main.archive", "append", "success"),
    ]


def test_the_pipelines_options_are_the_default_of_its_targets(shop: Shop) -> None:
    shop.tell("CREATE TABLE main.seen (id BIGINT PRIMARY KEY, more TEXT)")
    targets = [ematix.target(Customer), ematix.target(Seen, on_drift="error")]
    with pytest.raises(DriftError, match="'more' is in the table but not declared"):
        declare(targets=targets, mode="append", on_drift="warn").run()
    assert shop.names() == ["Ada", "Bob"]


def test_a_target_has_its_own_bookmark(shop: Shop) -> None:
    targets = [ematix.target(Archive, incremental_column="id"), ematix.target(Customer)]
    first = declare(targets=targets, mode="append").run()
    assert first["main.archive"]["watermark_after"] == "2"
    assert first["main.customer"]["watermark_after"] is None
    again = declare("SELECT 3 AS id, 'Cy' AS name UNION ALL SELECT 2, 'Bob'", targets=targets[:1], mode="append").run()
    assert again["main.archive"]["rows_inserted"] == 1


def test_a_target_may_take_other_columns_of_the_same_query(shop: Shop) -> None:
    targets = [
        ematix.target(Customer, column_map={"name": "upper(name)"}),
        ematix.target(Archive, column_map={"id": "id + 10", "name": "name"}),
    ]
    declare("SELECT 1 AS id, 'Ada' AS name", targets=targets, mode="append").run()
    assert (shop.names(), shop.ask("SELECT id, name FROM main.archive")) == (["ADA"], [(11, "Ada")])


def test_a_source_table_feeds_several_targets(shop: Shop) -> None:
    shop.tell(f"CREATE TABLE main.raw AS {PEOPLE}")

    @ematix.pipeline(targets=BOTH, source_table="main.raw")
    def people(): ...

    people.run()
    assert (shop.names(), shop.names("archive")) == (["Ada", "Bob"], [" Ada ", "Bob"])


@everywhere
def test_a_time_to_live_is_each_targets_own(shop: Shop) -> None:
    targets = [ematix.target(Customer, ttl="1h"), ematix.target(Archive)]
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    shop.project.run(declare(targets=targets, mode="scd2").pipeline, now=noon)
    later = declare("SELECT 2 AS id, 'Bob' AS name", targets=targets, mode="scd2").pipeline
    result = shop.project.run(later, now=noon + timedelta(hours=2))
    assert [each["closed_ttl"] for each in result.values()] == [1, 0]
    current = "SELECT id FROM main.{} WHERE is_current ORDER BY id"
    assert [shop.ask(current.format(table)) for table in ("customer", "archive")] == [[(2,)], [(1,), (2,)]]


def test_a_time_to_live_of_the_pipeline_holds_for_targets_that_name_none(shop: Shop) -> None:
    targets = [ematix.target(Customer, ttl_seconds=30), ematix.target(Archive)]
    ttls = [part.ttl for part in declare(targets=targets, mode="scd2", ttl="1h").pipeline.parts]
    assert ttls == [timedelta(seconds=30), timedelta(hours=1)]


def test_a_forced_path_is_each_targets_own(shop: Shop) -> None:
    targets = [ematix.target(Customer, force_path="cross_db"), ematix.target(Archive)]
    plan = declare(targets=targets, mode="append").preview()
    assert [(each.path, each.path_reason == "force_path=") for each in plan.targets] == [
        ("cross_db", True), ("same_db", False),
    ]  # fmt: skip
    other = [ematix.target(Customer), ematix.target(Archive, force_path="same_db")]
    plan = declare(targets=other, mode="append", force_path="cross_db").preview()
    assert [each.path for each in plan.targets] == ["cross_db", "same_db"]


@everywhere
def test_the_first_failure_ends_the_run_and_what_was_loaded_before_stays(shop: Shop) -> None:
    shop.tell(BAD_ARCHIVE)
    targets = [*BOTH, ematix.target(Seen, mode="append")]
    with pytest.raises(DriftError) as caught:
        declare(targets=targets).run()
    assert caught.value.__notes__ == ["Loaded before, and committed: main.customer", "Not tried: main.seen"]
    assert shop.names() == ["Ada", "Bob"]
    assert "seen" not in shop.tables()


@pytest.mark.parametrize("keyword", ["continue_on_failure", "continue_on_target_failure"])
def test_the_others_go_on_where_that_is_wanted_and_the_run_still_fails(keyword: str, shop: Shop) -> None:
    shop.tell(BAD_ARCHIVE)
    targets = [BOTH[1], BOTH[0], ematix.target(Seen, mode="append")]
    with pytest.raises(PartialRunError, match="1 of 3 targets failed") as caught:
        declare(targets=targets, **{keyword: True}).run()
    outcome = caught.value.outcome
    assert (outcome["status"], list(outcome["results"]), list(outcome["errors"])) == (
        "partial", ["main.customer", "main.seen"], ["main.archive"],
    )  # fmt: skip
    assert outcome["errors"]["main.archive"].startswith("DriftError: ")
    assert [run.status for run in shop.runs("people")] == ["failed", "success", "success"]


def test_a_run_whose_targets_all_fail_has_failed(shop: Shop) -> None:
    with pytest.raises(PartialRunError, match="2 of 2 targets failed") as caught:
        declare("SELECT * FROM no_such_table", continue_on_failure=True).run()
    assert (caught.value.outcome["status"], caught.value.outcome["results"]) == ("failed", {})


def test_a_function_that_fails_is_a_failed_run_of_every_target(shop: Shop) -> None:
    @ematix.pipeline(targets=BOTH, continue_on_failure=True)
    def people(source):
        return 1 / 0

    with pytest.raises(UserCodeError, match="pipeline 'people': its function failed with ZeroDivisionError"):
        people.run()
    assert [run.status for run in shop.runs("people")] == ["failed", "failed"]


def test_targets_may_be_in_several_systems(shop: Shop) -> None:
    targets = [BOTH[0], ematix.target(Customer, mode="append", target_connection="other")]
    # Connections of other files are other systems, which Spark would have to move rows between.
    handle = declare(targets=targets, source_connection="default")
    assert [target.path for target in handle.preview().targets] == ["same_db", "cross_db"]
    assert [part.name for part in handle.pipeline.parts] == [
        "people::main.customer@default",
        "people::main.customer@other",
    ]


def test_an_unknown_connection_of_one_target_leaves_the_others_alone(shop: Shop) -> None:
    targets = [ematix.target(Archive, mode="append", target_connection="nowhere"), BOTH[0]]
    handle = declare(targets=targets, source_connection="default", continue_on_failure=True)
    with pytest.raises(PartialRunError, match="nowhere") as caught:
        handle.run()
    assert list(caught.value.outcome["results"]) == ["main.customer"]


def test_a_token_is_each_targets_own(shop: Shop) -> None:
    handle = declare()
    for replayed in (None, True):
        result = shop.project.run(handle.pipeline, token="monday")
        assert [each.get("replayed") for each in result.values()] == [replayed, replayed]


def test_a_preview_has_every_target(shop: Shop) -> None:
    plan = declare(schedule="0 5 * * *").preview()
    assert (plan.pipeline_name, plan.schedule, plan.mode) == ("people", "0 5 * * *", None)
    assert [(each.schema_qualified_name, each.mode) for each in plan.targets] == [
        ("main.customer", "merge"), ("main.archive", "append"),
    ]  # fmt: skip
    assert all(each.source_sql and each.plan_sql for each in plan.targets)


@everywhere
def test_a_dry_run_tries_every_target_and_leaves_nothing(shop: Shop) -> None:
    shop.tell(BAD_ARCHIVE)
    plan = declare(targets=[BOTH[1], BOTH[0]]).dry_run()
    failed, counted = plan.targets
    assert failed.dry_run_error is not None
    assert failed.dry_run_error.startswith("DriftError")
    assert counted.dry_run_rows_affected["rows_inserted"] == 2
    assert (shop.tables(), shop.runs()) == ({"archive"}, [])


def test_a_dry_run_tells_of_a_target_that_cannot_even_be_planned(shop: Shop) -> None:
    targets = [ematix.target(Archive, mode="append", target_connection="nowhere"), BOTH[0]]
    plan = declare(targets=targets, source_connection="default", continue_on_failure=True).dry_run()
    assert "nowhere" in str(plan.targets[0].dry_run_error)
    assert plan.targets[1].dry_run_rows_affected["rows_inserted"] == 2
    assert plan.source_query == PEOPLE


def test_target_and_targets_exclude_each_other(shop: Shop) -> None:
    assert "exclude each other" in refusal(SpecTypeError, target=Customer)


@pytest.mark.parametrize(
    ("targets", "problem"),
    [([], "targets= is empty"), ([Customer], "has a Customer in it"), ("x", "takes a list"), (7, "takes a list")],
)
def test_targets_is_a_list_of_targets(targets: Any, problem: str, shop: Shop) -> None:
    assert problem in refusal(SpecTypeError, targets=targets)


def test_a_target_without_a_mode_is_refused_by_its_name(shop: Shop) -> None:
    assert "pipeline 'people::main.seen': it has no mode" in refusal(SpecTypeError, targets=[ematix.target(Seen)])


def test_one_table_is_named_once(shop: Shop) -> None:
    assert "two targets are one table: main.customer on default" in refusal(SpecError, targets=[BOTH[0], BOTH[0]])


def test_an_unknown_option_of_a_target_names_the_nearest() -> None:
    with pytest.raises(SpecTypeError, match=r"ematix\.target: there is no keyword 'kyes'") as caught:
        ematix.target(Customer, mode="merge", kyes=["id"])  # type: ignore[call-arg]
    assert "did you mean 'keys'?" in str(caught.value)


@pytest.mark.parametrize("keyword", ["schedule", "source_connection", "source_table", "name"])
def test_what_belongs_to_the_whole_pipeline_is_no_option_of_a_target(keyword: str) -> None:
    with pytest.raises(SpecTypeError, match=f"no keyword '{keyword}'"):
        ematix.target(Customer, mode="merge", **{keyword: "x"})  # type: ignore[arg-type]


def test_a_target_is_a_table_class() -> None:
    with pytest.raises(SpecTypeError, match="must be a table class"):
        ematix.target("main.customer", mode="merge")  # type: ignore[arg-type]


def test_options_are_checked_for_each_target(shop: Shop) -> None:
    targets = [BOTH[0], ematix.target(Archive, mode="append", keys=["id"])]
    assert "pipeline 'people::main.archive': keys= is for mode" in refusal(SpecError, targets=targets)
    assert "'nmae'" in refusal(UnknownNameError, targets=[ematix.target(Customer, mode="merge", keys=["nmae"])])


def test_targets_in_several_connections_need_a_named_source(shop: Shop) -> None:
    targets = [BOTH[0], ematix.target(Archive, mode="append", target_connection="other")]
    assert "pass source_connection=" in refusal(SpecError, targets=targets)


def test_a_function_that_wants_to_see_the_target_needs_one_connection(shop: Shop) -> None:
    targets = [BOTH[0], ematix.target(Archive, mode="append", target_connection="other")]
    with pytest.raises(SpecTypeError, match="wants to see the target"):

        @ematix.pipeline(targets=targets, source_connection="default")
        def people(source, target):
            return PEOPLE


def test_going_on_is_for_several_targets(shop: Shop) -> None:
    with pytest.raises(SpecError, match="is for several targets="):
        ematix.pipeline(target=Customer, mode="merge", continue_on_failure=True)(lambda source: PEOPLE)


def test_a_sync_with_other_options_reaches_every_target(shop: Shop) -> None:
    handle = declare(targets=[ematix.target(Customer), ematix.target(Archive)], mode="append")
    handle.run()
    result = handle.sync(mode="truncate")
    assert [each["mode"] for each in result.values()] == ["truncate", "truncate"]
    assert shop.names("archive") == [" Ada ", "Bob"]


def test_a_query_that_fails_fails_by_name(shop: Shop) -> None:
    with pytest.raises(BackendError, match="no_such_table"):
        declare("SELECT * FROM no_such_table").run()
