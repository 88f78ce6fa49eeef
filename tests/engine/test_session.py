"""A Spark session starts tuned and quiet, says why when it cannot, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ematix_flow.config import Settings
from ematix_flow.engine import jvm
from ematix_flow.engine.archive import ClassArchive
from ematix_flow.engine.session import SessionOptions
from tests.spark_session import cache_dir

SOURCE = Path(__file__).resolve().parents[2] / "src"

OPEN = """
import json, os, sys
from pathlib import Path
from ematix_flow.engine import session
from ematix_flow.engine.session import *

def options(**given):
    return SessionOptions(**{"cache_dir": Path(os.environ["CACHE"]), "master": "local[2]", "archive": False,
        "fast_start": True, **given})
"""


def run(code: str, cwd: Path, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """What a user's process prints, started in `cwd`, with its temporary files in a folder next to it."""
    scratch = cwd.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    cwd.mkdir(exist_ok=True)
    variables = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "CACHE": str(cwd.parent / "cache"),
        "TMPDIR": str(scratch),
        "SPARK_LOCAL_DIRS": str(scratch),
        **(environment or {}),
    }
    return subprocess.run(
        [sys.executable, "-c", OPEN + code], cwd=cwd, env=variables, capture_output=True, text=True, check=False
    )


def wait_for_end(pid: int) -> bool:
    """Whether the process `pid` ends within half a minute."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 30)[0])
    finally:
        os.close(handle)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One process that opens a session, works with it and ends; and the folder that its folders are in."""
    folder = tmp_path_factory.mktemp("usual")
    code = """
spark = open_session(options())
spark.sql("CREATE TABLE kept USING parquet AS SELECT 1 AS one")
rows = spark.range(10).mapInArrow(lambda batches: batches, "id long").groupBy("id").count().count()
names = ["spark.sql.shuffle.partitions", "spark.sql.session.timeZone", "spark.sql.adaptive.enabled",
         "spark.sql.execution.arrow.pyspark.enabled", "spark.sql.ansi.enabled"]
try:
    open_session(options(master="local[1]"))
    refusal = None
except Exception as error:
    refusal = f"{type(error).__name__}: {error}"
print(json.dumps({
    "rows": rows,
    "conf": {name: spark.conf.get(name) for name in names},
    "ui": spark.sparkContext.uiWebUrl,
    "python": spark.sparkContext.pythonExec == sys.executable,
    "same": open_session(options()) is spark,
    "running": is_running(),
    "refusal": refusal,
    "pid": session._process.started.running.process.pid,
}))
"""
    done = run(code, folder / "here")
    assert done.returncode == 0, done.stderr
    return done, folder


@pytest.mark.slow
@pytest.mark.xdist_group("usual process")  # which is started once
class TestAUsualProcess:
    """One process, from the first session to the end."""

    def test_the_session_has_the_tuned_settings(self, usual):
        facts = json.loads(usual[0].stdout)
        assert facts["conf"] == {
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.ansi.enabled": "true",
        }
        assert facts["ui"] is None

    def test_python_workers_are_this_interpreter(self, usual):
        facts = json.loads(usual[0].stdout)
        assert facts["python"]
        assert facts["rows"] == 10

    def test_a_second_open_gives_the_same_session(self, usual):
        facts = json.loads(usual[0].stdout)
        assert facts["same"]
        assert facts["running"]

    def test_another_master_is_refused_with_both_names(self, usual):
        refusal = json.loads(usual[0].stdout)["refusal"]
        assert refusal.startswith("SessionError")
        assert "'local[2]'" in refusal
        assert "'local[1]'" in refusal

    def test_nothing_is_printed_but_the_answer(self, usual):
        assert usual[0].stderr == ""
        assert len(usual[0].stdout.splitlines()) == 1

    def test_nothing_is_left_in_the_working_directory_or_the_temporary_folder(self, usual):
        done, folder = usual
        assert wait_for_end(json.loads(done.stdout)["pid"])
        assert list((folder / "here").iterdir()) == []
        assert list((folder / "scratch").iterdir()) == []


def failure(given: str, tmp_path: Path, environment: Mapping[str, str] | None = None) -> str:
    """The error of a session that cannot start, as text."""
    code = f"""
try:
    open_session(options({given}))
except Exception as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""
    done = run(code, tmp_path / "here", environment)
    assert done.stderr == ""
    assert list((tmp_path / "scratch").iterdir()) == []
    return done.stdout


def fake_java(folder: Path, script: str) -> str:
    """A JAVA_HOME whose java is `script`."""
    binary = folder / "java-home" / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    return str(binary.parent.parent)


def test_a_java_home_without_java_is_named(tmp_path):
    text = failure("", tmp_path, {"JAVA_HOME": "/no/such/java"})
    assert text.startswith("SessionError: JAVA_HOME is /no/such/java")
    assert "openjdk-17" in text


def test_a_path_without_java_is_said_with_the_command_that_installs_it(tmp_path):
    text = failure("", tmp_path, {"JAVA_HOME": "", "PATH": str(tmp_path)})
    assert "no java on the PATH" in text
    assert "apt-get install" in text


def test_a_java_that_is_too_old_is_named_with_its_version(tmp_path):
    home = fake_java(tmp_path, """echo 'openjdk version "1.8.0_402"' >&2""")
    assert "Java 1.8.0_402" in (text := failure("", tmp_path, {"JAVA_HOME": home}))
    assert "too old" in text


def test_a_java_that_does_not_run_reports_its_own_words(tmp_path):
    home = fake_java(tmp_path, "echo 'libjvm.so: cannot open shared object file' >&2; exit 127")
    assert "cannot open shared object file" in failure("", tmp_path, {"JAVA_HOME": home})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ('memory="1k"', "Too small maximum heap"),
        ('memory="100m"', "System memory"),
        ('conf={"spark.driver.extraJavaOptions": "-XX:MaxGCPauseMillis=cow"}', "MaxGCPauseMillis=cow"),
        ('conf={"spark.sql.shuffle.partitions": "cow"}', "'cow'"),
    ],
)
def test_a_session_that_cannot_start_reports_the_words_of_java(given, words, tmp_path):
    text = failure(given, tmp_path)
    assert text.startswith("SessionError")
    assert words in text
    assert str(tmp_path / "cache" / "logs") in text


@pytest.mark.slow
def test_the_session_of_the_user_is_used_and_never_stopped(tmp_path):
    code = """
from pyspark.sql import SparkSession
mine = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
given = open_session(options(master="local[2]", memory="3g"))
close_session()
use_session(mine)
chosen = open_session(options(memory="4g"))
close_session()
print(json.dumps([given is mine, chosen is mine, mine.range(3).count()]))
"""
    done = run(code, tmp_path / "here", {"SPARK_CONF_DIR": str(tmp_path)})
    assert json.loads(done.stdout) == [True, True, 3]


@pytest.mark.slow
def test_java_ends_when_python_is_killed(tmp_path):
    code = """
open_session(options())
print(session._process.started.running.process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    done = run(code, tmp_path / "here")
    assert done.returncode == -9
    assert wait_for_end(int(done.stdout))


@pytest.mark.slow
def test_an_interrupt_while_java_starts_leaves_no_java_behind(tmp_path):
    code = """
import signal, subprocess, threading
started = []
launch = subprocess.Popen.__init__

def noticed(self, *arguments, **options):
    launch(self, *arguments, **options)
    started.append(self.pid)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

subprocess.Popen.__init__ = noticed
try:
    open_session(options())
except KeyboardInterrupt:
    print(started[-1], is_running())
"""
    done = run(code, tmp_path / "here")
    pid, running = done.stdout.split()
    assert running == "False"
    assert wait_for_end(int(pid))


@pytest.mark.slow
def test_a_session_starts_again_after_java_died(tmp_path):
    code = """
open_session(options())
java = session._process.started.running.process
java.kill(), java.wait()
was_running = is_running()
print(json.dumps([was_running, open_session(options()).range(3).count()]))
"""
    assert json.loads(run(code, tmp_path / "here").stdout) == [False, 3]


USE_ARCHIVE = """
spark = open_session(options(archive=True))
started = session._process.started
print(json.dumps([spark.range(3).count(), started.missing is None]))
started.missing = None  # the end of this process makes no other archive
"""


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_archive_is_survived_and_thrown_away(damage, tmp_path):
    archive = ClassArchive.of(cache_dir(), jvm.find_java())
    deadline = time.monotonic() + 240
    while (whole := archive.build()) is None:  # another process is making it
        assert time.monotonic() < deadline
        time.sleep(0.5)
    bad = tmp_path / "cache" / "class-data" / whole.name
    bad.parent.mkdir(parents=True)
    data = bytearray(whole.read_bytes())
    middle = len(data) // 2
    if damage == "truncated":
        bad.write_bytes(data[:middle])
    else:
        data[middle : middle + 64] = bytes(64 * [0x55])
        bad.write_bytes(data)

    done = run(USE_ARCHIVE, tmp_path / "here")

    assert json.loads(done.stdout) == [3, False]
    assert done.stderr == ""
    assert ClassArchive.of(tmp_path / "cache", jvm.find_java()).find() is None


@pytest.mark.slow
def test_an_archive_is_made_once_and_used(tmp_path):
    archive = ClassArchive.of(tmp_path / "cache", jvm.find_java())
    made = archive.build()
    assert made is not None
    assert [file.name for file in archive.folder.iterdir()] == [made.name]
    assert not archive.build_later()

    done = run(USE_ARCHIVE, tmp_path / "here")

    assert json.loads(done.stdout) == [3, True]


def test_a_process_that_finds_the_archive_in_the_making_leaves_it_alone(tmp_path):
    archive = ClassArchive(tmp_path / "class-data", "spark")
    with archive._claim() as mine, archive._claim() as other:
        assert (mine, other) == (True, False)
        assert not archive.build_later()
        assert archive.build() is None
    assert list(archive.folder.iterdir()) == []


def test_an_archive_of_another_length_than_its_name_says_is_not_found(tmp_path):
    archive = ClassArchive(tmp_path, "spark")
    (tmp_path / "spark.5.jsa").write_bytes(b"1234")
    assert archive.find() is None
    (tmp_path / "spark.4.jsa").write_bytes(b"1234")
    assert archive.find() == tmp_path / "spark.4.jsa"


def test_other_jars_need_another_archive(tmp_path):
    jar = tmp_path / "driver.jar"
    jar.write_bytes(b"one")
    java = jvm.Java(Path("/usr/bin/java"), "17.0.15")
    keys = {ClassArchive.of(tmp_path, java).key, ClassArchive.of(tmp_path, java, [jar]).key}
    jar.write_bytes(b"three")
    keys.add(ClassArchive.of(tmp_path, java, [jar]).key)
    assert len(keys) == 3


def test_settings_say_how_a_session_starts(tmp_path):
    settings = Settings(cache_dir=tmp_path, spark_memory="3g", spark_fast_start=True)
    options = SessionOptions.of(settings)
    assert (options.cache_dir, options.memory, options.fast_start) == (tmp_path, "3g", True)
    assert not SessionOptions.of(Settings()).fast_start


def test_old_archives_make_room_for_new_ones(tmp_path):
    folder = tmp_path / "class-data"
    folder.mkdir()
    for age in range(12):
        (folder / f"spark-{age:02}.1.jsa").write_bytes(b"x")
        os.utime(folder / f"spark-{age:02}.1.jsa", (time.time() - 60 * age,) * 2)
    ClassArchive(folder, "new")._sweep()
    assert sorted(file.name for file in folder.iterdir()) == [f"spark-{age:02}.1.jsa" for age in range(7)]


def test_the_telling_lines_leave_out_stack_frames_and_chatter():
    text = """WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" org.apache.spark.SparkException: no such master
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala:1)
\t... 29 more
Error: Could not create the Java Virtual Machine.
"""
    assert jvm.telling_lines(text) == ['Exception in thread "main" org.apache.spark.SparkException: no such master']


def test_logs_of_finished_processes_that_tell_nothing_are_removed(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / f"spark-{ended.pid}.log").write_text("WARNING: Using incubator modules: jdk.incubator.vector\n")
    (tmp_path / "spark-1.log").write_text("")
    mine = jvm.open_log(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["spark-1.log", mine.name])
