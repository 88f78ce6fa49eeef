"""Previews of what cannot all be known: a note for what is in the dark, and the plan for the rest."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from ematix_flow import BigInt, ManagedTable, Text, pk
from ematix_flow.connections import PostgresConnection, register_connection
from ematix_flow.decorators import ematix
from ematix_flow.errors import SpecTypeError
from ematix_flow.preview import PreviewResult, TargetPlan, TransformPlan, render_text
from ematix_flow.transforms import filter_where, limit
from tests.pipelines.shop import PEOPLE, Archive, Customer, Shop, everywhere


def page(plan: PreviewResult, **options: Any) -> list[str]:
    return [" ".join(line.split()) for line in render_text(plan, **options).splitlines()]


def asking(**options: Any) -> Any:
    @ematix.pipeline(**({"target": Customer, "mode": "merge"} | options))
    def people(source):
        newest = source.fetch_scalar_int("SELECT MAX(id) FROM main.raw")
        return f"SELECT id, name FROM main.raw WHERE id = {newest}"

    return people


@everywhere
def test_a_function_that_asks_its_handle_still_has_a_plan_for_its_table(shop: Shop) -> None:
    plan = asking(transforms_post=["DELETE FROM main.archive"]).preview()
    (target,) = plan.targets
    assert (plan.mode, plan.source_query, plan.source_sql, plan.is_dry_run) == ("merge", "", None, False)
    assert (target.merge_keys, target.merge_keys_reason) == (("id",), "the primary key")
    assert target.declared_columns + target.augmented_columns == ("id", "name", "_loaded_at", "_batch_id")
    assert target.plan_sql == _plain(shop).targets[0].plan_sql
    assert plan.cleaning == ("name: trim()",)
    assert [step.summary for step in plan.transforms_post] == ["DELETE FROM main.archive"]
    assert len(plan.steps) == 2
    (note,) = plan.notes
    assert note.startswith("cannot be told: the path, the source query, because a preview opens nothing")
    assert note.endswith("Next: flow dry-run opens connections and tells everything")


def test_the_page_leaves_out_what_is_not_known(shop: Shop) -> None:
    lines = page(asking().preview())
    assert "Path not known (see the notes)" in lines
    assert "Source query" not in lines
    assert "Merge keys id [the primary key]" in lines


@everywhere
def test_the_same_pipeline_runs_and_its_dry_run_tells_everything(shop: Shop) -> None:
    shop.tell(f"CREATE TABLE main.raw AS {PEOPLE}")
    people = asking()
    (target,) = people.dry_run().targets
    assert (target.path, target.dry_run_rows_affected["rows_inserted"]) == ("same_db", 1)
    assert people.run().rows_inserted == 1


def test_an_unknown_target_leaves_what_the_declaration_says(shop: Shop) -> None:
    @ematix.pipeline(target=Customer, mode="scd2", target_connection="lost", source_connection="default")
    def people(source):
        return PEOPLE

    plan = people.preview()
    (target,) = plan.targets
    assert (plan.source_query, target.plan_sql, target.target_connection_info) == (PEOPLE, (), {})
    assert (target.target_connection_name, target.compare_columns) == ("lost", ("name",))
    assert target.augmented_columns[:3] == ("valid_from", "valid_to", "is_current")
    (note,) = plan.notes
    assert note.startswith("cannot be told: the path, the SQL plan, because pipeline 'people': there is no connection")
    assert "@ematix.connection" in note
    assert not [line for line in page(plan) if line.startswith("SQL plan")]


def test_two_things_in_the_dark_are_two_notes(shop: Shop) -> None:
    plan = asking(target_connection="lost", source_connection="default").preview()
    assert plan.notes[0].startswith("cannot be told: the path, the source query, the SQL plan, because a preview opens")
    assert plan.notes[1].startswith("pipeline 'people': there is no connection 'lost'. Next: ")
    assert len(asking(target_connection="lost").preview().notes) == 1


def test_an_unknown_source_leaves_the_table_that_is_read(shop: Shop) -> None:
    @ematix.pipeline(target=Customer, mode="merge", source_connection="lost", source_table="main.raw")
    def people(): ...

    plan = people.preview()
    assert (plan.source_connection_name, plan.source_connection_info, plan.source_query) == ("lost", {}, "main.raw")
    assert plan.targets[0].plan_sql == _plain(shop).targets[0].plan_sql
    assert "there is no connection 'lost'" in plan.notes[0]


def test_a_system_that_cannot_be_opened_yet_is_a_note_too(shop: Shop) -> None:
    register_connection(PostgresConnection("dwh", "postgres://ada:S3cr3t@db/x"))
    plan = asking(target_connection="dwh").preview()
    if not PostgresConnection.can_open():
        assert "postgres connection 'dwh' cannot be opened" in plan.notes[0]
    assert "S3cr3t" not in plan.to_json()


def test_a_function_that_fails_is_a_note(shop: Shop) -> None:
    @ematix.pipeline(target=Customer, mode="merge")
    def people(source):
        raise KeyError("no such day")

    assert "its function failed with KeyError: 'no such day'" in people.preview().notes[0]


def test_a_function_that_returns_nonsense_is_an_error_still(shop: Shop) -> None:
    @ematix.pipeline(target=Customer, mode="merge")
    def people(source):
        return 7

    with pytest.raises(SpecTypeError, match="its function returned int"):
        people.preview()


def test_one_target_in_the_dark_leaves_the_others_in_the_light(shop: Shop) -> None:
    lost = ematix.target(Archive, mode="append", target_connection="lost")

    @ematix.pipeline(targets=[ematix.target(Customer, mode="merge"), lost], source_connection="default")
    def people(source):
        return PEOPLE

    plan = people.preview()
    assert [(target.path, bool(target.plan_sql)) for target in plan.targets] == [("same_db", True), ("", False)]
    assert len(plan.notes) == 1


def test_a_key_that_surprises_is_noted_without_a_plan_too(shop: Shop) -> None:
    class Named(ManagedTable):
        __schema__, __tablename__, __merge_keys__ = "main", "named", ("name",)
        id: Annotated[BigInt, pk()]
        name: Text
        town: Text

    assert "which is not its primary key" in asking(target=Named).preview().notes[0]


# ── bookmarks and row transforms ──────────────────────────────────────────────────────────────────────────────────────


@everywhere
def test_a_preview_shows_the_column_of_the_bookmark_and_a_dry_run_its_value(shop: Shop) -> None:
    @ematix.pipeline(target=Customer, mode="append", incremental_column="id")
    def people(source):
        return PEOPLE

    assert (people.preview().targets[0].incremental_column, people.preview().targets[0].watermark_before) == (
        "id",
        None,
    )
    assert "Bookmark id" in page(people.preview())
    assert "Bookmark id, none before" in page(people.dry_run())
    people.run()
    plan = people.dry_run()
    assert plan.targets[0].watermark_before == "2"
    assert "watermark_before" not in plan.targets[0].dry_run_rows_affected
    assert "Bookmark id, at 2 before" in page(plan)
    assert "Bookmark id" in page(people.preview())


def test_row_transforms_are_shown_without_asking_for_everything(shop: Shop) -> None:
    @ematix.pipeline(target=Customer, mode="merge", transforms_pre=[filter_where("id > 1"), limit(5)])
    def people(source):
        return PEOPLE

    for plan in (people.preview(), people.dry_run()):
        lines = page(plan)
        begin = lines.index("Row transforms")
        assert lines[begin + 1 : begin + 3] == ["- filter_where(expr='id > 1')", "- limit(n=5)"]


def test_row_transforms_that_differ_say_whose_they_are(shop: Shop) -> None:
    own = ematix.target(Archive, mode="append", transforms_pre=[limit(1)])

    @ematix.pipeline(targets=[ematix.target(Customer, mode="merge"), own])
    def people(source):
        return PEOPLE

    assert "- main.archive: limit(n=1)" in page(people.preview())


# ── the records ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_records_of_a_plan_can_be_made_of_their_documented_fields() -> None:
    target = TargetPlan(
        schema_qualified_name="dw.person",
        mode="merge",
        path="same_db",
        path_reason="one database",
        augmented_columns=("_loaded_at",),
        declared_columns=("id",),
        merge_keys=("id",),
        merge_keys_reason="primary key",
        compare_columns=(),
        compare_columns_reason=None,
        target_connection_name="dwh",
        target_connection_info={},
        plan_sql=("INSERT INTO dw.person SELECT 1",),
        plan_sql_label="insert-select",
        dry_run_rows_affected={},
        dry_run_error=None,
    )
    plan = PreviewResult(
        pipeline_name="people",
        schedule=None,
        mode="merge",
        source_connection_name="raw",
        source_connection_info={},
        source_sql="SELECT 1",
        targets=(target,),
        is_dry_run=False,
        notes=("a note",),
        transforms_post=(TransformPlan("unknown", "something"),),
    )
    assert {"INSERT INTO dw.person SELECT 1", "a note", "unknown: something"} <= {
        line.partition(". ")[2] or line.removeprefix("- ") for line in page(plan)
    }
    assert page(PreviewResult("people"))[0] == "PREVIEW people"


def _plain(shop: Shop) -> PreviewResult:
    """The whole plan of the same load."""

    @ematix.pipeline(target=Customer, mode="merge", name="plain")
    def plain(source):
        return PEOPLE

    return plain.preview()
