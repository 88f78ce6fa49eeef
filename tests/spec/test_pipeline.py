"""What `@ematix.pipeline` accepts and refuses while it declares, and what the decorated function becomes."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ematix_flow.config import Settings
from ematix_flow.connections import DuckDBConnection, register_connection
from ematix_flow.decorators import ematix
from ematix_flow.errors import ConnectionLookupError, DuplicateNameError, SpecTypeError, UnsupportedError
from ematix_flow.project import Project
from ematix_flow.spec import registry
from ematix_flow.spec.pipeline import LATER, Pipeline
from ematix_flow.spec.place import TableRef
from ematix_flow.spec.registry import Registry
from tests.spec import declaring
from tests.spec.declaring import Customer, declare, declared, no_arguments, query, refusal


@pytest.fixture(autouse=True)
def _fresh_registry():
    with registry.scope():
        yield


# ── the function ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_function_may_take_no_argument_where_a_table_is_read() -> None:
    pipeline = declared(no_arguments, source_table="raw.people")
    assert (pipeline.parameters, pipeline.source_table) == (0, TableRef("raw", "people"))


def test_a_function_may_take_the_source() -> None:
    assert declared(lambda source: "SELECT 1").parameters == 1


def test_a_function_may_take_the_source_and_the_target() -> None:
    assert declared(lambda source, target: "SELECT 1").parameters == 2


def test_a_parameter_with_a_default_is_no_handle() -> None:
    assert declared(lambda source, limit=10: "SELECT 1").parameters == 1


def test_keywords_with_defaults_and_collected_keywords_are_no_handles() -> None:
    assert declared(lambda source, *, limit=10, **rest: "SELECT 1").parameters == 1


def test_an_async_function_is_declared_like_any_other() -> None:
    async def customers(source):
        return "SELECT 1"

    assert declared(customers).parameters == 1


def test_a_partial_function_takes_what_is_left() -> None:
    def customers(limit, source):
        return f"SELECT {limit}"

    assert declared(partial(customers, 10), name="customers").parameters == 1


def test_three_arguments_are_refused() -> None:
    assert "takes 3 arguments" in str(refusal(SpecTypeError, lambda a, b, c: ""))


def test_a_collection_of_arguments_is_refused() -> None:
    assert "*handles" in str(refusal(SpecTypeError, lambda *handles: ""))


def test_a_keyword_without_a_default_is_refused() -> None:
    assert "'limit'" in str(refusal(SpecTypeError, lambda source, *, limit: ""))


def test_no_argument_and_no_source_table_is_refused() -> None:
    assert "source_table=" in str(refusal(SpecTypeError, no_arguments))


def test_something_that_cannot_be_called_is_refused() -> None:
    assert "not a function" in str(refusal(SpecTypeError, "SELECT 1"))


# ── keywords ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_documented_defaults_hold() -> None:
    pipeline = declared()
    assert (pipeline.name, pipeline.target_connection, pipeline.source_connection) == ("query", "default", None)
    assert (pipeline.on_drift, pipeline.late_events, pipeline.allow_empty_source) == ("error", "error", False)


def test_an_unknown_keyword_names_the_nearest() -> None:
    assert "did you mean 'schedule'?" in str(refusal(SpecTypeError, shedule="0 5 * * *"))


def test_an_unknown_mode_names_the_nearest() -> None:
    assert "did you mean 'merge'?" in str(refusal(UnsupportedError, mode="merg"))


@pytest.mark.parametrize("keyword", ["on_drift", "late_events", "force_path", "handle_deletes"])
def test_a_closed_word_refuses_others(keyword: str) -> None:
    assert f"{keyword}='often'" in str(refusal(UnsupportedError, **{keyword: "often"}))


@pytest.mark.parametrize("keyword", sorted(LATER))
def test_a_documented_keyword_that_is_not_built_is_refused(keyword: str) -> None:
    error = refusal(UnsupportedError, **{keyword: None})
    assert keyword in error.message
    assert isinstance(error, NotImplementedError)


def test_a_missing_target_is_a_type_error() -> None:
    assert "no target" in str(refusal(SpecTypeError, target=None))


def test_a_target_that_is_no_table_class_is_a_type_error() -> None:
    assert "@ematix.table" in str(refusal(SpecTypeError, target="dw.customer"))


def test_a_missing_mode_is_a_type_error() -> None:
    assert "no mode" in str(refusal(SpecTypeError, mode=None))


@pytest.mark.parametrize(
    "keyword",
    [
        "name", "schedule", "timezone", "source_connection", "target_connection", "source_table", "column_map",
        "event_timestamp_column", "incremental_column", "watermark_column", "allow_empty_source", "incremental",
        "ttl_seconds",
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_kind_is_refused_without_being_shown(keyword: str) -> None:
    with pytest.raises(SpecTypeError, match=f"{keyword}= cannot be a list") as caught:
        declare(**{keyword: ["hunter2"]})
    assert caught.value.hint is not None
    if keyword != "name":
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("keyword", ["allow_empty_source", "incremental"])
def test_a_switch_takes_no_text(keyword: str) -> None:
    assert "True or False" in str(refusal(SpecTypeError, **{keyword: "no"}))


def test_a_source_table_without_a_schema_is_refused() -> None:
    assert "'people' does not name a table" in str(refusal(source_table="people"))


@pytest.mark.parametrize("path", ["same_db", "cross_db"])
def test_a_path_can_be_forced(path: str) -> None:
    assert declared(force_path=path).force_path == path


# ── connections ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_connections_are_named_by_text() -> None:
    pipeline = declared(source_connection="shop", target_connection="warehouse")
    assert (pipeline.source_connection, pipeline.target_connection) == ("shop", "warehouse")


def test_a_declared_connection_stands_for_its_name() -> None:
    @ematix.connection
    class warehouse:  # noqa: N801
        kind, path = "duckdb", ":memory:"

    pipeline = declared(source_connection=warehouse, target_connection=warehouse)
    assert (pipeline.source_connection, pipeline.target_connection) == ("warehouse", "warehouse")


def test_an_unknown_connection_names_the_nearest(tmp_path: Path) -> None:
    project = Project(Settings.load(tmp_path), Registry())
    with project.active():
        register_connection(DuckDBConnection(name="warehouse", path=":memory:"))
        pipeline = declared(target_connection="warehose")
        with pytest.raises(ConnectionLookupError, match="did you mean 'warehouse'"):
            project.plan(pipeline)


# ── schedule ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "schedule",
    [
        "0 5 * * *",
        "*/15 8-18 * * MON-FRI",
        "0 0 1,15 jan-jun ?",
        "30 0 5 * * *",
        "0 0 L * 5#2",
        " 0  5 * * 0 ",
        "@daily",
    ],
)
def test_a_cron_text_is_kept(schedule: str) -> None:
    assert declared(schedule=schedule).schedule == schedule


@pytest.mark.parametrize(
    "schedule", ["", "not cron", "every day at five oclock", "0 5 * *", "0 5 * * * * *", "0 5 * * $"]
)
def test_a_text_that_is_not_cron_is_refused(schedule: str) -> None:
    assert repr(schedule) in str(refusal(schedule=schedule))


def test_an_unknown_macro_names_the_nearest() -> None:
    assert "did you mean '@daily'?" in str(refusal(schedule="@dayly"))


def test_a_known_time_zone_is_kept() -> None:
    assert declared(schedule="@daily", timezone="Europe/Berlin").timezone == "Europe/Berlin"


@pytest.mark.parametrize("timezone", ["Mars/Base", "Europe", "../Berlin", "/etc/localtime", ""])
def test_an_unknown_time_zone_is_refused(timezone: str) -> None:
    assert f"no time zone {timezone!r}" in str(refusal(schedule="@daily", timezone=timezone))


def test_an_unknown_time_zone_names_the_nearest() -> None:
    assert "did you mean 'Europe/Berlin'?" in str(refusal(schedule="@daily", timezone="Europe/Berln"))


def test_a_time_zone_without_a_schedule_is_refused() -> None:
    assert "schedule=" in str(refusal(timezone="UTC"))


# ── synonyms and lengths of time ──────────────────────────────────────────────────────────────────────────────────────


def test_the_older_spelling_of_an_incremental_load_means_the_same() -> None:
    older, newer = declared(incremental=True, watermark_column="id"), declared(incremental_column="id")
    assert older == newer


def test_incremental_without_a_column_is_refused() -> None:
    assert "needs watermark_column=" in str(refusal(SpecTypeError, incremental=True))


def test_a_column_with_incremental_false_is_refused() -> None:
    assert "contradicts" in str(refusal(SpecTypeError, incremental=False, watermark_column="id"))


def test_both_spellings_of_an_incremental_load_are_refused() -> None:
    assert "say the same" in str(refusal(SpecTypeError, watermark_column="id", incremental_column="id"))


@pytest.mark.parametrize(
    "options", [{"ttl_seconds": 90}, {"ttl": "90s"}, {"ttl": timedelta(seconds=90)}, {"ttl": 90.0}]
)
def test_a_length_of_time_has_many_spellings(options: dict[str, Any]) -> None:
    assert declared(mode="scd2", **options).ttl == timedelta(seconds=90)


@pytest.mark.parametrize("ttl", [0, "0s", timedelta(0), -5, "soon"])
def test_an_expiry_must_be_above_zero(ttl: object) -> None:
    assert repr(ttl) in str(refusal(mode="scd2", ttl=ttl))


@pytest.mark.parametrize("seconds", ["90", True])
def test_the_older_spelling_of_an_expiry_takes_only_numbers(seconds: object) -> None:
    refusal(SpecTypeError, mode="scd2", ttl_seconds=seconds)


# ── the handle and the registry ───────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_a_pipeline() -> None:
    assert ematix.job is ematix.pipeline


def test_an_unknown_word_of_the_namespace_names_the_nearest() -> None:
    with pytest.raises(AttributeError, match="did you mean 'pipeline'"):
        _ = ematix.pipelin


def test_a_handle_looks_like_its_function() -> None:
    handle = declare(name="customers")
    assert (handle.__name__, handle.__doc__, handle.__wrapped__) == ("query", "The customers.", query)
    assert (handle.name, repr(handle)) == ("customers", "<pipeline 'customers' into dw.customer (append)>")


def test_an_attribute_of_the_function_does_not_hide_the_pipeline() -> None:
    def customers(source): ...

    customers.pipeline = "mine"
    assert isinstance(declare(customers).pipeline, Pipeline)


def test_a_declared_pipeline_is_registered_with_its_place() -> None:
    handle = declare()
    assert registry.active().pipelines == {"query": handle.pipeline}
    origin = registry.active().origin("pipeline", "query")
    assert origin is not None
    assert (Path(origin.file).name, origin) == (Path(declaring.__file__).name, handle.pipeline.declared_at)


def test_a_second_declaration_in_the_same_file_replaces_the_first() -> None:
    declare(mode="append")
    declare(mode="truncate")
    assert registry.active().pipelines["query"].mode == "truncate"


def test_a_second_declaration_in_another_file_is_refused() -> None:
    declare()
    other = "@ematix.pipeline(target=Customer, mode='append')\ndef query(source): ...\n"
    with pytest.raises(DuplicateNameError, match=r"'query' is declared already at declaring\.py") as caught:
        exec(compile(other, "other.py", "exec"), {"ematix": ematix, "Customer": Customer})  # noqa: S102
    assert str(caught.value.declared_at) == "other.py:1"


def test_a_refused_declaration_registers_nothing() -> None:
    refusal(mode="scd2", handle_deletes="hard")
    assert registry.active().pipelines == {}
