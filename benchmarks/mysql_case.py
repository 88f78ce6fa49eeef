"""One measured load of MariaDB in a process of its own: `python -m benchmarks.mysql_case NAME FACTS`.

FACTS is JSON: the URLs of source and target, rows, and a folder that the server can write to.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pymysql

from ematix_flow import Project, ematix
from ematix_flow.config import Settings
from ematix_flow.connections import register_connection
from ematix_flow.engine.session import SessionOptions, close_session, open_session
from ematix_flow.spec.connection import connection_from_mapping
from ematix_flow.spec.registry import Registry

from .case import measured
from .mysql_data import STAMP, names, table_sql
from .postgres_data import WARM_ROWS, columns, declared_table, orders_frame, stamped

Facts = dict[str, Any]
REWRITTEN = {"rewriteBatchedStatements": "true"}


def main() -> None:
    """Prepare, measure, print."""
    name, facts = sys.argv[1], json.loads(sys.argv[2])
    load = CASES[name](facts)
    next(load)
    with measured() as figures:
        next(load)
    print(json.dumps(figures))
    for _ in load:
        pass


# ── a. a Spark frame into a new table ─────────────────────────────────────────────────────────────────────────────────


def frame_ours(facts: Facts) -> Iterator[None]:
    """A pipeline whose function returns the frame."""
    spark, project = _spark(), _project(facts)
    _warm(facts)
    warm = _pipeline(project, "warm", frame=orders_frame(spark, WARM_ROWS))
    load = _pipeline(project, "orders", frame=orders_frame(spark, facts["rows"]))
    project.run(project.pipeline(warm))
    yield
    project.run(project.pipeline(load))
    yield
    close_session()


def frame_jdbc(facts: Facts, **options: str) -> Iterator[None]:
    """Spark's own writer, as it is."""
    spark = _spark()
    _warm(facts)

    def write(rows: int, table: str) -> None:
        stamped(orders_frame(spark, rows)).write.jdbc(*_jdbc(facts["target"], table, options))

    write(WARM_ROWS, "warm")
    yield
    write(facts["rows"], "orders")
    yield
    close_session()


def frame_jdbc_tuned(facts: Facts) -> Iterator[None]:
    """Spark's own writer with batches that the driver rewrites."""
    yield from frame_jdbc(facts, batchsize="10000", **REWRITTEN)


# ── b. from one user's tables to another's ────────────────────────────────────────────────────────────────────────────


def copy_ours(facts: Facts) -> Iterator[None]:
    """A pipeline between two connections."""
    project = _project(facts)
    _warm(facts)
    warm = _pipeline(project, "warm", source=f"SELECT * FROM raw.orders WHERE id < {WARM_ROWS}")
    load = _pipeline(project, "orders", source="SELECT * FROM raw.orders")
    project.run(project.pipeline(warm))
    yield
    project.run(project.pipeline(load))
    yield


def copy_files(facts: Facts) -> Iterator[None]:
    """The server writes a file and reads it again: the limit."""
    yield
    file = f"{facts['folder']}/orders-{id(facts)}.txt"
    _execute(
        facts["target"],
        f"SELECT {names()}, {STAMP} FROM raw.orders INTO OUTFILE '{file}' CHARACTER SET utf8mb4",
        f"LOAD DATA INFILE '{file}' INTO TABLE mart.orders CHARACTER SET utf8mb4",
    )
    yield


def copy_jdbc(facts: Facts) -> Iterator[None]:
    """Spark's own reader and writer, tuned, two connections each."""
    spark = _spark()
    _warm(facts)

    def copy(rows: int, table: str) -> None:
        url, _, _, properties = _jdbc(facts["source"], "", {"useCursorFetch": "true", "fetchsize": "10000"})
        reading = {"url": url, "partitionColumn": "id", "lowerBound": "0", "upperBound": str(rows)}
        query = f"(SELECT {names()} FROM raw.orders WHERE id < {rows}) AS orders"
        reading |= {"numPartitions": "2", "dbtable": query, **properties}
        frame = stamped(spark.read.format("jdbc").options(**reading).load())
        frame.write.jdbc(*_jdbc(facts["target"], table, {"batchsize": "10000", **REWRITTEN}))

    copy(WARM_ROWS, "warm")
    yield
    copy(facts["rows"], "orders")
    yield
    close_session()


# ── c. changed rows into a large table ────────────────────────────────────────────────────────────────────────────────


def merge_ours(facts: Facts) -> Iterator[None]:
    """A pipeline inside the server."""
    project = _project(facts)
    _warm(facts)
    changes = "SELECT * FROM raw.changes"
    warm = _pipeline(project, "warm", mode="merge", source=f"{changes} LIMIT 1", inside=True)
    load = _pipeline(project, "orders", mode="merge", source=changes, inside=True)
    project.run(project.pipeline(warm))
    yield
    project.run(project.pipeline(load))
    yield


def merge_sql(facts: Facts) -> Iterator[None]:
    """One statement by hand, over the same rows, which are in the order of their keys."""
    yield
    settings = ", ".join(f"{name} = VALUES({name})" for name in [each.name for each in columns()[1:]] + ["_loaded_at"])
    rows = f"SELECT {names()}, {STAMP} FROM raw.changes"
    _execute(facts["target"], f"INSERT INTO mart.orders {rows} ON DUPLICATE KEY UPDATE {settings}")
    yield


# ── shared ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _spark() -> Any:
    return open_session(SessionOptions(Settings.load().cache_dir, groups=("jdbc",)))


def _warm(facts: Facts) -> None:
    """Make a table for the load that lets Java compile what the measured one needs."""
    _execute(facts["target"], table_sql("mart.warm"))


def _execute(url: str, *statements: str) -> None:
    parts = urlsplit(url)
    address: dict[str, Any] = {"host": parts.hostname, "port": parts.port}
    with pymysql.connect(user=parts.username, password=str(parts.password), autocommit=True, **address) as connection:
        for statement in statements:
            connection.cursor().execute(statement)


def _project(facts: Facts) -> Project:
    project = Project(Settings(), Registry())
    with project.active():
        for name in ("source", "target"):
            register_connection(connection_from_mapping(name, {"kind": "mysql", "url": facts[name]}))
    return project


def _pipeline(
    project: Project,
    table: str,
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
        target = declared_table(table)

        @ematix.pipeline(target=target, **options)
        def load(_source: object) -> Any:
            return frame if source is None else source

    return str(options["name"])


def _jdbc(url: str, table: str, options: dict[str, str]) -> tuple[str, str, str, dict[str, str]]:
    """What Spark's writer asks for, in its order."""
    parts = urlsplit(url)
    address = f"jdbc:mysql://{parts.hostname}:{parts.port}{parts.path}?connectionTimeZone=UTC"
    login = {"user": str(parts.username), "password": str(parts.password)}
    return address, f"mart.{table}", "append", {"driver": "com.mysql.cj.jdbc.Driver", **login, **options}


CASES: dict[str, Callable[[Facts], Iterator[None]]] = {
    each.__name__: each
    for each in (frame_ours, frame_jdbc, frame_jdbc_tuned, copy_ours, copy_files, copy_jdbc, merge_ours, merge_sql)
}


if __name__ == "__main__":
    main()
