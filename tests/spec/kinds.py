"""The least that each kind of connection needs."""

from __future__ import annotations

__all__ = ["FIELDS", "S3"]

S3 = {"endpoint": "http://s3", "bucket": "b", "region": "r", "access_key_id": "id", "secret_access_key": "key"}
FIELDS: dict[str, dict[str, object]] = {
    "bigquery": {"project": "p", "dataset": "d"},
    "delta_local": {"path": "lake"},
    "delta_s3": S3,
    "duckdb": {"path": "a.duckdb"},
    "glue_schema_registry": {"registry_name": "g", "region": "r"},
    "iceberg": {"warehouse": "lake"},
    "kafka": {"bootstrap_servers": "k1:9092,k2:9092"},
    "kinesis": {"stream_name": "s"},
    "memory": {},
    "mysql": {"url": "mysql://u:p@h/d"},
    "object_store_azure": {"account": "a", "container": "c", "format": "csv"},
    "object_store_gcs": {"bucket": "b", "format": "csv"},
    "object_store_local": {"path": "lake", "format": "csv"},
    "object_store_s3": {**S3, "format": "orc"},
    "postgres": {"url": "postgres://u:p@h/d"},
    "pubsub": {"project_id": "p"},
    "rabbitmq": {"amqp_url": "amqp://u:p@h/v"},
    "redshift": {"host": "h", "database": "d", "user": "u", "password": "p"},
    "schema_registry": {"url": "http://h:8081"},
    "snowflake": {"account": "a", "user": "u", "password": "p"},
    "sqlite": {"path": "a.db"},
}
