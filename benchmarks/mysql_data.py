"""The rows and tables of the MariaDB benchmarks: those of PostgreSQL's, in MariaDB's words."""

from __future__ import annotations

from .postgres_data import BATCH, columns

STAMP = f"CAST('2026-06-01' AS DATETIME(6)) AS _loaded_at, '{BATCH}' AS _batch_id"
"""What this package adds to a row, for those who write the same rows by hand."""
TEXT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
_KINDS = {
    "id": ("BIGINT", "{id}"),
    "name": (f"LONGTEXT {TEXT}", "CONCAT('customer ', {id} % 100000)"),
    "grp": ("INT", "{id} * 7 % 1000"),
    "amount": ("DOUBLE", "{id} * 0.25"),
    "ts": ("DATETIME(6)", "TIMESTAMP'2026-01-01 00:00:00' + INTERVAL {id} % 2000000 SECOND"),
    "flag": ("TINYINT(1)", "{id} % 2 = 0"),
}
"""Per column its type, and its value from `id`."""


def names() -> str:
    """The columns, with commas."""
    return ", ".join(column.name for column in columns())


def columns_sql() -> str:
    """The columns as a statement that makes a table says them."""
    return ", ".join(f"{name} {kind} NOT NULL" for name, (kind, _) in _KINDS.items())


def table_sql(name: str) -> str:
    """The statement that makes the target, for every contender."""
    added = "_loaded_at DATETIME(6) NOT NULL, _batch_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
    return f"CREATE TABLE {name} ({columns_sql()}, {added}, PRIMARY KEY (id))"


def orders_sql(rows: int) -> str:
    """A query for that many orders."""
    return f"{_numbers(rows)} SELECT {_shown('n')} FROM made"


def changes_sql(changes: int, held: int) -> str:
    """Changed orders in the order of their keys: of ten, eight hold a new amount, one is as it was, one is new."""
    key = f"CASE WHEN n % 10 = 9 THEN {held} + n ELSE n * {held // changes} END"
    shown = _shown("id").replace("id * 0.25", "id * 0.25 + CASE WHEN n % 10 < 8 THEN 1 ELSE 0 END")
    return f"{_numbers(changes)} SELECT {shown} FROM (SELECT n, {key} AS id FROM made) AS keyed ORDER BY id"


def _numbers(count: int) -> str:
    return f"WITH RECURSIVE made(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM made WHERE n < {count - 1})"


def _shown(number: str) -> str:
    return ", ".join(f"{value.format(id=number)} AS {name}" for name, (_, value) in _KINDS.items())
