"""What a project lends to its backends: the Spark session, folders that vanish with the run, an ear for progress."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .owner import current_owner, is_alive, owner_from_name, owner_name
from .progress import Doing, Moved, Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Workshop", "is_cluster"]


class Workshop:
    """What a project lends to its backends: the Spark session, and folders that vanish when the run ends."""

    def __init__(
        self, spark: Callable[[], SparkSession], scratch: Path | None = None, *, is_shared: bool = False
    ) -> None:
        self._spark, self._scratch, self._is_shared = spark, scratch, is_shared
        self._bench: ContextVar[Path | None] = ContextVar("bench", default=None)
        self._users: ContextVar[SparkSession | None] = ContextVar("users", default=None)
        self._watcher: ContextVar[Callable[[Moved], None]] = ContextVar("watcher", default=lambda moved: None)

    def spark(self) -> SparkSession:
        """The Spark session; the first call starts it."""
        return self._users.get() or self._spark()

    @contextmanager
    def bench(self) -> Iterator[Path]:
        """A folder for the length of one run; `folder` makes its places below it."""
        path = self._new_bench()
        token = self._bench.set(path)
        try:
            yield path
        finally:
            self._bench.reset(token)
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def shelf(self, spark: SparkSession) -> Iterator[None]:
        """Work with the user's session; files of the block stay as long as the process: Spark reads them late."""
        path = self._new_bench()
        atexit.register(shutil.rmtree, path, ignore_errors=True)
        bench, users = self._bench.set(path), self._users.set(spark)
        try:
            yield
        finally:
            self._users.reset(users)
            self._bench.reset(bench)

    @contextmanager
    def watched(self, tell: Callable[[Moved], None]) -> Iterator[None]:
        """Hear how far the copies of the block are; a copy may tell it from a thread of its own."""
        token = self._watcher.set(tell)
        try:
            yield
        finally:
            self._watcher.reset(token)

    def tally(self, doing: Doing, *, parts: int = 1, counts_rows: bool = True) -> Tally:
        """Counts a copy that begins now, for whoever watches."""
        return Tally(self._watcher.get(), Moved(doing, 0 if counts_rows else None, parts=parts))

    def _new_bench(self) -> Path:
        # The name says whose it is, so that at no moment a bench is there and nobody's.
        prefix = f"{_BENCH}{owner_name(current_owner())}~"
        return Path(tempfile.mkdtemp(prefix=prefix, dir=_scratch_parent(self._scratch)))

    def folder(self, name: str) -> Path:
        """A new empty folder that lasts as long as the run."""
        bench = self._bench.get()
        if bench is None:
            raise RuntimeError("no run is under way: temporary folders belong to one")
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=bench))

    def exchange(self, name: str) -> Path:
        """A folder as `folder` gives it, for files that Spark reads or writes: on a cluster its workers must see it."""
        if not self._is_shared and is_cluster(self.spark()):
            raise ConfigError(
                f"Spark runs on {self.spark().sparkContext.master}, and rows would wait for it in a folder of this "
                "machine, which its workers may not see",
                hint="name a folder that this machine and all workers share: shared_folder in [spark] of the project's "
                "file, or EMATIX_FLOW_SPARK_SHARED_FOLDER",
            )
        return self.folder(name)


def is_cluster(spark: SparkSession) -> bool:
    """Whether Spark works on other machines than this one; of a Connect server nobody can tell."""
    context = getattr(spark, "sparkContext", None)
    return context is not None and not str(context.master).startswith("local")


_BENCH = "ematix-flow-run-"


def _scratch_parent(scratch: Path | None) -> Path:
    """The folder that holds benches, cleared of those whose process died without clearing its own."""
    parent = scratch or Path(tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f"{_BENCH}*~*"):
        owner, _, _ = left.name.removeprefix(_BENCH).rpartition("~")
        if not is_alive(owner_from_name(owner)):
            shutil.rmtree(left, ignore_errors=True)
    return parent
