"""`transforms_post=` and `@ematix.transform`: what runs after a load, how it is recorded, what its failure means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ematix_flow import pipeline
from ematix_flow.backends.connection import MemoryConnection
from ematix_flow.connections import register_connection
from ematix_flow.decorators import PipelineHandle, ematix
from ematix_flow.errors import (
    BackendError,
    CycleError,
    DuplicateNameError,
    FlowError,
    SpecError,
    SpecTypeError,
    StepError,
    UnknownNameError,
    UnsupportedError,
    UserCodeError,
)
from ematix_flow.spec.place import TableRef
from tests.pipelines.shop import PEOPLE, Archive, Customer, Shop, everywhere

SHOUT = "UPDATE main.customer SET name = upper(name)"
BROKEN = "UPDATE main.no_such_table SET x = 1"


def declare(*steps: Any, **options: Any) -> PipelineHandle:
    def people(source):
        return PEOPLE

    return ematix.pipeline(**({"target": Customer, "mode": "merge", "transforms_post": list(steps)} | options))(people)


def steps_of(shop: Shop) -> list[tuple[str | None, str]]:
    return [(run.step_name, run.status) for run in shop.runs() if run.mode == "transform"]


# ── what a step may be ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_runs_as_sql_on_the_target(shop: Shop) -> None:
    result = declare(SHOUT).run()
    assert shop.names() == ["ADA", "BOB"]
    (step,) = result.transforms_post
    assert (step["step"], step["status"]) == ("transform[0]:sql", "transform_success")


def test_a_function_is_given_the_target_and_what_is_known_of_the_load(shop: Shop) -> None:
    seen = []

    def note(target, parent):
        target.execute(SHOUT)
        seen.append(parent)

    result = declare(note).run()
    (parent,) = seen
    assert (parent.pipeline_name, parent.run_id, parent.target, parent.mode) == (
        "people", result.run_id, "main.customer", "merge",
    )  # fmt: skip
    assert (parent.rows_inserted, parent.rows_updated, parent.rows_unchanged, parent.rows_deleted) == (2, 0, 0, 0)
    assert shop.names() == ["ADA", "BOB"]


def test_a_function_may_take_the_target_alone_and_may_be_async(shop: Shop) -> None:
    async def shout(target):
        target.execute(SHOUT)

    declare(shout).run()
    assert shop.names() == ["ADA", "BOB"]


def test_a_dictionary_that_a_function_gives_is_its_metrics(shop: Shop) -> None:
    result = declare(lambda target: {"checked": 2, "of": Customer.__name__}).run()
    assert result.transforms_post[0]["metrics"] == {"checked": 2, "of": "Customer"}
    (run,) = [run for run in shop.runs() if run.step_name]
    assert json.loads(str(run.metrics_json)) == {"checked": 2, "of": "Customer"}


def test_a_reference_runs_a_transform_on_the_loads_connection(shop: Shop) -> None:
    @ematix.transform()
    def shout(target, parent):
        target.execute(SHOUT)
        return {"after": parent.pipeline_name}

    result = declare(ematix.transform_ref("shout")).run()
    assert shop.names() == ["ADA", "BOB"]
    assert result.transforms_post[0]["metrics"] == {"after": "people"}
    assert steps_of(shop) == [("transform[0]:ref=shout", "transform_success")]


def test_a_reference_may_be_to_a_pipeline_which_has_a_record_of_its_own(shop: Shop) -> None:
    people = declare(ematix.transform_ref("archive"))

    @ematix.pipeline(target=Archive, mode="append", source_table="main.customer")
    def archive(): ...

    result = people.run()
    load, step, chained = shop.runs()
    assert (load.pipeline, step.step_name, chained.pipeline) == ("people", "transform[0]:ref=archive", "archive")
    assert result.transforms_post[0]["metrics"] == {"pipeline": "archive", "run_id": chained.run_id}
    assert shop.names("archive") == ["Ada", "Bob"]


@everywhere
def test_steps_run_in_their_order_and_each_is_recorded_with_its_load(shop: Shop) -> None:
    result = declare(SHOUT, "UPDATE main.customer SET name = replace(name, 'D', '?')", lambda target: None).run()
    assert shop.names() == ["A?A", "BOB"]
    load, *steps = shop.runs("people")
    assert (load.run_id, load.status, load.step_name, load.parent_run_id) == (result.run_id, "success", None, None)
    assert {step.parent_run_id for step in steps} == {result.run_id}
    assert {(step.mode, step.path, step.schema, step.table) for step in steps} == {
        ("transform", "post", "main", "customer")
    }
    assert [step.step_name for step in steps] == ["transform[0]:sql", "transform[1]:sql", "transform[2]:<lambda>"]


def test_each_target_has_its_own_steps(shop: Shop) -> None:
    seen: list[str] = []
    targets = [
        ematix.target(Customer, mode="merge"),
        ematix.target(Archive, mode="append", transforms_post=[]),
    ]

    @ematix.pipeline(targets=targets, transforms_post=[lambda target, parent: seen.append(parent.target)])
    def people(source):
        return PEOPLE

    people.run()
    assert seen == ["main.customer"]
    assert [(step.kind, step.target) for step in people.preview().transforms_post] == [("callable", "main.customer")]


@everywhere
def test_a_history_of_an_older_version_gets_the_columns_it_lacks(shop: Shop) -> None:
    declare().run()
    history = shop.project.backend("default").relation_sql(TableRef("ematix_flow", "run_history"))
    for column in ("parent_run_id", "step_name", "metrics_json"):
        shop.tell(f"ALTER TABLE {history} DROP COLUMN {column}")
    assert [run.step_name for run in shop.runs()] == [None]
    declare(SHOUT).sync()
    assert steps_of(shop) == [("transform[0]:sql", "transform_success")]


# ── failure ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@everywhere
def test_a_step_that_fails_undoes_nothing_and_the_error_says_so(shop: Shop) -> None:
    with pytest.raises(StepError, match="the load is committed, but step transform\\[0\\]:sql failed") as caught:
        declare(BROKEN, SHOUT).run()
    assert "no_such_table" in str(caught.value)
    assert caught.value.result["rows_inserted"] == 2
    assert isinstance(caught.value, ValueError)
    assert shop.names() == ["Ada", "Bob"]
    load, step = shop.runs("people")
    assert (load.status, step.status) == ("success", "transform_failed")
    assert "no_such_table" in str(step.error)


def test_later_steps_go_on_where_that_is_wanted_with_a_warning(shop: Shop) -> None:
    with pytest.warns(UserWarning, match="the load is committed, but step transform\\[0\\]:sql failed"):
        result = declare(BROKEN, SHOUT, continue_on_failure_post=True).run()
    assert [step["status"] for step in result.transforms_post] == ["transform_failed", "transform_success"]
    assert shop.names() == ["ADA", "BOB"]
    assert steps_of(shop) == [
        ("transform[0]:sql", "transform_failed"), ("transform[1]:sql", "transform_success"),
    ]  # fmt: skip


def test_the_failure_of_a_function_is_named_and_its_cause_kept(shop: Shop) -> None:
    def count(target):
        raise KeyError("nothing there")

    with pytest.raises(StepError, match="count failed with KeyError: 'nothing there'") as caught:
        declare(count).run()
    assert isinstance(caught.value.__cause__, UserCodeError)
    assert isinstance(caught.value.__cause__.__cause__, KeyError)


def test_a_pipeline_that_is_referred_to_and_fails_leaves_a_linked_record(shop: Shop) -> None:
    @ematix.pipeline(target=Archive, mode="append")
    def archive(source):
        return "SELECT * FROM no_such_table"

    with pytest.raises(StepError, match="no_such_table"):
        declare(ematix.transform_ref("archive")).run()
    assert [(run.pipeline, run.status) for run in shop.runs()] == [
        ("people", "success"), ("people", "transform_failed"), ("archive", "failed"),
    ]  # fmt: skip


def test_a_load_that_fails_runs_no_steps(shop: Shop) -> None:
    bad = ematix.pipeline(target=Customer, mode="merge", name="bad", transforms_post=[SHOUT])
    with pytest.raises(BackendError):
        bad(lambda source: "SELECT * FROM no_such_table").run()
    assert steps_of(shop) == []


def test_a_repeated_token_runs_the_steps_again(shop: Shop) -> None:
    calls = []
    handle = declare(lambda target: calls.append(1))
    for _ in range(2):
        shop.project.run(handle.pipeline, token="monday")
    assert len(calls) == 2


def test_a_dry_run_runs_no_steps(shop: Shop) -> None:
    calls = []
    handle = declare(lambda target: calls.append(1), SHOUT)
    handle.dry_run()
    assert handle.sync(dry_run=True).status == "dry_run"
    assert (calls, shop.runs()) == ([], [])


# ── declarations ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (7, r"transforms_post\[0\] cannot be a int"),
        (None, r"transforms_post\[0\] cannot be a NoneType"),
        (lambda: None, r"transforms_post\[0\] takes 0 arguments"),
        (lambda one, two, three: None, r"transforms_post\[0\] takes 3 arguments"),
    ],
)
def test_a_step_of_the_wrong_kind_is_refused_where_it_is_declared(step: Any, problem: str, shop: Shop) -> None:
    with pytest.raises(SpecTypeError, match=problem):
        declare(step)


def test_steps_stand_in_a_list(shop: Shop) -> None:
    with pytest.raises(SpecTypeError, match="takes a list of steps, not a str"):
        declare(transforms_post=SHOUT)


def test_an_empty_text_is_no_step(shop: Shop) -> None:
    with pytest.raises(SpecError, match="is an empty text"):
        declare("  ")


def test_a_reference_is_a_name() -> None:
    with pytest.raises(TypeError, match="transform_ref takes a name, not a int"):
        ematix.transform_ref(7)  # type: ignore[arg-type]


def test_a_reference_to_nothing_is_refused_before_the_load(shop: Shop) -> None:
    with pytest.raises(KeyError, match="no transform or pipeline 'shuot'"):
        declare(ematix.transform_ref("shuot")).run()
    assert shop.runs() == []


def test_the_steps_of_all_targets_are_checked_before_the_first_load(shop: Shop) -> None:
    targets = [
        ematix.target(Customer, mode="merge"),
        ematix.target(Archive, mode="append", transforms_post=[ematix.transform_ref("nothing")]),
    ]
    with pytest.raises(UnknownNameError, match=r"people::main\.archive"):
        declare(target=None, targets=targets, mode=None, transforms_post=None).run()
    assert shop.runs() == []


def test_several_statements_in_one_step_are_refused_before_the_load(shop: Shop) -> None:
    with pytest.raises(SpecError, match="several statements"):
        declare(f"{SHOUT}; DELETE FROM main.customer").run()
    assert shop.runs() == []


def test_references_that_lead_back_are_refused_where_the_circle_closes(shop: Shop) -> None:
    def refer(name: str, to: str) -> None:
        declare(ematix.transform_ref(to), name=name)

    refer("one", "two")
    refer("two", "three")
    with pytest.raises(CycleError, match="three → one → two → three"):
        refer("three", "one")
    with pytest.raises(CycleError, match="four → four"):
        refer("four", "four")
    assert set(shop.project.registry.pipelines) == {"one", "two"}


def test_sql_needs_a_target_that_runs_sql(shop: Shop) -> None:
    register_connection(MemoryConnection("memory"))
    handle = declare(SHOUT, target_connection="memory")
    with pytest.raises(UnsupportedError, match="step transform\\[0\\]:sql is SQL, and connection 'memory'"):
        handle.run()
    assert any("is SQL" in note for note in handle.preview().notes)


def test_a_preview_names_the_steps(shop: Shop) -> None:
    def note(target, parent): ...

    plan = declare(f"{SHOUT}\nWHERE id = 1", note, ematix.transform_ref("later")).preview()
    assert [(step.kind, step.summary) for step in plan.transforms_post] == [
        ("sql", SHOUT), ("callable", "note(connection, parent)"), ("transform_ref", "later"),
    ]  # fmt: skip
    assert any("no transform or pipeline 'later'" in note for note in plan.notes)


# ── transforms ────────────────────────────────────────────────────────────────────────────────────────────────────────


@everywhere
def test_a_transform_runs_by_itself_and_is_recorded(shop: Shop) -> None:
    declare().run()

    @ematix.transform(name="shout", target_connection="default", schedule="0 5 * * *")
    def shout_names(target, parent):
        return {"changed": target.execute(SHOUT), "parent": parent}

    result = pipeline.run_transform("shout")
    assert (result.status, result["metrics"]) == ("success", {"changed": 2, "parent": None})
    (run,) = shop.runs("shout")
    assert (run.run_id, run.status, run.mode, run.table) == (result.run_id, "transform_success", "transform", "")
    assert shout_names.__name__ == "shout_names"


def test_a_transform_that_fails_is_recorded_too(shop: Shop) -> None:
    @ematix.transform()
    def fail(target):
        target.execute(BROKEN)

    declare().run()
    with pytest.raises(FlowError, match="no_such_table"):
        pipeline.run_transform("fail")
    assert [run.status for run in shop.runs("fail")] == ["transform_failed"]


def test_an_unknown_transform_names_the_nearest(shop: Shop) -> None:
    ematix.transform(name="shout")(lambda target: None)
    with pytest.raises(UnknownNameError, match="unknown transform 'shuot'") as caught:
        pipeline.run_transform("shuot")
    assert "did you mean 'shout'?" in str(caught.value)


def test_a_transforms_name_is_taken_once(shop: Shop) -> None:
    ematix.transform(name="shout")(lambda target: None)
    other = "ematix.transform(name='shout')(lambda target: None)"
    with pytest.raises(DuplicateNameError, match="transform 'shout' is declared already"):
        exec(compile(other, "other.py", "exec"), {"ematix": ematix})  # noqa: S102


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"schedule": "every day"}, "not a cron text"),
        ({"target_connection": 7}, "cannot be a int"),
        ({"schedule": 7}, "int"),
    ],
)
def test_a_transforms_options_are_checked(options: Any, problem: str, shop: Shop) -> None:
    with pytest.raises(SpecError, match=f"transform 'shout': .*{problem}"):
        ematix.transform(name="shout", **options)(lambda target: None)


def test_a_transform_takes_a_connection(shop: Shop) -> None:
    with pytest.raises(SpecTypeError, match="the function takes 0 arguments"):
        ematix.transform(name="shout")(lambda: None)
