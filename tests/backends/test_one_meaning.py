"""Awkward values mean the same on every path: pushed into DuckDB, pushed into SQLite, and through Spark."""

from __future__ import annotations

import json
import random
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import duckdb
import pytest
from sqlglot import exp, parse_one

from ematix_flow import ematix, pk
from ematix_flow import types as t
from ematix_flow.backends.duckdb_macros import LOWER, MACROS, UPPER
from ematix_flow.backends.spark_dialect import SparkDialect
from ematix_flow.config import Settings
from ematix_flow.connections import DuckDBConnection, SQLiteConnection, register_connection
from ematix_flow.normalize import lower, upper
from ematix_flow.project import Project
from ematix_flow.spec.registry import Registry
from tests.strategies.engines import ENGINES, MARKED, PARSING, REFUSALS, Engine, sqlite_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"

READ: list[tuple[t.ColumnType, str, str | None]] = [
    (t.BigInt(), "' 12 '", "12"),
    (t.BigInt(), "'+12.0'", "12"),
    (t.BigInt(), "'1e3'", "1000"),
    (t.BigInt(), "'9223372036854775807'", "9223372036854775807"),
    (t.BigInt(), "CAST(1234567890123 AS DOUBLE)", "1234567890123"),
    (t.Numeric(10, 2), "' 1.005 '", "1.01"),
    (t.Numeric(10, 2), "'1e2'", "100.00"),
    (t.Numeric(10, 2), "'.5'", "0.50"),
    (t.Numeric(20, 12), "CAST(0.1 AS DOUBLE)", "0.100000000000"),
    (t.Double(), "' 1e-5 '", "1e-05"),
    (t.Boolean(), "' TRUE '", "true"),
    (t.Boolean(), "'T'", "true"),
    (t.Boolean(), "'Yes'", "true"),
    (t.Boolean(), "'y'", "true"),
    (t.Boolean(), "'1'", "true"),
    (t.Boolean(), "'N'", "false"),
    (t.Boolean(), "'0'", "false"),
    (t.Boolean(), "2", "true"),
    (t.Date(), "' 2026-01-05 '", "2026-01-05"),
    (t.Date(), "'2026-01-05T23:30:00-05:00'", "2026-01-05"),
    (t.Timestamp(), "'2026-01-05T10:00:00+02:00'", "2026-01-05 10:00:00.000000"),
    (t.Timestamp(), "'2026-01-05 10:00:00.123456789'", "2026-01-05 10:00:00.123456"),
    (t.Timestamp(), "'2026-01-05 10:00'", "2026-01-05 10:00:00.000000"),
    (t.TimestampTZ(), "'2026-01-05'", "2026-01-05 00:00:00.000000"),
    (t.TimestampTZ(), "'2026-01-05T10:00Z'", "2026-01-05 10:00:00.000000"),
    (t.TimestampTZ(), "'2026-01-05 10:00+02'", "2026-01-05 08:00:00.000000"),
    (t.TimestampTZ(), "'2026-01-05T10:00:00.5-0530'", "2026-01-05 15:30:00.500000"),
    (t.TimestampTZ(), "'2026-01-05T10:00:00.999999999'", "2026-01-05 10:00:00.999999"),
    (t.UUID(), f"' {UUID.upper()} '", UUID),
    (t.JSONB(), '\'{"b": 1,  "a": [1, 2.50]}\'', '{"b": 1,  "a": [1, 2.50]}'),
    (t.JSONB(), '\'{"b": "NaN, ]"}\'', '{"b": "NaN, ]"}'),
    (t.Text(), "' kept '", " kept "),
    (t.Text(), "1e20", "1e+20"),
    (t.Text(), "-1.5e-7", "-1.5e-07"),
    (t.Text(), "1e-4", "0.0001"),
    (t.Text(), "1e16", "1e+16"),
    (t.Text(), "12345678e0", "12345678.0"),
    (t.Text(), "1.5e300", "1.5e+300"),
    (t.Text(), "2.2250738585072014e-308", "2.2250738585072014e-308"),
    (t.String(3), "NULLIF(1e0, 1e0)", None),
    (t.Text(), "CAST('-0.0' AS DOUBLE)", "-0.0"),
    (t.String(8), "25e-1", "2.5"),
]

REFUSED: list[tuple[t.ColumnType, str]] = [
    (t.BigInt(), "'1_000'"),
    (t.BigInt(), "'12.5'"),
    (t.BigInt(), "'12.0000000000001'"),
    (t.BigInt(), "1.0000000001e0"),
    (t.BigInt(), "'9223372036854775808'"),
    (t.Numeric(10, 2), "'1_0'"),
    (t.Numeric(10, 2), "'nan'"),
    (t.Double(), "'1e400'"),
    (t.Double(), "'1.5d'"),
    (t.Double(), "'1_0'"),
    (t.Float(), "'1e39'"),
    (t.Float(), "1e39"),
    (t.Boolean(), "'on'"),
    (t.Boolean(), "''"),
    (t.Boolean(), "'2'"),
    (t.Date(), "'2026-1-5'"),
    (t.Date(), "'20260105'"),
    (t.Date(), "'2026-W02-1'"),
    (t.Date(), "'2026-01-05x'"),
    (t.Date(), "'2026'"),
    (t.Date(), "'epoch'"),
    (t.Timestamp(), "'2026-01-05 24:00:00'"),
    (t.Timestamp(), "'2026-01-05 10'"),
    (t.TimestampTZ(), "'2026'"),
    (t.TimestampTZ(), "'2026-01-05 10:00:00 Europe/Vienna'"),
    (t.TimestampTZ(), "'infinity'"),
    (t.TimestampTZ(), "'20260105T100000Z'"),
    (t.UUID(), f"'{UUID.replace('-', '')}'"),
    (t.UUID(), f"'{{{UUID}}}'"),
    (t.String(3), "'abc '"),
    (t.String(3), "125e-2"),
    (t.JSON(), "'NaN'"),
    (t.JSON(), "'[1,]'"),
    (t.JSON(), "'{\"a\": -Infinity}'"),
    (t.JSON(), "'1 2'"),
    (t.JSON(), "'1,2'"),
    (t.JSON(), "'1, \"b\": 2'"),
    (t.JSONB(), "'{\"a\": 1}x'"),
    (t.JSON(), "''"),
]  # fmt: skip


def spark_engine(spark: SparkSession) -> Engine:
    return Engine(SparkDialect(), lambda sql: spark.sql(sql).collect()[0][0])


@pytest.fixture(params=[*MARKED, pytest.param("spark", marks=pytest.mark.slow)], scope="module")
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "spark":
        return spark_engine(request.getfixturevalue("spark"))
    return ENGINES[request.param]()


@pytest.mark.parametrize(("type", "source", "meaning"), READ, ids=[f"{kind} {source}" for kind, source, _ in READ])
def test_a_value_means_the_same_everywhere(
    engine: Engine, type: t.ColumnType, source: str, meaning: str | None
) -> None:
    if isinstance(type, t.JSONB) and engine.dialect.name == "postgres":
        meaning = json.dumps(dict(sorted(json.loads(str(meaning)).items()))).replace("2.5]", "2.50]")
    if meaning is not None and isinstance(type, t.Double) and engine.dialect.name == "spark":
        meaning = meaning.replace("1e-05", "1.0E-5")  # hashes are never compared between engines
    assert engine.text(source, type) == meaning


@pytest.mark.parametrize(("type", "source"), REFUSED, ids=[f"{kind} {source}" for kind, source in REFUSED])
def test_what_does_not_fit_is_refused_everywhere(engine: Engine, type: t.ColumnType, source: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises((*REFUSALS, PySparkException)):
        engine.text(source, type)


@pytest.mark.parametrize("text", ["'0.1'", "'-16777217'", "'3.4028234e38'", "'1e-45'"])
def test_single_precision_is_rounded_everywhere(engine: Engine, text: str) -> None:
    cast = engine.dialect.cast(parse_one(text), t.Float())
    if engine.dialect.name in ("postgres", "mysql"):  # whose driver gives the shortest digits instead
        cast = exp.Cast(this=cast, to=exp.DataType.build("double"))
    value = engine.value(cast)
    assert value == struct.unpack("f", struct.pack("f", float(text.strip("'"))))[0]


@pytest.fixture(params=[*PARSING, pytest.param("spark", marks=pytest.mark.slow)], scope="module")
def speller(request: pytest.FixtureRequest) -> Engine:
    """An engine that knows the case of every letter."""
    if request.param == "spark":
        return spark_engine(request.getfixturevalue("spark"))
    return ENGINES[request.param]()


@pytest.mark.parametrize("text", [
    "ÉCOLE", "İstanbul", "ΟΔΟΣ", "ΟΔΟΣ ΟΔΟΣ", "ΣΑΣ.Β", "ΑΣ-ΑΣ\n", "ΑΣ’Α", "Ⅷ", "straße", "ﬃ", "plain 1", "ǰ👍🏽", "",
])  # fmt: skip
def test_case_follows_unicode(speller: Engine, text: str) -> None:
    assert speller.value(exp.Lower(this=exp.Literal.string(text))) == text.lower()
    assert speller.value(exp.Upper(this=exp.Literal.string(text))) == text.upper()


def test_each_character_has_the_case_that_python_gives_it_on_duckdb() -> None:
    signs = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    with duckdb.connect() as connection:
        for macro in MACROS:
            connection.execute(macro)
        connection.execute("CREATE TABLE signs AS SELECT unnest(?) AS sign", [signs])
        found = connection.execute(f"SELECT sign, {LOWER}(sign), {UPPER}(sign) FROM signs").fetchall()
    assert [row for row in found if row[1:] != (row[0].lower(), row[0].upper())] == []


def test_sqlite_leaves_its_own_lower_alone_for_the_indexes_built_on_it() -> None:
    assert sqlite_engine().run("SELECT lower('É')") == "É"


def floats(kind: str) -> Iterator[float]:
    """Numbers of every size, and ones with few digits."""
    dice, size = random.Random(7), 4 if kind == "FLOAT" else 8
    for _ in range(2000):
        number = struct.unpack("f" if size == 4 else "d", dice.randbytes(size))[0]
        if number == number and abs(number) != float("inf"):
            yield number
    for _ in range(1000):
        number = round(dice.uniform(-1e6, 1e6), dice.randrange(6))
        yield struct.unpack("f", struct.pack("f", number))[0] if size == 4 else number


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_duckdb_and_spark_write_floats_alike(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    cast = {dialect: engine_cast(dialect) for dialect in ("duckdb", "spark")}
    connection = duckdb.connect()
    numbers = [float(number) for number in floats(kind)]
    connection.execute(f"CREATE TABLE n AS SELECT CAST(unnest(?) AS {kind}) AS v", [numbers])
    connection.execute(f"COPY n TO '{tmp_path}/n.parquet' (FORMAT parquet)")
    pushed = [row[0] for row in connection.execute(f"SELECT {cast['duckdb']} FROM n").fetchall()]
    carried = [row[0] for row in spark.read.parquet(f"{tmp_path}/n.parquet").selectExpr(cast["spark"]).collect()]
    assert sorted(pushed) == sorted(map(repr, numbers))
    assert sorted(carried) == sorted(pushed)


def engine_cast(dialect: str) -> str:
    """The cast of the column `v` to text."""
    from ematix_flow.backends.duckdb_dialect import DuckDBDialect

    spoken = DuckDBDialect() if dialect == "duckdb" else SparkDialect()
    return spoken.cast(exp.column("v"), t.Text()).sql(spoken.name)


LOADED: list[tuple[object, str]] = [
    (t.Float, "0.1"),
    (t.Float, "'0.1'"),
    (t.Float, "CAST(0.1 AS DOUBLE)"),
    (t.Double, "'0.1'"),
    (Annotated[t.Text, lower()], "'ÉCOLE'"),
    (Annotated[t.Text, upper()], "'école'"),
    (t.JSONB, '\'{"b": 1,  "a": 2}\''),
    (t.JSON, '\'{"b": 1,  "a": 2}\''),
    (t.UUID, f"'{UUID.upper()}'"),
    (t.Boolean, "' TRUE '"),
    (t.BigInt, "' 12 '"),
    (t.Numeric[10, 2], "'1.005'"),
    (t.Numeric[30, 4], "'1.00005'"),
    (t.Date, "'2026-01-05T23:30:00-05:00'"),
    (t.Timestamp, "'2026-01-05T10:00:00+02:00'"),
    (t.TimestampTZ, "'2026-01-05T10:00Z'"),
    (t.Text, "1e20"),
    (t.Text, "CAST(0.1 AS DOUBLE)"),
    (t.Bytes, "'a\\b'"),
]
TYPED: list[tuple[object, str]] = [
    (t.Text, "TIMESTAMP '2026-01-05 10:00:00.5'"),
    (t.Text, "DATE '2026-01-05'"),
    (t.Text, "CAST(-0.5 AS DECIMAL(2, 2))"),
    (t.Text, "TRUE"),
    (t.Text, "CAST('a' AS BLOB)"),
    (t.Text, "CAST(0.1 AS FLOAT)"),
    (t.Numeric[20, 12], "CAST(0.1 AS FLOAT)"),
]
"""Values of types that SQLite has not."""


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_both_paths_store_the_same_values(tmp_path: Path, kind: str) -> None:
    file = str(tmp_path / "shop")
    cases = LOADED if kind == "sqlite" else LOADED + TYPED
    project = Project(Settings.load(tmp_path), Registry())
    with project.active():
        register_connection((DuckDBConnection if kind == "duckdb" else SQLiteConnection)(name="default", path=file))
        for path in ("same_db", "cross_db"):
            hints = {"id": Annotated[t.BigInt, pk()], **{f"c{at}": hint for at, (hint, _) in enumerate(cases)}}
            table = ematix.table(schema="main", name=path)(type("Values", (), {"__annotations__": hints}))
            shown = ", ".join(f"{source} AS c{at}" for at, (_, source) in enumerate(cases))
            handle = ematix.pipeline(target=table, mode="truncate", name=f"load_{path}", force_path=path)(
                lambda _, shown=shown: f"SELECT 1 AS id, {shown}"
            )
            project.run(handle.pipeline)
    pushed, carried = (stored(kind, file, path, len(cases)) for path in ("same_db", "cross_db"))
    differing = [case for case in zip(cases, pushed, carried, strict=True) if case[1] != case[2]]
    assert differing == []


def stored(kind: str, file: str, table: str, width: int) -> list[object]:
    """The values of the one row and their types, in the order of the cases."""
    connection = duckdb.connect(file) if kind == "duckdb" else sqlite3.connect(file)
    text = "CAST(c{0} AS VARCHAR)" if kind == "duckdb" else "c{0}"
    try:
        shown = [f"{text.format(at)}, TYPEOF(c{at})" for at in range(width)]
        (row,) = connection.execute(f'SELECT {", ".join(shown)} FROM "{table}"').fetchall()
    finally:
        connection.close()
    return list(zip(row[::2], row[1::2], strict=True))
