"""One measured load in a process of its own: `python -m benchmarks.case CONTENDER SYSTEM MODE FOLDER`."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from . import by_hand
from .pipelines import declare, open_project

CHANGING = ("merge", "scd2")
"""Modes that are measured on a table that holds rows already."""


def main() -> None:
    """Run the case named by the arguments."""
    contender, system, mode, folder = sys.argv[1:5]
    runner = {"pushed": ours, "spark": ours, "sql": own_sql, "pyspark": plain_pyspark}[contender]
    load = runner(contender, system, mode, Path(folder))
    next(load)
    with measured() as figures:
        next(load)
    print(json.dumps(figures))
    for _ in load:
        pass


def ours(contender: str, system: str, mode: str, folder: Path) -> Iterator[None]:
    """This package: inside the database, or from files through Spark."""
    project = open_project(str(folder))
    source = system if contender == "pushed" else "files"
    names = {rows: declare(project, mode, source=source, target=system, rows=rows) for rows in ("orders", "changes")}
    if contender == "spark":
        _warm(project.workshop.spark(), folder)
    if mode in CHANGING:
        project.run(project.pipeline(names["orders"]))
    else:
        project.plan(project.pipeline(names["orders"]))  # modules are loaded, as those of the rivals are
    yield
    project.run(project.pipeline(names["changes" if mode in CHANGING else "orders"]))
    yield
    project.close()


def own_sql(contender: str, system: str, mode: str, folder: Path) -> Iterator[None]:
    """The database's own SQL, written by hand."""
    connection = by_hand.connect(folder, system)
    _prepare(connection, system, mode)
    yield
    by_hand.run_sql(connection, mode, system, "changes" if mode in CHANGING else "orders")
    yield
    connection.close()


def plain_pyspark(contender: str, system: str, mode: str, folder: Path) -> Iterator[None]:
    """PySpark that collects and inserts, then the database's own SQL."""
    project = open_project(str(folder))
    spark = project.workshop.spark()
    _warm(spark, folder)
    rows = "changes" if mode in CHANGING else "orders"
    if mode in CHANGING:
        by_hand.stage_by_spark(spark, folder, system, "orders")
    connection = by_hand.connect(folder, system)
    _prepare(connection, system, mode)
    connection.close()
    yield
    by_hand.stage_by_spark(spark, folder, system, rows)
    connection = by_hand.connect(folder, system)
    by_hand.run_sql(connection, mode, system, rows)
    connection.close()
    yield
    project.close()


def _warm(spark: Any, folder: Path) -> None:
    """Let Java compile what every load needs, so that both contenders are measured at speed."""
    rows = spark.read.parquet(str(folder / "files" / "raw" / "orders")).limit(50_000)
    rows.selectExpr("id", "lower(name) AS name", "cast(ts AS string) AS ts").write.parquet(str(folder / "warm"))
    rows.toPandas()


def _prepare(connection: object, system: str, mode: str) -> None:
    execute: Callable[[str], object] = connection.execute  # type: ignore[attr-defined]
    if system == "duckdb":
        execute("CREATE SCHEMA IF NOT EXISTS hand")
    execute(by_hand.create(mode, system))
    if mode in CHANGING:
        by_hand.run_sql(connection, mode, system, "orders")


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Seconds, and the highest memory of this process and of Java while the block ran, in MiB."""
    figures: dict[str, float] = {}
    done = threading.Event()
    peaks = {"python_mib": 0.0, "java_mib": 0.0}

    def sample() -> None:
        this = psutil.Process(os.getpid())
        while True:
            peaks["python_mib"] = max(peaks["python_mib"], this.memory_info().rss / 2**20)
            java = 0.0
            for child in this.children(recursive=True):
                try:
                    java += child.memory_info().rss / 2**20 if "java" in child.name() else 0.0
                except psutil.NoSuchProcess:
                    continue
            peaks["java_mib"] = max(peaks["java_mib"], java)
            if done.wait(0.02):
                return

    watcher = threading.Thread(target=sample)
    watcher.start()
    begin = time.perf_counter()
    try:
        yield figures
    finally:
        figures["seconds"] = time.perf_counter() - begin
        done.set()
        watcher.join()
        figures.update(peaks)


if __name__ == "__main__":
    main()
