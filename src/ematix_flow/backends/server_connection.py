"""The connections of database servers: records only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..spec.connection import Connection
from .server_url import LIBPQ, LIBPQ_WORDS, MYSQL, check_url

__all__ = ["MySQLConnection", "PostgresConnection", "ServerConnection"]


class ServerConnection(Connection):
    """What databases on servers share: a URL, times, and a schema for run records, bookmarks and tokens."""

    url_known: ClassVar[Collection[str]] = ()
    """The options that may stand behind the URL."""
    url_words: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Those that know only certain words, and these words."""
    longest: ClassVar[int] = 31_536_000
    """The longest time that the server takes, in seconds."""

    url: str
    connect_timeout: int
    retry_timeout: int
    load_retries: int
    lock_timeout: int
    statement_timeout: int
    bookkeeping_schema: str
    max_connections: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_url(self, self.url, self.url_known, self.url_words)
        for name in ("connect_timeout", "retry_timeout", "load_retries", "lock_timeout", "statement_timeout"):
            least = 1 if name == "connect_timeout" else 0
            if not self.is_open(name) and not least <= getattr(self, name) <= self.longest:
                raise self.error(f"{name!r} cannot be {getattr(self, name)}", hint=f"from {least} to {self.longest}")
        if not self.is_open("max_connections") and self.max_connections is not None and self.max_connections < 1:
            raise self.error("'max_connections' is at least 1", hint="1 reads every table as one stream")
        self._check_schema()

    def _check_schema(self) -> None:
        if self.is_open("bookkeeping_schema"):
            return
        name = self.bookkeeping_schema
        if not name or name != name.strip() or "\0" in name:
            raise self.error(
                f"'bookkeeping_schema' cannot be {name!r}",
                hint="name the schema for run records, bookmarks and tokens, or leave the field out",
            )


@dataclass(frozen=True, repr=False)
class PostgresConnection(ServerConnection):
    """A PostgreSQL database."""

    kind: ClassVar[str] = "postgres"
    schemes: ClassVar[tuple[str, ...]] = ("postgres", "postgresql")
    backend: ClassVar[str] = "postgres:PostgresBackend"
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {"zero_bytes": ("refuse", "remove")}
    url_known: ClassVar[Collection[str]] = LIBPQ
    url_words: ClassVar[Mapping[str, tuple[str, ...]]] = LIBPQ_WORDS
    longest: ClassVar[int] = 2_147_483

    url: str
    """`postgres://user:password@host:5432/database`; options of libpq such as `?sslmode=verify-full` are kept."""
    connect_timeout: int = 10
    """Seconds to wait for the server to answer."""
    retry_timeout: int = 10
    """Seconds to go on asking a server that refuses connections for a moment; 0 asks once."""
    load_retries: int = 2
    """How many more times a run tries a load that a deadlock or a lost connection has stopped."""
    lock_timeout: int = 60
    """Seconds to wait for a lock that somebody else holds; 0 waits for ever."""
    statement_timeout: int = 0
    """Seconds that one statement may take; 0 sets no bound."""
    application_name: str = "ematix-flow"
    """What the server's own lists call these connections."""
    bookkeeping_schema: str = "ematix_flow"
    """The schema of run records, bookmarks and tokens; made by the first run where it is missing."""
    zero_bytes: str = "refuse"
    """What becomes of zero bytes in incoming text, which PostgreSQL cannot keep: `refuse` them, or `remove` them."""
    max_connections: int | None = None
    """Connections that read a large table at the same time; unless given as many as cores, 4 at most."""


@dataclass(frozen=True, repr=False)
class MySQLConnection(ServerConnection):
    """A MySQL or MariaDB database."""

    kind: ClassVar[str] = "mysql"
    schemes: ClassVar[tuple[str, ...]] = ("mysql", "mysql+pymysql")
    backend: ClassVar[str] = "mysql:MySQLBackend"
    url_known: ClassVar[Collection[str]] = MYSQL

    url: str
    """`mysql://user:password@host:3306/database`; behind it options of TLS such as `?ssl_ca=/path/ca.pem`."""
    connect_timeout: int = 10
    """Seconds to wait for the server to answer."""
    retry_timeout: int = 10
    """Seconds to go on asking a server that refuses connections for a moment; 0 asks once."""
    load_retries: int = 2
    """How many more times a run tries a load that a deadlock or a lost connection has stopped."""
    lock_timeout: int = 60
    """Seconds to wait for a lock that somebody else holds; 0 waits for ever."""
    statement_timeout: int = 0
    """Seconds that one statement may take; 0 sets no bound."""
    local_infile: bool = True
    """Send rows by LOAD DATA LOCAL INFILE where the server allows it; off for servers that you do not trust."""
    bookkeeping_schema: str = "ematix_flow"
    """The database of run records, bookmarks and tokens; made by the first run where it is missing."""
    max_connections: int | None = None
    """Connections that read a large table at the same time; unless given as many as cores, 4 at most."""
