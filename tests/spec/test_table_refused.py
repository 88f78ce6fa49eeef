"""Classes that cannot be tables are refused, with the place and what to change."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Annotated

import pytest

from ematix_flow.errors import DuplicateNameError, SpecError
from ematix_flow.markers import pk
from ematix_flow.normalize import derive, trim
from ematix_flow.spec.table import ManagedTable, Table, build_table_class
from ematix_flow.types import (
    BigInt,
    Text,
)
from tests.spec.tables import EMAIL, ID, CustomerDim, class_of, column, declare, table_of


def test_an_error_names_the_class_the_column_and_the_place():
    line = inspect.currentframe().f_lineno + 3
    with pytest.raises(SpecError) as caught:

        @declare()
        class Orders:
            id: Annotated[BigInt, pk()]
            note: str

    assert "Orders'" in str(caught.value)
    assert "column 'note': str is not a column type" in str(caught.value)
    assert "Text" in caught.value.hint
    assert caught.value.declared_at.file == __file__
    assert caught.value.declared_at.line == line


def test_a_schema_is_needed():
    with pytest.raises(TypeError, match="schema"):
        build_table_class(class_of({"id": Annotated[BigInt, pk()]}))


@pytest.mark.parametrize("schema", [None, 5])
def test_a_schema_is_text(schema):
    with pytest.raises(TypeError, match="__schema__"):
        build_table_class(class_of({"id": Annotated[BigInt, pk()]}), schema=schema)


def test_a_managed_table_needs_schema_and_name():
    for missing, body in {"__schema__": {"__tablename__": "t"}, "__tablename__": {"__schema__": "s"}}.items():
        with pytest.raises(TypeError, match=f"{missing} is missing"):
            type("Orders", (ManagedTable,), {"id": ID, "__module__": __name__, **body})


def test_a_managed_table_without_columns_is_a_type_error():
    with pytest.raises(TypeError, match="no columns"):
        type("Orders", (ManagedTable,), {"__schema__": "s", "__tablename__": "t", "__module__": __name__})


def test_only_classes_are_declared():
    with pytest.raises(TypeError, match="by a class"):
        build_table_class(lambda: None, schema="dw")


def test_a_dataclass_is_not_declared_again():
    @dataclasses.dataclass
    class Orders:
        id: int

    with pytest.raises(TypeError, match="already a dataclass"):
        build_table_class(Orders, schema="dw")


@pytest.mark.parametrize(
    ("attribute", "tool"),
    [("__attrs_attrs__", "attrs"), ("__pydantic_fields__", "pydantic"), ("__fields__", "pydantic")],
)
def test_classes_of_other_tools_are_not_declared_again(attribute, tool):
    with pytest.raises(TypeError, match=tool):
        table_of({"id": Annotated[BigInt, pk()]}, **{attribute: ()})


def test_a_table_is_not_declared_twice():
    with pytest.raises(TypeError, match="already a table"):
        build_table_class(CustomerDim, schema="dw")


def test_a_name_that_cannot_be_found_is_a_type_error():
    with pytest.raises(
        TypeError, match=r"column 'note': the annotation 'Txet' cannot be read: .*'Txet' is not defined"
    ):
        table_of({"id": Annotated[BigInt, pk()], "note": "Txet"})


def test_a_wrong_type_parameter_written_as_text_names_its_column():
    with pytest.raises(SpecError, match=r"class 'Orders': column 'note': String needs a length above 0"):
        table_of({"id": Annotated[BigInt, pk()], "note": "String[0]"})


def test_a_column_with_a_default_value_is_refused():
    with pytest.raises(SpecError, match="column 'note' has a value"):
        table_of({"id": Annotated[BigInt, pk()], "note": Text}, note="")


def test_a_private_class_variable_is_no_column():
    assert table_of({"id": Annotated[BigInt, pk()], "_cache": "ClassVar[dict]"}).column_names == ("id",)


@pytest.mark.parametrize("dunder", ["__merge_keys__", "__partition_columns__", "__unique_constraints__"])
@pytest.mark.parametrize("value", ["id", 5, [5]])
def test_lists_of_columns_are_lists_of_text(dunder, value):
    with pytest.raises(TypeError, match=dunder):
        table_of({"id": Annotated[BigInt, pk()]}, **{dunder: value})


def test_a_constraint_written_as_text_is_refused():
    with pytest.raises(TypeError, match="an entry of __unique_constraints__"):
        table_of({"id": Annotated[BigInt, pk()]}, __unique_constraints__=("id",))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"schema": ""}, "schema is empty"),
        ({"name": " "}, "name is empty"),
        ({"columns": ()}, "no columns"),
        ({"columns": (EMAIL,)}, "no primary key"),
        ({"columns": (ID, column(""))}, "name is empty"),
        ({"columns": (ID, column("a "))}, "spaces at its ends"),
        ({"columns": (ID, column("a\nb"))}, "cannot be seen"),
        ({"columns": (ID, column("_hidden"))}, "'_hidden' starts with an underscore"),
        ({"columns": (ID, column("_LOADED_AT"))}, "'_LOADED_AT' starts with an underscore"),
        ({"columns": (ID, EMAIL, EMAIL)}, "'email' and 'email' have one name"),
        ({"columns": (ID, EMAIL, column("Email"))}, "'email' and 'Email' have one name"),
        ({"columns": (ID, column("a", normalizers=[trim]))}, "column 'a': .* is not a normalizer"),
        ({"columns": (ID, column("a", normalizers=[trim(), derive("b")]))}, "column 'a': .* must be the first"),
        ({"unique": ((),)}, "unique constraint names no column"),
        ({"unique": (("email", "email"),)}, "repeats a column"),
        ({"unique": (("phone",),)}, "no column 'phone'"),
        ({"merge_keys": ()}, "__merge_keys__ names no column"),
        ({"merge_keys": ("id", "id")}, "repeats a column"),
        ({"merge_keys": ("emial",)}, "no column 'emial'"),
        ({"partition_columns": ("day",)}, "no column 'day'"),
    ],
)
def test_a_table_that_cannot_be_right_is_a_value_error(fields, problem):
    with pytest.raises(ValueError, match=problem):
        Table(**{"schema": "dw", "name": "orders", "columns": (ID, EMAIL), **fields})


def test_columns_of_one_name_are_a_duplicate():
    with pytest.raises(DuplicateNameError):
        Table("dw", "orders", (ID, ID))


@pytest.mark.parametrize("name", ["_loaded_at", "_batch_id", "valid_from", "naïve name", "select"])
def test_metadata_names_and_unusual_names_are_allowed(name):
    assert Table("dw", "orders", (ID, column(name))).column(name).name == name


def test_an_attribute_that_is_almost_one_of_ours_is_named():
    with pytest.raises(SpecError, match="has the attribute '__partition_column__'") as caught:

        class Sale(ManagedTable):
            __schema__ = "shop"
            __tablename__ = "sale"
            __partition_column__ = ("country",)
            id: Annotated[BigInt, pk()]
            country: Text

    assert caught.value.hint == "did you mean '__partition_columns__'?"
    assert caught.value.declared_at is not None
