"""Tables from plain data."""

from __future__ import annotations

import json
from typing import Annotated

import pytest

from ematix_flow import ManagedTable, pk
from ematix_flow.errors import SpecError
from ematix_flow.spec.table_spec import table_from_spec
from ematix_flow.types import BigInt, Numeric, String


class Order(ManagedTable):
    __schema__, __tablename__ = "shop", "orders"
    __unique_constraints__ = (("number",),)
    id: Annotated[BigInt, pk()]
    number: String[12]
    total: Numeric[12, 2] | None


SPEC = Order._to_normalized_spec()
COLUMN = {"name": "id", "type": {"kind": "big_int"}, "nullable": False, "primary_key": True}


@pytest.mark.parametrize("spec", [Order, Order._table(), SPEC, json.dumps(SPEC), json.dumps(SPEC).encode()])
def test_a_table_comes_from_each_of_its_forms(spec):
    assert table_from_spec(spec).to_spec() == Order._to_spec()


def test_unique_constraints_may_be_left_out():
    assert table_from_spec({"schema": "s", "name": "t", "columns": [COLUMN]}).unique == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": ""}, "schema is empty"),
        ({"name": ""}, "name is empty"),
        ({"columns": []}, "there are no columns"),
        ({"columns": "id"}, "columns of a table is a list"),
        ({"columns": [{**COLUMN, "primary_key": False}]}, "no primary key"),
        ({"columns": [COLUMN, COLUMN]}, "have one name"),
        ({"columns": [{**COLUMN, "name": ""}]}, "name is empty"),
        ({"columns": [{**COLUMN, "typ": 1}]}, "unknown key 'typ'\n.*'type'"),
        ({"columns": [{**COLUMN, "type": {"kind": "bigint"}}]}, "unknown type kind 'bigint'"),
        ({"columns": [{**COLUMN, "type": {"kind": "text", "length": 3}}]}, "a type that cannot be right"),
        ({"columns": [{**COLUMN, "type": "big_int"}]}, "the type of column 'id' is a dictionary"),
        ({"columns": [{**COLUMN, "type": {"kind": "numeric", "precision": 300, "scale": 0}}]}, "precision"),
        ({"unique_constraints": [[]]}, "names no column"),
        ({"unique_constraints": [["id", "id"]]}, "repeats a column"),
        ({"unique_constraints": [["di"]]}, "no column 'di'"),
        ({"collumns": []}, "unknown key 'collumns'\n.*'columns'"),
    ],
)
def test_plain_data_that_cannot_be_a_table_is_a_value_error(change, message):
    with pytest.raises(ValueError, match=message):
        table_from_spec({"schema": "s", "name": "t", "columns": [COLUMN], **change})


@pytest.mark.parametrize("spec", ["{", 7, None, ["schema"]])
def test_what_is_no_table_at_all_is_refused(spec):
    with pytest.raises(SpecError, match="the spec of a table is"):
        table_from_spec(spec)
