"""Starts a session and gets a first result: `python -m benchmarks.start plain|archive`."""

from __future__ import annotations

import sys
from pathlib import Path

from ematix_flow.config import Settings
from ematix_flow.engine.archive import ClassArchive, build_archive
from ematix_flow.engine.jvm import find_java
from ematix_flow.engine.session import SessionOptions, close_session, open_session


def main() -> None:
    """Start, count, stop."""
    cache: Path = Settings.load().cache_dir
    wanted = sys.argv[1] == "archive"
    if wanted and ClassArchive.of(cache, find_java()).find() is None:
        build_archive(cache, [])
    spark = open_session(SessionOptions(cache_dir=cache, archive=wanted))
    spark.range(10).count()
    close_session()


if __name__ == "__main__":
    main()
