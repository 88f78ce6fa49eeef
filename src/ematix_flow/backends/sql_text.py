"""Table names inside a user's query, replaced in its text and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

__all__ = ["replace_tables"]


def replace_tables(sql: str, dialect: str, rename: Callable[[str, str], str | None]) -> str:
    """The query with each table for which `rename(schema, name)` gives a text replaced by that text.

    Only the names are cut out of the text; the rest stays as it was written. A query that cannot be parsed stays whole,
    so that the system that runs it reports what is wrong with it.
    """
    try:
        tree = parse_one(sql, read=dialect)
    except SqlglotError:
        return sql
    inner = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
    cuts: list[tuple[int, int, str]] = []
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier) or table.catalog or (not table.db and table.name in inner):
            continue
        new = rename(table.db, table.name)
        first = table.args.get("db") or table.this
        if new is not None and "start" in first.meta and "end" in table.this.meta:
            cuts.append((first.meta["start"], table.this.meta["end"] + 1, new))
    for start, end, new in sorted(cuts, reverse=True):
        sql = sql[:start] + new + sql[end:]
    return sql
