"""A full refresh of a large table: the new rows are a table of their own, which takes the place of the old one.

Rows that are deleted stay in a table's files and indexes until the server has swept them out. A table that nothing else
hangs on can be swapped instead: readers wait for a moment at most, and never where one of them holds the table.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from ..errors import ConflictError
from ..spec.place import TableRef
from .sql_connection import SqlConnection

__all__ = ["find_keys", "swapped"]


def find_keys(connection: SqlConnection, name: str, size: int) -> Mapping[str, str] | None:
    """The keys of a table of at least so many bytes that can be swapped; None where something hangs on this very table.

    `name` is a literal.
    """
    if not connection.execute(_ALONE.format(name=name, size=size)).fetchall():
        return None
    found = connection.execute(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
        f"WHERE conrelid = to_regclass({name}) AND contype IN ('p', 'u') ORDER BY contype, conname"
    ).fetchall()
    return {str(key): str(meaning) for key, meaning in found}


_ALONE = """
SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass({name}) AND c.relkind = 'r' AND c.relpersistence = 'p' AND pg_relation_size(c.oid) >= {size}
  AND c.relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)
  AND has_schema_privilege(n.oid, 'CREATE')
  AND NOT (c.relhassubclass OR c.relispartition OR c.relhastriggers OR c.relhasrules OR c.relrowsecurity)
  AND c.relacl IS NULL AND c.reloptions IS NULL AND c.reltablespace = 0 AND c.relreplident = 'd'
  AND NOT EXISTS (SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0
    AND (a.attacl IS NOT NULL OR a.attidentity <> ''))
  AND NOT EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indrelid = c.oid AND NOT EXISTS
    (SELECT 1 FROM pg_constraint AS k WHERE k.conindid = i.indexrelid AND k.conrelid = c.oid))
  AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.refobjid IN (c.oid, c.reltype) AND d.deptype NOT IN ('a', 'i')
    AND NOT EXISTS (SELECT 1 FROM pg_constraint AS k WHERE k.oid = d.objid AND k.conrelid = c.oid))
  AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'e')
  AND NOT EXISTS (SELECT 1 FROM pg_depend AS d JOIN pg_class AS s ON s.oid = d.objid
    WHERE d.refobjid = c.oid AND s.relkind = 'S')
  AND NOT EXISTS (SELECT 1 FROM pg_inherits AS h WHERE c.oid IN (h.inhrelid, h.inhparent))
  AND NOT EXISTS (SELECT 1 FROM pg_publication_rel AS p WHERE p.prrelid = c.oid)
  AND NOT EXISTS (SELECT 1 FROM pg_description AS w WHERE w.objoid = c.oid AND w.objsubid = 0)
  AND NOT EXISTS (SELECT 1 FROM pg_seclabel AS l WHERE l.objoid = c.oid)
"""


@contextmanager
def swapped(
    connection: SqlConnection,
    table: TableRef,
    keys: Mapping[str, str],
    quote: Callable[..., str],
    attempt: Callable[[], AbstractContextManager[object]],
) -> Iterator[str]:
    """A table like this one, and empty; behind the block it is the one that has the name."""
    mark = uuid.uuid4().hex[:12]
    name, copy = quote(table.schema, table.name), quote(table.schema, f"_ematix_{mark}")
    connection.execute(f"CREATE TABLE {copy} (LIKE {name} INCLUDING ALL EXCLUDING INDEXES)")
    yield copy
    named = {key: quote(f"_ematix_{mark}_{number}") for number, key in enumerate(keys)}
    for key, meaning in keys.items():
        connection.execute(f"ALTER TABLE {copy} ADD CONSTRAINT {named[key]} {meaning}")
    try:
        with attempt():
            # To wait here would let every later reader wait as well.
            connection.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE NOWAIT")
    except ConflictError:
        connection.execute(f"DELETE FROM {name}")
        connection.execute(f"INSERT INTO {name} SELECT * FROM {copy}")
        connection.execute(f"DROP TABLE {copy}")
        return
    connection.execute(f"DROP TABLE {name}")
    connection.execute(f"ALTER TABLE {copy} RENAME TO {quote(table.name)}")
    for key, other in named.items():
        connection.execute(f"ALTER TABLE {name} RENAME CONSTRAINT {other} TO {quote(key)}")
    connection.execute(f"ANALYZE {name}")
