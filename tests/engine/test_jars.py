"""Jars come once, by lock: fetched with Ivy or taken from a folder, checked, and given to the session."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ematix_flow.config import Settings
from ematix_flow.engine.ivy import file_name
from ematix_flow.engine.jars import JarStore, add_conf, fetching, group_class, group_conf, group_names, locked_jars
from ematix_flow.engine.session import SessionOptions, check_session, open_session
from ematix_flow.errors import ConfigError, JarError, SessionError, UnknownNameError
from tests.spark_session import cache_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Path(__file__).resolve().parents[2] / "src"
POSTGRES = "org.postgresql:postgresql:42.7.10"
FILES = ["mariadb-java-client-3.5.7.jar", "mysql-connector-j-9.5.0.jar", "postgresql-42.7.10.jar"]

MIRROR = """\
<ivysettings>
  <settings defaultResolver="mirror"/>
  <resolvers>
    <filesystem name="mirror" m2compatible="true">
      <artifact pattern="{root}/[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"/>
    </filesystem>
  </resolvers>
</ivysettings>
"""


@pytest.fixture(scope="module")
def jdbc() -> tuple[Path, ...]:
    """The jars of the group, from the public repository; later test runs find them in the cache."""
    return JarStore(cache_dir() / "jars").paths(["jdbc"])


@pytest.fixture
def mirror(jdbc: tuple[Path, ...], tmp_path: Path) -> Path:
    """The settings of a repository in a folder, which has the jars of the group."""
    root = tmp_path / "mirror"
    for jar, file in zip(locked_jars(["jdbc"]), jdbc, strict=True):
        place = root / published(jar.coordinate)
        place.parent.mkdir(parents=True)
        shutil.copy(file, place)
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(MIRROR.format(root=root))
    return settings


def published(coordinate: str) -> Path:
    group, artifact, version = coordinate.split(":")
    return Path(*group.split("."), artifact, version, file_name(coordinate))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_the_lock_is_whole() -> None:
    jars = locked_jars(group_names())
    assert {"avro", "delta", "iceberg", "jdbc"} <= set(group_names())
    assert [jar.coordinate for jar in jars if jar.file != file_name(jar.coordinate)] == []
    assert [jar.coordinate for jar in jars if not re.fullmatch(r"[0-9a-f]{64}", jar.sha256) or jar.size < 1000] == []
    assert len({jar.file for jar in jars}) == len(jars)
    assert all(re.fullmatch(r"[\w.]+", group_class(group)) for group in group_names())


def test_the_order_of_groups_does_not_matter() -> None:
    assert locked_jars(["jdbc", "avro", "jdbc"]) == locked_jars(["avro", "jdbc"])


def test_an_unknown_group_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown group of jars 'icebreg'") as caught:
        locked_jars(["icebreg"])
    assert "did you mean 'iceberg'?" in str(caught.value.hint)


def test_the_settings_say_where_jars_are(tmp_path: Path) -> None:
    (tmp_path / ".ematix-flow.toml").write_text('[jars]\nfolder = "jars"\nivy_settings = "/etc/ivy.xml"\n')
    store = JarStore.of(Settings.load(tmp_path, cache_dir=str(tmp_path / "cache")))
    assert store == JarStore(tmp_path / "cache" / "jars", tmp_path / "jars", Path("/etc/ivy.xml"))


def test_an_unknown_key_of_the_settings_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / ".ematix-flow.toml").write_text('[jars]\nfoldr = "jars"\n')
    with pytest.raises(ConfigError, match="unknown key 'foldr'") as caught:
        Settings.load(tmp_path)
    assert "did you mean 'folder'?" in str(caught.value.hint)


def test_fetched_jars_are_found_again_without_asking_anybody(jdbc: tuple[Path, ...], tmp_path: Path) -> None:
    assert [path.name for path in jdbc] == [jar.file for jar in locked_jars(["jdbc"])]
    deaf = JarStore(cache_dir() / "jars", ivy_settings=tmp_path / "no such file")
    assert deaf.paths(["jdbc"]) == jdbc


def test_a_folder_of_jars_is_used_as_it_is(jdbc: tuple[Path, ...], tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    folder.mkdir()
    for file in jdbc:
        shutil.copy(file, folder)
    store = JarStore(tmp_path / "cache", folder)
    assert store.paths(["jdbc"]) == tuple(folder / file.name for file in jdbc)
    assert not (tmp_path / "cache").exists()


def test_a_jar_that_the_folder_has_not_is_never_fetched(tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    store = JarStore(tmp_path / "cache", folder)
    with pytest.raises(JarError, match=r"jars\.folder, .*, is no folder"):
        store.paths(["jdbc"])
    folder.mkdir()
    with pytest.raises(JarError, match=r"is not in jars\.folder") as caught:
        store.paths(["jdbc"])
    assert POSTGRES in caught.value.message
    assert all(jar.file in caught.value.message for jar in locked_jars(["jdbc"]))
    assert "jars.folder" in str(caught.value.hint)
    assert "`flow jars list jdbc`" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == [folder]


def test_another_file_of_that_name_in_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "postgresql-42.7.10.jar").write_bytes(b"something else")
    store = JarStore(tmp_path / "cache", tmp_path)
    assert [store.state(jar) for jar in locked_jars(["jdbc"])] == ["damaged", "missing", "missing"]
    with pytest.raises(JarError, match="is not the one of the lock") as caught:
        store.paths(["jdbc"])
    assert POSTGRES in caught.value.message


def test_settings_of_ivy_lead_to_a_mirror(mirror: Path, tmp_path: Path) -> None:
    store = JarStore(tmp_path / "cache", ivy_settings=mirror)
    assert [path.name for path in store.paths(["jdbc"])] == [jar.file for jar in locked_jars(["jdbc"])]
    assert names(store.cache) == FILES
    assert fetching() is None


def test_a_damaged_jar_of_the_cache_is_fetched_again(mirror: Path, tmp_path: Path) -> None:
    store = JarStore(tmp_path / "cache", ivy_settings=mirror)
    postgres = store.paths(["jdbc"])[0]
    postgres.write_bytes(b"half of it")
    (store.cache / ".fetching-killed").mkdir()
    store.paths(["jdbc"])
    assert {store.state(jar) for jar in locked_jars(["jdbc"])} == {"present"}
    assert names(store.cache) == FILES


def test_another_file_than_the_locked_one_is_refused_and_not_kept(mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "mirror" / published(POSTGRES)).write_bytes(b"something else")
    store = JarStore(tmp_path / "cache", ivy_settings=mirror)
    with pytest.raises(JarError, match="its sha256 is ") as caught:
        store.paths(["jdbc"])
    assert f"postgresql-42.7.10.jar ({POSTGRES})" in caught.value.message
    assert str(mirror) in caught.value.message
    assert all(setting in str(caught.value.hint) for setting in ("jars.ivy_settings", "jars.folder"))
    assert names(store.cache) == []


def test_a_jar_that_nobody_has_is_named_with_what_ivy_said(mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "mirror" / published(POSTGRES)).unlink()
    store = JarStore(tmp_path / "cache", ivy_settings=mirror)
    with pytest.raises(JarError, match="could not be fetched") as caught:
        store.paths(["jdbc"])
    assert f"postgresql-42.7.10.jar ({POSTGRES})" in caught.value.message
    assert "not found" in caught.value.message
    assert all(setting in str(caught.value.hint) for setting in ("jars.ivy_settings", "jars.folder"))
    assert names(store.cache) == []


def test_settings_of_ivy_that_are_not_there_are_named(tmp_path: Path) -> None:
    store = JarStore(tmp_path / "cache", ivy_settings=tmp_path / "lost.xml")
    with pytest.raises(JarError, match=r"jars.ivy_settings is .*lost.xml"):
        store.paths(["jdbc"])


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JarError, match="cannot be written") as caught:
        JarStore(tmp_path / "file" / "jars").paths(["jdbc"])
    assert "project.cache_dir" in str(caught.value.hint)


FETCH = """
import sys
from pathlib import Path
from ematix_flow.engine import jars

asked = []
run = jars.run_ivy
jars.run_ivy = lambda *words: asked.append(words) or run(*words)
store = jars.JarStore(Path(sys.argv[1]), ivy_settings=Path(sys.argv[2]))
print(len(store.paths(["jdbc"])), len(asked))
"""


def test_of_two_processes_at_once_one_fetches_and_both_have_the_jars(mirror: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", FETCH, str(cache), str(mirror)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=120)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(answers) == [["3", "0"], ["3", "1"]]
    assert names(cache) == FILES


RUN = """
import json
from pathlib import Path

from ematix_flow.backends.memory import MemoryBackend
from ematix_flow.config import Settings
from ematix_flow.connections import MemoryConnection
from ematix_flow.engine.handle import Handle
from ematix_flow.engine.jvm import has_class
from ematix_flow.errors import SessionError
from ematix_flow.project import Project
from ematix_flow.spec.registry import Registry


class Jdbc(MemoryBackend):
    jars = ("jdbc",)


class Avro(MemoryBackend):
    jars = ("avro",)


project = Project(Settings(spark_master="local[1]"), Registry())
opened = [Handle(kind(MemoryConnection("there"), project.workshop)) for kind in (Jdbc, Avro)]
with project.systems.lent({"target_connection": opened[0]}):
    spark = project.workshop.spark()
    drivers = ("org.postgresql.Driver", "com.mysql.cj.jdbc.Driver", "org.mariadb.jdbc.Driver", "no.such.Driver")
    found = [has_class(spark, name) for name in drivers]
with project.systems.lent({"target_connection": opened[1]}):
    try:
        project.workshop.spark()
    except SessionError as error:
        refused = str(error)
print(json.dumps([found, refused]))
project.close()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("jdbc")
def test_a_session_starts_with_the_jars_of_the_open_systems_and_says_when_it_lacks_some(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found, refused = json.loads(done.stdout)
    assert found == [True, True, True, False]
    assert "the jars of 'avro' are not loaded" in refused
    assert "close_session()" in refused


@pytest.mark.slow
def test_a_session_that_somebody_else_made_must_have_the_jars(session: Callable[[], SparkSession]) -> None:
    spark = session()
    with pytest.raises(SessionError, match=r"lacks the jars of 'jdbc': it has no org\.postgresql\.Driver") as caught:
        open_session(SessionOptions(cache_dir(), groups=("jdbc",)))
    assert "flow jars fetch jdbc" in str(caught.value.hint)
    assert open_session(SessionOptions(cache_dir())) is spark


class Told:
    """A session that somebody else made, as far as its settings go."""

    def __init__(self, **conf: str) -> None:
        self.conf = {key.replace("__", "."): value for key, value in conf.items()}


def test_a_session_that_somebody_else_made_must_have_been_told_of_delta() -> None:
    extension, catalog = group_conf(["delta"]).values()
    told = {"spark__sql__extensions": f"com.example.Own,{extension}", "spark__sql__catalog__spark_catalog": catalog}
    check_session(Told(**told), ["delta"])  # type: ignore[arg-type]
    with pytest.raises(
        SessionError, match=r"not told to use 'delta': spark\.sql\.extensions is 'com\.example\.Own'"
    ) as no:
        check_session(Told(**{**told, "spark__sql__extensions": "com.example.Own"}), ["delta"])  # type: ignore[arg-type]
    assert str(no.value.hint).endswith(f"spark.sql.catalog.spark_catalog={catalog}, beside what is there")
    del told["spark__sql__catalog__spark_catalog"]
    with pytest.raises(SessionError, match="spark_catalog is ''"):
        check_session(Told(**told), ["delta"])  # type: ignore[arg-type]


def test_extensions_of_the_user_stand_beside_those_of_the_jars() -> None:
    conf = group_conf(["delta"], tuned=True)
    add_conf(conf, {"spark.sql.extensions": "com.example.Own", "spark.databricks.delta.snapshotPartitions": "9"})
    assert conf["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,com.example.Own"
    assert conf["spark.databricks.delta.snapshotPartitions"] == "9"
    both = group_conf(["iceberg", "delta"])["spark.sql.extensions"].split(",")
    assert [each.rsplit(".", 1)[1] for each in both] == ["DeltaSparkSessionExtension", "IcebergSparkSessionExtensions"]
