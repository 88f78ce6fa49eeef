"""The user's function: called inside a boundary, its answer turned into a place to read from."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from ..backends.arrow_files import find_rows
from ..backends.base import Backend
from ..errors import FlowError, SpecTypeError, UserCodeError
from ..spec.pipeline import Pipeline
from ..spec.place import Place, Prefix, Query, Rows, TableRef
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
        case _:
            rows = find_rows(answer)
            if rows is not None:
                return rows
            raise pipeline.error(
                f"its function returned {type(answer).__name__}",
                kind=SpecTypeError,
                hint="return the SQL of the source as text, a data frame, or None with source_table=",
            )


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
