"""The user's function: called inside a boundary, its answer turned into a place to read from; `Source` is an answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

from ..backends.arrow_files import find_rows
from ..backends.base import Backend
from ..errors import FlowError, SpecError, SpecTypeError, UserCodeError
from ..spec.connection import Connection
from ..spec.pipeline import Pipeline
from ..spec.place import Place, Prefix, Query, Rows, TableRef
from .handle import Handle

__all__ = ["Source", "awaited", "call_function"]


@dataclass(frozen=True)
class Source:
    """A query and the connection that runs it, as a handle or by its name: what a pipeline's function may return."""

    connection: Handle | str
    query: str

    def __post_init__(self) -> None:
        connection: object = self.connection
        if isinstance(connection, Connection):
            object.__setattr__(self, "connection", connection.name)
        elif not isinstance(connection, Handle | str):
            raise SpecTypeError(
                f"Source takes a handle or the name of a connection, not {type(connection).__name__}",
                hint="pass the source or the target that the pipeline's function was given",
            )
        elif connection == "":
            raise SpecError("a Source needs the name of its connection", hint="pass a name, or a handle")

    @classmethod
    def from_query(cls, conn: Handle, sql: str) -> Source:
        """The rows of a query, in the words of the connection's system."""
        return cls(conn, sql)

    @classmethod
    def from_table(cls, conn: Handle, schema: str, table: str, columns: Sequence[str] | None = None) -> Source:
        """The rows of a table: all its columns, or those that are named."""
        return cls(conn, conn.table_sql(schema, table, columns))

    @classmethod
    def postgres_query(cls, conn: Handle, sql: str) -> Source:
        """The same as `from_query`."""
        return cls.from_query(conn, sql)

    @classmethod
    def postgres_table(cls, conn: Handle, schema: str, table: str, columns: Sequence[str] | None = None) -> Source:
        """The same as `from_table`."""
        return cls.from_table(conn, schema, table, columns)


def call_function(
    pipeline: Pipeline, source: Backend, target: Backend, *, live: bool = True
) -> Place | Rows | dict[str, object] | None:
    """Where the rows are, or the rows, as the pipeline's function says; None leaves it to `source_table=`.

    A dictionary is the result of a function that has loaded by itself.
    """
    handles = (Handle(source, live=live), Handle(target, live=live))[: pipeline.parameters]
    try:
        answer = pipeline.function(*handles)
        if inspect.isawaitable(answer):
            answer = awaited(answer)
    except FlowError:
        raise
    except Exception as error:  # user code is a boundary: its failure is named, its cause kept
        raise UserCodeError(
            f"pipeline {pipeline.name!r}: its function failed with {type(error).__name__}: {error}",
            declared_at=pipeline.declared_at,
        ) from error
    match answer:
        case None | dict():
            return answer
        case str():
            with pipeline.named_errors():
                return Query(answer)
        case Query() | TableRef() | Prefix() | Rows():
            return answer
        case Source():
            with pipeline.named_errors():
                return _query_of(answer, source, target)
        case _:
            rows = find_rows(answer)
            if rows is not None:
                return rows
            raise pipeline.error(
                f"its function returned {type(answer).__name__}",
                kind=SpecTypeError,
                hint="return the SQL of the source as text, a Source, a data frame, or None with source_table=",
            )


def _query_of(answer: Source, source: Backend, target: Backend) -> Query:
    """The query of a `Source`, and who runs it."""
    if _is_of(answer, source):
        return Query(answer.query)
    if _is_of(answer, target):
        return Query(answer.query, target.connection.name)
    name = answer.connection if isinstance(answer.connection, str) else answer.connection.name
    raise SpecError(
        f"its function returned a Source of connection {name!r}, from which it does not read",
        hint=f"pass source_connection={name!r} to the pipeline",
    )


def _is_of(answer: Source, system: Backend) -> bool:
    if isinstance(answer.connection, str):
        return answer.connection == system.connection.name
    return answer.connection.is_of(system)


def awaited(answer: Awaitable[object]) -> object:
    """What an awaitable gives, in an event loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_await(answer))
    # A thread runs one loop at a time, and a notebook has one running in this thread.
    with ThreadPoolExecutor(max_workers=1) as threads:
        return threads.submit(copy_context().run, asyncio.run, _await(answer)).result()


async def _await(answer: Awaitable[object]) -> object:
    return await answer
