"""No declared secret is ever shown, whatever it is made of."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ematix_flow.config import all_connections, find_connection, list_connections
from ematix_flow.errors import FlowError
from ematix_flow.spec.connection import KINDS, Connection, connection_from_mapping, kind_class, own_fields
from ematix_flow.spec.found import Found
from ematix_flow.spec.redaction import is_secret, redact, without_secrets
from ematix_flow.spec.registry import scope
from tests.spec.kinds import FIELDS

MARK = "zQx9"
"""Stands in every secret of these tests and nowhere else."""

SECRETS = st.text(string.ascii_letters + string.digits + "!$%()*+-./:;<>?@[]^_`{|}~#& '\"\\\n", max_size=12).map(
    lambda text: f"{text}{MARK}{text[::-1]}"
)
WITH_SECRETS = [
    (kind, each.name)
    for kind in sorted(KINDS)
    for each in own_fields(kind_class(kind))
    if is_secret(each.name) or "url" in each.name or each.name in ("uri", "endpoint")
]
PARTNERS = {
    "access_key_id": {"secret_access_key": "k"},
    "secret_access_key": {"access_key_id": "k"},
    "aws_access_key_id": {"aws_secret_access_key": "k"},
    "aws_secret_access_key": {"aws_access_key_id": "k"},
    "client_secret": {"tenant_id": "t", "client_id": "c"},
    "sasl_plain_password": {"sasl_plain_username": "u"},
    "sasl_scram_password": {"sasl_scram_username": "u"},
    "token": {"catalog": "rest", "uri": "http://h"},
    "credential": {"catalog": "rest", "uri": "http://h"},
    "uri": {"catalog": "rest"},
}


def fields_with(kind: str, field: str, secret: str) -> dict[str, object]:
    """The fields of a connection whose `field` holds `secret`: whole, or as the password of a URL."""
    password = quote(secret, safe="")
    # Servers know their own schemes and options only.
    begin, end = {"postgres": ("postgres", "?password="), "mysql": ("mysql", "?ssl_key=")}.get(
        kind, ("http", "?token=")
    )
    value = secret if is_secret(field) else f"{begin}://ada:{password}@h/db{end}{password}"
    return {**FIELDS[kind], **PARTNERS.get(field, {}), field: value}


def shown_of(connection: Connection) -> Iterator[str]:
    yield repr(connection)
    yield str(connection.redacted())
    yield json.dumps(connection.redacted(), default=str)
    with scope() as registry:
        registry.add_connection(connection)
        yield json.dumps(list_connections())
        yield repr(all_connections())
    mapping = {each.name: getattr(connection, each.name) for each in own_fields(type(connection))[1:]}
    found = Found("x", "a file", {"kind": connection.kind, **mapping})
    yield found.redacted()
    yield repr(found)
    yield from errors_of({"kind": connection.kind, **mapping})


def errors_of(mapping: dict[str, object]) -> Iterator[str]:
    """What is said when another field is wrong."""
    for wrong in ({"no_such_field": 1}, {"kind": "no_such_kind"}, *({name: 5} for name in mapping)):
        try:
            connection_from_mapping("x", mapping | wrong)
        except FlowError as error:
            yield str(error)
            yield repr(error)


@pytest.mark.parametrize(("kind", "field"), WITH_SECRETS)
@settings(max_examples=20)
@given(secret=SECRETS)
def test_no_secret_of_a_record_is_shown(kind: str, field: str, secret: str) -> None:
    connection = kind_class(kind)("x", **fields_with(kind, field, secret))
    for text in shown_of(connection):
        assert MARK not in text


@given(secret=SECRETS)
def test_no_password_of_a_url_is_shown_whatever_the_scheme(secret: str) -> None:
    for url in (f"postgres://ada:{secret}@h/db", f"amqp://:{secret}@h", f"http://{quote(secret, safe='')}@h/x"):
        assert MARK not in str(redact("anything", url))
        assert MARK not in Found("x", "", url).redacted()


@given(secret=SECRETS.filter(lambda text: not set("'\\") & set(text)))
def test_no_password_of_a_key_value_dsn_is_shown(secret: str) -> None:
    dsn = f"host=h user=ada password='{secret}' dbname=db"
    assert redact("url", dsn) == "host=h user=ada password='***' dbname=db"


@pytest.mark.parametrize("value", ["hunter2", "hunter2@h", "ada:hunter2"])
def test_a_value_that_is_no_url_may_be_a_password_and_is_not_shown(value, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMATIX_FLOW_DSN_ODD", value)
    assert list_connections()["odd"] == "<redacted>"
    with pytest.raises(FlowError) as caught:
        find_connection("odd")
    assert "hunter2" not in str(caught.value)


def test_the_command_line_shows_no_secret_of_a_variable(monkeypatch, tmp_path):
    from ematix_flow.cli.app import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMATIX_FLOW_REDSHIFT_DWH_HOST", "h")
    monkeypatch.setenv("EMATIX_FLOW_REDSHIFT_DWH_PASSWORD", f"a{MARK}b")
    monkeypatch.setenv("EMATIX_FLOW_KAFKA_BUS_BOOTSTRAP_SERVERS", "k:9092")
    monkeypatch.setenv("EMATIX_FLOW_KAFKA_BUS_SCHEMA_REGISTRY_URL", f"http://ada:{MARK}@h")
    for call in (["connections", "list"], ["connections", "list", "--format", "json"], ["doctor"]):
        result = CliRunner().invoke(app, call)
        assert "dwh" in result.stdout
        assert MARK not in result.output
    result = CliRunner().invoke(app, ["connections", "check", "dwh"])
    assert (result.exit_code, MARK in result.output) == (2, False)


def test_a_text_that_quotes_the_password_of_a_connection_is_masked() -> None:
    connection_from_mapping(
        "dwh", {"kind": "redshift", "host": "h", "database": "d", "user": "u", "password": "Tr0ub4dor"}
    )
    assert without_secrets("login with Tr0ub4dor failed") == "login with *** failed"
    connection_from_mapping("crm", {"url": "postgres://ada:p%40ss-word@db.example.org/crm"})
    assert without_secrets("p@ss-word and p%40ss-word") == "*** and ***"
    assert str(FlowError("login with Tr0ub4dor failed")) == "login with *** failed"


def test_a_password_that_everybody_can_read_elsewhere_hides_no_word() -> None:
    connection_from_mapping("pg", {"url": "postgres://postgres:postgres@db.example.org/x"})
    connection_from_mapping("open", {"url": "postgres://ada:abc@db.example.org/x"})
    assert without_secrets("connection 'pg' (postgres): abc") == "connection 'pg' (postgres): abc"
