"""Tables written and read past the framework: by the driver of a database, by Arrow, or as files."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

from ematix_flow.backends.base import Backend
from ematix_flow.spec.place import TableRef
from ematix_flow.types import (
    BigInt,
    Boolean,
    Bytes,
    ColumnType,
    Date,
    Double,
    Float,
    Integer,
    Numeric,
    SmallInt,
    Timestamp,
    TimestampTZ,
)

Row = dict[str, Any]


class Store(ABC):
    """Puts whole tables into a system and takes them out."""

    def __init__(self, backend: Backend) -> None:
        self.backend: Any = backend

    @abstractmethod
    def put(self, table: TableRef, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
        """Let these rows be the table."""

    @abstractmethod
    def get(self, table: TableRef) -> list[Row]:
        """The rows of the table; none where there is no table."""


def open_store(backend: Backend) -> Store:
    """The store that suits a backend."""
    return _STORES[backend.connection.kind](backend)


def plain(value: object, kind: ColumnType) -> Any:
    """The value as the Python type that its column means, whatever form a system gave it in."""
    if value is None:
        return None
    match kind:
        case SmallInt() | Integer() | BigInt():
            return int(str(value))
        case Float() | Double():
            return float(str(value))
        case Numeric(_, scale):
            return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), context=_WIDE)
        case Boolean():
            return bool(int(str(value))) if str(value) in ("0", "1") else str(value).lower() == "true"
        case TimestampTZ() | Timestamp():
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
            if isinstance(kind, Timestamp):
                return moment.replace(tzinfo=None)
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        case Date():
            return value if isinstance(value, date) else date.fromisoformat(str(value))
        case Bytes():
            return value.encode() if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]
        case _:
            return str(value)


class SqlStore(Store):
    """A database, through its own driver."""

    def put(self, table: TableRef, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
        name, dialect = self.backend.relation_sql(table), self.backend.dialect
        columns = ", ".join(f"{dialect.quote(each)} {dialect.type_name(kind)}" for each, kind in types.items())
        marks = ", ".join("?" for _ in types)
        self.make_schema(table.schema)
        connection = self.backend.connect()
        connection.execute("BEGIN")
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(f"CREATE TABLE {name} ({columns})")
        for row in rows:
            values = [self.stored(row[each], kind) for each, kind in types.items()]
            connection.execute(f"INSERT INTO {name} VALUES ({marks})", values)
        connection.execute("COMMIT")
        connection.close()

    def make_schema(self, schema: str) -> None:
        """Make the schema, and the file that it is in."""
        with self.backend.creating(), self.backend.session() as connection:
            self.backend.ensure_schema(connection, schema)

    def get(self, table: TableRef) -> list[Row]:
        if self.backend.columns(table) is None:
            return []
        return self.select(f"SELECT * FROM {self.backend.relation_sql(table)}")

    def select(self, sql: str) -> list[Row]:
        """The rows of a query."""
        connection = self.backend.connect()
        cursor = connection.execute(sql)
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        connection.close()
        return rows

    def execute(self, sql: str) -> None:
        """Run a statement that somebody else might have run."""
        connection = self.backend.connect()
        connection.execute(sql)
        connection.close()

    def stored(self, value: object, kind: ColumnType) -> object:
        """The value as the driver wants it."""
        return value


class DuckDBStore(SqlStore):
    """DuckDB, read through Arrow, which keeps zones and decimals."""

    def select(self, sql: str) -> list[Row]:
        connection = self.backend.connect()
        rows: list[Row] = connection.sql(sql).to_arrow_table().to_pylist()
        connection.close()
        return rows


class SQLiteStore(SqlStore):
    """SQLite, in the forms that it keeps values in."""

    def stored(self, value: object, kind: ColumnType) -> object:
        match value:
            case datetime():
                moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
                return moment.isoformat(sep=" ", timespec="microseconds")
            case date() | Decimal():
                return str(value)
            case bool():
                return int(value)
            case _:
                return value


class PostgresStore(SqlStore):
    """PostgreSQL, by its driver."""

    def make_schema(self, schema: str) -> None:
        with self.backend.session() as connection:
            self.backend.ensure_schema(connection, schema)

    def put(self, table: TableRef, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
        name, dialect = self.backend.relation_sql(table), self.backend.dialect
        columns = ", ".join(f"{dialect.quote(each)} {dialect.type_name(kind)}" for each, kind in types.items())
        self.make_schema(table.schema)
        connection = self.backend.connect().psycopg
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(f"CREATE TABLE {name} ({columns})")
        marks = ", ".join("%s" for _ in types)
        values = [tuple(row[each] for each in types) for row in rows]
        connection.cursor().executemany(f"INSERT INTO {name} VALUES ({marks})", values)
        connection.close()

    def select(self, sql: str) -> list[Row]:
        connection = self.backend.connect().psycopg
        cursor = connection.execute(sql)
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        connection.close()
        return rows


class MySQLStore(PostgresStore):
    """MySQL and MariaDB, by their driver."""

    def put(self, table: TableRef, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
        name, dialect = self.backend.relation_sql(table), self.backend.dialect
        columns = ", ".join(f"{dialect.quote(each)} {dialect.type_name(kind)}" for each, kind in types.items())
        self.make_schema(table.schema)
        session = self.backend.connect()
        session.execute(f"DROP TABLE IF EXISTS {name}")
        session.execute(f"CREATE TABLE {name} ({columns})")
        marks = ", ".join("%s" for _ in types)
        values = [tuple(_repeatable(row[each]) for each in types) for row in rows]
        session.driver.cursor().executemany(f"INSERT INTO {name} VALUES ({marks})", values)
        session.close()

    def get(self, table: TableRef) -> list[Row]:
        actual = self.backend.columns(table)
        if actual is None:
            return []
        # Single precision is shown with six digits only.
        quoted = [(self.backend.dialect.quote(each.name), each.declared) for each in actual.columns]
        shown = ", ".join(f"CAST({name} AS DOUBLE) AS {name}" if kind == "float" else name for name, kind in quoted)
        return self.select(f"SELECT {shown} FROM {self.backend.relation_sql(table)}")

    def select(self, sql: str) -> list[Row]:
        session = self.backend.connect()
        cursor = session.execute(sql)
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        session.close()
        return rows


def _repeatable(value: object) -> object:
    """The driver would write fewer digits of a float, and knows no zones."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return repr(value) if isinstance(value, float) else value


class MemoryStore(Store):
    """Tables in memory, as Arrow."""

    def put(self, table: TableRef, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
        self.backend.put(table, arrow_table(types, rows))

    def get(self, table: TableRef) -> list[Row]:
        return [] if self.backend.columns(table) is None else self.backend.get(table).to_pylist()


class FilesStore(Store):
    """A folder that another program wrote one file into."""

    def put(self, table: TableRef, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
        folder = self.backend.root / table.schema / table.name
        folder.mkdir(parents=True, exist_ok=True)
        _WRITERS[self.backend.connection.format](folder / "rows", types, rows)

    def get(self, table: TableRef) -> list[Row]:
        return [] if self.backend.columns(table) is None else self.backend.read(table).toArrow().to_pylist()


class DeltaStore(Store):
    """A Delta table, written and read by a program that is not Spark."""

    def put(self, table: TableRef, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
        import deltalake

        folder = self.backend.folder(table)
        folder.mkdir(parents=True, exist_ok=True)
        deltalake.write_deltalake(folder, arrow_table(types, rows), mode="overwrite")

    def get(self, table: TableRef) -> list[Row]:
        import deltalake

        if self.backend.columns(table) is None:
            return []
        found = deltalake.DeltaTable(self.backend.folder(table))
        if found.metadata().configuration.keys() & {"delta.columnMapping.mode", "delta.enableTypeWidening"}:
            # Only Spark reads these.
            return self.backend.read(table).toArrow().to_pylist()  # type: ignore[no-any-return]
        return found.to_pyarrow_table().to_pylist()  # type: ignore[no-any-return]


class IcebergStore(Store):
    """An Iceberg table, read by a program that is not Spark."""

    def put(self, table: TableRef, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
        spark = self.backend.workshop.spark()
        self.backend.catalog.register(spark)
        frame = spark.createDataFrame(arrow_table(types, rows))
        frame.writeTo(self.backend.sql_name(table)).using("iceberg").createOrReplace()

    def get(self, table: TableRef) -> list[Row]:
        from pyiceberg.table import StaticTable

        if self.backend.columns(table) is None:
            return []
        home = self.backend.folder(table) / "metadata"
        version = (home / "version-hint.text").read_text()
        found = StaticTable.from_metadata(str(home / f"v{version}.metadata.json"))
        return found.scan().to_arrow().to_pylist()


def arrow_table(types: Mapping[str, ColumnType], rows: Sequence[Row]) -> Any:
    """Rows as an Arrow table of the declared types."""
    import pyarrow as pa

    schema = pa.schema([(name, _arrow_type(kind)) for name, kind in types.items()])
    return pa.Table.from_pylist([{name: row[name] for name in types} for row in rows], schema)


def _arrow_type(kind: ColumnType) -> Any:
    import pyarrow as pa

    if isinstance(kind, Numeric):
        return pa.decimal128(kind.precision, kind.scale)
    plain_types = {
        "small_int": pa.int16(), "integer": pa.int32(), "big_int": pa.int64(), "float": pa.float32(),
        "double": pa.float64(), "boolean": pa.bool_(), "date": pa.date32(), "bytes": pa.binary(),
        "timestamp": pa.timestamp("us"), "timestamp_tz": pa.timestamp("us", tz="UTC"),
    }  # fmt: skip
    return plain_types.get(kind.kind, pa.string())


def _write_parquet(path: Any, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
    import pyarrow.parquet as pq

    pq.write_table(arrow_table(types, rows), path.with_suffix(".parquet"))


def _write_orc(path: Any, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
    import pyarrow as pa
    from pyarrow import orc

    # Spark cannot read the ORC type that Arrow writes for instants, so they are written as others write them: in UTC.
    table = arrow_table(types, rows)
    naive = pa.schema(
        [(each.name, pa.timestamp("us") if pa.types.is_timestamp(each.type) else each.type) for each in table.schema]
    )
    orc.write_table(table.cast(naive), path.with_suffix(".orc"))


def _write_csv(path: Any, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
    from pyarrow import csv

    csv.write_csv(arrow_table(types, rows), path.with_suffix(".csv"))


def _write_json(path: Any, types: Mapping[str, ColumnType], rows: Sequence[Row]) -> None:
    text = "".join(json.dumps(row, default=str) + "\n" for row in rows)
    path.with_suffix(".json").write_text(text, encoding="utf-8")


_WIDE = Context(prec=60)
_STORES: Mapping[str, type[Store]] = {
    "duckdb": DuckDBStore,
    "sqlite": SQLiteStore,
    "postgres": PostgresStore,
    "mysql": MySQLStore,
    "memory": MemoryStore,
    "object_store_local": FilesStore,
    "delta_local": DeltaStore,
    "iceberg": IcebergStore,
}
_WRITERS = {"parquet": _write_parquet, "orc": _write_orc, "csv": _write_csv, "json_lines": _write_json}
