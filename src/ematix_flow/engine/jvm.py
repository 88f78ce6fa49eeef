"""The Java process under a Spark session: finding Java, starting Spark on it, and its own words when it fails."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from .. import config
from ..errors import SessionError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = [
    "Java",
    "RunningSpark",
    "find_java",
    "has_class",
    "is_local",
    "is_running",
    "java_options",
    "open_log",
    "spark_home",
    "start",
    "telling_lines",
]

OLDEST, NEWEST = 17, 23
"""Spark 4.1 needs 17; its Hadoop calls ``Subject.getSubject``, which Java refuses from 24 on."""

INSTALL = (
    "install Java 17 or 21 (Debian and Ubuntu: sudo apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) or point JAVA_HOME to one"
)


@dataclass(frozen=True)
class Java:
    """One installed Java."""

    binary: Path
    version: str

    @property
    def major(self) -> int:
        """17 for ``17.0.15+6``, 8 for ``1.8.0_402``; 0 where the version cannot be read."""
        found = re.match(r"(?:1\.)?(\d+)", self.version)
        return int(found.group(1)) if found else 0


@dataclass
class RunningSpark:
    """A session and the Java process that carries it; ``process`` is None where somebody else started that process."""

    spark: SparkSession
    process: subprocess.Popen[bytes] | None

    def is_alive(self) -> bool:
        """Whether the process runs and the session was not stopped."""
        has_process = self.process is None or self.process.poll() is None
        return has_process and self.spark.sparkContext._jsc is not None

    def stop(self, patience: float = 30.0) -> int | None:
        """Stop the session and end the process; its exit code, or None where it was not ours to end."""
        with contextlib.suppress(Exception), warnings.catch_warnings():  # vendor boundary: the process may be dead
            warnings.simplefilter("ignore", RuntimeWarning)
            self.spark.stop()
        return _end(self.process, patience)


def find_java() -> Java:
    """The Java that Spark will run on, checked before anything is started.

    Raises:
        SessionError: there is none, or Spark cannot run on it.
    """
    binary = _java_binary()
    java = Java(binary, _version_of(binary))
    if not OLDEST <= java.major <= NEWEST:
        age = "old" if java.major < OLDEST else "new"
        raise SessionError(f"Java {java.version} at {binary} is too {age} for Spark", hint=INSTALL)
    return java


def start(conf: Mapping[str, str], log: Path | None) -> RunningSpark:
    """Start a Java process and a session on it; what Java prints goes to `log`, or to the terminal without one.

    Raises:
        SessionError: with the last telling lines of what Java said.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if is_local(conf["spark.master"]):
        _point_to_this_machine()
    # A process that outlived the user's own stopped session is used again: PySpark keeps one per interpreter.
    gateway = SparkContext._gateway
    process = None
    with _interrupts_later() as interrupted:
        if gateway is None:
            gateway = _launch(conf, log)
            process = gateway.proc
        try:
            _check_sql_settings(gateway, conf)
            SparkContext(conf=_spark_conf(conf), gateway=gateway)
            running = RunningSpark(SparkSession.builder.getOrCreate(), process)
        except Exception as error:  # vendor boundary
            message = _java_message(error)
            _end(process, patience=10)
            raise SessionError(f"Spark could not start: {message}", hint=_where(log)) from error
    if interrupted:
        running.stop(patience=10)
        raise KeyboardInterrupt
    for name in ("py4j", "SQLQueryContextLogger"):
        # Both print whole Java stacks for errors that are reported in our own words.
        logging.getLogger(name).setLevel(logging.CRITICAL if log is not None else logging.NOTSET)
    return running


@contextlib.contextmanager
def _interrupts_later() -> Iterator[list[int]]:
    """Keep Ctrl-C waiting while Java starts, which would outlive us otherwise; and keep PySpark's own handler away.

    That handler cancels jobs from inside whatever the interrupt hit, which may be the call that it needs itself.
    """
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def is_local(master: str) -> bool:
    """Whether `master` runs everything inside the one Java process."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def spark_home() -> str:
    """The folder of the Spark that is used."""
    import pyspark

    return config.environment("SPARK_HOME") or str(Path(pyspark.__file__).parent)


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether a session has a Java class; True where that cannot be known."""
    java = getattr(spark, "_jvm", None) if hasattr(spark, "_sc") else None  # a Connect session has no Java here
    if java is None:
        return True
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(f"{name.replace('.', '/')}.class") is not None


def java_options(options: Iterable[str]) -> str:
    """One line for ``spark.driver.extraJavaOptions``; Spark splits it as a shell would."""
    return " ".join(f'"{option}"' if re.search(r"\s", option) else option for option in options)


def telling_lines(text: str, limit: int = 6) -> list[str]:
    """The last lines that say something: no stack frames, no start-up chatter, no help page of the launcher."""
    lines = (line.strip(" #\t\r") for line in text.partition("Usage: spark-submit")[0].splitlines())
    return [line for line in lines if line and not _CHATTER.match(line)][-limit:]


def open_log(folder: Path) -> Path:
    """A log file for this process in `folder`; files of finished processes that tell nothing, or are old, go.

    Raises:
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("spark-*.log"):
        with contextlib.suppress(OSError):
            is_over = not is_running(old.stem.removeprefix("spark-"))
            if is_over and (_is_old(old) or not telling_lines(old.read_text(errors="replace"))):
                old.unlink()
    log = folder / f"spark-{os.getpid()}.log"
    log.touch()
    return log


def is_running(pid: str) -> bool:
    """Whether a process of that number runs; True where that cannot be known."""
    if not pid.isdigit() or os.name != "posix":
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


_CHATTER = re.compile(
    r"""at\ [\w$.]+[/(.] | \.\.\.\ \d+\ more
    | WARNING:\ (Using\ incubator|package\ |A\ terminally|A\ restricted|sun\.misc|Please\ consider|Use\ --enable)
    | Using\ Spark's\ default | Setting\ default\ log | To\ adjust\ logging | Picked\ up\ \w*JAVA
    | Error:\ Could\ not\ create\ the\ Java\ Virtual | Error:\ A\ fatal\ exception\ has\ occurred
    | .*WARN\ NativeCodeLoader""",
    re.VERBOSE,
)

_LAUNCH_PREFIXES = ("spark.master", "spark.driver.", "spark.jars", "spark.submit.", "spark.archives")
"""What must be known before Java starts. The rest is handed over later: a command line can be read by every user."""


def _java_binary() -> Path:
    home = config.environment("JAVA_HOME")
    if home:
        binary = Path(home) / "bin" / "java"
        if not binary.exists():
            raise SessionError(f"JAVA_HOME is {home}, and there is no Java in it (no bin/java)", hint=INSTALL)
        return binary
    found = shutil.which("java")
    if found is None:
        raise SessionError("Spark needs Java 17 or newer, and there is no java on the PATH", hint=INSTALL)
    return Path(found)


def _version_of(binary: Path) -> str:
    # The release file answers without starting a process, which costs a tenth of a second.
    with contextlib.suppress(OSError):
        release = (binary.resolve().parent.parent / "release").read_text(encoding="utf-8", errors="replace")
        facts = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', release, re.MULTILINE))
        if version := facts.get("JAVA_RUNTIME_VERSION") or facts.get("JAVA_VERSION"):
            return str(version)
    try:
        answer = subprocess.run([str(binary), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SessionError(f"the Java at {binary} does not run: {error}", hint=INSTALL) from error
    words = answer.stderr + answer.stdout
    version = re.search(r'version "([^"]+)"', words)
    if answer.returncode != 0 or version is None:
        said = "; ".join(telling_lines(words)) or f"exit code {answer.returncode}"
        raise SessionError(f"the Java at {binary} does not run: {said}", hint=INSTALL)
    return version.group(1)


def _point_to_this_machine() -> None:
    # Workers must be this very interpreter, and the ports must not be reachable from other machines.
    config.set_environment("PYSPARK_PYTHON", sys.executable)
    config.set_environment("PYSPARK_DRIVER_PYTHON", sys.executable)
    config.set_environment("SPARK_LOCAL_IP", "127.0.0.1")


def _launch(conf: Mapping[str, str], log: Path | None) -> JavaGateway:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    early = {key: value for key, value in conf.items() if key.startswith(_LAUNCH_PREFIXES)}
    before = log.stat().st_size if log else 0
    with _output(log) as streams:
        try:
            return launch_gateway(_spark_conf(early), dict(streams))  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            said = _said_since(log, before) if log else "what it said stands above"
            raise SessionError(f"Java could not start for Spark: {said}", hint=_where(log)) from error
        except OSError as error:
            raise SessionError(f"Spark's launcher could not be run: {error}") from error


@contextlib.contextmanager
def _output(log: Path | None) -> Iterator[dict[str, IO[bytes] | int]]:
    if log is None:
        # Standard output belongs to the command's own answer; Java's chatter goes to standard error.
        yield {"stdout": 2}
        return
    with log.open("ab") as stream:
        yield {"stdout": stream, "stderr": stream}


def _spark_conf(conf: Mapping[str, str]) -> SparkConf:
    from pyspark import SparkConf

    spark_conf = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        spark_conf.set(key, value)
    return spark_conf


def _check_sql_settings(gateway: JavaGateway, conf: Mapping[str, str]) -> None:
    # With a wrong value the first error never ends: PySpark reads the settings to word it, which is an error again.
    settings = gateway.jvm.org.apache.spark.sql.internal.SQLConf()
    for key, value in conf.items():
        if key.startswith("spark.sql."):
            settings.setConfString(key, value)


def _said_since(log: Path, before: int) -> str:
    with log.open("rb") as stream:
        stream.seek(before)
        text = stream.read().decode("utf-8", errors="replace")
    return "\n  ".join(telling_lines(text)) or "it ended without a word"


def _java_message(error: Exception) -> str:
    java_error = getattr(error, "java_exception", None)
    message = str(java_error.getMessage() if java_error is not None else error)
    return "\n  ".join(telling_lines(message, limit=4)) or type(error).__name__


def _where(log: Path | None) -> str | None:
    return f"everything Java said is in {log}" if log else None


def _end(process: subprocess.Popen[bytes] | None, patience: float) -> int | None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if process is None:
        return None
    # PySpark keeps these for the life of the interpreter; without them the next session starts a process of its own.
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    if gateway is not None:
        gateway.shutdown()
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()  # the end of its input is what tells the process to leave
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _is_old(log: Path) -> bool:
    return time.time() - log.stat().st_mtime > 7 * 24 * 3600
