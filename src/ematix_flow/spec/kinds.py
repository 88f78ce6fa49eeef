"""The kinds of connections of this package, and where their records are."""

from __future__ import annotations

__all__ = ["KINDS", "SCHEMES"]

KINDS: dict[str, str] = {
    "bigquery": "warehouse_connection:BigQueryConnection",
    "delta_local": "lake_connection:DeltaLocalConnection",
    "delta_s3": "lake_connection:DeltaS3Connection",
    "duckdb": "connection:DuckDBConnection",
    "glue_schema_registry": "stream_connection:GlueSchemaRegistryConnection",
    "iceberg": "lake_connection:IcebergConnection",
    "kafka": "stream_connection:KafkaConnection",
    "kinesis": "stream_connection:KinesisConnection",
    "memory": "connection:MemoryConnection",
    "mysql": "server_connection:MySQLConnection",
    "object_store_azure": "lake_connection:ObjectStoreAzureConnection",
    "object_store_gcs": "lake_connection:ObjectStoreGCSConnection",
    "object_store_local": "connection:ObjectStoreLocalConnection",
    "object_store_s3": "lake_connection:ObjectStoreS3Connection",
    "postgres": "server_connection:PostgresConnection",
    "pubsub": "stream_connection:PubSubConnection",
    "rabbitmq": "stream_connection:RabbitMQConnection",
    "redshift": "warehouse_connection:RedshiftConnection",
    "schema_registry": "stream_connection:SchemaRegistryConnection",
    "snowflake": "warehouse_connection:SnowflakeConnection",
    "sqlite": "connection:SQLiteConnection",
}
"""The kinds of this package: kind → module and class below ``ematix_flow.backends``."""

SCHEMES: dict[str, str] = {
    "abfss": "object_store_azure",
    "amqp": "rabbitmq",
    "amqps": "rabbitmq",
    "bigquery": "bigquery",
    "delta": "delta_local",
    "delta+s3": "delta_s3",
    "duckdb": "duckdb",
    "file": "object_store_local",
    "gs": "object_store_gcs",
    "iceberg": "iceberg",
    "kafka": "kafka",
    "kinesis": "kinesis",
    "memory": "memory",
    "mysql": "mysql",
    "mysql+pymysql": "mysql",
    "postgres": "postgres",
    "postgresql": "postgres",
    "pubsub": "pubsub",
    "redshift": "redshift",
    "s3": "object_store_s3",
    "snowflake": "snowflake",
    "sqlite": "sqlite",
}
"""The URL schemes of those kinds, so that a URL loads the records of one family and not all of them."""
