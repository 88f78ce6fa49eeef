"""An upsert in the words of PostgreSQL: a unique index that finds the rows saves the change table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..strategies.base import Overwrite, Upsert
from .sql_change import Spelling
from .sql_connection import SqlConnection

__all__ = ["findable", "overwriting"]


def overwriting(spelling: Spelling, change: Upsert, how: Overwrite) -> str:
    """Makes the change; rows go in by the order of their keys, so that neighbours in the index are touched together."""
    quote, columns, keys = spelling.quote, spelling.names(change.columns), spelling.names(change.keys)
    settings = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in how.replaced)
    differs = " OR ".join(f"t.{quote(name)} IS DISTINCT FROM excluded.{quote(name)}" for name in how.compared)
    # A row that was there before carries the lock that was put on it while it was looked at.
    return (
        f"WITH _done AS (INSERT INTO {spelling.target} AS t ({columns}) "
        f"SELECT {columns} FROM ({spelling.render(how.rows)}) AS _rows ORDER BY {keys} "
        f"ON CONFLICT ({keys}) DO UPDATE SET {settings} WHERE {differs} RETURNING t.xmax = 0 AS _new) "
        "SELECT CASE WHEN _new THEN 'insert' ELSE 'update' END, COUNT(*) FROM _done GROUP BY 1"
    )


def findable(connection: SqlConnection, name: str) -> Sequence[Sequence[str]]:
    """The groups of columns by which unique indexes of a table find rows that are put in just to be found.

    There are none where triggers would hear of inserts that become updates; a constraint that waits finds nothing.
    """
    found = connection.execute(
        "SELECT ARRAY(SELECT a.attname::text FROM pg_attribute AS a WHERE a.attrelid = i.indrelid "
        "AND a.attnum = ANY ((i.indkey::int2[])[0 : i.indnkeyatts - 1])) FROM pg_index AS i "
        f"JOIN pg_class AS c ON c.oid = i.indrelid WHERE c.oid = to_regclass({name}) AND c.relkind IN ('r', 'p') "
        "AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL "
        "AND NOT EXISTS (SELECT 1 FROM pg_trigger AS g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal) "
        "AND NOT c.relhasrules"
    ).fetchall()
    return [cast("list[str]", group) for (group,) in found]
