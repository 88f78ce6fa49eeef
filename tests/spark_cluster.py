"""A real Spark cluster for tests: a standalone master and workers, each a process of its own on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers import free_port


class SparkCluster:
    """A master and workers with one core each; they end with the block."""

    def __init__(self, workers: int = 2) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="flow-cluster-"))
        self.master = f"spark://127.0.0.1:{free_port()}"
        host, _, port = self.master.removeprefix("spark://").partition(":")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("master.Master", "--host", host, "--port", port)
        self._await("Starting Spark master")
        for number in range(workers):
            work = str(self.folder / f"work-{number}")
            resources = ("--cores", "1", "--memory", "1g", "--work-dir", work)
            self._start("worker.Worker", "--host", host, *resources, self.master)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in reversed(self._processes):
            # A program of Java that is a group of its own: its executors are in it.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        """What master and workers have said."""
        return "\n".join(file.read_text(errors="replace") for file in sorted(self.folder.glob("*.log")))

    def _start(self, name: str, *arguments: str) -> None:
        package = find_spec("pyspark")
        assert package is not None
        assert package.submodule_search_locations is not None
        home = package.submodule_search_locations[0]
        program = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{name}", "--webui-port", "0", *arguments]
        options = {"SPARK_HOME": home, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
        options |= {"SPARK_LOCAL_DIRS": str(self.folder / "local")}
        options |= {"SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        with (self.folder / f"{len(self._processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                program, stdout=log, stderr=log, env={**os.environ, **options}, start_new_session=True
            )
        self._processes.append(process)

    def _await(self, words: str) -> None:
        deadline = time.monotonic() + 60
        while words not in self.log():
            assert self._processes[-1].poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)
