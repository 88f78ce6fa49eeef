"""The connections of database servers: records only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..spec.connection import Connection

__all__ = ["MySQLConnection", "PostgresConnection"]


@dataclass(frozen=True, repr=False)
class PostgresConnection(Connection):
    """A PostgreSQL database."""

    kind: ClassVar[str] = "postgres"
    schemes: ClassVar[tuple[str, ...]] = ("postgres", "postgresql")

    url: str
    """`postgres://user:password@host:5432/database`."""


@dataclass(frozen=True, repr=False)
class MySQLConnection(Connection):
    """A MySQL or MariaDB database."""

    kind: ClassVar[str] = "mysql"
    schemes: ClassVar[tuple[str, ...]] = ("mysql", "mysql+pymysql")

    url: str
    """`mysql://user:password@host:3306/database`."""
