"""The typed records: what each kind needs, refuses, shows and can be written as."""

from __future__ import annotations

import pytest

import ematix_flow
from ematix_flow import connections
from ematix_flow.connections import (
    DeltaLocalConnection,
    DeltaS3Connection,
    GlueSchemaRegistryConnection,
    IcebergConnection,
    KafkaConnection,
    KinesisConnection,
    ObjectStoreAzureConnection,
    ObjectStoreGCSConnection,
    ObjectStoreS3Connection,
    PostgresConnection,
    PubSubConnection,
    RabbitMQConnection,
    RedshiftConnection,
    SchemaRegistryConnection,
    SnowflakeConnection,
)
from ematix_flow.errors import SpecError, SpecTypeError, UnsupportedError
from ematix_flow.secrets import expand
from ematix_flow.spec.connection import (
    KINDS,
    SCHEMES,
    connection_from_mapping,
    connection_from_url,
    is_required,
    kind_class,
    own_fields,
)
from tests.spec.kinds import FIELDS, S3


def test_every_kind_has_an_example_here():
    assert FIELDS.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_kind_is_a_class_of_the_public_modules(kind):
    cls = kind_class(kind)
    assert cls.kind == kind
    assert getattr(connections, cls.__name__) is getattr(ematix_flow, cls.__name__) is cls
    assert cls.__name__ in connections.__all__
    assert cls.__name__ in ematix_flow.__all__


def test_every_scheme_is_the_one_of_its_class():
    assert {scheme: kind for kind in KINDS for scheme in kind_class(kind).schemes} == SCHEMES


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_kind_is_declared_by_a_mapping_or_by_the_decorator(kind):
    declared = connection_from_mapping("x", {"kind": kind, **FIELDS[kind]})
    assert declared == kind_class(kind)("x", **FIELDS[kind])
    assert connections.connection(type("x", (), {"kind": kind, **FIELDS[kind]})) == declared


@pytest.mark.parametrize(
    ("kind", "field"),
    [(kind, each.name) for kind in sorted(KINDS) for each in own_fields(kind_class(kind))[1:] if is_required(each)],
)
@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_required_field_is_a_value_error_that_names_it(kind, field, empty):
    with pytest.raises(ValueError, match=f"needs the field '{field}'"):
        kind_class(kind)("x", **{**FIELDS[kind], field: empty})


@pytest.mark.parametrize("kind", sorted(kind for kind in KINDS if not kind_class(kind).can_open()))
def test_a_system_that_this_version_cannot_open_can_be_declared_and_says_so_when_opened(kind):
    declared = kind_class(kind)("x", **FIELDS[kind])
    with pytest.raises(UnsupportedError, match=rf"{kind} connection 'x' cannot be opened.*\n.*duckdb"):
        declared.open(None)


@pytest.mark.parametrize("kind", sorted(kind for kind in KINDS if kind_class(kind).schemes))
def test_a_connection_comes_back_from_its_url(kind):
    declared = kind_class(kind)("x", **FIELDS[kind])
    if kind == "object_store_local":
        declared = kind_class(kind)("x", path="/lake", format="csv")
    if kind == "memory":
        assert connection_from_url("x", "memory://") == declared
        return
    assert connection_from_url("x", declared.to_url()) == declared


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "kafka://k1:9092,k2:9092?group_id=g&payload_format=json",
            KafkaConnection("x", "k1:9092,k2:9092", group_id="g", payload_format="json"),
        ),
        ("amqps://u:p%40@h/v", RabbitMQConnection("x", "amqps://u:p%40@h/v")),
        (
            "redshift://ada:p%40%3A%2F@h:5440/db?iam_role=r",
            RedshiftConnection("x", "h", "db", "ada", "p@:/", 5440, iam_role="r"),
        ),
        (
            "snowflake://ada:${env:PW}@acme/db/public?warehouse=w",
            SnowflakeConnection("x", "acme", "ada", "${env:PW}", warehouse="w", database="db", schema="public"),
        ),
        ("gs://b/a/b?format=csv", ObjectStoreGCSConnection("x", "b", "csv", prefix="a/b")),
        (
            "abfss://c@a.dfs.core.windows.net/p?format=csv",
            ObjectStoreAzureConnection("x", "a.dfs.core.windows.net", "c", "csv", prefix="p"),
        ),
        ("pubsub://p?anonymous_auth=true", PubSubConnection("x", "p", anonymous_auth=True)),
        ("delta:////lake", DeltaLocalConnection("x", "/lake")),
    ],
)
def test_a_url_says_what_its_kind_needs(url, expected):
    assert connection_from_url("x", url) == expected


def test_a_url_may_leave_required_fields_to_their_own_keys():
    rest = {key: value for key, value in S3.items() if key != "bucket"}
    found = connection_from_mapping("x", {"url": "delta+s3://lake/a", **rest})
    assert found == DeltaS3Connection("x", **{**S3, "bucket": "lake"}, prefix="a")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("kafka://ada:S3cr3t@k1:9092", "a kafka URL has no user"),
        ("kafka://k1:9092/topic", "a kafka URL has no path"),
        ("bigquery://p/d/t", "a bigquery URL has no longer path"),
        ("pubsub://", "needs the field 'project_id'"),
        ("redshift://ada:S3cr3t@h/db?prot=1", "no field 'prot'"),
    ],
)
def test_a_url_with_a_part_that_means_nothing_is_refused_without_showing_secrets(url, message):
    with pytest.raises(SpecError, match=message) as caught:
        connection_from_url("x", url)
    assert "S3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ObjectStoreS3Connection("x", **S3, format="parket"), "cannot have the format 'parket'\n.*'parquet'"),
        (lambda: KafkaConnection("x", "k", payload_format="jsn"), "'payload_format' cannot be 'jsn'\n.*'json'"),
        (lambda: KafkaConnection("x", "k", auto_offset_reset="first"), "'auto_offset_reset' cannot be 'first'"),
        (
            lambda: KafkaConnection("x", "k", schema_registry_url="http://h", schema_registry="r"),
            "'schema_registry_url' and 'schema_registry' exclude",
        ),
        (
            lambda: KafkaConnection(
                "x", "k", payload_format="json", schema_registry=GlueSchemaRegistryConnection("g", "n", "r")
            ),
            "a Glue schema registry needs payload_format",
        ),
        (lambda: KafkaConnection("x", "k", sasl_plain_username="u"), "'sasl_plain_username' needs"),
        (
            lambda: KafkaConnection(
                "x", "k", sasl_plain_username="u", sasl_plain_password="p", msk_iam_region="eu-west-1"
            ),
            "'sasl_plain_username' and 'msk_iam_region' exclude",
        ),
        (lambda: KafkaConnection("x", "k", sasl_scram_mechanism="SCRAM-SHA-256"), "needs 'sasl_scram_username'"),
        (lambda: KinesisConnection("x", "s", access_key_id="a"), "'access_key_id' needs 'secret_access_key'"),
        (lambda: GlueSchemaRegistryConnection("x", "n", "r", aws_secret_access_key="k"), "needs 'aws_access_key_id'"),
        (
            lambda: GlueSchemaRegistryConnection(
                "x", "n", "r", aws_profile="p", aws_access_key_id="a", aws_secret_access_key="k"
            ),
            "'aws_profile' and 'aws_access_key_id' exclude",
        ),
        (lambda: SnowflakeConnection("x", "a", "u"), "'password' or 'private_key'"),
        (lambda: IcebergConnection("x", "w", catalog="rest"), "a rest catalog needs the field 'uri'"),
        (lambda: IcebergConnection("x", "w", catalog="nessie"), "'catalog' cannot be 'nessie'"),
        (lambda: IcebergConnection("x", "w", uri="http://h"), "a hadoop catalog has no 'uri'"),
        (lambda: ObjectStoreAzureConnection("x", "a", "c", "csv", client_id="i"), "belong together"),
        (lambda: ObjectStoreAzureConnection("x", "a", "c", "csv", account_key="k", sas_token="t"), "exclude"),
    ],
)
def test_fields_that_cannot_be_right_together_are_refused(build, message):
    with pytest.raises(SpecError, match=message):
        build()


def test_a_schema_registry_is_a_connection_or_a_name():
    registry = SchemaRegistryConnection("r", "http://h", basic_auth_user="u", basic_auth_password="S3cr3t")
    kafka = KafkaConnection("x", "k", schema_registry=registry)
    assert kafka.schema_registry is registry
    assert "S3cr3t" not in repr(kafka)
    with pytest.raises(SpecTypeError, match="'schema_registry' cannot be a PostgresConnection"):
        KafkaConnection("x", "k", schema_registry=PostgresConnection("p", "postgres://h/d"))


def test_the_references_of_a_schema_registry_are_filled_with_the_rest(monkeypatch):
    monkeypatch.setenv("REGISTRY_PW", "hunter2")
    registry = SchemaRegistryConnection("r", "http://h", basic_auth_user="u", basic_auth_password="${REGISTRY_PW}")
    resolved = KafkaConnection("x", "k", schema_registry=registry).resolve(expand)
    assert resolved.schema_registry.basic_auth_password == "hunter2"
    assert "hunter2" not in repr(resolved)


def test_a_word_that_is_a_reference_is_checked_when_it_is_filled(monkeypatch):
    monkeypatch.setenv("PAYLOAD", "jsn")
    declared = KafkaConnection("x", "k", payload_format="${PAYLOAD}")
    with pytest.raises(SpecError, match="'payload_format' cannot be 'jsn'"):
        declared.resolve(expand)


def test_redshift_gives_a_url_for_postgres_clients_with_its_login_encoded():
    redshift = RedshiftConnection("x", host="h", database="d", user="a@b", password="p:/@")
    assert redshift.to_postgres_url() == "postgresql://a%40b:p%3A%2F%40@h:5439/d"
