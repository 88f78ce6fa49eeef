"""Text with zero bytes: PostgreSQL refuses or leaves them out as its connection says, MySQL keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ematix_flow.connections import PostgresConnection
from ematix_flow.errors import CheckError, SpecError
from ematix_flow.types import JSON, BigInt, String, Text
from tests.backends.conftest import BY_NAME
from tests.backends.lab import Lab, Lane, Route
from tests.servers import empty_postgres, next_database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {"id": BigInt(), "v": Text(), "w": String(4), "doc": JSON()}
ROWS = [
    {"id": 1, "v": "a\0b\0\0", "w": "\0", "doc": '{"a": 1}'},
    {"id": 2, "v": None, "w": "abc\0", "doc": None},
    {"id": 3, "v": "plain", "w": "d", "doc": "[]"},
]
WITHOUT = [(1, "ab", ""), (2, None, "abc"), (3, "plain", "d")]
REMOVES = replace(
    BY_NAME["postgres"],
    connect=lambda name, _: PostgresConnection(name, empty_postgres(next_database()), zero_bytes="remove"),
)


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(("path", "source"), [("copied", "duckdb_memory"), ("spark", "memory")])
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_connection_that_removes_zero_bytes_does_so_on_every_way(
    path: Route, source: str, mode: str, tmp_path: Path, session: Callable[[], SparkSession]
) -> None:
    lab = Lab(Lane(REMOVES, path, BY_NAME[source]), tmp_path, session, mode=mode)
    lab.load(TYPES, ROWS)
    assert lab.rows("id", "v", "w") == WITHOUT
    if mode == "merge":
        assert lab.load(TYPES, ROWS).rows_unchanged == len(ROWS)
    lab.close()


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(("path", "source"), [("copied", "duckdb_memory"), ("spark", "memory")])
def test_zero_bytes_are_refused_by_the_name_of_the_column_and_with_the_way_out(
    path: Route, source: str, tmp_path: Path, session: Callable[[], SparkSession]
) -> None:
    lab = Lab(Lane(BY_NAME["postgres"], path, BY_NAME[source]), tmp_path, session, mode="append")
    with lab.refused(CheckError, f"pipeline '{lab.name}': column 'v' holds a text with a zero byte") as caught:
        lab.load(TYPES, ROWS)
    assert 'zero_bytes = "remove"' in str(caught.value.hint)
    assert caught.value.declared_at is not None
    lab.close()


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(("path", "source"), [("copied", "duckdb_memory"), ("spark", "memory")])
def test_mysql_keeps_zero_bytes(path: Route, source: str, tmp_path: Path, session: Callable[[], SparkSession]) -> None:
    lab = Lab(Lane(BY_NAME["mysql"], path, BY_NAME[source]), tmp_path, session, mode="merge")
    lab.load(TYPES, ROWS)
    assert lab.rows("id", "v", "w") == [(row["id"], row["v"], row["w"]) for row in ROWS]
    lab.close()


def test_another_word_for_zero_bytes_is_refused() -> None:
    with pytest.raises(SpecError, match="'zero_bytes' cannot be 'strip'"):
        PostgresConnection("shop", "postgres://u@h/d", zero_bytes="strip")
