"""Loads Spark frames from a cluster into servers and tells what came of it; run as a program by `test_cluster`.

``python -m tests.journeys.cluster_run MASTER FOLDER POSTGRES MYSQL`` with an empty folder and two URLs.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ematix_flow.backends.server import ServerBackend
from ematix_flow.backends.staging import errand_of, staging_frame
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import MySQLConnection, PostgresConnection
from ematix_flow.engine.handle import Handle
from ematix_flow.engine.session import SessionOptions, close_session, open_session
from ematix_flow.errors import FlowError
from ematix_flow.spark import read_spark_df, write_spark_df
from ematix_flow.spec.table import Column, Table
from ematix_flow.types import BigInt
from tests.journeys.fragile import DyingBackend, ForgetfulBackend, FragileConnection, die, is_first_attempt
from tests.spark_session import cache_dir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, PARTITIONS = 1000, 2


class Journey:
    """One session on the cluster, and what is done with it."""

    def __init__(self, spark: SparkSession, folder: Path, postgres: str, mysql: str) -> None:
        self.spark, self.folder = spark, folder
        self.postgres = PostgresConnection("warehouse", postgres)
        self.mysql = MySQLConnection("shop", mysql)

    def workshop(self, *, is_shared: bool = False) -> Workshop:
        """What a project would lend."""
        return Workshop(lambda: self.spark, self.folder / "scratch", is_shared=is_shared)

    def handle(self, connection: PostgresConnection | MySQLConnection) -> Handle:
        """An open connection."""
        return Handle(connection.open(self.workshop()))

    def frame(self, name: str, *, partitions: int = PARTITIONS) -> DataFrame:
        """Some rows; each value is made by a worker."""
        frame = self.spark.range(0, ROWS, 1, partitions)
        return frame.selectExpr(
            "id", f"concat(if(id < 100, 'a', '{name}'), id % 10) AS name", "timestamp_seconds(id) AS at"
        )

    def modes(self, connection: PostgresConnection | MySQLConnection) -> dict[str, Any]:
        """A merge, a merge over its rows, and two appends, the second of no rows."""
        handle = self.handle(connection)
        merged = [
            write_spark_df(handle, self.frame(name), "dw.merged", mode="merge", keys=["id"]) for name in ("a", "b")
        ]
        nothing = self.frame("a").where("id < 0")
        appended = [write_spark_df(handle, frame, "dw.log", mode="append") for frame in (self.frame("a"), nothing)]
        return {
            "merged": [(each.rows_inserted, each.rows_updated, each.rows_unchanged) for each in merged],
            "appended": [each.rows_inserted for each in appended],
            "rows": handle.query("SELECT COUNT(*), COUNT(DISTINCT id), MAX(name) FROM dw.merged")["rows"],
            "times": handle.query("SELECT COUNT(*), COUNT(DISTINCT at) FROM dw.log")["rows"],
            "left": self.left(handle),
        }

    def crashes(self) -> dict[str, Any]:
        """Workers of Spark die, one while a row is made, one behind its commit; a third one loses the server."""
        from pyspark.sql.functions import udf

        @udf("string")
        def fragile(name: str) -> str:
            if is_first_attempt(1):
                die()
            return name.upper()

        handle = self.handle(FragileConnection("warehouse", self.postgres.url))
        frame = self.frame("a", partitions=3).select("id", fragile("name").alias("name"))
        result = write_spark_df(handle, frame, "dw.survived", mode="append")
        return {
            "inserted": result.rows_inserted,
            "rows": handle.query("SELECT COUNT(*), COUNT(DISTINCT id), MAX(name) FROM dw.survived")["rows"],
            "left": self.left(handle),
        }

    def orphans(self) -> dict[str, Any]:
        """A driver is killed between staging and the load; the next run goes on."""
        child = os.fork()
        if child == 0:
            dying = Handle(DyingBackend(self.postgres, self.workshop()))
            write_spark_df(dying, self.frame("a"), "dw.orphaned", mode="append")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        handle = self.handle(self.postgres)
        before = self.left(handle)
        write_spark_df(handle, self.frame("a", partitions=1), "dw.orphaned", mode="append")
        rows = handle.query("SELECT COUNT(*) FROM dw.orphaned")["rows"]
        return {"signal": os.WTERMSIG(status), "before": before, "left": self.left(handle), "rows": rows}

    def forgotten(self) -> dict[str, Any]:
        """The server goes down between staging and the load."""
        handle = Handle(ForgetfulBackend(self.postgres, self.workshop()))
        with _message() as said:
            write_spark_df(handle, self.frame("a"), "dw.merged", mode="truncate")
        return {"error": said[0], "rows": handle.query("SELECT COUNT(*) FROM dw.merged")["rows"]}

    def refused(self) -> str:
        """What a user hears of a value that a worker cannot bring in."""
        frame = self.spark.sql("SELECT 1L AS id, concat('a', char(0)) AS name")
        with _message() as said:
            write_spark_df(self.handle(self.postgres), frame, "dw.refused", mode="append")
        return said[0]

    def estranged(self) -> str:
        """What a user hears when the workers run a Python that has Spark's own packages only."""
        python = self.folder / "python"
        packages = sysconfig.get_path("purelib")
        python.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {sys.executable} -S "$@"\n')
        python.chmod(0o755)
        context = self.spark.sparkContext
        ours, context.pythonExec = context.pythonExec, str(python)
        try:
            with _message() as said:
                write_spark_df(self.handle(self.postgres), self.frame("a"), "dw.merged", mode="truncate")
        finally:
            context.pythonExec = ours
        return said[0]

    def reads(self) -> dict[str, Any]:
        """A query of a server read by the workers, without and with a folder that they share."""
        sql = "SELECT id, name FROM dw.merged WHERE id < 5"
        with _message() as said:
            read_spark_df(self.handle(self.postgres), self.spark, sql)
        shared = Handle(self.postgres.open(self.workshop(is_shared=True)))
        return {"error": said[0], "rows": read_spark_df(shared, self.spark, sql).count()}

    def secrets(self) -> dict[str, str]:
        """Everything that others could look at."""
        from pyspark import cloudpickle

        backend = self.postgres.open(self.workshop())
        assert isinstance(backend, ServerBackend)
        context = self.spark.sparkContext
        table = Table("dw", "shown", (Column(BigInt(), primary_key=True, name="id"),))
        errand = errand_of(backend, self.spark.range(3), table, "0" * 32)
        sent = context.broadcast(errand)
        staging: Any = staging_frame(self.spark.range(3), sent)
        plan = staging._jdf.queryExecution()
        function = staging_function(staging_frame, sent)
        return {
            "sent": str(sent.value.connection.url),
            "plan": plan.toString() + plan.logical().treeString() + json.dumps(plan.analyzed().prettyJson()),
            "function": cloudpickle.dumps(function).decode("latin-1"),
            "conf": json.dumps(context.getConf().getAll()),
        }

    def left(self, handle: Handle) -> int:
        """How many tables of tasks are there."""
        sql = "SELECT COUNT(*) FROM information_schema.tables WHERE table_name LIKE 'stage%'"
        return int(handle.query(sql)["rows"][0][0])


def staging_function(stage: Callable[..., object], sent: object) -> object:
    """The function that is sent to the tasks."""
    caught: list[object] = []

    class Catching:
        """Looks like a frame to whoever sends a function to it."""

        def coalesce(self, number: int) -> Catching:
            return self

        def mapInArrow(self, function: object, schema: str) -> None:  # noqa: N802 - Spark's name
            caught.append(function)

    stage(Catching(), sent)
    return caught[0]


@contextmanager
def _message() -> Iterator[list[str]]:
    said: list[str] = []
    try:
        yield said
    except FlowError as error:
        said.append(f"{type(error).__name__}: {error}")


def main(master: str, folder: Path, postgres: str, mysql: str) -> dict[str, Any]:
    """All that happens, by name."""
    (folder / "events").mkdir()
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executorEnv.PYTHONPATH": str(Path.cwd()),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.ui.enabled": "false",
    }
    spark = open_session(SessionOptions(cache_dir(), master=master, conf=conf, fast_start=True))
    journey = Journey(spark, folder, postgres, mysql)
    told = {
        "postgres": journey.modes(journey.postgres),
        "mysql": journey.modes(journey.mysql),
        "crashes": journey.crashes(),
        "orphans": journey.orphans(),
        "forgotten": journey.forgotten(),
        "refused": journey.refused(),
        "estranged": journey.estranged(),
        "reads": journey.reads(),
        "secrets": journey.secrets(),
    }
    close_session()
    return told


if __name__ == "__main__":
    outcome = main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
    (Path(sys.argv[2]) / "outcome.json").write_text(json.dumps(outcome, default=str), encoding="utf-8")
