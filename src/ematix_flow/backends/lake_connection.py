"""The connections of lake tables and of files in object stores: records only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ..spec.connection import Connection
from .connection import check_files

__all__ = [
    "DeltaLocalConnection",
    "DeltaS3Connection",
    "IcebergConnection",
    "ObjectStoreAzureConnection",
    "ObjectStoreGCSConnection",
    "ObjectStoreS3Connection",
]


@dataclass(frozen=True, repr=False)
class DeltaLocalConnection(Connection):
    """Delta tables in a folder: `schema.name` is the folder `<path>/<schema>/<name>`."""

    kind: ClassVar[str] = "delta_local"
    backend: ClassVar[str] = "delta:DeltaBackend"
    schemes: ClassVar[tuple[str, ...]] = ("delta",)
    local_path: ClassVar[str] = "path"

    path: str
    """The folder that holds the tables."""


@dataclass(frozen=True, repr=False)
class DeltaS3Connection(Connection):
    """Delta tables in a bucket of S3, or of a store that speaks its protocol."""

    kind: ClassVar[str] = "delta_s3"
    schemes: ClassVar[tuple[str, ...]] = ("delta+s3",)
    url_parts: ClassVar[Mapping[str, str]] = {"host": "bucket", "path": "prefix"}

    endpoint: str
    """The URL of the store."""
    bucket: str
    """The bucket."""
    region: str
    """The region of the bucket."""
    access_key_id: str
    """The id of the access key."""
    secret_access_key: str
    """The access key itself."""
    prefix: str = ""
    """Where the tables begin inside the bucket."""


@dataclass(frozen=True, repr=False)
class IcebergConnection(Connection):
    """Iceberg tables of one catalog."""

    kind: ClassVar[str] = "iceberg"
    backend: ClassVar[str] = "iceberg:IcebergBackend"
    local_path: ClassVar[str] = "warehouse"
    schemes: ClassVar[tuple[str, ...]] = ("iceberg",)
    url_parts: ClassVar[Mapping[str, str]] = {"host": "catalog", "path": "warehouse"}
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {"catalog": ("hadoop", "hive", "jdbc", "rest")}

    warehouse: str
    """The folder or bucket URL below which tables live, or the catalog's name for it."""
    catalog: str = "hadoop"
    """`hadoop` (files alone), `hive`, `jdbc` or `rest`."""
    uri: str | None = None
    """Where the catalog answers; not for `hadoop`."""
    credential: str | None = None
    """The client's id and secret for `rest`, as `id:secret`."""
    token: str | None = None
    """A token for `rest`, in place of `credential`."""
    options: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Further properties of the catalog, passed on as they are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.options, Mapping):
            raise self.error("'options' is a mapping")
        if not self.is_open("catalog"):
            if self.catalog == "hadoop" and self.uri:
                raise self.error("a hadoop catalog has no 'uri'", hint="choose another catalog, or leave 'uri' out")
            if self.catalog != "hadoop" and not self.uri:
                raise self.error(f"a {self.catalog} catalog needs the field 'uri'", hint="say where it answers")
        if self.credential and self.token:
            raise self.error("'credential' and 'token' exclude each other", hint="keep one of them")


@dataclass(frozen=True, repr=False)
class ObjectStoreS3Connection(Connection):
    """Files in a bucket of S3, or of a store that speaks its protocol."""

    kind: ClassVar[str] = "object_store_s3"
    schemes: ClassVar[tuple[str, ...]] = ("s3",)
    url_parts: ClassVar[Mapping[str, str]] = {"host": "bucket", "path": "prefix"}

    endpoint: str
    """The URL of the store."""
    bucket: str
    """The bucket."""
    region: str
    """The region of the bucket."""
    access_key_id: str
    """The id of the access key."""
    secret_access_key: str
    """The access key itself."""
    format: str
    """`parquet`, `csv`, `orc` or `json_lines`."""
    prefix: str = ""
    """Where the tables begin inside the bucket."""
    options: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Options of the format, such as `delimiter`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_files(self, self.format, self.options)


@dataclass(frozen=True, repr=False)
class ObjectStoreGCSConnection(Connection):
    """Files in a bucket of Google Cloud Storage."""

    kind: ClassVar[str] = "object_store_gcs"
    schemes: ClassVar[tuple[str, ...]] = ("gs",)
    url_parts: ClassVar[Mapping[str, str]] = {"host": "bucket", "path": "prefix"}

    bucket: str
    """The bucket."""
    format: str
    """`parquet`, `csv`, `orc` or `json_lines`."""
    prefix: str = ""
    """Where the tables begin inside the bucket."""
    project: str | None = None
    """The project that pays, where it is not the bucket's own."""
    credentials_path: str | None = None
    """The key file of a service account; without it, the machine's own credentials."""
    endpoint: str | None = None
    """The URL of an emulator."""
    options: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Options of the format, such as `delimiter`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_files(self, self.format, self.options)


@dataclass(frozen=True, repr=False)
class ObjectStoreAzureConnection(Connection):
    """Files in a container of Azure Blob Storage."""

    kind: ClassVar[str] = "object_store_azure"
    schemes: ClassVar[tuple[str, ...]] = ("abfss",)
    url_parts: ClassVar[Mapping[str, str]] = {"user": "container", "host": "account", "path": "prefix"}

    account: str
    """The storage account, with or without its domain."""
    container: str
    """The container."""
    format: str
    """`parquet`, `csv`, `orc` or `json_lines`."""
    prefix: str = ""
    """Where the tables begin inside the container."""
    account_key: str | None = None
    """The key of the account."""
    sas_token: str | None = None
    """A shared access signature, in place of the key."""
    tenant_id: str | None = None
    """The tenant of a service principal."""
    client_id: str | None = None
    """The service principal, in place of the key."""
    client_secret: str | None = None
    """Its secret."""
    options: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Options of the format, such as `delimiter`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_files(self, self.format, self.options)
        principal = (self.tenant_id, self.client_id, self.client_secret)
        if any(principal) and not all(principal):
            raise self.error("'tenant_id', 'client_id' and 'client_secret' belong together", hint="write all three")
        if sum(map(bool, (self.account_key, self.sas_token, self.client_id))) > 1:
            raise self.error("'account_key', 'sas_token' and 'client_id' exclude each other", hint="keep one of them")
