"""Tables that tasks of Spark filled for a run that was killed are dropped by the next one, on each server."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ematix_flow.backends.owner import current_owner
from ematix_flow.backends.server import ServerBackend
from ematix_flow.backends.staging import Errand, _drop_orphans, _fill, _found, table_name
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import MySQLConnection, PostgresConnection
from ematix_flow.spec.run import Run
from ematix_flow.types import BigInt
from tests.servers import empty_mysql, empty_postgres

pytestmark = pytest.mark.server


def begin(backend: ServerBackend, folder: Path, owner: str) -> str:
    """Record a run of a process, and stage two tables for it; gives its id."""
    run_id = str(uuid.uuid4())
    facts = {"pipeline": "sales", "schema": "mart", "table": "sales", "mode": "append", "path": "spark"}
    backend.ledger.start(Run(run_id=run_id, **facts, started_at=datetime.now(UTC), owner=owner))
    errand = Errand(backend.connection, run_id, "id BIGINT", {"id": BigInt()}, (), 1)
    for partition in range(2):
        assert _fill(backend, table_name(run_id, partition, 0), errand, folder) == 3
    return run_id


OWN = "from ematix_flow.backends.owner import current_owner; print(current_owner(), flush=True); input()"


@contextmanager
def process() -> Iterator[str]:
    """The owner of the runs of a process that is killed at the end of the block."""
    child = subprocess.Popen([sys.executable, "-c", OWN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.kill()


def test_what_a_killed_run_staged_goes_with_the_next_run_and_nothing_else_does(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "rows.parquet")
    postgres, mysql = empty_postgres("orphans"), empty_mysql("orphans")
    workshop = Workshop(lambda: pytest.fail("Spark is not needed"))
    for connection in (PostgresConnection("warehouse", postgres), MySQLConnection("shop", mysql)):
        backend = connection.open(workshop)
        with process() as owner:
            begin(backend, tmp_path, owner)
            with backend.session() as session:
                _drop_orphans(backend, session)
                assert len(_found(backend, session)) == 2
        mine = begin(backend, tmp_path, current_owner())
        with backend.session() as session:
            assert len(_found(backend, session)) == 4
            _drop_orphans(backend, session)
            assert set(_found(backend, session)) == {table_name(mine, 0, 0), table_name(mine, 1, 0)}
