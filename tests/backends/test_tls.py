"""Encrypted connections to real servers: who is trusted, who is refused and what is said then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ematix_flow.backends.workshop import Workshop
from ematix_flow.cli.app import app
from ematix_flow.connections import MySQLConnection, PostgresConnection
from ematix_flow.errors import RefusedError
from ematix_flow.spec.place import Query
from tests.backends.conftest import BY_NAME
from tests.backends.crash_run import no_spark
from tests.backends.lab import Lab, Lane
from tests.tls import Authority, TlsMariaDB, TlsPostgres

pytestmark = pytest.mark.server


@dataclass(frozen=True)
class World:
    """A server, the authority that it trusts, and how its URLs say so."""

    kind: str
    server: Any
    authority: Authority
    folder: Path

    @property
    def trusting(self) -> str:
        return self.options(sslmode="verify-full", ca=self.authority.file)

    def options(self, *, user: str | None = None, host: str | None = None, **given: object) -> str:
        """The URL of the server; `ca`, `cert` and `key` are files, everything else is as libpq says it."""
        names = {"ca": "sslrootcert", "cert": "sslcert", "key": "sslkey"}
        if self.kind == "mysql":
            names = {"ca": "ssl_ca", "cert": "ssl_cert", "key": "ssl_key"}
            if given.pop("sslmode", "") == "verify-full":
                given["ssl_verify_identity"] = "true"
        query = "&".join(f"{names.get(name, name)}={value}" for name, value in given.items())
        url = self.server.url("postgres" if self.kind == "postgres" else "mysql")
        url = url.replace("postgres@", f"{user}@") if user else url
        url = url.replace("flow:flow@", f"{user}@") if user else url
        return f"{url.replace('127.0.0.1', host) if host else url}?{query}"

    def open(self, url: str) -> Any:
        connection = PostgresConnection if self.kind == "postgres" else MySQLConnection
        return connection("shop", url).open(Workshop(no_spark, self.folder))

    def refused(self, url: str) -> str:
        """Why the server, or this side, refuses a connection."""
        with pytest.raises(RefusedError) as caught:
            self.open(url).ping()
        assert (caught.value.transient, caught.value.passing) == (False, False)
        return str(caught.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module", params=["postgres", "mysql"])
def world(request: pytest.FixtureRequest, folder: Path) -> Iterator[World]:
    authority = Authority(folder, f"authority-{request.param}")
    server = (TlsPostgres if request.param == "postgres" else TlsMariaDB)(authority)
    world = World(request.param, server, authority, folder)
    with world.open(world.trusting).session() as connection:
        if world.kind == "postgres":
            connection.execute("CREATE ROLE certified LOGIN")
            connection.execute("CREATE ROLE secret LOGIN PASSWORD 'right'")
        else:
            connection.execute("CREATE USER certified@'127.0.0.1' REQUIRE X509")
            connection.execute("GRANT SELECT ON mysql.* TO certified@'127.0.0.1'")
    yield world
    server.remove()


def test_rows_go_in_and_out_encrypted_and_the_check_says_so(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = BY_NAME[world.kind]
    connection = PostgresConnection if world.kind == "postgres" else MySQLConnection
    target = type(target)(target.name, lambda name, _: connection(name, world.trusting))
    lab = Lab(Lane(target, "copied", BY_NAME["sqlite"]), tmp_path, no_spark, mode="merge")
    assert lab("id | v", "1 | a", "2 | b").rows_inserted == 2
    backend: Any = lab.target
    with backend.workshop.bench() as out:
        backend.export_rows(Query("SELECT id, v FROM shop.customer"), out)  # by the driver that gives columns
        assert list(out.glob("*.parquet"))
    told = {fact.name: fact.value for fact in backend.facts()}
    assert told["encrypted"].startswith("yes, TLS")
    lab.close()
    monkeypatch.setenv("EMATIX_FLOW_DSN_SHOP", world.trusting)
    monkeypatch.chdir(tmp_path)
    assert "\n  encrypted: yes, TLS" in CliRunner().invoke(app, ["connections", "check", "shop"]).stdout


def test_a_server_that_nobody_vouches_for_is_refused(world: World, folder: Path) -> None:
    impostor = Authority(folder, f"impostor-{world.kind}")
    said = world.refused(world.options(sslmode="verify-ca", ca=impostor.file))
    assert "certificate verify failed" in said
    assert "nobody whom this machine trusts has signed the server's certificate" in said


def test_a_certificate_for_another_name_is_refused(world: World) -> None:
    said = world.refused(world.options(sslmode="verify-full", ca=world.authority.file, host="localhost"))
    assert "the server's certificate is for another name" in said


def test_a_client_shows_its_certificate(world: World, folder: Path) -> None:
    pair = world.authority.pair("certified")
    files = {"sslmode": "verify-full", "ca": world.authority.file, "cert": pair.certificate, "key": pair.key}
    assert "certified" in str(world.open(world.options(user="certified", **files)).evaluate("SELECT CURRENT_USER"))
    said = world.refused(world.options(user="certified", sslmode="verify-full", ca=world.authority.file))
    assert ("sslcert=" if world.kind == "postgres" else "check the user") in said
    stranger = Authority(folder, f"stranger-{world.kind}").pair(f"certified-{world.kind}")
    other = {**files, "key": stranger.key}
    assert "certificates or keys" in world.refused(world.options(user="certified", **other))


@pytest.mark.parametrize("world", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sslmode": "disable"}, "no rule of the server lets this user in"),
        ({"sslmode": "verify-full", "ca": "/nowhere.crt"}, "a file of certificates or keys"),
        ({"sslmode": "require", "user": "secret:wrong"}, "check the user and the password"),
        ({"sslmode": "require", "user": "nobody"}, "check the user and the password"),
    ],
)
def test_what_is_wrong_with_a_login_is_told_apart(world: World, given: dict[str, Any], said: str) -> None:
    assert said in world.refused(world.options(**given))
