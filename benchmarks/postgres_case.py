"""One measured load of PostgreSQL in a process of its own: `python -m benchmarks.postgres_case NAME FACTS`.

FACTS is JSON: the URLs of the two databases, the folder of the server's programs, rows, wide.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from ematix_flow import Project, ematix
from ematix_flow.config import Settings
from ematix_flow.connections import register_connection
from ematix_flow.engine.session import SessionOptions, close_session, open_session
from ematix_flow.spec.connection import connection_from_mapping
from ematix_flow.spec.registry import Registry

from .case import measured
from .postgres_data import (
    STAMP,
    WARM_ROWS,
    changes_sql,
    columns,
    declared_table,
    names,
    orders_frame,
    stamped,
    table_sql,
)
from .spending import watched_statements

Facts = dict[str, Any]
TIMES = 9
"""How often a small load is run; the median counts."""


def main() -> None:
    """Prepare, measure, print."""
    name, facts = sys.argv[1], json.loads(sys.argv[2])
    load = CASES[name](facts)
    next(load)
    with watched_statements() as spent, measured() as figures:
        next(load)
    figures |= next(load, None) or {}
    print(json.dumps({**figures, "statements": spent}))
    for _ in load:
        pass


# ── a. a Spark frame into a new table ─────────────────────────────────────────────────────────────────────────────────


def frame_ours(facts: Facts) -> Iterator[Any]:
    """A pipeline whose function returns the frame."""
    spark = _spark()
    project = _project(facts)
    _warm(facts)
    warm = _pipeline(project, "warm", facts, frame=orders_frame(spark, WARM_ROWS, facts["wide"]))
    load = _pipeline(project, "orders", facts, frame=orders_frame(spark, facts["rows"], facts["wide"]))
    project.run(project.pipeline(warm))
    yield
    project.run(project.pipeline(load))
    yield
    close_session()


def frame_jdbc(facts: Facts, url: str = "", **options: str) -> Iterator[Any]:
    """Spark's own writer, as it is."""
    spark = _spark()
    _warm(facts)

    def write(rows: int, table: str) -> None:
        frame = stamped(orders_frame(spark, rows, facts["wide"]))
        frame.write.mode("append").jdbc(f"{_jdbc(facts['target'])}{url}", f"mart.{table}", properties=_driver(options))

    write(WARM_ROWS, "warm")
    yield
    write(facts["rows"], "orders")
    yield
    close_session()


def frame_jdbc_tuned(facts: Facts) -> Iterator[Any]:
    """Spark's own writer with batches that the driver rewrites."""
    yield from frame_jdbc(facts, "&reWriteBatchedInserts=true", batchsize="10000")


# ── b. from one database to another ───────────────────────────────────────────────────────────────────────────────────


def copy_ours(facts: Facts) -> Iterator[Any]:
    """A pipeline between two connections."""
    project = _project(facts)
    _warm(facts)
    warm = _pipeline(project, "warm", facts, source=f"SELECT * FROM raw.orders WHERE id < {WARM_ROWS}")
    load = _pipeline(project, "orders", facts, source="SELECT * FROM raw.orders")
    project.run(project.pipeline(warm))
    yield
    project.run(project.pipeline(load))
    yield


def copy_psql(facts: Facts) -> Iterator[Any]:
    """The server's own programs with a pipe between them: the limit."""
    yield
    query = f"SELECT {names(facts['wide'])}, {STAMP} FROM raw.orders"
    psql = f"{facts['bin']}/psql"
    out = [psql, facts["source"], "-qc", f"COPY ({query}) TO STDOUT (FORMAT binary)"]
    into = f"COPY mart.orders ({names(facts['wide'])}, _loaded_at, _batch_id) FROM STDIN (FORMAT binary)"
    with subprocess.Popen(out, stdout=subprocess.PIPE) as sender:
        subprocess.run([psql, facts["target"], "-qc", into], stdin=sender.stdout, check=True)
    yield


def copy_jdbc(facts: Facts) -> Iterator[Any]:
    """Spark's own reader and writer, tuned, two connections each."""
    spark = _spark()
    _warm(facts)

    def copy(rows: int, table: str) -> None:
        reading = {"fetchsize": "10000", "partitionColumn": "id", "lowerBound": "0", "upperBound": str(rows)}
        reading |= {"numPartitions": "2", "url": f"{_jdbc(facts['source'])}&prepareThreshold=-1"}
        query = f"(SELECT {names(facts['wide'])} FROM raw.orders WHERE id < {rows}) AS orders"
        frame = spark.read.format("jdbc").options(**reading, **_driver({}), dbtable=query).load()
        url = f"{_jdbc(facts['target'])}&reWriteBatchedInserts=true"
        stamped(frame).write.mode("append").jdbc(url, f"mart.{table}", properties=_driver({"batchsize": "10000"}))

    copy(WARM_ROWS, "warm")
    yield
    copy(facts["rows"], "orders")
    yield
    close_session()


# ── c. changed rows into a large table ────────────────────────────────────────────────────────────────────────────────

PLAIN = [column.name for column in columns()[1:]]
NEW, OLD = (", ".join(f"{side}.{name}" for name in PLAIN) for side in ("excluded", "held"))
UPSERT = (
    "INSERT INTO mart.orders AS held {rows} ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in (*PLAIN, "_loaded_at"))
    + f" WHERE ({NEW}) IS DISTINCT FROM ({OLD})"
)


def merge_ours(facts: Facts) -> Iterator[Any]:
    """A pipeline inside the database."""
    project = _project(facts)
    _warm(facts)
    changes = "SELECT * FROM raw.changes"
    warm = _pipeline(project, "warm", facts, mode="merge", source=f"{changes} LIMIT 1", inside=True)
    load = _pipeline(project, "orders", facts, mode="merge", source=changes, inside=True)
    project.run(project.pipeline(warm))
    yield
    project.run(project.pipeline(load))
    yield


def merge_sql(facts: Facts) -> Iterator[Any]:
    """One statement by hand, over the same rows, which are in the order of their keys."""
    yield
    with psycopg.connect(facts["target"]) as connection:
        connection.execute(UPSERT.format(rows=f"SELECT {names()}, {STAMP} FROM raw.changes"))
    yield


def merge_partitions(facts: Facts) -> Iterator[Any]:
    """Every task of Spark with a connection of its own, as it is often written; not one transaction."""
    spark = _spark()
    query = f"({changes_sql(facts['changes'], facts['rows'])}) AS changes"
    read = {"url": _jdbc(facts["target"]), "partitionColumn": "id", "lowerBound": "0", "numPartitions": "2"}
    read |= {"upperBound": str(facts["rows"]), "fetchsize": "10000"}
    frame = stamped(spark.read.format("jdbc").options(**read, **_driver({}), dbtable=query).load()).cache()
    frame.count()
    url = facts["target"]
    statement = UPSERT.format(rows=f"VALUES ({', '.join(['%s'] * 8)})")

    def upsert(rows: Any) -> None:
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.executemany(statement, [tuple(row) for row in rows])

    stamped(orders_frame(spark, 2)).where("id < 0").foreachPartition(upsert)  # starts the processes
    yield
    frame.foreachPartition(upsert)
    yield
    close_session()


# ── d. a small load ───────────────────────────────────────────────────────────────────────────────────────────────────


def small_ours(facts: Facts) -> Iterator[Any]:
    """A pipeline inside the database, run again and again."""
    project = _project(facts)
    load = _pipeline(project, "orders", facts, source="SELECT * FROM raw.orders", inside=True)
    yield from _medians(facts, lambda: project.run(project.pipeline(load)))


def small_sql(facts: Facts) -> Iterator[Any]:
    """The statement by hand, with a connection of its own each time."""

    def insert() -> None:
        with psycopg.connect(facts["target"]) as connection:
            connection.execute(f"INSERT INTO mart.orders SELECT {names()}, {STAMP} FROM raw.orders")

    yield from _medians(facts, insert)


def _medians(facts: Facts, run: Callable[[], object]) -> Iterator[Any]:
    def once() -> float:
        # Neither of these two calls is watched.
        with psycopg.Connection.connect(facts["target"]) as connection:
            connection.cursor().execute("TRUNCATE mart.orders")
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin

    first = once()
    yield
    took = sorted(once() for _ in range(TIMES))
    yield
    yield {"first": first, "seconds": took[TIMES // 2], "mean": sum(took) / TIMES}


# ── shared ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _spark() -> Any:
    return open_session(SessionOptions(Settings.load().cache_dir, groups=("jdbc",)))


def _warm(facts: Facts) -> None:
    """Make a table for the load that lets Java compile what the measured one needs."""
    with psycopg.connect(facts["target"]) as connection:
        connection.execute(table_sql("mart.warm", facts["wide"]))


def _project(facts: Facts) -> Project:
    project = Project(Settings(), Registry())
    with project.active():
        for name in ("source", "target"):
            register_connection(connection_from_mapping(name, {"kind": "postgres", "url": facts[name]}))
    return project


def _pipeline(
    project: Project,
    table: str,
    facts: Facts,
    *,
    mode: str = "append",
    source: str | None = None,
    inside: bool = False,
    frame: Any = None,
) -> str:
    """Declare the load of `mart.<table>` and give its name."""
    options: dict[str, Any] = {"name": f"load_{table}", "mode": mode, "target_connection": "target"}
    if source is not None:
        options["source_connection"] = "target" if inside else "source"
    with project.active():
        target = declared_table(table, facts["wide"])

        @ematix.pipeline(target=target, **options)
        def load(_source: object) -> Any:
            return frame if source is None else source

    return str(options["name"])


def _jdbc(url: str) -> str:
    # The driver sends texts as texts; only the server knows that one of them is a UUID.
    return f"jdbc:{url.replace('postgres@', '', 1)}?user=postgres&stringtype=unspecified"


def _driver(options: dict[str, str]) -> dict[str, str]:
    return {"driver": "org.postgresql.Driver", **options}


CASES: dict[str, Callable[[Facts], Iterator[Any]]] = {
    each.__name__: each
    for each in (
        frame_ours, frame_jdbc, frame_jdbc_tuned, copy_ours, copy_psql, copy_jdbc,
        merge_ours, merge_sql, merge_partitions, small_ours, small_sql,
    )
}  # fmt: skip


if __name__ == "__main__":
    main()
