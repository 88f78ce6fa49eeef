"""The connections of message systems and of the registries that know their schemas: records only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..errors import SpecTypeError
from ..spec.connection import Connection

__all__ = [
    "GlueSchemaRegistryConnection",
    "KafkaConnection",
    "KinesisConnection",
    "PubSubConnection",
    "RabbitMQConnection",
    "SchemaRegistryConnection",
]


@dataclass(frozen=True, repr=False)
class SchemaRegistryConnection(Connection):
    """A schema registry with Confluent's protocol."""

    kind: ClassVar[str] = "schema_registry"

    url: str
    """Where it answers."""
    basic_auth_user: str | None = None
    """The user, where it asks for one."""
    basic_auth_password: str | None = None
    """The user's password."""


@dataclass(frozen=True, repr=False)
class GlueSchemaRegistryConnection(Connection):
    """A schema registry of AWS Glue."""

    kind: ClassVar[str] = "glue_schema_registry"

    registry_name: str
    """The registry."""
    region: str
    """Its region."""
    aws_profile: str | None = None
    """A profile of the AWS configuration, in place of a key."""
    aws_access_key_id: str | None = None
    """The id of an access key."""
    aws_secret_access_key: str | None = None
    """The access key itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _together(self, "aws_access_key_id", "aws_secret_access_key")
        _exclusive(self, "aws_profile", "aws_access_key_id")


@dataclass(frozen=True, repr=False)
class KafkaConnection(Connection):
    """A Kafka cluster, or a system that speaks its protocol."""

    kind: ClassVar[str] = "kafka"
    schemes: ClassVar[tuple[str, ...]] = ("kafka",)
    url_parts: ClassVar[Mapping[str, str]] = {"host": "bootstrap_servers"}
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "payload_format": ("avro", "json", "protobuf", "raw_bytes"),
        "auto_offset_reset": ("earliest", "latest", "none"),
        "sasl_scram_mechanism": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    }

    bootstrap_servers: str
    """Brokers to begin with, as `host:port,host:port`."""
    group_id: str | None = None
    """The consumer group."""
    payload_format: str | None = None
    """What messages hold: `json`, `raw_bytes`, `avro` or `protobuf`."""
    auto_offset_reset: str | None = None
    """Where a new group begins: `earliest`, `latest` or `none`."""
    schema_registry_url: str | None = None
    """Where a schema registry answers."""
    schema_registry: str | Connection | None = None
    """A schema registry's connection, or its name, in place of the URL."""
    sasl_plain_username: str | None = None
    """The user of SASL/PLAIN."""
    sasl_plain_password: str | None = None
    """The password of SASL/PLAIN."""
    sasl_scram_username: str | None = None
    """The user of SASL/SCRAM."""
    sasl_scram_password: str | None = None
    """The password of SASL/SCRAM."""
    sasl_scram_mechanism: str | None = None
    """`SCRAM-SHA-256` or `SCRAM-SHA-512`."""
    msk_iam_region: str | None = None
    """The region of an MSK cluster that asks for IAM."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _exclusive(self, "schema_registry_url", "schema_registry")
        _together(self, "sasl_plain_username", "sasl_plain_password")
        _together(self, "sasl_scram_username", "sasl_scram_password")
        _exclusive(self, "sasl_plain_username", "sasl_scram_username", "msk_iam_region")
        if self.sasl_scram_mechanism and not self.sasl_scram_username:
            raise self.error("'sasl_scram_mechanism' needs 'sasl_scram_username'", hint="write both")
        self._check_registry()

    def _check_registry(self) -> None:
        registry = self.schema_registry
        if not isinstance(registry, str | SchemaRegistryConnection | GlueSchemaRegistryConnection | None):
            message = f"kafka connection {self.name!r}: 'schema_registry' cannot be a {type(registry).__name__}"
            hint = "write a schema registry's connection, or its name"
            raise SpecTypeError(message, hint=hint, declared_at=self.declared_at)
        needs_schema = isinstance(registry, GlueSchemaRegistryConnection) and not self.is_open("payload_format")
        if needs_schema and self.payload_format not in ("avro", "protobuf"):
            raise self.error("a Glue schema registry needs payload_format 'avro' or 'protobuf'")


@dataclass(frozen=True, repr=False)
class RabbitMQConnection(Connection):
    """A RabbitMQ virtual host."""

    kind: ClassVar[str] = "rabbitmq"
    schemes: ClassVar[tuple[str, ...]] = ("amqp", "amqps")
    url_field: ClassVar[str] = "amqp_url"

    amqp_url: str
    """`amqp://user:password@host:5672/virtual-host`."""
    consumer_tag: str | None = None
    """How consumers call themselves."""


@dataclass(frozen=True, repr=False)
class PubSubConnection(Connection):
    """Google Pub/Sub in one project."""

    kind: ClassVar[str] = "pubsub"
    schemes: ClassVar[tuple[str, ...]] = ("pubsub",)
    url_parts: ClassVar[Mapping[str, str]] = {"host": "project_id"}

    project_id: str
    """The project."""
    endpoint: str | None = None
    """The URL of an emulator."""
    anonymous_auth: bool = False
    """Use no credentials, as emulators want it."""


@dataclass(frozen=True, repr=False)
class KinesisConnection(Connection):
    """A Kinesis stream."""

    kind: ClassVar[str] = "kinesis"
    schemes: ClassVar[tuple[str, ...]] = ("kinesis",)
    url_parts: ClassVar[Mapping[str, str]] = {"host": "stream_name"}

    stream_name: str
    """The stream."""
    region: str | None = None
    """Its region."""
    endpoint: str | None = None
    """The URL of an emulator."""
    access_key_id: str | None = None
    """The id of an access key; without it, the machine's own credentials."""
    secret_access_key: str | None = None
    """The access key itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _together(self, "access_key_id", "secret_access_key")


def _together(connection: Connection, *names: str) -> None:
    """Raise SpecError where only some of the fields are written."""
    written = [name for name in names if getattr(connection, name)]
    if written and len(written) < len(names):
        missing = next(name for name in names if name not in written)
        raise connection.error(f"{written[0]!r} needs {missing!r}", hint="write both, or neither")


def _exclusive(connection: Connection, *names: str) -> None:
    """Raise SpecError where more than one of the fields is written."""
    written = [name for name in names if getattr(connection, name)]
    if len(written) > 1:
        raise connection.error(f"{written[0]!r} and {written[1]!r} exclude each other", hint="keep one of them")
