"""A connection as users hold it: what a pipeline function is given, and what `connect` opens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypedDict, Unpack
from urllib.parse import unquote, urlsplit

from ..backends.base import Backend
from ..errors import BackendError, RunError, SpecError, SpecTypeError
from ..spec.connection import Connection
from ..spec.keywords import DriftPolicy, Mode
from ..spec.place import TableRef
from ..spec.run import StepStatus, instant_text
from ..spec.table_spec import table_from_spec
from .result import RunResult
from .schema import ensure_table
from .step_record import new_step, record_step

if TYPE_CHECKING:
    from .direct import LoadOptions

__all__ = ["Answer", "ColumnFacts", "Handle"]


class ColumnFacts(TypedDict):
    """A column of a query's answer."""

    name: str
    type: str


class Answer(TypedDict):
    """The rows of a query; `truncated` says that there are more."""

    columns: list[ColumnFacts]
    rows: list[list[object]]
    truncated: bool


class Handle:
    """An open connection: what it is, and the questions and statements it takes.

    A pipeline function is given one; `connect` opens one of your own, which `close` or a `with` block lets go of.
    Statements are in the system's own SQL; a system without any raises UnsupportedError.
    """

    def __init__(self, backend: Backend, *, live: bool = True, on_close: Callable[[], None] | None = None) -> None:
        self._backend, self._live, self._on_close = backend, live, on_close
        self._closed = False

    @property
    def name(self) -> str:
        """The connection's name."""
        return self._connection.name

    @property
    def kind(self) -> str:
        """The connection's kind."""
        return self._connection.kind

    @property
    def url(self) -> str:
        """The connection as a URL, password included."""
        return self._connection.to_url()

    @property
    def path(self) -> str | None:
        """The file or folder of the connection; None where it has none."""
        path = getattr(self._connection, "path", None)
        return path if isinstance(path, str) else None

    @property
    def backend(self) -> Backend:
        """The system itself; RunError where the handle is closed, or nothing may be opened."""
        return self._asked()

    def dsn(self) -> str:
        """The connection as a URL, password included."""
        return self.url

    def dialect(self) -> str:
        """The SQL dialect the connection's system speaks."""
        return self._backend.dialect.name

    def table_sql(self, schema: str, table: str, columns: Sequence[str] | None = None) -> str:
        """The query that gives a table, in the words of the connection's system; opens nothing."""
        shown = "*" if columns is None else ", ".join(self._backend.dialect.quote(name) for name in columns)
        return f"SELECT {shown} FROM {self._backend.relation_sql(TableRef(schema, table))}"

    def is_of(self, backend: Backend) -> bool:
        """Whether this is a handle of that system."""
        return self._backend is backend

    def connection_info(self) -> Mapping[str, object]:
        """The connection's fields with secrets redacted, and its `host`, `port`, `dbname` and `user`."""
        return {**self._connection.redacted(), **_address(self._connection)}

    def ping(self) -> str:
        """A short description of the system, or ConnectError."""
        return self._asked().ping()

    def execute(self, sql: str) -> int:
        """Run one statement, committed at once; gives how many rows it changed."""
        return self._asked().execute([_text(sql)])

    def execute_in_transaction(self, statements: Sequence[str]) -> int:
        """Run all statements or none; gives how many rows they changed."""
        if isinstance(statements, str):
            hint = "write execute_in_transaction([sql, …])"
            raise SpecTypeError("the statements of a transaction are a list, not one text", hint=hint)
        texts = [_text(sql) for sql in statements]
        return self._asked().execute(texts) if texts else 0

    def query(self, sql: str, max_rows: int | None = None) -> Answer:
        """The rows of a query, `max_rows` at most: a dictionary of `columns`, `rows` and `truncated`."""
        if max_rows is not None and (_whole_number(max_rows) is None or max_rows < 0):
            raise SpecError(f"max_rows cannot be {max_rows!r}", hint="write a whole number, or leave it out")
        result = self._asked().query(_text(sql), max_rows)
        return {
            "columns": [{"name": column.name, "type": column.type} for column in result.columns],
            "rows": [list(row) for row in result.rows],
            "truncated": result.truncated,
        }

    def fetch_scalar_int(self, sql: str) -> int:
        """The first column of the first row, which must be a whole number."""
        rows = self._asked().query(_text(sql), 1).rows
        value = rows[0][0] if rows and rows[0] else None
        number = _whole_number(value)
        if number is None:
            said = "gave no row" if not rows else f"gave {type(value).__name__}" if value is not None else "gave NULL"
            raise BackendError(f"connection {self.name!r}: a query for one whole number {said}")
        return number

    def ensure_table(
        self, spec: object, on_drift: DriftPolicy = "error", *, mode: Mode | None = None
    ) -> dict[str, object]:
        """Create a table that is missing, and compare one that exists with its declaration.

        `spec` is a `Table`, a table class, a dictionary or JSON text. A table that differs is a DriftError, a warning
        with ``on_drift="warn"``, and is changed as far as it safely can be with ``on_drift="evolve"``. With `mode` the
        table has the columns that loads of that mode add.
        """
        return ensure_table(self._asked(), table_from_spec(spec), on_drift, mode=mode)

    def read_watermark(self, pipeline: str) -> dict[str, str] | None:
        """How far an incremental pipeline has come in this system, and since when; None before its first load."""
        bookmark = self._asked().ledger.bookmark(pipeline)
        if bookmark is None:
            return None
        known = {"pipeline_name": bookmark.pipeline, "column_name": bookmark.column, "last_value": bookmark.value}
        return known if bookmark.updated_at is None else {**known, "updated_at": instant_text(bookmark.updated_at)}

    def record_transform_history(
        self,
        parent_run_id: str | None,
        pipeline: str,
        step: str | None,
        status: StepStatus,
        schema: str = "",
        table: str = "",
        error: str | None = None,
        metrics_json: str | Mapping[str, object] | None = None,
    ) -> str:
        """Record a step that was done by hand after a load, as a pipeline's own steps are; gives its run id."""
        begun = new_step(pipeline, parent=parent_run_id, step=step, table=(schema, table))
        return record_step(self._asked().ledger, begun, status, error, metrics_json).run_id

    def run_append(self, target: object, source: object, **options: Unpack[LoadOptions]) -> RunResult:
        """Add the rows of `source` to a table, once, now.

        `target` is whatever `ensure_table` takes, `source` what a pipeline's function may return: a text is a query
        for this system, a `Source` may be of another one. The options are those of `@ematix.pipeline`, and
        `pipeline_name` and `dry_run` beside them.
        """
        return self._load("append", target, source, options)

    def run_truncate(self, target: object, source: object, **options: Unpack[LoadOptions]) -> RunResult:
        """Replace all rows of a table by those of `source`; for the rest like `run_append`."""
        return self._load("truncate", target, source, options)

    def run_merge(self, target: object, source: object, **options: Unpack[LoadOptions]) -> RunResult:
        """Update the rows of a table by their keys, and add the new ones; for the rest like `run_append`."""
        return self._load("merge", target, source, options)

    def run_scd2(self, target: object, source: object, **options: Unpack[LoadOptions]) -> RunResult:
        """Keep the history of a table: close versions that changed, open new ones; for the rest like `run_append`."""
        return self._load("scd2", target, source, options)

    def close(self) -> None:
        """Let go of what `connect` opened; harmless when called again."""
        if not self._closed and self._on_close is not None:
            self._on_close()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Handle({self._connection!r})"

    @property
    def _connection(self) -> Connection:
        return self._backend.connection

    def _load(self, mode: Mode, target: object, source: object, options: LoadOptions) -> RunResult:
        from .direct import load_directly  # it needs this module

        return load_directly(self, mode, target, source, options)

    def _asked(self) -> Backend:
        if self._closed:
            raise RunError(f"the handle of connection {self.name!r} is closed", hint="open it again with connect")
        if not self._live:
            hint = "flow dry-run opens connections and tells everything"
            raise RunError(f"a preview opens nothing, and the pipeline asked connection {self.name!r}", hint=hint)
        return self._backend


def _text(sql: object) -> str:
    if not isinstance(sql, str):
        raise SpecTypeError(f"a statement is text, not {type(sql).__name__}")
    return sql


def _whole_number(value: object) -> int | None:
    if isinstance(value, str) or value is None:
        return None
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number == value else None


def _address(connection: Connection) -> dict[str, object]:
    """Where the system is and who asks, without any password."""
    url = getattr(connection, "url", None)
    if isinstance(url, str) and "://" in url:
        try:
            parts, port = urlsplit(url), urlsplit(url).port
        except ValueError:  # a reference that is not filled yet, or a URL that only its system can judge
            return dict.fromkeys(("host", "port", "dbname", "user"))
        user = unquote(parts.username) if parts.username else None
        return {"host": parts.hostname, "port": port, "dbname": unquote(parts.path.strip("/")), "user": user}
    values = {name: getattr(connection, name, None) for name in ("host", "port", "database", "path", "user")}
    place = values["database"] or values["path"]
    return {"host": values["host"], "port": values["port"], "dbname": place, "user": values["user"]}
