"""The one Spark session that tests share: small, quick to start, and the answer to every `open_session`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ematix_flow.engine.session import SessionOptions, close_session, open_session, use_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def cache_dir() -> Path:
    """The cache of the person who runs the tests; `Path.home()` is an empty folder while they run."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ematix-flow"


def shared_session() -> Iterator[SparkSession]:
    """The body of a session-scoped fixture: `yield from shared_session()`."""
    conf = {"spark.sql.shuffle.partitions": "2"}
    groups = ("delta", "iceberg")
    options = SessionOptions(cache_dir(), master="local[2]", memory="2g", conf=conf, fast_start=True, groups=groups)
    spark = open_session(options)
    use_session(spark)  # whatever options a project under test asks for
    yield spark
    close_session()
