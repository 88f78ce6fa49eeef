"""Loads into lake tables without the engine around them, so that a test can hold several open at once."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqlglot import parse_one

from ematix_flow.backends.base import Frame, Load
from ematix_flow.errors import ConflictError
from ematix_flow.spec.run import Commit, Run
from ematix_flow.strategies.base import Append, Upsert
from ematix_flow.types import BigInt, Text
from tests.backends.lab import TARGET, Lab, clock


def opened(lab: Lab, token: str, *rows: tuple[int, str]) -> AbstractContextManager[Load]:
    """A load without the engine around it."""
    lab.types = {"id": BigInt(), "v": Text()}
    table = lab.pipeline(mode="merge").table
    run = Run(
        run_id=str(uuid.uuid4()), pipeline=token, schema=TARGET.schema, table=TARGET.name, mode="merge",
        path="cross_db", started_at=clock("09:00"), status="success",
    )  # fmt: skip
    frame = lab.project.workshop.spark().createDataFrame(list(rows), "id BIGINT, v STRING")
    return lab.target.load(Frame(frame), table, Commit(token=token, run=run, now=clock("09:00")))


def apply(load: Load, change: type[Append] | type[Upsert]) -> None:
    """Add the incoming rows, or bring them in by their keys."""
    incoming: Any = parse_one("SELECT id, v FROM incoming")
    labelled: Any = parse_one(
        "SELECT i.id, i.v, CASE WHEN t.id IS NULL THEN 'insert' ELSE 'update' END AS _change "
        "FROM incoming AS i LEFT JOIN target AS t ON i.id = t.id"
    )
    load.apply(Append(incoming) if change is Append else Upsert(labelled, ("id",), ("id", "v")))
    load.finish(load.commit.run, None)  # type: ignore[attr-defined]


def race(loads: Sequence[AbstractContextManager[Load]]) -> list[str]:
    """Let loads that are open commit at one moment; gives what became of them, in order."""
    start, outcomes = threading.Barrier(len(loads)), list[str]()

    def commit(load: AbstractContextManager[Load]) -> None:
        start.wait()
        try:
            load.__exit__(None, None, None)
            outcomes.append("committed")
        except ConflictError:
            outcomes.append("gave way")

    threads = [threading.Thread(target=commit, args=(each,)) for each in loads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(outcomes)
