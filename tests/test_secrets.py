from __future__ import annotations

import pytest

from ematix_flow import secrets
from ematix_flow.errors import SecretError
from ematix_flow.secrets import expand, register_resolver, unregister_resolver


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
