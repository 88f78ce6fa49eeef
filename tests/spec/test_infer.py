"""Tables as plain data, and tables that nobody declared."""

from __future__ import annotations

import json
from typing import Annotated

import pytest

from ematix_flow.errors import UnknownNameError
from ematix_flow.markers import natural_key, pk
from ematix_flow.spec.infer import infer_table
from ematix_flow.spec.place import TableRef
from ematix_flow.spec.table import Column, ManagedTable, build_table_class
from ematix_flow.spec.table_spec import table_from_spec
from ematix_flow.types import BigInt, Numeric, String, Text


def test_an_inferred_table_has_its_keys_as_primary_key() -> None:
    table = infer_table(TableRef("dw", "item"), {"id": BigInt(), "name": Text()}, ["id"])
    assert [(each.name, each.nullable, each.primary_key) for each in table.columns] == [
        ("id", False, True), ("name", True, False),
    ]  # fmt: skip


def test_an_inferred_table_may_be_without_a_key() -> None:
    assert infer_table(TableRef("dw", "item"), {"id": BigInt()}).primary_key == ()


def test_a_key_that_the_frame_has_not_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'code'"):
        infer_table(TableRef("dw", "item"), {"code": Text()}, ["kode"])


def test_a_table_comes_back_from_its_spec() -> None:
    for table in (_decorated()._table(), _as_class()._table()):
        assert table_from_spec(table.to_spec()) == table
        assert table_from_spec(json.loads(json.dumps(table.to_spec()))).fingerprint == table.fingerprint


def test_both_forms_of_one_table_have_one_spec_and_fingerprint() -> None:
    assert _decorated()._to_normalized_spec() == _as_class()._to_normalized_spec()
    assert len(str(_as_class()._to_normalized_spec()["fingerprint"])) == 32


def test_a_spec_may_leave_the_unique_constraints_out() -> None:
    spec = {key: value for key, value in _as_class()._to_spec().items() if key != "unique_constraints"}
    assert table_from_spec(spec).unique == ()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"columns": []}, "no columns"),
        ({"schema": ""}, "schema is empty"),
        ({"unique_constraints": [["nobody"]]}, "nobody"),
        ({"unique_constraints": [[]]}, "names no column"),
        ({"fingerprint": "0" * 32}, "fingerprint"),
    ],
)
def test_a_spec_that_cannot_be_right_is_a_value_error(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        table_from_spec({**_as_class()._to_spec(), **change})


def test_a_spec_without_its_parts_says_which() -> None:
    with pytest.raises(ValueError, match="no columns"):
        table_from_spec({"schema": "dw", "name": "item"})


def _decorated() -> type[ManagedTable]:
    class Item:
        id: Annotated[BigInt, pk()]
        code: Annotated[String[5], natural_key()]
        price: Numeric[8, 2] | None

    return build_table_class(Item, schema="dw")


def _as_class() -> type[ManagedTable]:
    class Item(ManagedTable):
        __schema__ = "dw"
        __tablename__ = "item"
        __unique_constraints__ = (("code",),)

        id = Column(BigInt, primary_key=True)
        code = Column(String[5], nullable=False)
        price = Column(Numeric[8, 2])

    return Item
