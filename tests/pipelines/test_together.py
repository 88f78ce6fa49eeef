"""Features in each other's company: frames, several targets, row transforms, steps and validation."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import pytest

from ematix_flow.decorators import ematix
from ematix_flow.errors import SpecError
from ematix_flow.markers import pk
from ematix_flow.normalize import derive, sql, trim
from ematix_flow.spec.table import build_table_class
from ematix_flow.transforms import deduplicate_by, filter_where, limit
from ematix_flow.types import BigInt, Text
from tests.pipelines.shop import PEOPLE, Archive, Customer, Shop, everywhere

BOTH = [ematix.target(Customer, mode="merge"), ematix.target(Archive, mode="append")]
ROWS = pa.table({"id": [1, 2, 2], "name": [" Ada ", "Bob", "Bob the second"]})


@everywhere
def test_a_frame_goes_into_several_targets(shop: Shop) -> None:
    @ematix.pipeline(targets=BOTH, transforms_pre=[deduplicate_by("id", order_by="name")])
    def people(source):
        return ROWS

    result = people.run()
    assert [result[name]["rows_inserted"] for name in result] == [2, 2]
    assert (shop.names(), shop.names("archive")) == (["Ada", "Bob"], [" Ada ", "Bob"])


def test_a_stream_that_can_be_read_once_is_refused_for_several_targets(shop: Shop) -> None:
    @ematix.pipeline(targets=BOTH)
    def people(source):
        return ROWS.slice(0, 2).to_reader()

    with pytest.raises(SpecError, match=r"pipeline 'people': .*read only once") as caught:
        people.run()
    assert "read_all()" in str(caught.value)
    assert shop.is_untouched()


def test_row_transforms_of_a_pipeline_and_of_a_target(shop: Shop) -> None:
    own = ematix.target(Archive, mode="append", transforms_pre=[limit(1)])
    several = [ematix.target(Customer, mode="merge"), own]

    @ematix.pipeline(targets=several, transforms_pre=[filter_where("id > 1")])
    def people(source):
        return PEOPLE

    result = people.run()
    assert [result[name]["rows_inserted"] for name in result] == [1, 1]
    assert shop.names() == ["Bob"]


def test_row_transforms_and_steps_in_one_pipeline(shop: Shop) -> None:
    seen = []

    @ematix.pipeline(
        target=Customer,
        mode="merge",
        transforms_pre=[filter_where("id = 1")],
        transforms_post=[lambda connection, parent: seen.append(parent.rows_inserted)],
    )
    def people(source):
        return PEOPLE

    people.run()
    assert (shop.names(), seen) == (["Ada"], [1])


def test_a_column_that_the_source_has_not_is_null_for_every_normalizer(shop: Shop) -> None:
    @ematix.pipeline(target=_nullable("note"), mode="append")
    def people(source):
        return "SELECT 1 AS id"

    with pytest.warns(UserWarning, match="the source has no 'note'"):
        people.run()
    assert shop.ask("SELECT id, note FROM main.person") == [(1, None)]


@everywhere
def test_validate_looks_at_row_transforms_and_own_sql(shop: Shop) -> None:
    def declared(condition: str, name: str):
        @ematix.pipeline(target=Customer, mode="merge", name=name, transforms_pre=[filter_where(condition)])
        def people(source):
            return PEOPLE

        return people

    assert declared("id > 1", "good").validate().ok
    found = declared("no_such_column > 1", "bad").validate()
    assert not found.ok
    assert "no_such_column" in found.errors[0]


@everywhere
def test_strict_schema_understands_own_sql(shop: Shop) -> None:
    class Person:
        id: Annotated[BigInt, pk()]
        name: Annotated[Text, sql("upper(col)")]
        size: Annotated[BigInt, derive("length(name)")]

    person = build_table_class(Person, schema="main")

    @ematix.pipeline(target=person, mode="merge", strict_schema=True)
    def people(source):
        return "SELECT 1 AS id, 'Ada' AS name"

    people.run()
    assert shop.ask("SELECT name, size FROM main.person") == [("ADA", 3)]


@pytest.mark.slow
def test_validate_asks_the_source_where_its_own_sql_cleans_before_spark_moves_rows(shop: Shop) -> None:
    class Person:
        id: Annotated[BigInt, pk()]
        name: Annotated[Text, sql("upper(col)")]

    person = build_table_class(Person, schema="main")

    def declared(query: str, name: str):
        @ematix.pipeline(target=person, mode="merge", name=name, source_connection="other")
        def people(source):
            return query

        return people

    shop.project.connect("other").execute("CREATE TABLE people AS SELECT 1 AS id, 'Ada' AS name")
    good = declared("SELECT id, name FROM people", "good")
    assert good.validate().ok
    good.run()
    assert shop.ask("SELECT name FROM main.person") == [("ADA",)]
    assert not declared("SELECT id FROM people", "bad").validate().ok


def _nullable(name: str) -> type:
    columns = {"id": Annotated[BigInt, pk()], name: Annotated[Text | None, trim()]}
    return build_table_class(type("Person", (), {"__annotations__": columns}), schema="main")
