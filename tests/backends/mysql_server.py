"""A backend on an empty database of the MariaDB server, for tests of what is particular to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ematix_flow.backends.mysql import MySQLBackend
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import MySQLConnection
from tests.servers import empty_mysql

__all__ = ["opened", "run"]


def opened(database: str, folder: Path, **fields: Any) -> MySQLBackend:
    """A backend that has no Spark."""
    connection = MySQLConnection("shop", empty_mysql(database), **fields)
    return MySQLBackend(connection, Workshop(lambda: pytest.fail("Spark is not needed"), folder))


def run(backend: MySQLBackend, *statements: str) -> list[tuple[object, ...]]:
    with backend.session() as connection:
        return [connection.execute(sql) for sql in statements][-1].fetchall()
