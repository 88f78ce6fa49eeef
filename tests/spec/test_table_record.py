"""The record of a table: its columns, fingerprint and keys."""

from __future__ import annotations

import dataclasses
import re

import pytest

from ematix_flow.errors import SpecError, UnknownNameError
from ematix_flow.spec.table import Column, ManagedTable, Table, key_ladder
from ematix_flow.types import (
    UUID,
    BigInt,
    Boolean,
    Bytes,
    Numeric,
    String,
    Text,
    Timestamp,
    TimestampTZ,
)
from tests.spec.tables import EMAIL, ID, CustomerDim, column


def test_an_unknown_column_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"table 'dw.customer_dim' has no column 'emial'") as caught:
        CustomerDim._table().column("emial")
    assert "did you mean 'email'" in str(caught.value)
    assert caught.value.declared_at == CustomerDim._table().declared_at


def test_the_fingerprint_is_the_same_for_every_form_of_one_table():
    class Imperative(ManagedTable):
        __schema__ = "dw"
        __tablename__ = "customer_dim"
        customer_id = Column(BigInt(), primary_key=True)
        email = Column(String(256))
        balance = Column(Numeric(12, 2), nullable=False)
        updated_at = Column(TimestampTZ())

    fingerprint = CustomerDim._to_normalized_spec()["fingerprint"]
    assert re.fullmatch("[0-9a-f]{32}", fingerprint)
    assert Imperative._to_normalized_spec() == CustomerDim._to_normalized_spec()
    assert fingerprint == "b9aaf1aed966f5413287b56c20f60c8c"


def test_the_fingerprint_depends_on_what_is_stored_and_its_order():
    table = Table("dw", "orders", (ID, EMAIL))
    others = [
        Table("dw", "orders", (EMAIL, ID)),
        Table("dw", "orders", (ID, Column(Text, nullable=False, name="email"))),
        Table("dw", "orders", (ID, EMAIL), unique=(("email",),)),
        Table("ods", "orders", (ID, EMAIL)),
    ]
    assert len({each.fingerprint for each in (table, *others)}) == 5
    assert Table("dw", "orders", (ID, EMAIL), merge_keys=("email",)).fingerprint == table.fingerprint


def test_tables_are_hashable_and_compare_without_their_place():
    again = dataclasses.replace(CustomerDim._table(), declared_at=None)
    assert again == CustomerDim._table()
    assert hash(again) == hash(CustomerDim._table())


HISTORY = (
    Column(TimestampTZ, primary_key=True, name="valid_from"),
    Column(TimestampTZ, name="valid_to"),
    Column(Boolean, nullable=False, name="is_current"),
    Column(Bytes, nullable=False, name="row_hash"),
    Column(TimestampTZ, nullable=False, name="_loaded_at"),
    Column(UUID, nullable=False, name="_batch_id"),
)


def test_added_columns_come_last_and_only_once():
    table = Table("dw", "orders", (ID, EMAIL)).with_columns(HISTORY)
    assert table.columns == (ID, EMAIL, *HISTORY)
    assert table.primary_key == ("id", "valid_from")
    assert table.with_columns(HISTORY) == table


def test_a_declared_metadata_column_keeps_its_place_and_joins_the_primary_key():
    own = Column(TimestampTZ, nullable=False, name="valid_from")
    table = Table("dw", "orders", (own, ID)).with_columns(HISTORY)
    assert table.column_names[:2] == ("valid_from", "id")
    assert table.primary_key == ("valid_from", "id")


@pytest.mark.parametrize(
    "own",
    [
        Column(Timestamp, nullable=False, name="_loaded_at"),
        Column(TimestampTZ, name="_loaded_at"),
        Column(TimestampTZ, name="Valid_To"),
        Column(Text, nullable=False, name="row_hash"),
        Column(TimestampTZ, name="valid_from"),
    ],
)
def test_a_declared_column_that_differs_from_an_added_one_is_refused(own):
    with pytest.raises(SpecError, match=f"'dw.orders': column '{own.name}' .* which the load adds"):
        Table("dw", "orders", (ID, own)).with_columns(HISTORY)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def keyed(**fields):
    return Table("dw", "orders", (ID, EMAIL, column("code")), **fields)


def test_explicit_keys_win_without_a_warning():
    keys = key_ladder(keyed(merge_keys=("code",)), ["email"], pipeline="load")
    assert (keys.names, keys.warning) == (("email",), None)


@pytest.mark.parametrize(
    ("fields", "names", "reason"),
    [
        ({"merge_keys": ("code",), "unique": (("email",),)}, ("code",), "__merge_keys__"),
        ({"unique": (("email", "code"), ("code",))}, ("email", "code"), "the first unique constraint"),
    ],
)
def test_keys_other_than_the_primary_key_come_with_a_warning(fields, names, reason):
    keys = key_ladder(keyed(**fields), None, pipeline="load_orders")
    assert (keys.names, keys.reason) == (names, reason)
    for part in ("load_orders", ", ".join(names), reason, "primary key"):
        assert part in keys.warning


@pytest.mark.parametrize("fields", [{"merge_keys": ("id",)}, {"unique": (("id",),)}, {}])
def test_keys_equal_to_the_primary_key_need_no_warning(fields):
    keys = key_ladder(keyed(**fields), None, pipeline="load")
    assert (keys.names, keys.warning) == (("id",), None)


def test_the_order_of_keys_counts_when_they_are_compared_with_the_primary_key():
    second = Column(Text, primary_key=True, name="line")
    table = Table("dw", "orders", (ID, second), merge_keys=("line", "id"))
    assert "primary key" in key_ladder(table, None, pipeline="load").warning


@pytest.mark.parametrize("explicit", [(), []])
def test_explicit_keys_that_name_nothing_are_refused_with_the_options(explicit):
    with pytest.raises(ValueError, match="'load': there is no key") as caught:
        key_ladder(keyed(), explicit, pipeline="load")
    for option in ("keys=", "__merge_keys__", "natural_key()", "pk()"):
        assert option in str(caught.value)


def test_explicit_keys_must_be_columns():
    with pytest.raises(UnknownNameError, match=r"keys of pipeline 'load'.*no column 'emial'") as caught:
        key_ladder(keyed(), ["emial"], pipeline="load")
    assert "did you mean 'email'" in str(caught.value)


def test_explicit_keys_are_named_once():
    with pytest.raises(ValueError, match="repeats a column"):
        key_ladder(keyed(), ["id", "id"], pipeline="load")


def test_explicit_keys_are_a_list():
    with pytest.raises(TypeError, match="list of column names"):
        key_ladder(keyed(), "id", pipeline="load")
