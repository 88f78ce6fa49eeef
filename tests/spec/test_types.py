# Annotations here are objects, not text: what `from __future__ import annotations` changes is in test_table.py.
from typing import Annotated, Optional

import pytest

from ematix_flow import types
from ematix_flow.errors import SpecError, SpecTypeError
from ematix_flow.markers import natural_key, nullable, pk
from ematix_flow.normalize import derive, trim
from ematix_flow.spec.annotation import read_annotation
from ematix_flow.types import BigInt, Column, NullableType, Numeric, String, Text, resolve_type, type_from_spec

PLAIN = {
    "SmallInt": "small_int",
    "Integer": "integer",
    "BigInt": "big_int",
    "Float": "float",
    "Double": "double",
    "Boolean": "boolean",
    "Text": "text",
    "Date": "date",
    "Timestamp": "timestamp",
    "TimestampTZ": "timestamp_tz",
    "JSON": "json",
    "JSONB": "jsonb",
    "UUID": "uuid",
    "Bytes": "bytes",
}


def read(annotation):
    def evaluate(text):
        raise AssertionError(f"nothing to evaluate, yet got {text}")

    return read_annotation(annotation, "email", evaluate)


@pytest.mark.parametrize(("name", "kind"), PLAIN.items())
def test_a_plain_type_means_the_same_bare_and_called(name, kind):
    cls = getattr(types, name)
    assert resolve_type(cls) == cls()
    assert cls().to_spec() == {"kind": kind}


@pytest.mark.parametrize("written", [String(5), String[5]])
def test_a_string_has_its_length(written):
    assert written.to_spec() == {"kind": "string", "length": 5}


@pytest.mark.parametrize("written", [Numeric(12, 2), Numeric[12, 2]])
def test_a_numeric_has_its_precision_and_scale(written):
    assert written.to_spec() == {"kind": "numeric", "precision": 12, "scale": 2}


@pytest.mark.parametrize("written", [BigInt(), String[5], Numeric[12, 2]])
def test_a_type_comes_back_from_its_spec(written):
    assert type_from_spec(written.to_spec()) == written


def test_an_unknown_kind_is_a_value_error():
    with pytest.raises(ValueError, match="'varchar2'"):
        type_from_spec({"kind": "varchar2"})


@pytest.mark.parametrize("length", [0, -1])
def test_a_string_without_room_is_a_value_error(length):
    with pytest.raises(ValueError, match="above 0"):
        String(length)


@pytest.mark.parametrize("length", ["5", 5.0, True, None])
def test_a_length_that_is_no_whole_number_is_a_type_error(length):
    with pytest.raises(TypeError, match="whole number"):
        String[length]


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (-1, 0), (5, 6), (5, -1), (256, 2)])
def test_an_impossible_numeric_is_a_value_error(precision, scale):
    with pytest.raises(ValueError, match="not possible"):
        Numeric[precision, scale]


@pytest.mark.parametrize("parameters", [12, (12,), (12, 2, 1), [12, 2]])
def test_a_numeric_without_two_parameters_is_a_type_error(parameters):
    with pytest.raises(TypeError, match="precision and a scale"):
        Numeric[parameters]


def test_a_type_or_none_holds_the_type():
    assert (String[5] | None) == NullableType(String[5])
    assert (None | String[5]) == NullableType(String[5])


@pytest.mark.parametrize(
    "annotation",
    [
        BigInt | None,
        Optional[BigInt],  # noqa: UP045 - a documented spelling
        BigInt() | None,
        Annotated[BigInt | None, trim()],
        Annotated[BigInt, trim()] | None,
        Annotated[BigInt() | None, trim()],
        Annotated[BigInt, nullable()],
    ],
)
def test_every_spelling_of_nullable_is_read(annotation):
    column = read(annotation).column
    assert (column.type, column.nullable) == (BigInt(), True)


@pytest.mark.parametrize("annotation", [BigInt, BigInt(), Annotated[BigInt, trim()]])
def test_an_annotation_without_none_is_not_null(annotation):
    assert not read(annotation).column.nullable


@pytest.mark.parametrize("annotation", [String, Annotated[String, pk()], String | None])
def test_a_bare_string_tells_to_subscript_it(annotation):
    with pytest.raises(TypeError, match=r"String\[256\]"):
        read(annotation)


def test_a_bare_numeric_tells_to_subscript_it():
    with pytest.raises(TypeError, match=r"Numeric\[12, 2\]"):
        read(Numeric)


@pytest.mark.parametrize(("annotation", "better"), [(int, "BigInt"), (str, "Text"), (bool | None, "Boolean")])
def test_a_python_type_is_a_type_error_that_names_ours(annotation, better):
    with pytest.raises(TypeError, match="is not a column type") as caught:
        read(annotation)
    assert better in str(caught.value)


@pytest.mark.parametrize("annotation", [list[int], types.ColumnType, 5, None])
def test_anything_else_is_a_type_error(annotation):
    with pytest.raises(TypeError, match="is not a column type"):
        read(annotation)


def test_two_types_are_a_type_error():
    with pytest.raises(TypeError, match="one type"):
        read(BigInt | Text)


@pytest.mark.parametrize("marker", [pk, natural_key, nullable, trim])
def test_a_marker_that_is_not_called_is_a_type_error(marker):
    with pytest.raises(TypeError, match=f"{marker.__name__} is not called"):
        read(Annotated[Text, marker])


@pytest.mark.parametrize("marker", ["the address", 3, object(), str, None])
def test_a_marker_of_another_kind_is_a_type_error(marker):
    with pytest.raises(TypeError, match="is not a column marker"):
        read(Annotated[Text, marker])


def test_markers_given_twice_are_refused():
    with pytest.raises(SpecError, match="twice"):
        read(Annotated[Text, pk(), pk()])
    with pytest.raises(SpecError, match="twice"):
        read(Annotated[Text, natural_key("a"), natural_key("a")])


def test_a_column_may_join_several_natural_keys():
    assert read(Annotated[Text, natural_key("a"), natural_key()]).groups == ("a", "")


@pytest.mark.parametrize("annotation", [Annotated[Text | None, pk()], Annotated[Text, pk(), nullable()]])
def test_a_nullable_primary_key_is_refused(annotation):
    with pytest.raises(ValueError, match="'email' cannot be nullable"):
        read(annotation)


def test_markers_are_hashable_and_pk_shows_its_options():
    assert repr(pk(order=2, auto=True)) == "pk(auto=True, order=2)"
    assert {pk(), natural_key("a"), nullable()} == {pk(), natural_key("a"), nullable()}


def test_a_natural_key_group_is_text():
    with pytest.raises(TypeError, match="group"):
        natural_key(3)


def test_a_column_is_nullable_unless_it_is_a_primary_key():
    assert Column(Text).nullable
    assert not Column(Text, primary_key=True).nullable
    with pytest.raises(SpecError, match="cannot be nullable"):
        Column(Text, nullable=True, primary_key=True)


def test_a_column_takes_a_bare_type_and_gives_its_spec():
    assert Column(BigInt, primary_key=True, name="id").to_spec() == {
        "name": "id",
        "type": {"kind": "big_int"},
        "nullable": False,
        "primary_key": True,
    }


def test_a_column_needs_a_column_type():
    with pytest.raises(SpecTypeError, match="int is not a column type"):
        Column(int)


def test_normalizers_of_a_column_are_a_tuple():
    assert Column(Text, normalizers=[trim()]).normalizers == (trim(),)
    with pytest.raises(SpecTypeError, match="tuple of markers"):
        Column(Text, normalizers=trim())


def test_a_derived_column_needs_no_source_column():
    assert Column(Text, normalizers=[derive("a || b"), trim()]).is_derived
    assert not Column(Text, normalizers=[trim()]).is_derived
    assert not Column(Text).is_derived
