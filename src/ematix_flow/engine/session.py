"""The one Spark session of a process: started when first needed, tuned for one machine, quiet, stopped at the end."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import Settings
from ..errors import SessionError
from . import archive, jvm
from .jars import EXTENSIONS, JarStore, add_conf, group_class, group_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SessionOptions", "check_session", "close_session", "is_running", "log_file", "open_session", "use_session"]


@dataclass(frozen=True)
class SessionOptions:
    """How to start Spark."""

    cache_dir: Path
    """Where logs and the class-data archive are kept."""
    master: str = "local[*]"
    memory: str = "1g"
    """The heap of Spark's driver; on one machine, all of Spark."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Further Spark settings; they win over the tuned ones."""
    jars: tuple[Path, ...] = ()
    """Jars for the class path, beside those of `groups`."""
    groups: tuple[str, ...] = ()
    """Groups of the jar lock that the session must have."""
    store: JarStore | None = None
    """Where the jars of `groups` are; below `cache_dir` unless given."""
    verbose: bool = False
    """Show what Java and Spark print, instead of keeping errors in a log file."""
    fast_start: bool = False
    """Compile less: starts a second sooner and computes slower; for tests and short jobs."""
    archive: bool = True
    """Use the class-data archive, and have it made where it is missing."""

    @classmethod
    def of(cls, settings: Settings, groups: tuple[str, ...] = ()) -> SessionOptions:
        """What the settings of a project say, and the groups of jars that its systems need."""
        return cls(
            master=settings.spark_master,
            memory=settings.spark_memory,
            conf=settings.spark_conf,
            cache_dir=settings.cache_dir,
            verbose=settings.verbose,
            fast_start=settings.spark_fast_start,
            groups=groups,
            store=JarStore.of(settings),
        )


def open_session(options: SessionOptions) -> SparkSession:
    """The session of this process: the one given to `use_session`, the one that runs, or a new one.

    A session that the user made is used as it is and never stopped.

    Raises:
        SessionError: Spark could not start, or the running session was started with other options.
    """
    with _process.lock:
        if _process.given is not None:
            return _fitting(_process.given, options) if _is_alive(_process.given) else _refuse_stopped()
        started = _process.started
        if started is not None and started.running.is_alive():
            _refuse_other_options(started.options, options)
            return started.running.spark
        _drop_started()
        users = _users_session()
        if users is not None:
            return _fitting(users, options)
        _process.started = _start(options)
        return _process.started.running.spark


def use_session(spark: SparkSession) -> None:
    """Make `open_session` return `spark`, whatever the options, until `close_session`."""
    with _process.lock:
        _process.given = spark if _is_alive(spark) else _refuse_stopped()


def close_session() -> None:
    """Stop the session that `open_session` started, and let go of one that was given; a user's session goes on."""
    with _process.lock:
        _process.given = None
        _drop_started()


def is_running() -> bool:
    """Whether `open_session` would answer without starting anything; never waits."""
    if not _process.lock.acquire(blocking=False):
        return False  # another thread is starting or stopping it
    try:
        if _process.given is not None:
            return _is_alive(_process.given)
        if _process.started is not None:
            return _process.started.running.is_alive()
        return _users_session() is not None
    finally:
        _process.lock.release()


def check_session(spark: SparkSession, groups: Iterable[str]) -> None:
    """Raise SessionError unless a session that somebody else made can work with the jars of these groups."""
    for group in groups:
        if not jvm.has_class(spark, group_class(group)):
            raise SessionError(
                f"the Spark session that runs lacks the jars of {group!r}: it has no {group_class(group)}",
                hint=f"`flow jars fetch {group}` says where they are: start the session with them in "
                "spark.driver.extraClassPath, or call close_session() and let a new one start",
            )
        for key, value in group_conf((group,)).items():
            found = str(spark.conf.get(key, ""))
            if value not in found.split(","):
                raise SessionError(
                    f"the Spark session that runs was not told to use {group!r}: {key} is {found!r}",
                    hint="start it with "
                    + " and ".join(f"{name}={text}" for name, text in group_conf((group,)).items())
                    + (", beside what is there" if key == EXTENSIONS and found else ""),
                )


def log_file() -> Path | None:
    """Where the running session writes what Java and Spark have to say; None where that is the terminal."""
    return _process.started.log if _process.started is not None else None


@dataclass
class _Started:
    """A session of ours and what it leaves on the disk."""

    options: SessionOptions
    running: jvm.RunningSpark
    scratch: Path
    log: Path | None
    missing: archive.ClassArchive | None
    """The archive to make when the session is over."""
    pid: int = field(default_factory=os.getpid)

    def leave(self) -> None:
        """What must happen at the end of the process: Java itself leaves when its input ends."""
        if self.pid != os.getpid():
            return  # a forked child owns nothing here
        shutil.rmtree(self.scratch, ignore_errors=True)
        if self.missing is not None:
            self.missing.build_later()


@dataclass
class _Process:
    """What this process holds; guarded by `lock`."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    given: SparkSession | None = None
    started: _Started | None = None


_process = _Process()

_SCRATCH = "ematix-flow-session-"


def _start(options: SessionOptions) -> _Started:
    if options.master.startswith("sc://"):
        raise SessionError(
            f"{options.master} is a Spark Connect server, which is not started from here",
            hint="create the session with SparkSession.builder.remote(…) and hand it over with use_session(spark)",
        )
    java = jvm.find_java()
    if options.groups:
        store = options.store or JarStore(options.cache_dir / "jars")
        options = replace(options, jars=(*options.jars, *store.paths(options.groups)))
    classes = archive.ClassArchive.of(options.cache_dir, java, options.jars) if _wants_archive(options) else None
    scratch = _open_scratch()
    try:
        log = None if options.verbose else _open_log(options.cache_dir, scratch)
        running, used = _start_with_archive(options, classes, scratch, log)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    started = _Started(options, running, scratch, log, missing=None if used else classes)
    atexit.register(started.leave)
    return started


def _open_scratch() -> Path:
    """A folder for this process; those of processes that were killed go."""
    for old in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        if not jvm.is_running(old.name.removeprefix(_SCRATCH).partition("-")[0]):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-"))


def _start_with_archive(
    options: SessionOptions, classes: archive.ClassArchive | None, scratch: Path, log: Path | None
) -> tuple[jvm.RunningSpark, bool]:
    """A session, and whether an archive carries it; an archive that Java cannot take is thrown away."""
    found = classes.find() if classes is not None else None
    if classes is None or found is None:
        return jvm.start(_session_conf(options, scratch, log), log), False
    report = scratch / "class-data.txt"
    try:
        running = jvm.start(_session_conf(options, scratch, log, archive.use_options(found, report)), log)
    except SessionError:
        # Either the archive broke Java, and this works, or this fails too and tells the real cause.
        running = jvm.start(_session_conf(options, scratch, log), log)
        classes.discard()
        return running, False
    if archive.was_refused(report):
        classes.discard()
        return running, False
    return running, True


def _session_conf(
    options: SessionOptions, scratch: Path, log: Path | None, extra: tuple[str, ...] = ()
) -> dict[str, str]:
    conf = {
        "spark.app.name": "ematix-flow",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.pythonUDF.arrow.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.sql.execution.arrow.maxBytesPerBatch": "16m",  # ten thousand wide rows can be more than the heap
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        # Parquet's own timestamps: the default is a legacy form that other readers take for local time.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Other systems keep a document whose keys repeat; so do we.
        "spark.sql.variant.allowDuplicateKeys": "true",
        **_FORGETTING,
    }
    if jvm.is_local(options.master):
        conf |= {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(2 * _cores(options.master)),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        }
    elif options.jars:
        conf["spark.jars"] = ",".join(str(jar) for jar in options.jars)
    conf |= {"spark.master": options.master, "spark.driver.memory": options.memory}
    add_conf(conf, group_conf(options.groups, tuned=True))
    add_conf(conf, options.conf)
    flags = (*_java_flags(options, scratch, log), *extra)
    jars = os.pathsep.join(str(jar) for jar in options.jars)
    _prepend(conf, "spark.driver.extraJavaOptions", jvm.java_options(flags), " ")
    _prepend(conf, "spark.driver.extraClassPath", jars, os.pathsep)
    return conf


# Spark remembers a thousand queries with the whole text of their plans, for a page that is off, and its parser learns
# from every query for good: a long-lived session would fill its heap with both.
_FORGETTING = {
    "spark.sql.parser.manageParserCaches": "true",
    "spark.sql.parser.parserDfaCacheFlushThreshold": "10000",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.maxPlanStringLength": "20000",
}


def _java_flags(options: SessionOptions, scratch: Path, log: Path | None) -> tuple[str, ...]:
    level = "warn" if options.verbose else "error"
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOGGING.format(level=level), encoding="utf-8")
    errors = log.parent if log is not None else scratch
    return (
        "-XX:+UseParallelGC",
        "-XX:+ExitOnOutOfMemoryError",  # a heap that is full would be searched for space without end
        f"-Dlog4j2.configurationFile={logging.as_uri()}",
        f"-XX:ErrorFile={errors}/java-crash-%p.log",  # the default is the user's working directory
        *(("-XX:TieredStopAtLevel=1",) if options.fast_start else ()),
    )


# Spark raises the level of the root logger to that of its gateway's main class, so that class needs it too.
_LOGGING = """\
rootLogger.level = {level}
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


def _prepend(conf: dict[str, str], key: str, ours: str, separator: str) -> None:
    if ours:
        conf[key] = separator.join(part for part in (ours, conf.get(key, "")) if part)


def _open_log(cache_dir: Path, scratch: Path) -> Path:
    try:
        return jvm.open_log(cache_dir / "logs")
    except OSError:
        return jvm.open_log(scratch)  # a cache that cannot be written to must not stop the work


def _cores(master: str) -> int:
    found = re.fullmatch(r"local\[(\d+|\*)(?:,.*)?\]", master)
    if found is None:
        return 1
    if found.group(1) != "*":
        return int(found.group(1))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _wants_archive(options: SessionOptions) -> bool:
    # From 32 GiB on Java lays out objects differently and cannot share classes with smaller heaps.
    size = re.fullmatch(r"(\d+)([gGtT])[bB]?", options.memory)
    is_large = size is not None and (size.group(2) in "tT" or int(size.group(1)) >= 32)
    return options.archive and not is_large


def _is_alive(spark: SparkSession) -> bool:
    stopped = getattr(spark, "is_stopped", None)  # only a Connect session has this property
    return not stopped if stopped is not None else spark.sparkContext._jsc is not None


def _users_session() -> SparkSession | None:
    if "pyspark" not in sys.modules:
        return None  # loading it takes half a second, and whoever made a session has loaded it

    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    try:
        active = SparkSession.getActiveSession()
        if active is None and SparkContext._active_spark_context is not None:
            active = SparkSession.builder.getOrCreate()  # made in another thread
    except (Py4JError, OSError):
        return None  # its Java process died
    return active if active is not None and _is_alive(active) else None


def _drop_started() -> None:
    started, _process.started = _process.started, None
    if started is not None:
        atexit.unregister(started.leave)
        started.running.stop()
        started.leave()


def _refuse_stopped() -> SparkSession:
    raise SessionError(
        "the Spark session that was handed over is stopped",
        hint="hand over a running one with use_session(spark), or call close_session() to let a new one start",
    )


def _fitting(spark: SparkSession, options: SessionOptions) -> SparkSession:
    """A session that somebody else made, which must have what the jars of `options` bring."""
    check_session(spark, options.groups)
    return spark


def _refuse_other_options(running: SessionOptions, asked: SessionOptions) -> None:
    differences = [
        f"{name} is {getattr(running, name)!r}, asked for {getattr(asked, name)!r}"
        for name in ("master", "memory")
        if getattr(running, name) != getattr(asked, name)
    ]
    differences += [f"{key} differs" for key, value in asked.conf.items() if running.conf.get(key) != value]
    differences += [f"{jar.name} is not loaded" for jar in asked.jars if jar not in running.jars]
    differences += [f"the jars of {group!r} are not loaded" for group in asked.groups if group not in running.groups]
    if differences:
        raise SessionError(
            "Spark already runs in this process with other options: " + "; ".join(differences),
            hint="use the same options everywhere, or call close_session() first",
        )
