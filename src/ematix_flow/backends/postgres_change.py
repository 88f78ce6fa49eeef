"""A change in the words of PostgreSQL: rows that were compared are touched at the address where they were seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from sqlglot import exp

from ..strategies.base import INCOMING, TARGET, Upsert
from .sql_change import CHANGED, Spelling
from .sql_connection import SqlConnection

__all__ = ["PostgresSpelling", "arbiters", "going_to_each", "is_alone", "is_few", "is_mostly_news", "rows_touched"]

FEW = 5
"""Rows are few where the table holds so many times more."""
SAMPLE = 1000
"""How many incoming rows are looked at to learn what most of them do."""
_ADDRESS = "_ematix_address"
_JOINS = ("enable_hashjoin", "enable_mergejoin")


@dataclass(frozen=True)
class PostgresSpelling(Spelling):
    """Changes to a table of PostgreSQL."""

    has_addresses: bool = field(kw_only=True)
    """The table alone holds its rows, so that an address says which one is meant."""
    arbiters: frozenset[frozenset[str]] = frozenset()
    """Groups of columns whose unique index finds the row that an arriving one meets."""
    is_worth: Callable[[Upsert], bool] = lambda change: True
    """Whether a change is made at once where it can be."""
    located: bool = False
    """The change table has the addresses."""

    def of(self, change: Upsert) -> Spelling:
        located = self.has_addresses and all(_target(part) is not None for part in _parts(change.rows))
        return replace(self, located=located)

    @property
    def finds_rows(self) -> bool:
        return self.located

    def at_once(self, change: Upsert) -> str | None:
        """In the order of the keys: the index and the table are walked once, from one end to the other."""
        if change.arrival is None or frozenset(change.keys) not in self.arbiters or not self.is_worth(change):
            return None
        keys = self.names(change.keys)
        rows = self.render(
            change.arrival.rows.copy().order_by(*(exp.column(key, "i", quoted=True) for key in change.keys))
        )
        settings = ", ".join(f"{self.quote(name)} = excluded.{self.quote(name)}" for name in change.arrival.updates)
        is_news = self.render(exp.select("1").where(_over_excluded(change.arrival.is_news))).partition("WHERE ")[2]
        return (
            f"INSERT INTO {self.target} AS t ({self.names(change.columns)}) {rows} "
            f"ON CONFLICT ({keys}) DO UPDATE SET {settings} WHERE {is_news}"
        )

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


def _over_excluded(condition: exp.Expr) -> exp.Expr:
    """A condition over the arriving row, as PostgreSQL calls it there."""
    said = condition.copy()
    for column in said.find_all(exp.Column):
        if column.table == "i":
            column.set("table", exp.to_identifier("excluded"))
    return said


def is_mostly_news(connection: SqlConnection, change: Upsert, render: Callable[[exp.Query], str]) -> bool:
    """Whether most of the incoming rows change something, as far as some of them tell.

    Those that do not would be locked and written about as well, where a change is made at once.
    """
    assert change.arrival is not None
    some = exp.select("*").from_(exp.table_(INCOMING, quoted=True)).limit(SAMPLE).subquery("i")
    key = exp.column(change.keys[0], "t", quoted=True)
    is_same = exp.and_(
        exp.Not(this=exp.Is(this=key, expression=exp.null())),
        exp.Not(this=exp.Paren(this=change.arrival.is_news.copy())),
    )
    met = exp.and_(
        *(
            exp.EQ(this=exp.column(each, "t", quoted=True), expression=exp.column(each, "i", quoted=True))
            for each in change.keys
        )
    )
    counts = [
        exp.Count(this=exp.Star()),
        exp.Count(this=exp.Case(ifs=[exp.If(this=is_same, true=exp.Literal.number(1))])),
    ]
    query = exp.select(*counts).from_(some).join(exp.table_(TARGET, quoted=True, alias="t"), on=met, join_type="left")
    looked_at, same = connection.execute(render(query)).fetchall()[0]
    return int(str(same)) * FEW < int(str(looked_at)) + FEW


def arbiters(connection: SqlConnection, name: str, columns: str) -> list[dict[str, str]]:
    """The unique indexes of a table by which rows can be brought in one by one, each with its columns and types.

    None where something else has a part in it that would hear of other rows than those that change, where the table has
    more than these `columns`, whose rules the server would look at, or where it does not count what a transaction does.
    """
    found = connection.execute(_ARBITERS.format(name=name, columns=columns)).fetchall()
    groups: dict[object, dict[str, str]] = {}
    for index, column, kind in found:
        groups.setdefault(index, {})[str(column)] = str(kind)
    return list(groups.values())


_ARBITERS = """
SELECT i.indexrelid, a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_class AS c
JOIN pg_index AS i ON i.indrelid = c.oid
CROSS JOIN generate_series(0, i.indnkeyatts - 1) AS n
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = i.indkey[n]
WHERE c.oid = to_regclass({name}) AND c.relkind = 'r' AND NOT c.relhassubclass AND NOT c.relhasrules
  AND NOT c.relrowsecurity AND current_setting('track_counts') = 'on'
  AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
  AND NOT EXISTS (SELECT 1 FROM pg_trigger AS g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal)
  AND NOT EXISTS (SELECT 1 FROM pg_index AS j WHERE j.indrelid = c.oid AND NOT j.indimmediate)
  AND NOT EXISTS (SELECT 1 FROM pg_attribute AS d WHERE d.attrelid = c.oid AND d.attnum > 0 AND NOT d.attisdropped
    AND (d.attidentity = 'a' OR d.attname NOT IN ({columns})))
"""


def rows_touched(connection: SqlConnection, name: str) -> Mapping[str, int]:
    """How many rows of a table the transaction has added and changed."""
    inserted, updated = connection.execute(
        f"SELECT pg_stat_get_xact_tuples_inserted(o), pg_stat_get_xact_tuples_updated(o) "
        f"FROM (SELECT CAST(to_regclass({name}) AS oid) AS o) AS _table"
    ).fetchall()[0]
    return {"insert": int(str(inserted)), "update": int(str(updated))}


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
