from __future__ import annotations

import abc
import dataclasses
import inspect
import re
import subprocess
import sys
from typing import Annotated, ClassVar

import pytest

import ematix_flow.table
from ematix_flow.errors import DuplicateNameError, SpecError, UnknownNameError
from ematix_flow.markers import natural_key, nullable, pk
from ematix_flow.normalize import derive, empty_to_null, lower, trim
from ematix_flow.spec.table import Column, ManagedTable, Table, build_table_class, key_ladder
from ematix_flow.types import (
    UUID,
    BigInt,
    Boolean,
    Bytes,
    Date,
    Numeric,
    String,
    Text,
    Timestamp,
    TimestampTZ,
)


def declare(*, schema="dw", name=None):
    """The decorator as users know it."""
    return lambda cls: build_table_class(cls, schema=schema, name=name)


def class_of(annotations, class_name="Orders", **body):
    """A plain class with these annotations, before it is declared as a table."""
    return type(class_name, (), {"__annotations__": annotations, "__module__": __name__, **body})


def table_of(annotations, **body):
    return build_table_class(class_of(annotations, **body), schema="dw")._table()


ID = Column(BigInt, primary_key=True, name="id")
EMAIL = Column(Text, name="email")


@declare()
class CustomerDim:
    """Customers."""

    customer_id: Annotated[BigInt, pk()]
    email: Annotated[String[256] | None, trim(), lower(), empty_to_null()]
    balance: Numeric[12, 2]
    updated_at: Annotated[TimestampTZ, nullable()]


# ── the class form ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_decorated_class_becomes_a_table():
    table = CustomerDim._table()
    assert issubclass(CustomerDim, ManagedTable)
    assert table.qualified_name == "dw.customer_dim"
    assert table.columns == (
        Column(BigInt, nullable=False, primary_key=True, name="customer_id"),
        Column(String[256], name="email", normalizers=(trim(), lower(), empty_to_null())),
        Column(Numeric[12, 2], nullable=False, name="balance"),
        Column(TimestampTZ, name="updated_at"),
    )


def test_a_decorated_class_keeps_its_name_and_docstring():
    assert (CustomerDim.__name__, CustomerDim.__qualname__) == ("CustomerDim", "CustomerDim")
    assert (CustomerDim.__module__, CustomerDim.__doc__) == (__name__, "Customers.")


@pytest.mark.parametrize(
    ("class_name", "table_name"),
    [
        ("CustomerDim", "customer_dim"),
        ("HTTPServer", "http_server"),
        ("ABTest2Result", "ab_test2_result"),
        ("V2Orders", "v2_orders"),
        ("ID", "id"),
        ("orders", "orders"),
    ],
)
def test_a_table_is_named_after_its_class_in_snake_case(class_name, table_name):
    cls = class_of({"id": Annotated[BigInt, pk()]}, class_name)
    assert build_table_class(cls, schema="dw").__tablename__ == table_name


def test_a_name_given_wins_over_the_name_of_the_class():
    cls = class_of({"id": Annotated[BigInt, pk()]})
    assert build_table_class(cls, schema="dw", name="Sales")._table().qualified_name == "dw.Sales"


def test_natural_keys_give_one_constraint_for_each_group_the_unnamed_one_first():
    table = table_of(
        {
            "id": Annotated[BigInt, pk()],
            "z": Annotated[Text, natural_key("second")],
            "a": Annotated[Text, natural_key("first"), natural_key("second")],
            "code": Annotated[Text, natural_key()],
        }
    )
    assert table.unique == (("code",), ("a",), ("z", "a"))


@pytest.mark.parametrize("written", [(), [["id", "code"]], (("id",), ("code",))])
def test_constraints_in_the_body_replace_those_of_natural_keys(written):
    annotations = {"id": Annotated[BigInt, pk()], "code": Annotated[Text, natural_key()]}
    assert table_of(annotations, __unique_constraints__=written).unique == tuple(map(tuple, written))


def test_merge_keys_and_partition_columns_are_kept():
    table = table_of(
        {"id": Annotated[BigInt, pk()], "day": Date}, __merge_keys__=["id", "day"], __partition_columns__=["day"]
    )
    assert table.merge_keys == ("id", "day")
    assert table.partition_columns == ("day",)


def test_inherited_columns_come_first_and_a_redefined_one_keeps_its_place():
    class Audited:
        id: Annotated[BigInt, pk()]
        note: Text

    @declare()
    class Orders(Audited):
        amount: Numeric[12, 2]
        note: String[5] | None

    table = Orders._table()
    assert table.column_names == ("id", "note", "amount")
    assert table.column("note") == Column(String[5], name="note")


def test_a_table_may_extend_another_table():
    @declare()
    class Person:
        id: Annotated[BigInt, pk()]
        code: Annotated[Text, natural_key()]

    @declare()
    class Customer(Person):
        country: Annotated[Text, natural_key()]

    assert Customer._table().qualified_name == "dw.customer"
    assert Customer._table().unique == (("code", "country"),)
    assert Person._table().unique == (("code",),)


def test_methods_and_other_attributes_survive():
    class Base:
        def label(self):
            return "base"

    @declare()
    class Orders(Base):
        id: Annotated[BigInt, pk()]
        owner: ClassVar[str] = "sales"
        unit = "EUR"

        def label(self):
            return f"orders over {super().label()}"

        @classmethod
        def describe(cls):
            return f"{cls.__tablename__} in {cls.unit}"

    assert Orders().label() == "orders over base"
    assert Orders.describe() == "orders in EUR"
    assert Orders.owner == "sales"
    assert Orders._table().column_names == ("id",)


def test_types_named_in_a_function_are_found():
    Money = Numeric[12, 2]  # noqa: N806 - a type

    @declare()
    class Orders:
        Code = String[8]
        id: Annotated[BigInt, pk()]
        total: Money
        code: Code

    assert Orders._table().column("total").type == Numeric[12, 2]
    assert Orders._table().column("code").type == String[8]


def test_types_named_around_a_nested_class_are_found():
    Money = Numeric[12, 2]  # noqa: N806 - a type

    class Tables:
        @declare()
        class Orders:
            id: Annotated[BigInt, pk()]
            total: Money

    assert Tables.Orders._table().column("total").type == Numeric[12, 2]


def test_a_class_with_a_metaclass_of_its_own_knows_its_place():
    class Base(abc.ABC):
        id: Annotated[BigInt, pk()]

    @declare()
    class Orders(Base):
        note: Text

    assert Orders._table().declared_at.file == __file__


def test_a_managed_table_takes_annotations():
    class Orders(ManagedTable):
        __schema__ = "dw"
        __tablename__ = "orders"
        __merge_keys__: ClassVar = ("code",)
        id: Annotated[BigInt, pk()]
        code: Annotated[Text, natural_key()]

    assert Orders._to_spec() == {
        "schema": "dw",
        "name": "orders",
        "columns": [
            {"name": "id", "type": {"kind": "big_int"}, "nullable": False, "primary_key": True},
            {"name": "code", "type": {"kind": "text"}, "nullable": False, "primary_key": False},
        ],
        "unique_constraints": [["code"]],
    }
    assert Orders._primary_keys() == ["id"]
    assert Orders._unique_constraints() == [["code"]]
    assert Orders._table().merge_keys == ("code",)


def test_a_managed_table_takes_column_values():
    class Orders(ManagedTable):
        __schema__ = "dw"
        __tablename__ = "orders"
        id = Column(BigInt, primary_key=True)
        code: Column = Column(Text, nullable=False)
        from_ = Column(Date, name="from")

    assert Orders._table().column_names == ("id", "code", "from")
    assert Orders.__columns__ == tuple((column.name, column) for column in Orders._columns())
    assert Orders.id == ID


def test_a_managed_table_knows_the_line_of_its_class():
    line = inspect.currentframe().f_lineno + 2

    class Orders(ManagedTable):
        __schema__ = "dw"
        __tablename__ = "orders"
        id: Annotated[BigInt, pk()]

    assert str(Orders._table().declared_at) == f"test_table.py:{line}"


def test_an_abstract_class_is_no_table_and_gives_its_columns():
    class Base(ManagedTable):
        __abstract__ = True
        __schema__ = "dw"
        id = Column(BigInt, primary_key=True)

    class Orders(Base):
        __tablename__ = "orders"
        code: Text

    assert Orders._table().column_names == ("id", "code")
    with pytest.raises(TypeError, match=r"Base' is abstract"):
        Base._table()


def test_the_documented_modules_export_the_same_names():
    assert ematix_flow.table.ManagedTable is ManagedTable
    assert ematix_flow.types.Column is Column


def test_declaring_tables_loads_no_engine():
    code = (
        "import sys, ematix_flow.table; print({'pyspark', 'pandas', 'pyarrow', 'duckdb', 'sqlglot'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────────────────


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


def column(name, **options):
    return Column(Text, name=name, **options)


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


# ── the record ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
