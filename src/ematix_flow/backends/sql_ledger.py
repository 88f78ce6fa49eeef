"""The tables `run_history`, `watermarks` and `loads` inside a SQL database, by default in the schema `ematix_flow`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlglot import exp

from ..errors import BackendError, ConnectError, FlowError
from ..spec.modes import mode_facts
from ..spec.place import TableRef
from ..spec.run import Bookmark, Run
from ..spec.table import Column, Table
from ..types import UUID, BigInt, Text, TimestampTZ
from .base import Ledger
from .owner import INTERRUPTED, is_alive
from .sql_ddl import create_sql

if TYPE_CHECKING:
    from .sql import SqlBackend, SqlConnection

__all__ = ["BOOKKEEPING_SCHEMA", "SqlLedger", "TokenRow"]

BOOKKEEPING_SCHEMA = "ematix_flow"
"""Where the tables are unless a connection says otherwise."""

_COUNTS = ("rows_inserted", "rows_updated", "rows_unchanged", "rows_read", "rows_deleted", "rows_closed")


def _table(name: str, *columns: Column) -> Table:
    return Table(BOOKKEEPING_SCHEMA, name, columns)


HISTORY = _table(
    "run_history",
    Column(UUID(), nullable=False, primary_key=True, name="run_id"),
    *(
        Column(Text(), nullable=False, name=name)
        for name in ("pipeline_name", "target_schema", "target_table", "mode", "path")
    ),
    Column(TimestampTZ(), nullable=False, name="started_at"),
    Column(TimestampTZ(), name="finished_at"),
    Column(Text(), nullable=False, name="status"),
    *(Column(BigInt(), name=name) for name in _COUNTS),
    Column(Text(), name="error_message"),
    Column(UUID(), name="parent_run_id"),
    *(
        Column(Text(), name=name)
        for name in ("step_name", "metrics_json", "watermark_before", "watermark_after", "owner")
    ),
)
WATERMARKS = _table(
    "watermarks",
    Column(Text(), nullable=False, primary_key=True, name="pipeline_name"),
    Column(Text(), nullable=False, name="column_name"),
    Column(Text(), nullable=False, name="last_value"),
    Column(TimestampTZ(), nullable=False, name="updated_at"),
)
LOADS = _table(
    "loads",
    Column(Text(), nullable=False, primary_key=True, name="token"),
    Column(Text(), nullable=False, name="pipeline_name"),
    Column(UUID(), nullable=False, name="run_id"),
    Column(Text(), nullable=False, name="target_schema"),
    Column(Text(), nullable=False, name="target_table"),
    Column(TimestampTZ(), nullable=False, name="loaded_at"),
)


@dataclass(frozen=True)
class TokenRow:
    """A committed load, as the table `loads` keeps it."""

    token: str
    pipeline: str
    run_id: str
    target: TableRef
    loaded_at: datetime


class SqlLedger(Ledger):
    """Run records, bookmarks and tokens beside the rows they belong to."""

    def __init__(self, backend: SqlBackend) -> None:
        self.backend, self.schema = backend, backend.bookkeeping_schema
        self._history, self._watermarks, self._loads = (
            replace(table, schema=self.schema) for table in (HISTORY, WATERMARKS, LOADS)
        )

    def start(self, run: Run) -> None:
        """Record that `run` began, and close the records of dead processes."""
        untold = list(self.backend.untold.values())
        with self.backend.session() as connection, self._kept(), self.backend.transaction(connection):
            self._prepare(connection)
            for ended in untold:
                self._replace_run(connection, ended, only_running=True)
            self._reap(connection, run)
            self._insert(connection, self._history, _history_row(run))
        for ended in untold:
            self.backend.untold.pop(ended.run_id, None)

    def end(self, run: Run) -> None:
        """Record how a run ended that committed nothing; where that fails, the next run of this process does it."""
        try:
            with self.backend.session() as connection, self.backend.transaction(connection):
                self._replace_run(connection, run, only_running=True)
        except FlowError:
            self.backend.untold[run.run_id] = run
            raise

    def bookmark(self, pipeline: str) -> Bookmark | None:
        """The committed bookmark of `pipeline`."""
        where = {"pipeline_name": pipeline}
        rows = self._select(self._watermarks, ("pipeline_name", "column_name", "last_value", "updated_at"), where)
        if not rows:
            return None
        name, column, value, updated_at = rows[0]
        return Bookmark(str(name), str(column), str(value), _instant(updated_at))

    def set_bookmark(self, pipeline: str, bookmark: Bookmark | None, at: datetime) -> None:
        """Replace or remove the row of `pipeline`."""
        with self.backend.session() as connection, self._kept(), self.backend.transaction(connection):
            self._prepare(connection)
            self._replace_bookmark(connection, pipeline, bookmark, at)

    def last_instant(self, table: TableRef, *, pipeline: str | None = None) -> datetime | None:
        """The newest `now` that was committed into `table`."""
        where = {"target_schema": table.schema, "target_table": table.name}
        if pipeline is not None:
            where["pipeline_name"] = pipeline
        rows = self._select(self._loads, ("loaded_at",), where, order="loaded_at", limit=1)
        return _instant(rows[0][0]) if rows else None

    def runs(self, *, pipeline: str | None = None, limit: int = 50) -> Sequence[Run]:
        """Records, newest first."""
        return self._runs({} if pipeline is None else {"pipeline_name": pipeline}, limit)

    def find(self, run: Run) -> Run | None:
        """What is recorded of a run, however long ago it was."""
        return next(iter(self._runs({"run_id": run.run_id}, 1)), None)

    def _runs(self, where: Mapping[str, object], limit: int) -> list[Run]:
        # A table that an older version made has fewer columns until the next run adds them.
        with self._kept():
            actual = self.backend.columns(_ref(self._history))
        names = [name for name in self._history.column_names if actual is not None and name in actual.column_names]
        rows = self._select(self._history, names, where, order="started_at", limit=limit)
        missing = dict.fromkeys(self._history.column_names)
        return [_run({**missing, **dict(zip(names, row, strict=True))}) for row in rows]

    def has_token(self, connection: SqlConnection, token: str) -> bool:
        """Whether a load with this token was committed."""
        if self.backend.columns_in(connection, _ref(self._loads)) is None:
            return False
        query = self._query(self._loads, ("token",), {"token": _kept(token)})
        return bool(connection.execute(query).fetchall())

    def ended(self, connection: SqlConnection, run_ids: Iterable[str]) -> list[str]:
        """Those of the runs that are over: their record says so, or their process is gone."""
        if self.backend.columns_in(connection, _ref(self._history)) is None:
            return []
        over = []
        for run_id in run_ids:
            query = self._query(self._history, ("status", "owner"), {"run_id": run_id})
            for status, owner in connection.execute(query).fetchall():
                if status != "running" or not is_alive(str(owner or "")):
                    over.append(run_id)
        return over

    def commit(self, connection: SqlConnection, token: TokenRow, run: Run, bookmark: Bookmark | None) -> None:
        """Write token, bookmark and record inside the load's own transaction."""
        with self._kept():
            self._write(connection, token, run, bookmark)

    def _write(self, connection: SqlConnection, token: TokenRow, run: Run, bookmark: Bookmark | None) -> None:
        self._prepare(connection)
        self._insert(
            connection,
            self._loads,
            {
                "token": _kept(token.token),
                "pipeline_name": token.pipeline,
                "run_id": token.run_id,
                "target_schema": token.target.schema,
                "target_table": token.target.name,
                "loaded_at": token.loaded_at,
            },
        )
        if bookmark is not None:
            self._replace_bookmark(connection, bookmark.pipeline, bookmark, token.loaded_at)
        self._replace_run(connection, run)

    def _replace_bookmark(
        self, connection: SqlConnection, pipeline: str, bookmark: Bookmark | None, at: datetime
    ) -> None:
        self._delete(connection, self._watermarks, "pipeline_name", pipeline)
        if bookmark is not None:
            row = {"pipeline_name": pipeline, "column_name": bookmark.column, "last_value": bookmark.value}
            self._insert(connection, self._watermarks, {**row, "updated_at": at})

    def _prepare(self, connection: SqlConnection) -> None:
        """Create what is missing; a database that has everything is only looked at."""
        if not self._missing(connection):
            return
        self.backend.take_turn(connection, TableRef(self.schema, "*"))
        # While this one waited, another run may have made it all.
        for table, columns in self._missing(connection).items():
            if columns is None:
                self.backend.ensure_schema(connection, self.schema)
                connection.execute(create_sql(self.backend, table))
                continue
            for column in columns:
                kind = self.backend.dialect.type_name(column.type)
                connection.execute(
                    f"ALTER TABLE {self._name(table)} ADD COLUMN {self.backend.dialect.quote(column.name)} {kind}"
                )

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Let a refusal say what was refused, and which option names another place for it."""
        try:
            yield
        except BackendError as error:
            if error.transient or isinstance(error, ConnectError):
                raise
            raise BackendError(
                f"{error.message}: run records, bookmarks and tokens are kept in the schema {self.schema!r}",
                hint=self.backend.BOOKKEEPING_HINT or error.hint,
            ) from error

    def _missing(self, connection: SqlConnection) -> dict[Table, Sequence[Column] | None]:
        """The tables that are not there (None), or lack columns that an older version did not have."""
        found: dict[Table, Sequence[Column] | None] = {}
        for table in (self._history, self._watermarks, self._loads):
            actual = self.backend.columns_in(connection, _ref(table))
            columns = [] if actual is None else [each for each in table.columns if each.name not in actual.column_names]
            if actual is None or columns:
                found[table] = None if actual is None else columns
        return found

    def _reap(self, connection: SqlConnection, run: Run) -> None:
        query = self._query(self._history, ("run_id", "owner"), {"pipeline_name": run.pipeline, "status": "running"})
        for run_id, owner in connection.execute(query).fetchall():
            if not is_alive(str(owner or "")):
                changes = {"status": "failed", "finished_at": run.started_at, "error_message": INTERRUPTED}
                self._update(connection, str(run_id), changes)

    def _replace_run(self, connection: SqlConnection, run: Run, *, only_running: bool = False) -> None:
        """A record that a commit has closed stays as it is, whatever happened to the process afterwards."""
        row = _history_row(run)
        row.pop("run_id")
        self._update(connection, run.run_id, row, only_running=only_running)

    def _update(
        self, connection: SqlConnection, run_id: str, changes: Mapping[str, object], *, only_running: bool = False
    ) -> None:
        settings = {name: self._literal(self._history, name, value) for name, value in changes.items()}
        statement = exp.update(self.backend.table_name(_ref(self._history)), {})
        statement.set("expressions", [exp.EQ(this=_column(name), expression=value) for name, value in settings.items()])
        condition: exp.Expr = _column("run_id").eq(self._literal(self._history, "run_id", run_id))
        if only_running:
            condition = exp.and_(condition, _column("status").eq(exp.Literal.string("running")))
        statement.set("where", exp.Where(this=condition))
        connection.execute(statement.sql(self.backend.dialect.name))

    def _insert(self, connection: SqlConnection, table: Table, row: Mapping[str, object]) -> None:
        names = ", ".join(self.backend.dialect.quote(name) for name in row)
        values = [self._literal(table, name, value).sql(self.backend.dialect.name) for name, value in row.items()]
        connection.execute(f"INSERT INTO {self._name(table)} ({names}) VALUES ({', '.join(values)})")

    def _delete(self, connection: SqlConnection, table: Table, column: str, value: str) -> None:
        condition = _column(column).eq(self._literal(table, column, value)).sql(self.backend.dialect.name)
        connection.execute(f"DELETE FROM {self._name(table)} WHERE {condition}")

    def _select(
        self,
        table: Table,
        names: Sequence[str],
        where: Mapping[str, object],
        *,
        order: str | None = None,
        limit: int | None = None,
    ) -> list[tuple[object, ...]]:
        with self._kept():
            if self.backend.columns(_ref(table)) is None:
                return []
            with self.backend.session() as connection:
                query = self._query(table, names, where, order=order, limit=limit)
                return connection.execute(query).fetchall()

    def _query(
        self,
        table: Table,
        names: Sequence[str],
        where: Mapping[str, object],
        *,
        order: str | None = None,
        limit: int | None = None,
    ) -> str:
        """Instants and identifiers are read as text, the one form every driver gives alike."""
        dialect = self.backend.dialect
        shown = [
            dialect.text(_column(name), table.column(name).type).as_(f"_{name}")
            if not isinstance(table.column(name).type, BigInt)
            else _column(name)
            for name in names
        ]
        query = exp.select(*shown).from_(self.backend.table_name(_ref(table)))
        for name, value in where.items():
            query = query.where(_column(name).eq(self._literal(table, name, value)))
        if order is not None:
            query = query.order_by(_column(order).desc())
        if limit is not None:
            query = query.limit(limit)
        return query.sql(dialect.name)

    def _literal(self, table: Table, name: str, value: object) -> exp.Expression:
        match value:
            case None:
                return exp.null()
            case datetime():
                return self.backend.dialect.instant(value)
            case int():
                return exp.Literal.number(value)
            case _:
                text = exp.Literal.string(str(value).replace("\0", ""))
                kind = table.column(name).type
                return self.backend.dialect.literal(text.name, kind) if isinstance(kind, UUID) else text

    def _name(self, table: Table) -> str:
        return self.backend.table_name(_ref(table)).sql(self.backend.dialect.name)


def _kept(token: str) -> str:
    """The token as the table keeps it: a long one by its beginning and its hash, because a key has a bound."""
    if len(token) <= _LONGEST_TOKEN:
        return token
    digest = hashlib.sha256(token.encode()).hexdigest()
    return f"{token[: _LONGEST_TOKEN - len(digest) - 1]} {digest}"


_LONGEST_TOKEN = 255


def _ref(table: Table) -> TableRef:
    return TableRef(table.schema, table.name)


def _column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _history_row(run: Run) -> dict[str, object]:
    rows = {name: run.rows.get(name) for name in _COUNTS}
    if mode_facts(run.mode).keeps_history and run.rows:
        rows["rows_updated"] = run.rows.get("rows_closed", 0)  # the documented meaning of the column for versions
    return {
        "run_id": run.run_id,
        "pipeline_name": run.pipeline,
        "target_schema": run.schema,
        "target_table": run.table,
        "mode": run.mode,
        "path": run.path,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "status": run.status,
        **rows,
        "error_message": run.error,
        "parent_run_id": run.parent_run_id,
        "step_name": run.step_name,
        "metrics_json": run.metrics_json,
        "watermark_before": run.bookmark_before,
        "watermark_after": run.bookmark_after,
        "owner": run.owner,
    }


def _run(row: Mapping[str, object]) -> Run:
    def text(name: str) -> str | None:
        return None if row[name] is None else str(row[name])

    finished = row["finished_at"]
    return Run(
        run_id=str(row["run_id"]),
        pipeline=str(row["pipeline_name"]),
        schema=str(row["target_schema"]),
        table=str(row["target_table"]),
        mode=str(row["mode"]),
        path=str(row["path"]),
        started_at=_instant(row["started_at"]),
        finished_at=None if finished is None else _instant(finished),
        status=str(row["status"]),  # type: ignore[arg-type]
        rows={name: int(str(row[name])) for name in _COUNTS if row[name] is not None},
        error=text("error_message"),
        parent_run_id=text("parent_run_id"),
        step_name=text("step_name"),
        metrics_json=text("metrics_json"),
        bookmark_before=text("watermark_before"),
        bookmark_after=text("watermark_after"),
        owner=text("owner") or "",
    )


def _instant(text: object) -> datetime:
    return datetime.fromisoformat(str(text)).replace(tzinfo=UTC)
