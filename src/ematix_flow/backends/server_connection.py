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
    backend: ClassVar[str] = "postgres:PostgresBackend"

    url: str
    """`postgres://user:password@host:5432/database`; options of libpq such as `?sslmode=verify-full` are kept."""
    connect_timeout: int = 10
    """Seconds to wait for the server to answer."""
    lock_timeout: int = 60
    """Seconds to wait for a lock that somebody else holds; 0 waits for ever."""
    statement_timeout: int = 0
    """Seconds that one statement may take; 0 sets no bound."""
    application_name: str = "ematix-flow"
    """What the server's own lists call these connections."""
    max_connections: int | None = None
    """Connections that read a large table at the same time; unless given as many as cores, 4 at most."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_connections is not None and self.max_connections < 1:
            raise self.error("'max_connections' is at least 1", hint="1 reads every table as one stream")


@dataclass(frozen=True, repr=False)
class MySQLConnection(Connection):
    """A MySQL or MariaDB database."""

    kind: ClassVar[str] = "mysql"
    schemes: ClassVar[tuple[str, ...]] = ("mysql", "mysql+pymysql")
    backend: ClassVar[str] = "mysql:MySQLBackend"

    url: str
    """`mysql://user:password@host:3306/database`; behind it options of TLS such as `?ssl_ca=/path/ca.pem`."""
    connect_timeout: int = 10
    """Seconds to wait for the server to answer."""
    lock_timeout: int = 60
    """Seconds to wait for a lock that somebody else holds; 0 waits for ever."""
    statement_timeout: int = 0
    """Seconds that one statement may take; 0 sets no bound."""
    local_infile: bool = True
    """Send rows by LOAD DATA LOCAL INFILE where the server allows it; off for servers that you do not trust."""
