"""Declare tables, connections and pipelines as typed Python; `flow` plans and loads them with Apache Spark.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Annotated

    from . import config, connections
    from ._version import __version__
    from .connections import (
        BigQueryConnection,
        Connection,
        DeltaLocalConnection,
        DeltaS3Connection,
        DuckDBConnection,
        GlueSchemaRegistryConnection,
        IcebergConnection,
        KafkaConnection,
        KinesisConnection,
        MemoryConnection,
        MySQLConnection,
        ObjectStoreAzureConnection,
        ObjectStoreGCSConnection,
        ObjectStoreLocalConnection,
        ObjectStoreS3Connection,
        PostgresConnection,
        PubSubConnection,
        RabbitMQConnection,
        RedshiftConnection,
        SchemaRegistryConnection,
        SnowflakeConnection,
        SQLiteConnection,
        connect,
        get_connection,
        register_connection,
        registered_connections,
    )
    from .decorators import ematix
    from .markers import natural_key, nullable, pk
    from .project import Project
    from .table import ManagedTable
    from .types import (
        JSON,
        JSONB,
        UUID,
        BigInt,
        Boolean,
        Bytes,
        Date,
        Double,
        Float,
        Integer,
        Numeric,
        SmallInt,
        String,
        Text,
        Timestamp,
        TimestampTZ,
    )

__all__ = [
    "JSON",
    "JSONB",
    "UUID",
    "Annotated",
    "BigInt",
    "BigQueryConnection",
    "Boolean",
    "Bytes",
    "Connection",
    "Date",
    "DeltaLocalConnection",
    "DeltaS3Connection",
    "Double",
    "DuckDBConnection",
    "Float",
    "GlueSchemaRegistryConnection",
    "IcebergConnection",
    "Integer",
    "KafkaConnection",
    "KinesisConnection",
    "ManagedTable",
    "MemoryConnection",
    "MySQLConnection",
    "Numeric",
    "ObjectStoreAzureConnection",
    "ObjectStoreGCSConnection",
    "ObjectStoreLocalConnection",
    "ObjectStoreS3Connection",
    "PostgresConnection",
    "Project",
    "PubSubConnection",
    "RabbitMQConnection",
    "RedshiftConnection",
    "SQLiteConnection",
    "SchemaRegistryConnection",
    "SmallInt",
    "SnowflakeConnection",
    "String",
    "Text",
    "Timestamp",
    "TimestampTZ",
    "__version__",
    "config",
    "connect",
    "connections",
    "ematix",
    "get_connection",
    "natural_key",
    "nullable",
    "pk",
    "register_connection",
    "registered_connections",
]

_TYPES = (
    "JSON JSONB UUID BigInt Boolean Bytes Date Double Float Integer Numeric SmallInt String Text Timestamp TimestampTZ"
)
_HOMES = {
    **dict.fromkeys(_TYPES.split(), "ematix_flow.types"),
    **dict.fromkeys(
        ("Connection", "connect", "get_connection", "register_connection", "registered_connections"),
        "ematix_flow.connections",
    ),
    **dict.fromkeys(("natural_key", "nullable", "pk"), "ematix_flow.markers"),
    "Annotated": "typing",
    "ManagedTable": "ematix_flow.table",
    "Project": "ematix_flow.project",
    "__version__": "ematix_flow._version",
    "ematix": "ematix_flow.decorators",
}


def __getattr__(name: str) -> object:
    if name in ("config", "connections"):
        return import_module(f"{__name__}.{name}")
    if name.endswith("Connection"):
        return getattr(import_module(f"{__name__}.connections"), name)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
