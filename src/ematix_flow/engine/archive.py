"""The class-data archive: Spark's classes, parsed once and mapped by later Java processes, which start faster with it.

It is made after a session that missed it, by a process of its own at low priority, because a Java that records its
classes starts much slower than one that does not.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ClassArchive", "build_archive", "use_options", "was_refused"]

_STALE_LOCK = 15 * 60
_UNUSED = 30 * 24 * 3600
_KEPT = 8  # each has some 170 MB; one per installed Spark, Java and list of jars


@dataclass(frozen=True)
class ClassArchive:
    """The archive for one Spark, one Java and one list of jars, whether or not it exists yet."""

    folder: Path
    key: str
    jars: tuple[Path, ...] = ()

    @classmethod
    def of(cls, cache_dir: Path, java: jvm.Java, jars: Sequence[Path] = ()) -> ClassArchive:
        """The archive in `cache_dir` that fits this Java, the installed Spark and `jars`."""
        from pyspark import __version__ as spark_version

        facts = [jvm.spark_home(), str(java.binary.resolve()), *(_fingerprint(jar) for jar in jars)]
        digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
        name = f"spark-{spark_version}-java-{java.version}-{digest}".replace(os.sep, "_")
        return cls(cache_dir / "class-data", name, tuple(jars))

    def find(self) -> Path | None:
        """The finished archive. Java dies of a truncated one, so the name of a file says how long it must be."""
        for file in self.folder.glob(f"{self.key}.*.jsa"):
            with contextlib.suppress(OSError):
                if file.name == self._name(file.stat().st_size):
                    with contextlib.suppress(PermissionError):
                        os.utime(file)  # the sweep removes what nobody used
                    return file
        return None

    def discard(self) -> None:
        """Remove what `find` may return; processes that have it mapped keep it."""
        for file in self.folder.glob(f"{self.key}.*.jsa"):
            with contextlib.suppress(OSError):
                file.unlink()

    def build(self) -> Path | None:
        """Make the archive now, in half a minute; None where another process is at it or Java would not."""
        if self._can_build():
            self._start_builder(niceness=0).wait()
        return self.find()

    def build_later(self) -> bool:
        """Start making the archive in a detached process; False where it is there, being made, or cannot be written."""
        if not self._can_build():
            return False
        builder = self._start_builder(niceness=19)
        builder.returncode = 0  # it outlives this process on purpose: nobody is to warn about that
        return True

    def _can_build(self) -> bool:
        return self.find() is None and not self._is_being_built() and self._is_writable()

    def _start_builder(self, niceness: int) -> subprocess.Popen[bytes]:
        # A process of its own, because PySpark holds one Java at a time and this one may be in use.
        root = Path(__file__).resolve().parents[2]
        task = json.dumps([niceness, str(self.folder.parent), *map(str, self.jars)])
        code = "import sys; sys.path.insert(0, sys.argv[1]); from ematix_flow.engine import archive; archive._main()"
        return subprocess.Popen(
            [sys.executable, "-c", code, str(root), task],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            start_new_session=True,
        )

    def _build_here(self) -> None:
        """Make the file and name it only when Java ended well, so that nobody ever sees half of it."""
        with self._claim() as claimed:
            if not claimed:
                return
            self._sweep()
            part = self.folder / f"{self.key}.{os.getpid()}.part"
            try:
                if _record(part, self.jars) == 0 and part.is_file():
                    part.replace(self.folder / self._name(part.stat().st_size))
            finally:
                part.unlink(missing_ok=True)

    def _name(self, size: int) -> str:
        return f"{self.key}.{size}.jsa"

    @property
    def _lock(self) -> Path:
        return self.folder / f"{self.key}.lock"

    def _is_writable(self) -> bool:
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            return os.access(self.folder, os.W_OK)
        return False

    def _is_being_built(self) -> bool:
        with contextlib.suppress(OSError):
            return _age(self._lock) < _STALE_LOCK
        return False

    @contextlib.contextmanager
    def _claim(self) -> Iterator[bool]:
        if not self._is_writable():
            yield False
            return
        if not self._is_being_built():
            self._lock.unlink(missing_ok=True)
        try:
            os.close(os.open(self._lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            yield False
            return
        try:
            yield True
        finally:
            self._lock.unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Remove parts of dead builders and archives nobody used for long, or that many others were used after."""
        dated = []
        for file in self.folder.iterdir():
            with contextlib.suppress(OSError):  # somebody else sweeps too
                dated.append((_age(file), file))
        archives = sorted((age, file) for age, file in dated if file.suffix == ".jsa")
        # One less than may be kept, for the one that is to be made.
        old = [file for place, (age, file) in enumerate(archives) if place >= _KEPT - 1 or age > _UNUSED]
        old += [file for age, file in dated if file.suffix == ".part" and age > _STALE_LOCK]
        for file in old:
            with contextlib.suppress(OSError):
                file.unlink()


def build_archive(cache_dir: Path, jars: Sequence[Path] = ()) -> Path | None:
    """Make the archive for this machine now, unless it is there; None where it could not be made."""
    return ClassArchive.of(cache_dir, jvm.find_java(), jars).build()


def use_options(archive: Path, report: Path) -> tuple[str, ...]:
    """Java options that map `archive` and write to `report` how that went; a damaged archive only costs speed."""
    return (
        f"-XX:SharedArchiveFile={archive}",
        "-Xshare:auto",
        "-XX:+VerifySharedSpaces",  # Java compares checksums only when asked to
        "-Xlog:disable",
        "-Xlog:all=error:stderr",
        f"-Xlog:cds=info:file={report}",
    )


def was_refused(report: Path) -> bool:
    """Whether Java wrote to `report` that it did not take the archive."""
    with contextlib.suppress(OSError):
        return "UseSharedSpaces:" in report.read_text(errors="replace")
    return False


def _record(part: Path, jars: Sequence[Path]) -> int | None:
    """Run a session that uses a bit of everything while Java records the classes; the exit code of Java."""
    scratch = Path(tempfile.mkdtemp(prefix="ematix-flow-archive-"))
    try:
        options = (f"-XX:ArchiveClassesAtExit={part}", "-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable")
        conf = {
            "spark.master": "local[1]",
            "spark.app.name": "ematix-flow class data",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": jvm.java_options(options),
            "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        }
        running = jvm.start({key: value for key, value in conf.items() if value}, jvm.open_log(scratch))
        try:
            _exercise(running.spark, scratch)
        finally:
            code = running.stop(patience=300)
        return code
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _exercise(spark: SparkSession, scratch: Path) -> None:
    rows = spark.range(2000).selectExpr(
        "id",
        "id % 7 AS part",
        "cast(id AS decimal(12, 2)) AS amount",
        "concat('name ', id) AS name",
        "timestamp_seconds(id) AS at",
        "sha2(cast(id AS string), 256) AS hash",
    )
    for kind in ("parquet", "csv", "json", "orc"):
        rows.write.format(kind).save(str(scratch / kind))
        spark.read.schema(rows.schema).format(kind).load(str(scratch / kind)).limit(5).collect()
    rows.createOrReplaceTempView("rows")
    spark.sql(
        "SELECT a.part, count(*), sum(a.amount), max(b.at) FROM rows a LEFT JOIN rows b USING (id) GROUP BY a.part"
    ).collect()
    spark.sql(
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY part ORDER BY at DESC) AS n,"
        " lower(trim(name)) AS clean FROM rows) WHERE n = 1 UNION ALL SELECT *, 0, NULL FROM rows ORDER BY id"
    ).collect()
    with contextlib.suppress(ImportError):  # the archive is only a little poorer without Arrow
        spark.createDataFrame(rows.toArrow()).mapInArrow(lambda batches: batches, rows.schema).count()


def _main() -> None:
    """What the process of `_start_builder` does: its argument has the niceness, the cache folder, then the jars."""
    niceness, cache_dir, *jars = json.loads(sys.argv[2])
    if hasattr(os, "nice"):
        os.nice(niceness)
    ClassArchive.of(Path(cache_dir), jvm.find_java(), [Path(jar) for jar in jars])._build_here()


def _fingerprint(jar: Path) -> str:
    facts = jar.stat()
    return f"{jar} {facts.st_size} {facts.st_mtime_ns}"


def _age(file: Path) -> float:
    return time.time() - file.stat().st_mtime
