"""A class becomes a table: its columns, keys and place."""

from __future__ import annotations

import abc
import inspect
import subprocess
import sys
from typing import Annotated, ClassVar

import pytest

import ematix_flow.table
from ematix_flow.markers import natural_key, pk
from ematix_flow.normalize import empty_to_null, lower, trim
from ematix_flow.spec.table import Column, ManagedTable, build_table_class
from ematix_flow.types import (
    BigInt,
    Date,
    Numeric,
    String,
    Text,
    TimestampTZ,
)
from tests.spec.tables import ID, CustomerDim, class_of, declare, table_of


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
    assert (CustomerDim.__module__, CustomerDim.__doc__) == ("tests.spec.tables", "Customers.")


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
