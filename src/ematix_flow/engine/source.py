"""The user's function: called inside a boundary, its answer turned into a place to read from."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from ..backends.arrow_files import find_rows
from ..backends.base import Backend
from ..errors import FlowError, SpecError, SpecTypeError, UserCodeError
from ..spec.pipeline import Pipeline
from ..spec.place import Place, Prefix, Query, Rows, TableRef
from ..spec.source import Source
from .handle import Handle

__all__ = ["awaited", "call_function"]


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
    return isinstance(answer.connection, Handle) and answer.connection.is_of(system)


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
