"""The quickstart: a raw table of customers becomes a dimension that keeps every version of a customer."""
# ruff: noqa: N801 - a connection is written as pipelines name it

from __future__ import annotations

from ematix_flow import Annotated, BigInt, String, Text, TimestampTZ, ematix, pk
from ematix_flow.normalize import empty_to_null, lower, parse_timestamp, trim


@ematix.connection
class crm:
    """Where the customers come from."""

    kind = "sqlite"
    path = "crm.db"


@ematix.connection
class warehouse:
    """Where they go."""

    kind = "duckdb"
    path = "warehouse.duckdb"


@ematix.table(schema="analytics")
class CustomerDim:
    """One row per version of a customer."""

    customer_id: Annotated[BigInt, pk()]
    email: Annotated[String[256] | None, trim(), lower(), empty_to_null()]
    full_name: Annotated[Text, trim()]
    country: Annotated[Text | None, trim(), lower(), empty_to_null()]
    signed_up_at: Annotated[TimestampTZ | None, parse_timestamp()]


@ematix.pipeline(
    target=CustomerDim,
    mode="scd2",
    source_connection="crm",
    target_connection="warehouse",
    compare_columns=["email", "full_name", "country"],
)
def sync_customers(source):
    """Every customer of the CRM, as they are today."""
    return "SELECT customer_id, email, full_name, country, signed_up_at FROM raw.customers"
