"""What a pipeline's function is given, and what becomes of its answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn

import pytest

from ematix_flow.backends.base import Backend
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import DuckDBConnection, SQLiteConnection
from ematix_flow.engine.handle import Handle
from ematix_flow.engine.source import call_function
from ematix_flow.errors import CheckError, RunError, SpecError, SpecTypeError, UserCodeError
from ematix_flow.markers import pk
from ematix_flow.spec import registry
from ematix_flow.spec.origin import Origin
from ematix_flow.spec.pipeline import Pipeline, build_pipeline
from ematix_flow.spec.place import Place, Prefix, Query, TableRef
from ematix_flow.spec.source import Source
from ematix_flow.spec.table import build_table_class
from ematix_flow.types import BigInt, Text

Call = Callable[[Callable[..., object]], Place | None]
PLACE = Origin("pipelines.py", 7)


class Customer:
    id: Annotated[BigInt, pk()]
    name: Text


def declared(function: Callable[..., object]) -> Pipeline:
    table = build_table_class(Customer, schema="dw")
    options = {"target": table, "mode": "append", "name": "customers", "source_table": "raw.people"}
    return build_pipeline(function, options, PLACE)


def start_no_spark() -> NoReturn:
    raise AssertionError("planning needs no Spark")


@pytest.fixture
def systems(tmp_path: Path) -> tuple[Backend, Backend]:
    """A source and a target, of which nothing is opened."""
    workshop = Workshop(start_no_spark, tmp_path)
    source = SQLiteConnection(name="shop", path=str(tmp_path / "shop.db"))
    target = DuckDBConnection(name="warehouse", path=str(tmp_path / "warehouse.duckdb"))
    return source.open(workshop), target.open(workshop)


@pytest.fixture
def call(systems: tuple[Backend, Backend]) -> Call:
    """What a function's answer becomes."""
    return lambda function: call_function(declared(function), *systems)


# ── arguments ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_function_without_arguments_is_called_without(call: Call) -> None:
    assert call(lambda: "SELECT 1") == Query("SELECT 1")


def test_one_argument_is_the_source(call: Call) -> None:
    assert call(lambda source: f"SELECT '{source.name}'") == Query("SELECT 'shop'")


def test_two_arguments_are_the_source_and_the_target(call: Call) -> None:
    answer = call(lambda source, target: f"SELECT '{source.name}', '{target.name}'")
    assert answer == Query("SELECT 'shop', 'warehouse'")


def test_a_parameter_with_a_default_keeps_it(call: Call) -> None:
    assert call(lambda source, limit=10: f"SELECT {limit}") == Query("SELECT 10")


def test_a_handle_says_what_its_connection_is(systems: tuple[Backend, Backend]) -> None:
    handle = Handle(systems[0])
    assert (handle.name, handle.kind, handle.dialect()) == ("shop", "sqlite", "sqlite")
    assert handle.connection_info()["name"] == "shop"


def test_a_preview_lets_the_function_ask_nothing(systems: tuple[Backend, Backend]) -> None:
    with pytest.raises(RunError, match="a preview opens nothing"):
        call_function(declared(lambda source: source.ping()), *systems, live=False)


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_none_leaves_the_source_to_the_declaration(call: Call) -> None:
    assert call(lambda source: None) is None


@pytest.mark.parametrize("place", [Query("SELECT 1"), TableRef("raw", "people"), Prefix("people/", "csv")])
def test_a_place_is_taken_as_it_is(call: Call, place: Place) -> None:
    assert call(lambda source: place) is place


def test_a_dictionary_is_the_result_of_a_function_that_loads_by_itself(call: Call) -> None:
    answer = {"rows": 1}
    assert call(lambda: answer) is answer


@pytest.mark.parametrize("answer", [7, ["SELECT 1"], b"SELECT 1"])
def test_another_answer_is_a_type_error_with_its_place(call: Call, answer: object) -> None:
    with pytest.raises(SpecTypeError, match=f"pipeline 'customers'.*returned {type(answer).__name__}") as caught:
        call(lambda source: answer)
    assert caught.value.declared_at == PLACE


def test_an_empty_query_is_refused_with_its_place(call: Call) -> None:
    with pytest.raises(SpecError, match="pipeline 'customers': a query cannot be empty") as caught:
        call(lambda source: " \n")
    assert caught.value.declared_at == PLACE


def test_a_failure_of_the_function_names_the_pipeline_and_its_cause(call: Call) -> None:
    def customers(source: Handle) -> NoReturn:
        raise LookupError("no such file")

    with pytest.raises(UserCodeError, match=r"pipeline 'customers'.*LookupError: no such file") as caught:
        call(customers)
    assert caught.value.declared_at == PLACE
    assert isinstance(caught.value.__cause__, LookupError)


def test_an_error_of_this_package_passes_through(call: Call) -> None:
    def customers(source: Handle) -> NoReturn:
        raise CheckError("the file is half written")

    with pytest.raises(CheckError, match="half written"):
        call(customers)


def test_a_source_is_a_query_of_the_connection_that_its_handle_names(call: Call) -> None:
    assert call(lambda source: Source.from_query(source, "SELECT 1")) == Query("SELECT 1")
    assert call(lambda source, target: Source(target, "SELECT 1")) == Query("SELECT 1", "warehouse")
    assert call(lambda source: Source.postgres_query(source, "SELECT 1")) == Query("SELECT 1")


def test_a_source_of_a_table_names_it_as_its_system_does(call: Call) -> None:
    assert call(lambda source: Source.from_table(source, "raw", "people")) == Query('SELECT * FROM "raw.people"')
    narrow = call(lambda source, target: Source.postgres_table(target, "raw", "people", ["id", "a b"]))
    assert narrow == Query('SELECT "id", "a b" FROM "raw"."people"', "warehouse")


def test_a_source_may_name_its_connection(call: Call) -> None:
    assert call(lambda source: Source("shop", "SELECT 1")) == Query("SELECT 1")
    assert call(lambda source, target: Source("warehouse", "SELECT 1")) == Query("SELECT 1", "warehouse")
    with pytest.raises(SpecError, match=r"pipeline 'customers'.*a Source of connection 'other'"):
        call(lambda source: Source("other", "SELECT 1"))


def test_a_source_needs_a_handle_of_this_pipeline(call: Call, tmp_path: Path) -> None:
    other = DuckDBConnection(name="other", path=str(tmp_path / "other")).open(Workshop(start_no_spark, tmp_path))
    with pytest.raises(SpecError, match=r"pipeline 'customers'.*a Source of connection 'other'") as caught:
        call(lambda source: Source(Handle(other), "SELECT 1"))
    assert "source_connection='other'" in str(caught.value.hint)
    with pytest.raises(SpecTypeError, match="Source takes a handle or the name of a connection, not NoneType"):
        call(lambda source: Source(None, "SELECT 1"))  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="needs the name of its connection"):
        call(lambda source: Source("", "SELECT 1"))


# ── async ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def later(source: Handle) -> str:
    await asyncio.sleep(0)
    return f"SELECT '{source.name}'"


def test_an_async_function_is_awaited(call: Call) -> None:
    assert call(later) == Query("SELECT 'shop'")


def test_an_async_function_is_awaited_beside_a_running_loop(call: Call) -> None:
    async def notebook() -> Place | None:
        return call(later)

    assert asyncio.run(notebook()) == Query("SELECT 'shop'")


def test_beside_a_running_loop_the_function_sees_the_same_declarations(call: Call) -> None:
    seen = []

    async def customers(source: Handle) -> None:
        seen.append((registry.active(), threading.current_thread()))

    async def notebook() -> None:
        call(customers)

    with registry.scope() as expected:
        asyncio.run(notebook())
    [(active, thread)] = seen
    assert active is expected
    assert thread is not threading.current_thread()


@pytest.mark.parametrize("beside_a_loop", [False, True])
def test_a_failure_of_an_async_function_names_the_pipeline(call: Call, *, beside_a_loop: bool) -> None:
    async def customers(source: Handle) -> NoReturn:
        raise LookupError("no such file")

    async def notebook() -> None:
        call(customers)

    with pytest.raises(UserCodeError, match="LookupError: no such file"):
        asyncio.run(notebook()) if beside_a_loop else call(customers)
