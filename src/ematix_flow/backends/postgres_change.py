"""A change in the words of PostgreSQL: rows that were compared are touched at the address where they were seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from sqlglot import exp

from ..strategies.base import TARGET, Upsert
from .sql_change import CHANGED, Spelling
from .sql_connection import SqlConnection

__all__ = ["PostgresSpelling", "going_to_each", "is_alone", "is_few"]

FEW = 5
"""Rows are few where the table holds so many times more."""
_ADDRESS = "_ematix_address"
_JOINS = ("enable_hashjoin", "enable_mergejoin")


@dataclass(frozen=True)
class PostgresSpelling(Spelling):
    """Changes to a table of PostgreSQL."""

    has_addresses: bool = field(kw_only=True)
    """The table alone holds its rows, so that an address says which one is meant."""
    located: bool = False
    """The change table has the addresses."""

    def of(self, change: Upsert) -> Spelling:
        located = self.has_addresses and all(_target(part) is not None for part in _parts(change.rows))
        return replace(self, located=located)

    @property
    def finds_rows(self) -> bool:
        return self.located

    def fill(self, change: Upsert) -> str:
        if not self.located:
            return super().fill(change)
        rows = change.rows.copy()
        for part in _parts(rows):
            address = exp.Column(this=exp.Identifier(this="ctid"), table=exp.to_identifier(_target(part), quoted=True))
            part.select(exp.alias_(address, _ADDRESS), copy=False)
        return f"CREATE TEMPORARY TABLE {CHANGED} AS {self.render(rows)}"

    def keyed(self, keys: Sequence[str], target: str) -> str:
        """By the key as well: an address that became free may be given to another row."""
        by_key = super().keyed(keys, target)
        return f"c.{_ADDRESS} = {target}.ctid AND {by_key}" if self.located else by_key


def _parts(rows: exp.Query) -> list[exp.Select]:
    """The queries of which all rows together are the change."""
    if isinstance(rows, exp.Union):
        return [part for side in (rows.left, rows.right) for part in _parts(side)]
    return [rows] if isinstance(rows, exp.Select) else []


def _target(part: exp.Select) -> str | None:
    """The name by which a query calls the table itself; None where it looks at something else."""
    origins = [part.args["from_"].this, *(join.this for join in part.args.get("joins") or ())]
    names = (each.alias_or_name for each in origins if isinstance(each, exp.Table) and each.name == TARGET)
    return next(names, None)


def is_alone(connection: SqlConnection, name: str) -> bool:
    """Whether all rows of a table are its own: partitions and tables that inherit have addresses of their own."""
    found = connection.execute(
        f"SELECT 1 FROM pg_class WHERE oid = to_regclass({name}) AND relkind = 'r' AND NOT relhassubclass"
    )
    return bool(found.fetchall())


def is_few(connection: SqlConnection, name: str, rows: int) -> bool:
    """Whether so many rows are a small part of a table, as far as the server has counted it."""
    counted = connection.execute(f"SELECT reltuples FROM pg_class WHERE oid = to_regclass({name})").fetchall()
    return bool(counted) and rows * FEW < cast("float", counted[0][0])


@contextmanager
def going_to_each(connection: SqlConnection) -> Iterator[None]:
    """Statements of the block go to each row; PostgreSQL would rather read a whole table for a few of them."""
    for join in _JOINS:
        connection.execute(f"SET LOCAL {join} = off")
    yield
    for join in _JOINS:
        connection.execute(f"SET LOCAL {join} = DEFAULT")
