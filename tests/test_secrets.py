from __future__ import annotations

from types import SimpleNamespace

import pytest

from ematix_flow import secrets
from ematix_flow.connections import PostgresConnection
from ematix_flow.errors import SecretError
from ematix_flow.secrets import (
    AWSSecretsManagerResolver,
    GCPSecretManagerResolver,
    VaultResolver,
    expand,
    register_resolver,
    unregister_resolver,
)


class Vault:
    def __init__(self, **values: object) -> None:
        self.values = values

    def resolve(self, reference: str) -> str:
        return self.values[reference]


@pytest.fixture
def vault():
    register_resolver("vault", Vault(a="${HOME}", number=5))
    yield
    unregister_resolver("vault")


def test_variables_are_filled_wherever_they_stand(monkeypatch):
    monkeypatch.setenv("DB_USER", "ada")
    monkeypatch.setenv("DB_PW2", "x=1&y")
    assert expand("db://${DB_USER}:${env:DB_PW2}@h/${DB_USER}") == "db://ada:x=1&y@h/ada"


def test_a_variable_may_be_set_to_nothing(monkeypatch):
    monkeypatch.setenv("EMPTY", "")
    assert expand("<${EMPTY}>") == "<>"


@pytest.mark.parametrize("text", ["", "plain", "$HOME", "${unfinished", "{X}", "a}b"])
def test_text_without_references_stays_as_it_is(text):
    assert expand(text) == text


def test_none_stays_none():
    assert expand(None) is None


def test_what_was_filled_in_is_not_searched_again(monkeypatch, vault):
    monkeypatch.setenv("OUTER", "${INNER}")
    monkeypatch.setenv("INNER", "deep")
    assert expand("${OUTER} ${vault:a}") == "${INNER} ${HOME}"


def test_a_file_gives_its_text_without_the_last_newline(tmp_path):
    (tmp_path / "password").write_text("p w\n\n")
    assert expand(f"${{file:{tmp_path}/password}}") == "p w\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NOT_SET_ANYWHERE}", "environment variable 'NOT_SET_ANYWHERE' is not set"),
        ("${env:NOT_SET_ANYWHERE}", "environment variable 'NOT_SET_ANYWHERE' is not set"),
        ("${lower}", "does not name an environment variable"),
        ("${}", "does not name an environment variable"),
        ("${file:/no/such/file}", "'/no/such/file' cannot be read"),
        ("${wallet:a#b}", "no resolver is registered for 'wallet'"),
        ("${vault:missing}", r"\$\{vault:missing\} cannot be filled"),
        ("${vault:number}", "gave int, not text"),
    ],
)
def test_a_reference_that_cannot_be_filled_is_a_key_error_that_names_it(vault, text, message):
    with pytest.raises(KeyError, match=message) as caught:
        expand(text)
    assert isinstance(caught.value, SecretError)
    assert caught.value.hint


def test_missing_secret_error_is_the_documented_name():
    assert secrets.MissingSecretError is SecretError


def test_bare_variables_work_without_the_env_resolver(monkeypatch):
    monkeypatch.setenv("STILL_HERE", "yes")
    unregister_resolver("env")
    unregister_resolver("env")
    try:
        assert expand("${STILL_HERE}") == "yes"
        with pytest.raises(SecretError, match="no resolver is registered for 'env'"):
            expand("${env:STILL_HERE}")
    finally:
        register_resolver("env", secrets.EnvResolver())


def test_the_last_resolver_of_a_prefix_wins(vault):
    register_resolver("vault", Vault(a="second"))
    assert expand("${vault:a}") == "second"


@pytest.mark.parametrize(("prefix", "resolver"), [("vault", object()), ("", Vault()), ("a:b", Vault())])
def test_what_cannot_resolve_is_refused(prefix, resolver):
    with pytest.raises(TypeError):
        register_resolver(prefix, resolver)


# ── vendors: clients that answer in the shapes of hvac, boto3 and google-cloud-secret-manager ─────────────────────────


class HvacClient:
    """`client.secrets.kv.v2.read_secret_version`."""

    class InvalidPath(Exception):  # noqa: N818 - the vendor's spelling
        pass

    def __init__(self, **stored: object) -> None:
        self.stored = stored
        self.secrets = SimpleNamespace(kv=SimpleNamespace(v2=self))

    def read_secret_version(self, path, version=None, mount_point="secret", raise_on_deleted_version=None):
        if f"{mount_point}/{path}" not in self.stored:
            raise self.InvalidPath("404 hunter2")
        return {"data": {"data": self.stored[f"{mount_point}/{path}"], "metadata": {"version": 1}}}


class BotoClient:
    """`client.get_secret_value`."""

    class ResourceNotFoundException(Exception):  # noqa: N818 - the vendor's spelling
        pass

    def __init__(self, **stored: object) -> None:
        self.stored = stored

    def get_secret_value(self, *, SecretId):  # noqa: N803 - the vendor's spelling
        if SecretId not in self.stored:
            raise self.ResourceNotFoundException("hunter2")
        value = self.stored[SecretId]
        kind = "SecretBinary" if isinstance(value, bytes) else "SecretString"
        return {"ARN": "arn:aws:…", "Name": SecretId, "VersionId": "1", kind: value}


class GoogleClient:
    """`client.access_secret_version`."""

    class NotFound(Exception):  # noqa: N818 - the vendor's spelling
        pass

    def __init__(self, **stored: str) -> None:
        self.stored = stored

    def access_secret_version(self, request):
        if request["name"] not in self.stored:
            raise self.NotFound("hunter2")
        return SimpleNamespace(
            name=request["name"], payload=SimpleNamespace(data=self.stored[request["name"]].encode())
        )


@pytest.fixture
def vendors():
    register_resolver("vault", VaultResolver(HvacClient(**{"secret/db": {"user": "ada", "port": 5432, "b": None}})))
    register_resolver("team", VaultResolver(HvacClient(**{"team/db": {"user": "bob"}}), mount_point="team"))
    register_resolver(
        "aws",
        AWSSecretsManagerResolver(
            BotoClient(plain="p=1", json='{"user": "ada", "port": 5432}', list="[1]", binary=b"tok")
        ),
    )
    google = GoogleClient(
        **{
            "projects/shop/secrets/DB/versions/latest": "new",
            "projects/shop/secrets/DB/versions/3": "old",
            "projects/other/secrets/DB/versions/1": "other",
        }
    )
    register_resolver("gcp", GCPSecretManagerResolver(google, project="shop"))
    register_resolver("gcp-any", GCPSecretManagerResolver(google))
    yield
    for prefix in ("vault", "team", "aws", "gcp", "gcp-any"):
        unregister_resolver(prefix)


@pytest.mark.usefixtures("vendors")
@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("vault:db#user", "ada"),
        ("vault:db#port", "5432"),
        ("vault:db#b", "null"),
        ("vault:db", '{"b": null, "port": 5432, "user": "ada"}'),
        ("team:db#user", "bob"),
        ("aws:plain", "p=1"),
        ("aws:json", '{"user": "ada", "port": 5432}'),
        ("aws:json#user", "ada"),
        ("aws:json#port", "5432"),
        ("aws:binary", "tok"),
        ("gcp:DB", "new"),
        ("gcp:DB#3", "old"),
        ("gcp:projects/other/secrets/DB/versions/1", "other"),
        ("gcp-any:projects/shop/secrets/DB", "new"),
        ("gcp-any:projects/shop/secrets/DB#3", "old"),
    ],
)
def test_a_vendor_fills_each_form_of_its_references(reference, value):
    assert expand(f"${{{reference}}}") == value


@pytest.mark.usefixtures("vendors")
@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("vault:nowhere#user", "Vault secret 'nowhere' cannot be read: InvalidPath"),
        ("vault:db#usr", r"Vault secret 'db' has no field 'usr'\n.*'user'"),
        ("aws:nowhere", "AWS secret 'nowhere' cannot be read: ResourceNotFoundException"),
        ("aws:plain#user", "AWS secret 'plain' is no JSON object"),
        ("aws:list#user", "AWS secret 'list' is no JSON object"),
        ("aws:json#usr", "AWS secret 'json' has no field 'usr'"),
        ("gcp:NOWHERE", "projects/shop/secrets/NOWHERE/versions/latest' cannot be read: NotFound"),
        ("gcp-any:DB", "'DB' is named without its project"),
    ],
)
def test_what_a_vendor_does_not_have_is_a_missing_secret_and_its_text_is_not_repeated(reference, message):
    with pytest.raises(secrets.MissingSecretError, match=message) as caught:
        expand(f"${{{reference}}}")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("secret", "url"),
    [
        ("plain-1!", "postgres://flow:plain-1!@db/x?options=plain-1!"),
        ("p@ss/w?rd#", "postgres://flow:p%40ss%2Fw%3Frd%23@db/x?options=p@ss/w?rd#"),
        ("100% ü", "postgres://flow:100%25%20%C3%BC@db/x?options=100% ü"),
        ("en%40coded", "postgres://flow:en%40coded@db/x?options=en%40coded"),
        ("${HOME}", "postgres://flow:$%7BHOME%7D@db/x?options=${HOME}"),
    ],
)
def test_a_secret_in_a_url_may_have_any_letter(monkeypatch, secret, url):
    monkeypatch.setenv("PW", secret)
    declared = PostgresConnection("shop", "postgres://flow:${PW}@db/x?options=${PW}")
    assert declared.resolve(expand).url == url
