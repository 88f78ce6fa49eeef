"""URLs and fields of database servers: what cannot be right is told before anything is opened."""

from __future__ import annotations

from typing import Any

import pytest

from ematix_flow.config import connect
from ematix_flow.connections import MySQLConnection, PostgresConnection
from ematix_flow.errors import ConnectError, SpecError
from ematix_flow.spec.connection import connection_from_mapping
from ematix_flow.spec.origin import Origin
from tests.servers import free_port


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("postgres", {"url": "postgres://u@h/d?sslmod=require"}, "no option 'sslmod'.*did you mean 'sslmode'"),
        ("postgres", {"url": "postgres://u@h/d?sslmode=verify"}, "cannot be 'verify'.*did you mean 'verify-ca'"),
        ("postgres", {"url": "postgres://u@h/d?pasword=hunter2"}, "no option 'pasword'.*did you mean 'password'"),
        ("postgres", {"url": "postgres://u@h/d?lock_timeout=5"}, "a field of the connection.*lock_timeout = … beside"),
        ("postgres", {"url": "mysql://u:hunter2@h/d"}, 'begins with mysql://.*or declare kind = "mysql"'),
        ("mysql", {"url": "postgres://u:hunter2@h/d"}, 'begins with postgres://.*or declare kind = "postgres"'),
        ("mysql", {"url": "mysql://u@h/d?ssl_cat=/x"}, "no option 'ssl_cat'.*did you mean 'ssl_ca'"),
        ("mysql", {"url": "mysql://u@h/d?sslmode=require"}, "no option 'sslmode'"),
        ("postgres", {"url": "postgres://u@h/d", "lock_timeout": -1}, "'lock_timeout' cannot be -1.*from 0 to 2147483"),
        ("postgres", {"url": "postgres://u@h/d", "statement_timeout": 10**9}, "'statement_timeout' cannot be"),
        ("mysql", {"url": "mysql://u@h/d", "connect_timeout": 0}, "'connect_timeout' cannot be 0.*from 1 to"),
        ("postgres", {"url": "postgres://u@h/d", "load_retries": -1}, "'load_retries' cannot be -1"),
        ("mysql", {"url": "mysql://u@h/d", "retry_timeout": -1}, "'retry_timeout' cannot be -1"),
    ],
)
def test_a_declaration_that_cannot_be_right_names_itself_and_its_place(
    kind: str, fields: dict[str, object], said: str
) -> None:
    with pytest.raises(SpecError, match=f"(?s)'shop'.*{said}") as caught:
        connection_from_mapping("shop", {"kind": kind, **fields}, declared_at=Origin("shop.toml", 3))
    assert "(shop.toml:3)" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://u:p@h/d?sslmode=${MODE}&options=-c%20x%3Dy",
        "${DB_URL}",
        "postgres://u:${vault:a?b=c}@h/d",
        "host=h user=u dbname=d",
        "postgres://u:p?x=1@h/d",  # a password that should have been encoded, and is no option
    ],
)
def test_what_may_be_right_is_left_alone(url: str) -> None:
    assert PostgresConnection("shop", url).url == url


def test_a_url_may_set_what_a_field_leaves_open() -> None:
    def told(**fields: Any) -> dict[str, Any]:
        url = "postgres://u@h/d?connect_timeout=3&application_name=mine"
        opened = PostgresConnection("shop", url, **fields).open(None)
        return dict(opened._beside_url())

    assert told() == {}
    assert told(connect_timeout=5) == {"connect_timeout": 5}


def test_a_host_that_nobody_knows_is_told_apart_and_not_waited_for() -> None:
    for connection, scheme in ((PostgresConnection, "postgres"), (MySQLConnection, "mysql")):
        with pytest.raises(ConnectError, match="shop") as caught:
            connection("shop", f"{scheme}://u@no-such-host.invalid/d").open(None).evaluate("SELECT 1")
        assert "no machine is known by that name" in str(caught.value.hint)


def test_a_connection_that_nobody_named_is_called_by_its_address() -> None:
    port = free_port()
    with pytest.raises(ConnectError) as caught:
        connect(url=f"postgres://ada:hunter2@127.0.0.1:{port}/shop?sslmode=disable")
    assert f"connection 'postgres://ada:***@127.0.0.1:{port}/shop'" in str(caught.value)
    assert "default" not in str(caught.value)


def test_a_wrong_login_names_the_references_that_filled_the_url() -> None:
    declared = PostgresConnection("shop", f"postgres://ada:${{DB_PASSWORD}}@127.0.0.1:{free_port()}/x", retry_timeout=0)
    with pytest.raises(ConnectError) as caught:
        declared.resolve(lambda text: text.replace("${DB_PASSWORD}", "hunter2")).open(None).ping()
    assert "(filled from ${DB_PASSWORD})" in str(caught.value.hint)
