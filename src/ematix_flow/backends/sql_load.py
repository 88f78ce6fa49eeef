"""One transaction on one table of a SQL database: the load of every SQL backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from ..errors import BackendError, CheckError, ConflictError
from ..spec.place import TableRef
from ..spec.run import Bookmark, Commit, Run
from ..spec.table import METADATA_NAMES, Table
from ..strategies.base import CHANGE_LABEL, INCOMING, Append, Change, Replace, Upsert
from ..types import UUID
from .base import Applied, Frame, Load, Piped, Pushed, Relation, SchemaChange, Spooled, run_values
from .sql_change import CHANGED, STAGED, Spelling, Statement, change_statements
from .sql_ddl import keys_sql
from .sql_ledger import TokenRow

if TYPE_CHECKING:
    from .sql import SqlBackend, Waiting
    from .sql_connection import SqlConnection

__all__ = ["SqlLoad"]

_LIMITING = ("where", "joins", "group", "distinct", "limit", "with_")
"""The clauses of a query that give other rows than those of its table."""


class SqlLoad(Load):
    """A transaction on one table."""

    def __init__(self, backend: SqlBackend, connection: SqlConnection, table: Table, commit: Commit) -> None:
        self.backend, self.connection, self.table, self.commit = backend, connection, table, commit
        self.replayed = False
        self._ref = TableRef(table.schema, table.name)
        self._types = {column.name: column.type for column in table.columns}
        self._keys = tuple(name for name in table.primary_key if name not in METADATA_NAMES)
        self._finished: tuple[Run, Bookmark | None] | None = None
        self._temporary: list[str] = []
        self._waiting: Waiting | None = None
        self._is_new = False
        self._keys_later: list[str] = []
        """What gives the table that this load has made its keys."""

    def open(self, incoming: Relation, staged: Waiting | None) -> None:
        """Look the token up and make `incoming` answer to its name; rows from outside wait until they are asked for."""
        self.backend.take_turn(self.connection, self._ref)
        self.replayed = self.backend.ledger.has_token(self.connection, self.commit.token)
        if self.replayed:
            return
        match incoming:
            case Pushed():
                kind = self.backend.stage_query(self.connection, incoming, self.table)
                self._temporary.append(f"{kind} {STAGED}")
                if not incoming.once:
                    self.backend.settle(self.connection, STAGED, self._keys)
            case Frame() | Spooled() | Piped():
                self._waiting = staged

    def forget(self) -> None:
        """Drop what only this load needed; the connection may be used further."""
        for name in self._temporary:
            self.connection.execute(f"DROP {name}")

    def evolve(self, change: SchemaChange) -> None:
        """Create the table, add or widen columns, inside the transaction."""
        self._is_new = change.create
        self._keys_later = keys_sql(self.backend, change) if change.create and self.backend.KEYS_LATER else []
        keyed = not self._keys_later
        self.backend.change_table(self.connection, change, rehearsal=self.commit.dry_run, keyed=keyed)

    def measure(self, query: exp.Query) -> Sequence[tuple[object, ...]]:
        """The rows of a small query over `incoming` and `target`."""
        self._stage()
        return self.connection.execute(self.render(query)).fetchall()

    def apply(self, change: Change) -> Applied:
        """Make the change to the target; where that fails, the load still answers questions."""
        if self._is_new and self.backend.KEYS and isinstance(change, Upsert) and change.arrival is not None:
            change = Append(change.arrival.rows)  # there is no row to meet
        constants = None if self._waiting is None else self._straight(change)
        if constants is None:
            self._stage()
        with self.backend.attempt(self.connection):
            applied = self._apply(change) if constants is None else self._deliver(change, constants)
            for statement in self._keys_later:
                self.connection.execute(statement)
            self._keys_later = []
            return applied

    def _stage(self) -> None:
        """Let rows from outside answer to their name, the first time that they are asked for."""
        if self._waiting is not None:
            kind = self.backend.stage(self.connection, self._waiting, self.table)
            if kind == "TABLE":
                self.backend.settle(self.connection, STAGED, self._keys)
            self._temporary.append(f"{kind} {STAGED}")
            self._waiting = None

    def _straight(self, change: Change) -> Mapping[str, object] | None:
        """What every row gets beside its own values, where rows from outside may go into the table as they are."""
        if isinstance(change, Upsert) or not self.backend.delivers(self.connection, self.table):
            return None
        values = run_values(self.commit, self.backend.dialect, self._types)
        rows = change.rows
        if any(rows.args.get(each) for each in _LIMITING):
            return None
        named = {each.alias_or_name: each.unalias() for each in rows.selects}
        if not all(isinstance(each, exp.Column | exp.Placeholder) for each in named.values()):
            return None
        return {name: values[each.name] for name, each in named.items() if isinstance(each, exp.Placeholder)}

    def _deliver(self, change: Change, constants: Mapping[str, object]) -> Applied:
        assert self._waiting is not None
        if isinstance(change, Replace):
            self.connection.execute(self.backend.spelling(self.table, self.render).empty())
        inserted = self.backend.deliver(self.connection, self._waiting, self.table, constants)
        return Applied(read=inserted, labels={"insert": inserted})

    def _apply(self, change: Change) -> Applied:
        spelling = self.backend.spelling(self.table, self.render, self.connection)
        statements = change_statements(change, spelling)
        if isinstance(change, Upsert):
            if len(statements) == 1:
                return self._at_once(statements[0])
            return self._upsert(statements, change, spelling.of(change))
        for statement in statements:
            cursor = self.connection.execute(statement.sql)
        inserted = self.backend.rows_changed(cursor)
        if not self.backend.KEYS:
            self._refuse_broken(self.table.unique)
        # A load that resumes leaves rows out which earlier loads have brought; any other takes all it reads.
        read = inserted if self.commit.bookmark is None else self._incoming_rows()
        return Applied(read=read, labels={"insert": inserted})

    def finish(self, run: Run, bookmark: Bookmark | None) -> None:
        """Keep the final record and bookmark for the commit."""
        self._finished = run, bookmark

    def close(self) -> None:
        """Write token, bookmark and run record beside the rows."""
        if self.replayed or self.commit.dry_run:
            return
        if self._finished is None or self._keys_later:
            raise BackendError("the load ended without its record")
        run, bookmark = self._finished
        token = TokenRow(self.commit.token, run.pipeline, run.run_id, self._ref, self.commit.now)
        self.backend.ledger.commit(self.connection, token, run, bookmark)

    def render(self, query: exp.Query) -> str:
        """A strategy's query in this database's words, over its own tables."""
        dialect = self.backend.dialect
        values = run_values(self.commit, dialect, self._types)
        return dialect.render(self.backend.bound(query, self.table), values, self._types)

    def _at_once(self, statement: Statement) -> Applied:
        before = self.backend.rows_touched(self.connection, self._ref)
        self.connection.execute(statement.sql)
        after = self.backend.rows_touched(self.connection, self._ref)
        labels = {label: after[label] - before[label] for label in after}
        return Applied(read=self._incoming_rows(), labels=labels)

    def _upsert(self, statements: Sequence[Statement], change: Upsert, spelling: Spelling) -> Applied:
        fill, *rest = statements
        self.connection.execute(fill.sql)
        self._temporary.append(f"TABLE {CHANGED}")
        self.backend.settle(self.connection, CHANGED, change.keys)
        label = self.backend.dialect.quote(CHANGE_LABEL)
        counted = self.connection.execute(f"SELECT {label}, COUNT(*) FROM {CHANGED} GROUP BY {label}").fetchall()
        labels = {str(name): int(str(count)) for name, count in counted}
        actual = self.backend.columns_in(self.connection, self._ref)
        is_unique = actual is not None and actual.is_unique(change.keys)
        if not is_unique:
            self._refuse_ambiguous(change)
        rows = sum(labels.values())

        def is_found() -> bool:
            """An index of unique keys serves a comparison with the declared types only where it has them."""
            stored = {key: self.backend.dialect.stored_type(self._types[key]) for key in change.keys}
            return spelling.finds_rows or (is_unique and actual is not None and actual.has_types(stored))

        with self.backend.looking_up(self.connection, self._ref, rows, is_found):
            for statement in rest:
                if statement.is_needed(labels):
                    changed = self.backend.rows_changed(self.connection.execute(statement.sql))
                    self._refuse_surprise(change, changed, statement.expected(labels))
        if not self.backend.KEYS:
            self._refuse_broken(
                group for group in (self.table.primary_key, *self.table.unique) if set(group) != set(change.keys)
            )
        return Applied(read=self._incoming_rows(), labels=labels)

    def _incoming_rows(self) -> int:
        rows = exp.select(exp.Count(this=exp.Star())).from_(INCOMING)
        return int(str(self.connection.execute(self.render(rows)).fetchall()[0][0]))

    def _refuse_ambiguous(self, change: Upsert) -> None:
        """A key that stands several times in the target cannot be told apart."""
        keys = self._names(change.keys)
        twice = self.connection.execute(
            f"SELECT {keys} FROM {CHANGED} GROUP BY {keys} HAVING COUNT(*) > 1 LIMIT 5"
        ).fetchall()
        if twice:
            raise self._ambiguous(change, f": {_shown(twice)}")

    def _refuse_surprise(self, change: Upsert, changed: int, expected: int) -> None:
        """Rows that others have changed since they were compared are not touched, and not passed over either."""
        if changed > expected:
            raise self._ambiguous(change, "")
        if changed < expected:
            surprise = ConflictError(
                f"{self._ref}: somebody else changed {expected - changed} of the rows that this load was to change",
                hint="nothing was written; run again",
            )
            surprise.passing = True
            raise surprise

    def _ambiguous(self, change: Upsert, which: str) -> CheckError:
        return CheckError(
            f"{self._ref} holds several rows for one key ({', '.join(change.keys)}){which}",
            hint="remove the duplicates, or choose keys that identify one row",
        )

    def _refuse_broken(self, groups: Iterable[tuple[str, ...]]) -> None:
        """Unique groups that the database does not enforce: what this load wrote may not stand twice."""
        target, batch = self.backend.relation_sql(self._ref), self.backend.dialect.quote("_batch_id")
        run_id = self.backend.dialect.literal(self.commit.run.run_id, UUID()).sql(self.backend.dialect.name)
        for group in groups:
            names = [self.backend.dialect.quote(name) for name in group]
            written = f"SELECT DISTINCT {', '.join(names)} FROM {target}"
            if "_batch_id" in self._types:
                written += f" WHERE {batch} = {run_id}"
            same = " AND ".join(f"t.{name} = w.{name}" for name in names)
            shown = ", ".join(f"CAST(t.{name} AS VARCHAR)" for name in names)
            twice = self.connection.execute(
                f"SELECT {shown} FROM {target} AS t JOIN ({written}) AS w ON {same} "
                f"GROUP BY {', '.join(f't.{name}' for name in names)} HAVING COUNT(*) > 1 LIMIT 6"
            ).fetchall()
            if twice:
                raise CheckError(
                    f"{self._ref}: several rows would have one ({', '.join(group)}), which is unique: {_shown(twice)}",
                    hint="nothing was written; keep one of them in the source query",
                )

    def _names(self, names: Sequence[str]) -> str:
        return ", ".join(self.backend.dialect.quote(name) for name in names)


def _shown(rows: Sequence[Sequence[object]]) -> str:
    shown = [", ".join(str(value) for value in row) for row in rows[:5]]
    return "; ".join(shown) + ("; …" if len(rows) > 5 else "")
