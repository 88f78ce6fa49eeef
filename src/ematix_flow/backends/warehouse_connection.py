"""The connections of cloud warehouses: records only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..spec.connection import Connection
from ..spec.url import join_url

__all__ = ["BigQueryConnection", "RedshiftConnection", "SnowflakeConnection"]


@dataclass(frozen=True, repr=False)
class SnowflakeConnection(Connection):
    """A Snowflake account."""

    kind: ClassVar[str] = "snowflake"
    schemes: ClassVar[tuple[str, ...]] = ("snowflake",)
    url_parts: ClassVar[Mapping[str, str]] = {
        "user": "user",
        "password": "password",
        "host": "account",
        "first": "database",
        "second": "schema",
    }

    account: str
    """The account's identifier."""
    user: str
    """The user."""
    password: str | None = None
    """The user's password; this or `private_key` is required."""
    private_key: str | None = None
    """The user's private key, in PEM form."""
    warehouse: str | None = None
    """The warehouse that computes."""
    database: str | None = None
    """The database to begin in."""
    schema: str | None = None
    """The schema to begin in."""
    role: str | None = None
    """The role to act as."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.password or self.private_key):
            raise self.error("it needs the field 'password' or 'private_key'", hint="give one of them a value")


@dataclass(frozen=True, repr=False)
class BigQueryConnection(Connection):
    """A BigQuery dataset."""

    kind: ClassVar[str] = "bigquery"
    schemes: ClassVar[tuple[str, ...]] = ("bigquery",)
    url_parts: ClassVar[Mapping[str, str]] = {"host": "project", "first": "dataset"}

    project: str
    """The project."""
    dataset: str
    """The dataset to begin in."""
    credentials_path: str | None = None
    """The key file of a service account; without it, the machine's own credentials."""
    location: str | None = None
    """Where the data is kept."""


@dataclass(frozen=True, repr=False)
class RedshiftConnection(Connection):
    """A Redshift database."""

    kind: ClassVar[str] = "redshift"
    schemes: ClassVar[tuple[str, ...]] = ("redshift",)
    url_parts: ClassVar[Mapping[str, str]] = {
        "user": "user",
        "password": "password",
        "host": "host",
        "port": "port",
        "first": "database",
    }

    host: str
    """The cluster's or the workgroup's endpoint."""
    database: str
    """The database."""
    user: str
    """The user."""
    password: str
    """The user's password."""
    port: int = 5439
    """The port of the endpoint."""
    s3_staging_dir: str | None = None
    """Where rows wait for COPY, as `s3://bucket/prefix`."""
    iam_role: str | None = None
    """The role that COPY reads them with."""

    def to_postgres_url(self) -> str:
        """The URL for a PostgreSQL client; contains the password."""
        parts = {"user": self.user, "password": self.password, "host": self.host, "port": str(self.port)}
        return join_url("postgresql", {**parts, "first": self.database}, {})
