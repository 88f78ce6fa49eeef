"""Spark with two executors, and rows whose tasks go wrong once, so that Spark tries them again."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ematix_flow.engine.session import SessionOptions, close_session, open_session, use_session
from tests.backends.store import Row
from tests.spark_session import cache_dir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AGAIN = " and was tried again"
CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "4",
}


@contextmanager
def cluster() -> Iterator[SparkSession]:
    """A session whose tasks run in other processes."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    conf = {**CONF, "spark.executorEnv.PYTHONPATH": path}
    options = SessionOptions(cache_dir(), master="local-cluster[2,1,512]", memory="1g", conf=conf, fast_start=True)
    spark = open_session(options)
    use_session(spark)
    try:
        yield spark
    finally:
        close_session()


def flawed(spark: SparkSession, rows: Sequence[Row], flaw: str, marker: Path) -> DataFrame:
    """The rows, each through a Python function that goes wrong the first time it is called at all."""
    from pyspark.sql.functions import udf

    passed = udf(_once(flaw, str(marker)), "string")
    schema = "id long, v string, n long"
    frame = spark.createDataFrame([(row["id"], row["v"], row["n"]) for row in rows], schema)
    return frame.repartition(3, "id").withColumn("v", passed("v"))


def _once(flaw: str, marker: str) -> Callable[[Any], Any]:
    """What gives its value back, but for the first time; files tell all processes that it was so, and tried again."""

    # Spark would take annotations for those of a function of pandas.
    def passed(value):  # type: ignore[no-untyped-def]
        from pyspark import TaskContext

        part = str(TaskContext.get().partitionId())
        try:
            with Path(marker).open("x") as file:
                file.write(part)
        except FileExistsError:
            # The task ended at its first row, so this is another one for the same rows.
            if Path(marker).read_text() == part:
                Path(f"{marker}{AGAIN}").touch()
            return value
        if flaw == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if flaw == "fails":
            raise ValueError("this task fails once")
        stat = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
        executor = int(stat[1])  # the parent of the process that forks workers
        assert Path(f"/proc/{executor}/comm").read_text().strip() == "java"
        os.kill(executor, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        return value

    return passed
