from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ematix_flow import connections
from ematix_flow.errors import SpecError, UnknownNameError
from ematix_flow.secrets import expand
from ematix_flow.spec.connection import (
    Connection,
    connection_from_mapping,
    connection_from_url,
    kind_class,
    parse_path_url,
    redact,
    redact_url,
    register_kind,
)
from ematix_flow.spec.origin import Origin
from ematix_flow.spec.place import Prefix, Query, TableRef, format_from_path
from ematix_flow.spec.registry import scope


@register_kind
@dataclass(frozen=True)
class ToyFile(Connection):
    kind = "toy_file"
    schemes = ("toyfile",)
    path: str
    memory_limit: str = "256MB"
    threads: int = 1
    options: Mapping[str, object] = field(default_factory=dict)


@register_kind
@dataclass(frozen=True, repr=False)
class ToyServer(Connection):
    kind = "toy_server"
    schemes = ("toy", "toys")
    url: str
    api_key: str | None = None
    primary_key: str = "id"


@pytest.fixture(autouse=True)
def registry():
    with scope() as registry:
        yield registry


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_connection_is_equal_to_one_with_the_same_fields_wherever_it_was_declared():
    here = ToyFile("lake", "a.db", declared_at=Origin("a.py", 1))
    assert here == ToyFile("lake", "a.db", declared_at=Origin("b.py", 9))
    assert here != ToyFile("lake", "b.db")


def test_a_path_object_is_kept_as_text():
    assert ToyFile("lake", Path("data") / "a.db").path == "data/a.db"


@pytest.mark.parametrize("path", ["", None])
def test_an_empty_required_field_is_an_error_that_names_it(path):
    with pytest.raises(ValueError, match="toy_file connection 'lake' needs the field 'path'"):
        ToyFile("lake", path)


def test_a_missing_required_field_is_an_error_that_names_field_and_place():
    with pytest.raises(ValueError, match=r"needs the field 'path' \(flow\.toml:3\)"):
        ToyFile.from_mapping("lake", {}, declared_at=Origin("flow.toml", 3))


def test_an_unknown_field_is_an_error_that_suggests_the_nearest():
    with pytest.raises(
        UnknownNameError, match=r"toy_file connection 'lake' has no field 'memory_limt'.*\n.*'memory_limit'"
    ):
        ToyFile.from_mapping("lake", {"path": "a", "memory_limt": "1GB"})


@pytest.mark.parametrize("key", ["declared_at", "final", "shown", "name"])
def test_what_the_record_keeps_for_itself_is_not_a_field_of_users(key):
    with pytest.raises(UnknownNameError, match=f"no field '{key}'"):
        ToyFile.from_mapping("lake", {"path": "a", key: "x"})


@pytest.mark.parametrize("wrong", [{"path": 5}, {"path": "a", "threads": "two"}, {"path": "a", "memory_limit": None}])
def test_a_value_of_the_wrong_type_is_a_type_error(wrong):
    with pytest.raises(TypeError, match=r"toy_file connection 'lake': '.*' cannot be a"):
        ToyFile.from_mapping("lake", wrong)


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_references_are_filled_in_a_copy_and_only_when_resolved(monkeypatch):
    monkeypatch.setenv("WHERE", "data")
    declared = ToyFile("lake", "${WHERE}/a.db", options={"nested": ["${WHERE}"], "n": 1})
    resolved = declared.resolve(expand)
    assert declared.path == "${WHERE}/a.db"
    assert (resolved.path, resolved.options) == ("data/a.db", {"nested": ["data"], "n": 1})


def test_an_unset_reference_is_no_error_until_it_is_resolved(monkeypatch):
    monkeypatch.delenv("UNSET_ONE", raising=False)
    declared = ToyFile("lake", "${UNSET_ONE}", declared_at=Origin("a.py", 4))
    with pytest.raises(KeyError, match=r"connection 'lake', field 'path'.*'UNSET_ONE' is not set \(a\.py:4\)"):
        declared.resolve(expand)


def test_a_resolved_connection_is_not_resolved_again(monkeypatch):
    monkeypatch.setenv("ONE", "${TWO}")
    monkeypatch.setenv("TWO", "2")
    assert ToyFile("lake", "${ONE}").resolve(expand).resolve(expand).path == "${TWO}"


def test_a_field_that_becomes_empty_is_an_error_when_it_is_resolved(monkeypatch):
    monkeypatch.setenv("NOTHING", "")
    with pytest.raises(SpecError, match="needs the field 'path'"):
        ToyFile("lake", "${NOTHING}").resolve(expand)


@pytest.mark.parametrize("show", [repr, str, lambda it: f"{it}", lambda it: str(it.redacted())])
@pytest.mark.parametrize(
    "change",
    [
        lambda it: it,
        lambda it: replace(it, memory_limit="1GB"),
        copy.deepcopy,
        copy.copy,
    ],
)
def test_a_filled_secret_is_never_shown(monkeypatch, show, change):
    monkeypatch.setenv("TENANT", "hunter2")
    resolved = change(ToyFile("lake", "${TENANT}/a.db", options={"x": "${TENANT}"}).resolve(expand))
    assert resolved.path == "hunter2/a.db"
    assert "hunter2" not in show(resolved)
    assert "${TENANT}/a.db" in show(resolved)


def test_the_repr_of_a_dataclass_that_forgot_to_switch_its_own_off_is_redacted_too():
    shown = repr(ToyFile("lake", "a.db", options={"password": "hunter2", "url": "db://u:hunter2@h"}))
    assert shown == (
        "ToyFile(name='lake', kind='toy_file', path='a.db', memory_limit='256MB', threads=1, "
        "options={'password': '<redacted>', 'url': 'db://u:***@h'})"
    )


def test_the_repr_shows_user_and_host_but_no_secret():
    shown = repr(ToyServer("crm", "toy://ada:hunter2@h:1/db", api_key="hunter2"))
    assert shown == (
        "ToyServer(name='crm', kind='toy_server', url='toy://ada:***@h:1/db', api_key='<redacted>', primary_key='id')"
    )


SECRET = "S3cr3t"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("db://u:S3cr3t@h/db", "db://u:***@h/db"),
        ("db://u:S3cr3t@S3cr3t/S3cr3t?S3cr3t#S3cr3t:S3cr3t@h/db", "db://u:***@h/db"),
        ("db://u:S3cr3t and S3cr3t@h/db", "db://u:***@h/db"),
        ("db://user@tenant:S3cr3t@h/db", "db://user@tenant:***@h/db"),
        ("redis://:S3cr3t@h", "redis://:***@h"),
        ("https://S3cr3t@git.example/x", "https://***@git.example/x"),
        ("db+driver://u:S3cr3t@h1:1,h2:2/db?password=S3cr3t", "db+driver://u:***@h1:1,h2:2/db?password=***"),
        ("jdbc:db://h/db?user=u&password=S3cr3t&ssl=1", "jdbc:db://h/db?user=u&password=***&ssl=1"),
        ("jdbc:db://h;user=sa;password=S3cr3t;encrypt=true", "jdbc:db://h;user=sa;password=***;encrypt=true"),
        ("https://h/x?sv=1&sig=S3cr3t%3D&se=2", "https://h/x?sv=1&sig=***&se=2"),
        ("https://h/x?X-Amz-Security-Token=S3cr3t", "https://h/x?X-Amz-Security-Token=***"),
        ("https://h/x?access_token=S3cr3t#part", "https://h/x?access_token=***"),
        ("host=h user=u password=S3cr3t dbname=d", "host=h user=u password=*** dbname=d"),
        ("host=h password = 'S3cr3t \\' S3cr3t' dbname=d", "host=h password = '***' dbname=d"),
        ("password=S3cr3t/S3cr3t== host=h", "password=*** host=h"),
        ("Server=h;Pwd=S3cr3t;S3cr3t;Database=d", "Server=h;Pwd=***;Database=d"),
        ("AccountName=a;AccountKey=S3cr3t/+==;Suffix=x", "AccountName=a;AccountKey=***;Suffix=x"),
        ("SharedAccessKeyName=root;SharedAccessKey=S3cr3t=", "SharedAccessKeyName=root;SharedAccessKey=***"),
        ('Module required username="u" password="S3cr3t\\"S3cr3t";', 'Module required username="u" password="***";'),
        ('{"user": "u", "private_key": "S3cr3t", "n": 1}', '{"user": "u", "private_key": "***", "n": 1}'),
        ("no route to db://u:S3cr3t@h/db, ask ops@example.org", "no route to db://u:***@h/db, ask ops@example.org"),
        ("Authorization: Basic S3cr3t==", "Authorization: ***"),
        ("bearer S3cr3t", "bearer ***"),
        ("-----BEGIN PRIVATE KEY-----\nS3cr3t\n-----END PRIVATE KEY-----", "<redacted>"),
    ],
)
def test_secrets_inside_a_text_are_hidden_by_their_shape(text, shown):
    assert redact_url(text) == shown
    assert SECRET not in shown


@pytest.mark.parametrize(
    "text",
    [
        "data/a.db",
        ":memory:",
        "db://ada@h:5432/db",
        "http://h:8080/a?page=2",
        "s3://bucket/day=2026-01-01/part@1",
        "k1:9092,k2:9092",
        "primary_key=id&format=csv",
        "SELECT * FROM t WHERE a = 1",
    ],
)
def test_a_text_without_secrets_is_shown_as_it_is(text):
    assert redact_url(text) == text


@pytest.mark.parametrize(
    "name",
    "password secret secret_access_key access_key_id key_password private_key token api_key key sasl_scram_password "
    "secretAccessKey AccountKey credentials_path private_key_path client-secret api_keys X-Amz-Signature".split(),
)
def test_a_field_with_a_secret_name_is_hidden_whole(name):
    assert redact(name, "anything") == "<redacted>"


@pytest.mark.parametrize(
    "name", "primary_key partition_key sort_key routing_key keys key_columns token_type monkey tokenizer user".split()
)
def test_a_field_with_a_harmless_name_is_shown(name):
    assert redact(name, "anything") == "anything"


@pytest.mark.parametrize("name", ["password", "url", "options"])
def test_nothing_is_shown_as_nothing(name):
    assert redact(name, None) is None


def test_values_inside_mappings_and_lists_are_judged_too():
    value = {"token": "S3cr3t", "urls": ["db://u:S3cr3t@h", "db://h"], "deep": {"pwd": ("S3cr3t",)}}
    assert redact("options", value) == {
        "token": "<redacted>",
        "urls": ["db://u:***@h", "db://h"],
        "deep": {"pwd": "<redacted>"},
    }


# ── URLs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "scheme", "path"),
    [
        ("sqlite:///relative.db", "sqlite", "relative.db"),
        ("sqlite:///a/b c.db", "sqlite", "a/b c.db"),
        ("sqlite:////absolute.db", "sqlite", "/absolute.db"),
        ("sqlite://", "sqlite", ":memory:"),
        ("sqlite:///", "sqlite", ":memory:"),
        ("sqlite://:memory:", "sqlite", ":memory:"),
        ("sqlite:///:memory:", "sqlite", ":memory:"),
        (":memory:", "sqlite", ":memory:"),
        ("duckdb:///rel", "duckdb", "rel"),
        ("duckdb:////abs", "duckdb", "/abs"),
        ("duckdb://:memory:", "duckdb", ":memory:"),
        ("file:///data/my%20files", "file", "/data/my files"),
        ("file://localhost/data", "file", "/data"),
        ("sqlite:///${DIR}/a.db", "sqlite", "${DIR}/a.db"),
    ],
)
def test_a_url_says_which_file_it_means(url, scheme, path):
    parts = parse_path_url(url)
    assert (parts.scheme, parts.path, parts.options) == (scheme, path, {})


def test_the_query_of_a_url_gives_options():
    assert parse_path_url("file:///data?format=csv&header=").options == {"format": "csv", "header": ""}


@pytest.mark.parametrize("url", ["sqlite://orders.db", "file://data/x", "orders.db", "file://"])
def test_a_url_that_names_no_path_is_refused_with_the_right_form(url):
    with pytest.raises(SpecError, match=r"Hint: write .*:///"):
        parse_path_url(url)


def test_a_url_finds_its_kind_by_scheme_and_sets_fields_by_query():
    found = connection_from_url("lake", "TOYFILE:////data/a.db?memory_limit=1GB&threads=4")
    assert found == ToyFile("lake", "/data/a.db", memory_limit="1GB", threads=4)


def test_a_kind_with_a_url_keeps_it_whole():
    assert connection_from_url("crm", "toys://u:p@h/db?x=1") == ToyServer("crm", "toys://u:p@h/db?x=1")


@pytest.mark.parametrize("url", ["toyfile:///a.db", "toyfile:////a/b.db", "toyfile:///a.db?memory_limit=1GB&threads=4"])
def test_a_connection_gives_back_its_url(url):
    assert connection_from_url("lake", url).to_url() == url


def test_an_unknown_option_of_a_url_suggests_the_nearest_field():
    with pytest.raises(UnknownNameError, match=r"no field 'thread'.*\n.*'threads'"):
        connection_from_url("lake", "toyfile:///a.db?thread=4")


@pytest.mark.parametrize("url", ["gopher://h", "host=h password=S3cr3t", "S3cr3t", ""])
def test_a_url_of_no_known_scheme_lists_the_known_ones_and_shows_no_secret(url):
    with pytest.raises(ValueError, match=r"connection 'x'.*\n.*Known: ") as caught:
        connection_from_url("x", url)
    assert all(scheme in str(caught.value) for scheme in ("duckdb", "file", "memory", "sqlite", "toyfile"))
    assert "S3cr3t" not in str(caught.value)


def test_an_unknown_kind_suggests_the_nearest_one():
    with pytest.raises(UnknownNameError, match="did you mean 'duckdb'"):
        kind_class("duckbd")


def test_asking_for_kinds_loads_no_database_driver_and_no_spark():
    code = (
        "import sys; import ematix_flow.connections, ematix_flow.config; "
        "print([m for m in ('pyspark', 'pandas', 'pyarrow', 'duckdb', 'sqlglot') if m in sys.modules])"
    )
    source = str(Path(connections.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": source}
    )
    assert done.stdout.strip() == "[]"


# ── mappings and the decorator ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "mapping",
    [
        {"kind": "toy_file", "path": "a.db", "threads": 4},
        {"type": "toy_file", "path": "a.db", "threads": 4},
        {"url": "toyfile:///a.db?threads=4"},
        {"dsn": "toyfile:///a.db?threads=4"},
        {"url": "toyfile:///a.db", "threads": 4},
        {"kind": "toy_file", "dsn": "toyfile:///a.db", "threads": 4},
    ],
)
def test_a_mapping_describes_a_connection_by_kind_or_by_url(mapping):
    assert connection_from_mapping("lake", mapping) == ToyFile("lake", "a.db", threads=4)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({}, "neither a kind nor a url"),
        ({"kind": "toy_file", "type": "toy_file", "path": "a"}, "both 'kind' and 'type'"),
        ({"url": "toyfile:///a", "dsn": "toyfile:///b"}, "both 'dsn' and 'url'"),
        ({"url": 5}, "a url is a text"),
        ({"kind": "toy_file", "dsn": "toy://h"}, "does not begin with toy://|names a path"),
        ({"kind": "nonsense"}, "unknown connection kind 'nonsense'"),
    ],
)
def test_a_mapping_that_cannot_be_right_says_why_and_where(mapping, message):
    with pytest.raises(ValueError, match=message) as caught:
        connection_from_mapping("lake", mapping, declared_at=Origin("flow.toml", 7))
    assert "flow.toml:7" in str(caught.value)


def test_the_decorator_replaces_the_class_by_a_registered_connection(registry):
    @connections.connection
    class lake:  # noqa: N801 - the documented form
        """Ignored, as are methods and private machinery."""

        kind = "toy_file"
        path = "a.db"

        def describe(self): ...

        @property
        def size(self): ...

    assert lake == ToyFile("lake", "a.db")
    assert registry.connections["lake"] is lake
    assert connections.get_connection("lake") is lake
    assert str(lake.declared_at).startswith("test_connection.py:")


def test_the_decorator_takes_a_name_and_inherited_fields():
    class Shared:
        kind = "toy_file"
        threads = 2

    @connections.connection
    class Anything(Shared):
        name = "raw-lake"
        path = "a.db"

    assert connections.registered_connections() == {"raw-lake": ToyFile("raw-lake", "a.db", threads=2)}
    assert Anything.name == "raw-lake"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"path": "a"}, "connection 'lake' has no kind.*\n.*toy_file"),
        ({"kind": "toy_fil", "path": "a"}, "unknown connection kind 'toy_fil'.*\n.*'toy_file'"),
        ({"kind": 5}, "connection 'lake' has no kind"),
    ],
)
def test_the_decorator_needs_a_known_kind(attributes, message):
    with pytest.raises(TypeError, match=message):
        connections.connection(type("lake", (), attributes))


def test_the_decorator_refuses_an_unknown_attribute_and_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"no field 'pth' \(test_connection\.py:\d+\)\n.*did you mean 'path'"):
        connections.connection(type("lake", (), {"kind": "toy_file", "path": "a", "pth": "b"}))


def test_the_decorator_refuses_what_is_not_a_class():
    with pytest.raises(TypeError, match="decorates a class, not function"):
        connections.connection(lambda: None)


def test_a_registered_connection_is_returned_and_overwritten_silently():
    first, second = ToyFile("lake", "a"), ToyFile("lake", "b")
    assert connections.register_connection(first) is first
    assert connections.register_connection(second) is second
    assert connections.get_connection("lake") is second


def test_only_a_connection_can_be_registered():
    with pytest.raises(TypeError, match="a connection was expected, not dict"):
        connections.register_connection({"name": "lake"})


def test_an_unregistered_name_is_a_lookup_error_that_lists_the_known_ones():
    with pytest.raises(LookupError, match="known: <none>"):
        connections.get_connection("lake")
    connections.register_connection(ToyFile("lake", "a"))
    with pytest.raises(LookupError, match="did you mean 'lake'"):
        connections.get_connection("lakes")


def test_the_registered_connections_are_a_copy_and_can_be_cleared():
    connections.register_connection(ToyFile("lake", "a"))
    connections.registered_connections().clear()
    assert connections.get_connection("lake")
    connections.clear_registry()
    assert connections.registered_connections() == {}


def test_a_name_the_module_does_not_have_is_an_attribute_error():
    assert not hasattr(connections, "NoSuchConnection")


def test_resolving_through_the_door_fills_references(monkeypatch):
    monkeypatch.setenv("WHERE", "data")
    assert connections.resolve(ToyFile("lake", "${WHERE}")).path == "data"


# ── places ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_table_is_named_by_schema_and_name():
    table = TableRef.parse("raw.customers")
    assert (table, str(table)) == (TableRef("raw", "customers"), "raw.customers")


@pytest.mark.parametrize("text", ["", "customers", "a.b.c", ".b", "a.", "."])
def test_a_table_without_schema_or_name_is_refused(text):
    with pytest.raises(SpecError, match=r"write 'schema\.table'"):
        TableRef.parse(text)


def test_an_empty_query_is_refused():
    with pytest.raises(SpecError, match="cannot be empty"):
        Query("  \n")


def test_a_prefix_has_a_known_format():
    with pytest.raises(SpecError, match=r"cannot have the format 'parket'\n.*did you mean 'parquet'"):
        Prefix("raw/clicks", "parket")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.parquet", "parquet"),
        ("A.PQ", "parquet"),
        ("a.csv.gz", "csv"),
        ("a.tsv", "csv"),
        ("a.ndjson.zst", "json_lines"),
        ("a.jsonl", "json_lines"),
        ("a.json", "json_lines"),
        ("a.orc.snappy", "orc"),
        ("a.csv.gz.gz", None),
        ("a.txt", None),
        ("csv", None),
    ],
)
def test_a_file_name_says_its_format(path, expected):
    assert format_from_path(path) == expected
