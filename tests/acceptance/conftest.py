"""A user's own session: an empty project folder, a DuckDB connection `default`, a SQLite connection `other`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ematix_flow import DuckDBConnection, SQLiteConnection, connect, register_connection
from ematix_flow.engine.handle import Handle
from ematix_flow.project import current_project
from ematix_flow.spec import registry


@pytest.fixture
def conn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Handle]:
    monkeypatch.chdir(tmp_path)
    with registry.scope():
        register_connection(DuckDBConnection("default", str(tmp_path / "default.duckdb")))
        register_connection(SQLiteConnection("other", str(tmp_path / "other.db")))
        opened = connect()
        opened.execute("CREATE SCHEMA raw")
        opened.execute("CREATE TABLE raw.customers (id BIGINT, name VARCHAR, seen_at TIMESTAMPTZ)")
        yield opened
        current_project().close()
