"""Open handles in place of names, names in place of steps, and failures before there is a plan."""

from __future__ import annotations

import pytest

from ematix_flow import connect
from ematix_flow.decorators import ematix
from ematix_flow.errors import BackendError, CycleError, SpecError, SpecTypeError, StepError, UnsupportedError
from ematix_flow.pipeline import register, sync
from ematix_flow.source import Source
from ematix_flow.types import JSON, Boolean
from tests.pipelines.shop import PEOPLE, Archive, Customer, Shop, everywhere


def test_a_load_goes_into_the_system_of_the_handle_which_is_not_called_default(shop: Shop) -> None:
    with connect(url=shop.elsewhere()) as elsewhere:
        assert elsewhere.name != "default"
        sync(target=Customer, source=PEOPLE, target_connection=elsewhere)
        assert elsewhere.fetch_scalar_int("SELECT COUNT(*) FROM main.customer") == 2
    assert shop.is_untouched()


@everywhere
def test_one_handle_is_source_and_target_of_a_pushed_load(shop: Shop) -> None:
    with connect(url=shop.elsewhere()) as elsewhere:
        elsewhere.execute("CREATE TABLE people AS SELECT 1 AS id, 'Ada' AS name")
        query = Source.postgres_query(elsewhere, "SELECT id, name FROM people")
        result = sync(target=Customer, source=query, target_connection=elsewhere)
        assert (result.rows_inserted, result.path) == (1, "same_db")


@pytest.mark.slow
def test_rows_go_from_one_handle_to_another(shop: Shop) -> None:
    with connect(url=shop.elsewhere()) as source, connect("default") as target:
        source.execute("CREATE TABLE people AS SELECT 1 AS id, 'Ada' AS name")
        query = Source.postgres_query(source, "SELECT id, name FROM people")
        result = sync(target=Customer, source=query, target_connection=target, mode="merge")
        assert (result.rows_inserted, result.path) == (1, "cross_db")
    assert shop.names() == ["Ada"]


def test_a_function_that_fails_by_its_handle_is_a_failed_run(shop: Shop) -> None:
    @ematix.pipeline(target=Customer, mode="merge")
    def people(source):
        return source.query("SELECT * FROM nowhere")["rows"]

    shop.tell("CREATE TABLE some_table (id BIGINT)")
    with pytest.raises(BackendError, match="nowhere"):
        people.run()
    (run,) = shop.runs("people")
    assert (run.status, "nowhere" in str(run.error)) == ("failed", True)


def test_a_target_that_nobody_knows_does_not_hide_why_the_function_failed(shop: Shop) -> None:
    several = [ematix.target(Customer, mode="merge"), ematix.target(Archive, mode="append", target_connection="lost")]

    @ematix.pipeline(targets=several, source_connection="default", continue_on_failure=True)
    def people(source):
        raise ValueError("no such day")

    with pytest.raises(RuntimeError, match="no such day"):
        people.run()
    assert [run.status for run in shop.project.backend("default").ledger.runs()] == ["failed"]


def test_a_text_that_names_a_pipeline_or_a_transform_runs_it(shop: Shop) -> None:
    @ematix.pipeline(target=Archive, mode="truncate")
    def archive(source):
        return "SELECT id, name FROM main.customer"

    @ematix.pipeline(target=Customer, mode="merge", transforms_post=["archive"])
    def people(source):
        return PEOPLE

    result = people.run()
    assert shop.names("archive") == ["Ada", "Bob"]
    assert result["transforms_post"][0]["step"] == "transform[0]:ref=archive"


def test_texts_that_name_pipelines_may_not_lead_back(shop: Shop) -> None:
    @ematix.pipeline(target=Archive, mode="truncate", transforms_post=["people"])
    def archive(source):
        return PEOPLE

    with pytest.raises(CycleError, match="people → archive → people"):

        @ematix.pipeline(target=Customer, mode="merge", transforms_post=["archive"])
        def people(source):
            return PEOPLE


@pytest.mark.parametrize("statement", ["COMMIT", "DELETE FROM main.customer; DELETE FROM main.archive"])
@everywhere
def test_a_step_that_cannot_be_one_statement_stops_the_load_before_it_begins(shop: Shop, statement: str) -> None:
    @ematix.pipeline(target=Customer, mode="merge", transforms_post=[statement])
    def people(source):
        return PEOPLE

    with pytest.raises(SpecError, match=r"step transform\[0\]:sql"):
        people.run()
    assert shop.is_untouched()


def test_metrics_that_are_no_json_are_a_failed_step(shop: Shop) -> None:
    def circle(connection):
        found: dict[str, object] = {}
        found["self"] = found
        return found

    @ematix.pipeline(target=Customer, mode="merge", transforms_post=[circle])
    def people(source):
        return PEOPLE

    with pytest.raises(StepError, match=r"the load is committed.*cannot be written as JSON"):
        people.run()
    assert shop.names() == ["Ada", "Bob"]


def test_keywords_of_the_scheduler_are_refused_alike_everywhere() -> None:
    with pytest.raises(UnsupportedError, match="retry"):
        register(name="nightly", retry={"max_attempts": 3})
    with pytest.raises(SpecTypeError, match="'mode'"):
        register(name="nightly", mode="append")


@pytest.mark.parametrize("kind", [Boolean, JSON])
def test_a_bookmark_needs_values_that_grow(kind: type) -> None:
    from typing import Annotated

    from ematix_flow import BigInt, pk
    from ematix_flow.spec.table import build_table_class

    columns = {"id": Annotated[BigInt, pk()], "flag": kind}
    table = build_table_class(type("Flags", (), {"__annotations__": columns}), schema="main")
    with pytest.raises(SpecError, match="do not grow"):
        ematix.pipeline(target=table, mode="append", incremental_column="flag")(lambda source: PEOPLE)


def test_a_preview_shows_no_password_that_a_query_holds(shop: Shop) -> None:
    @ematix.pipeline(target=Customer, mode="merge")
    def people(source):
        return "SELECT 1 AS id, 'postgres://bob:hunter2@db/x' AS name"

    assert "hunter2" not in people.preview().to_json()


@everywhere
def test_a_second_run_creates_nothing(shop: Shop) -> None:
    @ematix.pipeline(target=Customer, mode="merge")
    def people(source):
        return PEOPLE

    people.run()
    backend = shop.project.backend("default")
    said: list[str] = []
    real = backend.connect  # type: ignore[attr-defined]

    class Heard:
        def __init__(self) -> None:
            self._connection = real()

        def execute(self, sql: str):
            said.append(sql)
            return self._connection.execute(sql)

        def __getattr__(self, name: str):
            return getattr(self._connection, name)

    backend.connect = Heard  # type: ignore[attr-defined]
    people.run()
    made = [sql for sql in said if sql.startswith(("CREATE", "ALTER")) and "TEMPORARY" not in sql]
    assert made == []


@everywhere
def test_runs_of_frames_and_of_what_is_no_longer_declared_are_still_listed(shop: Shop) -> None:
    import pyarrow as pa

    import ematix_flow.df  # noqa: F401 - gives handles their methods for frames
    from ematix_flow.errors import UnknownNameError
    from ematix_flow.spec import registry

    @ematix.pipeline(target=Customer, mode="merge")
    def people(source):
        return PEOPLE

    people.run()
    shop.project.connect().write_df(pa.table({"id": [1]}), "main.guest", mode="append")  # type: ignore[attr-defined]
    registry.active().clear("pipeline")

    @ematix.pipeline(target=Customer, mode="merge")
    def renamed(source):
        return PEOPLE

    assert {run.pipeline for run in shop.runs()} == {"people", "write_df:main.guest"}
    assert [run.pipeline for run in shop.runs("people")] == ["people"]
    assert shop.runs("renamed") == []
    with pytest.raises(UnknownNameError, match="nobody"):
        shop.runs("nobody")
