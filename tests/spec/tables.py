"""Tables and short ways to declare one, for tests of what a table is."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ematix_flow.markers import nullable, pk
from ematix_flow.normalize import empty_to_null, lower, trim
from ematix_flow.spec.table import Column, build_table_class
from ematix_flow.types import (
    BigInt,
    Numeric,
    String,
    Text,
    TimestampTZ,
)

__all__ = ["EMAIL", "ID", "CustomerDim", "class_of", "column", "declare", "table_of"]

NAMED_IN_TEXT = (ClassVar, String)
"""What annotations that are written as text may name."""


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


def column(name, **options):
    return Column(Text, name=name, **options)
