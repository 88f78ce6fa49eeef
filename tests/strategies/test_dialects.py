"""Types, casts, canonical text, hashes and parsing on every embedded engine."""

from __future__ import annotations

import sqlite3
import uuid
from datetime import UTC, datetime, timedelta, timezone

import duckdb
import pytest
from sqlglot import exp, parse_one

from ematix_flow import types as t
from ematix_flow.backends import sqlite_functions
from ematix_flow.backends.dialect import Dialect
from ematix_flow.backends.duckdb_dialect import DuckDBDialect
from ematix_flow.backends.mysql_dialect import MYSQL_COLLATION, MySQLDialect
from ematix_flow.backends.spark_dialect import SparkDialect
from ematix_flow.backends.sqlite_dialect import SqliteDialect
from ematix_flow.backends.template import Template
from ematix_flow.connections import MySQLConnection
from ematix_flow.errors import SpecError, UnsupportedError
from ematix_flow.normalize import DATE_FORMATS, TIMESTAMP_FORMATS
from ematix_flow.spec.place import TableRef
from tests.oracle import row_hash
from tests.servers import empty_mysql
from tests.strategies.engines import ENGINES, MARKED, PARSING, REFUSALS, Engine, duckdb_engine, sqlite_engine

ALL_TYPES = [
    t.SmallInt(), t.Integer(), t.BigInt(), t.Float(), t.Double(), t.Numeric(12, 2), t.Numeric(30, 4), t.Boolean(),
    t.Text(), t.String(5), t.Date(), t.Timestamp(), t.TimestampTZ(), t.JSON(), t.JSONB(), t.UUID(), t.Bytes(),
]  # fmt: skip


@pytest.fixture(params=MARKED, scope="module")
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]()


@pytest.fixture(params=PARSING, scope="module")
def parser(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]()


FITS = [
    (t.BigInt(), "'12'", "12"),
    (t.BigInt(), "12.0", "12"),
    (t.BigInt(), "-9223372036854775807", "-9223372036854775807"),
    (t.SmallInt(), "32767", "32767"),
    (t.Numeric(12, 2), "'1.5'", "1.50"),
    (t.Numeric(12, 2), "1.005", "1.01"),
    (t.Numeric(12, 2), "-1.235", "-1.24"),
    (t.Numeric(12, 2), "7", "7.00"),
    (t.Numeric(12, 2), "'-0.001'", "0.00"),
    (t.Numeric(2, 2), "'0.99'", "0.99"),
    (t.Numeric(30, 4), "'12345678901234567890.12345'", "12345678901234567890.1235"),
    (t.Numeric(30, 4), "5", "5.0000"),
    (t.Double(), "'0.1'", "0.1"),
    (t.Double(), "'-0.0'", "0"),
    (t.Boolean(), "'yes'", "true"),
    (t.Boolean(), "'F'", "false"),
    (t.Boolean(), "1", "true"),
    (t.Text(), "42", "42"),
    (t.String(3), "'äöü'", "äöü"),
    (t.Date(), "'2026-02-28'", "2026-02-28"),
    (t.Date(), "'2026-02-28 10:00:00'", "2026-02-28"),
    (t.Timestamp(), "'2026-02-28 10:00:00.5'", "2026-02-28 10:00:00.500000"),
    (t.Timestamp(), "'2026-02-28'", "2026-02-28 00:00:00.000000"),
    (t.TimestampTZ(), "'2026-02-28 10:00:00.123456'", "2026-02-28 10:00:00.123456"),
    (t.TimestampTZ(), "'2026-02-28T10:00:00+02:00'", "2026-02-28 08:00:00.000000"),
    (t.TimestampTZ(), "'2026-02-28T10:00:00Z'", "2026-02-28 10:00:00.000000"),
    (t.UUID(), "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    (t.JSON(), "'{\"b\": 1}'", '{"b": 1}'),
    (t.Bytes(), "'ä\\x41'", "c3a45c783431"),
]


@pytest.mark.parametrize(("type", "source", "text"), FITS, ids=[f"{kind} {source}" for kind, source, _ in FITS])
def test_a_value_that_fits_has_the_same_canonical_text_everywhere(
    engine: Engine, type: t.ColumnType, source: str, text: str
) -> None:
    assert engine.text(source, type) == text


@pytest.mark.parametrize("type", ALL_TYPES, ids=str)
def test_null_stays_null_through_cast_and_text(engine: Engine, type: t.ColumnType) -> None:
    assert engine.text("NULL", type) is None


MISFITS = [
    (t.BigInt(), "'x'"),
    (t.BigInt(), "''"),
    (t.BigInt(), "1.5"),
    (t.BigInt(), "'1.5'"),
    (t.BigInt(), "1e30"),
    (t.SmallInt(), "32768"),
    (t.Integer(), "-2147483649"),
    (t.Numeric(4, 2), "100"),
    (t.Numeric(4, 2), "99.995"),
    (t.Numeric(2, 2), "-1"),
    (t.Numeric(30, 4), "'x'"),
    (t.Double(), "'x'"),
    (t.Boolean(), "'maybe'"),
    (t.String(3), "'abcd'"),
    (t.Date(), "'2026-02-30'"),
    (t.Date(), "'2026-13-01'"),
    (t.TimestampTZ(), "'2026-02-30 10:00:00.000000'"),
    (t.TimestampTZ(), "'soon'"),
    (t.TimestampTZ(), "5"),
    (t.UUID(), "'not-a-uuid'"),
    (t.JSON(), "'{broken'"),
    (t.JSONB(), "'{broken'"),
]


@pytest.mark.parametrize(("type", "source"), MISFITS, ids=[f"{kind} {source}" for kind, source in MISFITS])
def test_a_value_that_does_not_fit_ends_the_query(engine: Engine, type: t.ColumnType, source: str) -> None:
    with pytest.raises(REFUSALS):
        engine.text(source, type)


def test_sqlite_refuses_nan_instead_of_storing_null() -> None:
    with pytest.raises(sqlite3.OperationalError):
        sqlite_engine().text("'nan'", t.Double())


def test_sqlite_keeps_the_reason_that_its_driver_hides() -> None:
    connection = sqlite3.connect(":memory:")
    complaint = sqlite_functions.register(connection)
    with pytest.raises(sqlite3.OperationalError):
        connection.execute("SELECT ematix_cast_text('abcd', 3)")
    assert "String[3]" in str(complaint.error)


def test_duckdb_has_one_text_for_nan() -> None:
    assert duckdb_engine().text("'nan'", t.Double()) == "nan"


def test_jsonb_keeps_its_text(engine: Engine) -> None:
    if engine.dialect.name == "postgres":  # which has a form of its own
        assert engine.text('\'{"b": 1, "b": 2,"a": null}\'', t.JSONB()) == '{"a": null, "b": 2}'
        return
    assert engine.text('\'{"b": 1, "a": [1, 2.50]}\'', t.JSONB()) == '{"b": 1, "a": [1, 2.50]}'


def test_integers_cost_duckdb_no_check() -> None:
    connection = duckdb.connect()
    cast = DuckDBDialect().cast(exp.column("range"), t.BigInt()).sql("duckdb")
    plan = connection.execute(f"EXPLAIN SELECT {cast} FROM range(5)").fetchone()[1]
    assert "CASE" not in plan


@pytest.mark.parametrize(
    "dialect", [DuckDBDialect(), SqliteDialect(), MySQLDialect(), SparkDialect()], ids=lambda d: d.name
)
@pytest.mark.parametrize("type", ALL_TYPES, ids=str)
def test_a_stored_type_is_stable(dialect: Dialect, type: t.ColumnType) -> None:
    stored = dialect.stored_type(type)
    assert dialect.stored_type(stored) == stored


@pytest.mark.parametrize("type", ALL_TYPES, ids=str)
def test_sqlite_reports_back_the_type_that_was_declared(type: t.ColumnType) -> None:
    dialect = SqliteDialect()
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE x (c {dialect.type_name(type)})")
    declared = connection.execute("PRAGMA table_info(x)").fetchone()[2]
    assert dialect.column_type(declared) == type


@pytest.mark.parametrize("type", ALL_TYPES, ids=str)
def test_duckdb_reports_back_what_stored_type_says(type: t.ColumnType) -> None:
    dialect = DuckDBDialect()
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE x (c {dialect.type_name(type)})")
    declared = connection.execute("SELECT data_type FROM duckdb_columns() WHERE table_name = 'x'").fetchone()[0]
    assert dialect.column_type(declared) == dialect.stored_type(type)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (t.JSON(), "1.50"), (t.JSON(), "10"), (t.Text(), "007"), (t.String(4), "1e2"),
        (t.UUID(), str(uuid.UUID(int=1))),
        (t.Numeric(30, 4), "1.5000"), (t.TimestampTZ(), "2026-01-01 00:00:00.000000"), (t.Date(), "2026-01-01"),
    ],
)  # fmt: skip
def test_sqlite_columns_keep_text_as_it_is(type: t.ColumnType, value: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE x (c {SqliteDialect().type_name(type)})")
    connection.execute("INSERT INTO x VALUES (?)", (value,))
    assert connection.execute("SELECT c FROM x").fetchone()[0] == value


def test_types_outside_the_catalogue_are_none() -> None:
    assert DuckDBDialect().column_type("STRUCT(a INTEGER)") is None
    assert DuckDBDialect().column_type("INTEGER[]") is None
    assert SqliteDialect().column_type("") is None


def test_a_decimal_that_an_engine_has_not_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="39 digits"):
        DuckDBDialect().type_name(t.Numeric(39, 0))


@pytest.mark.server
@pytest.mark.parametrize("type", ALL_TYPES, ids=str)
def test_mysql_reports_back_what_stored_type_says(type: t.ColumnType) -> None:
    backend = MySQLConnection("types", empty_mysql("types")).open(None)
    with backend.session() as connection:
        connection.execute(f"CREATE TABLE types.x (c {backend.dialect.type_name(type)})")
    (column,) = backend.columns(TableRef("types", "x")).columns
    assert column.type == backend.dialect.stored_type(type)


def test_mysql_compares_text_by_its_bytes_on_either_server() -> None:
    assert "COLLATE utf8mb4_nopad_bin" in MySQLDialect().type_name(t.Text())
    assert "COLLATE utf8mb4_0900_bin" in MySQLDialect(MYSQL_COLLATION).type_name(t.String(5))


def test_quote_doubles_quotes_and_joins_paths() -> None:
    assert DuckDBDialect().quote("a", 'b"c') == '"a"."b""c"'


def test_the_row_hash_is_the_same_on_every_engine_and_in_python(engine: Engine) -> None:
    types: dict[str, t.ColumnType] = {"a": t.BigInt(), "b": t.Text(), "c": t.Boolean(), "d": t.Text()}
    query = parse_one("SELECT ROW_HASH(a, b, c, d) FROM (SELECT 5 AS a, 'ä:1' AS b, TRUE AS c, NULL AS d) AS s")
    found = engine.run(engine.dialect.render(query, {}, types))
    assert bytes(found) == row_hash({"a": 5, "b": "ä:1", "c": True, "d": None}, types, types)


def test_values_that_run_together_do_not_hash_alike(engine: Engine) -> None:
    types: dict[str, t.ColumnType] = {"a": t.Text(), "b": t.Text()}

    def digest(a: str, b: str) -> object:
        query = parse_one(f"SELECT ROW_HASH(a, b) FROM (SELECT {a} AS a, {b} AS b) AS s")
        return engine.run(engine.dialect.render(query, {}, types))

    pairs = [("'1'", "'11'"), ("'11'", "'1'"), ("NULL", "''"), ("''", "NULL"), ("'N'", "''"), ("'1:1'", "'1'")]
    assert len({digest(*pair) for pair in pairs}) == len(pairs)


def test_a_hash_over_many_columns_renders() -> None:
    types: dict[str, t.ColumnType] = {f"c{number}": t.Text() for number in range(400)}
    inner = ", ".join(f"'{number}' AS c{number}" for number in range(400))
    query = parse_one(f"SELECT ROW_HASH({', '.join(types)}) FROM (SELECT {inner}) AS s")
    for engine in (duckdb_engine(), sqlite_engine()):
        assert len(engine.run(engine.dialect.render(query, {}, types))) == 32


def test_render_leaves_the_query_as_it_was() -> None:
    query = parse_one("SELECT :now, :other")
    before = query.sql()
    rendered = SqliteDialect().render(query, {"now": datetime(2026, 1, 1, tzinfo=UTC)}, {})
    assert query.sql() == before
    assert rendered == "SELECT '2026-01-01 00:00:00.000000', :other"


def test_an_instant_keeps_its_microseconds_and_needs_a_zone(engine: Engine) -> None:
    moment = datetime(2026, 1, 1, 10, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    text = engine.dialect.text(engine.dialect.instant(moment), t.TimestampTZ())
    assert engine.value(text) == "2026-01-01 08:00:00.123456"
    with pytest.raises(ValueError, match="time zone"):
        engine.dialect.instant(datetime(2026, 1, 1))  # noqa: DTZ001


TIMES = [
    ("2026-01-02 03:04:05.678", "2026-01-02 03:04:05.678000"),
    ("2026-01-02 03:04:05.678901234", "2026-01-02 03:04:05.678901"),
    ("2026-01-02T03:04:05+02:00", "2026-01-02 01:04:05.000000"),
    ("2026-01-02T03:04:05-0130", "2026-01-02 04:34:05.000000"),
    ("2026-01-02T03:04:05+02", "2026-01-02 01:04:05.000000"),
    ("2026-01-02T03:04:05Z", "2026-01-02 03:04:05.000000"),
    ("2026-01-02T03:04:05.678Z", "2026-01-02 03:04:05.678000"),
    ("2026-01-02T03:04:05", "2026-01-02 03:04:05.000000"),
    ("2026-01-02 03:04:05", "2026-01-02 03:04:05.000000"),
    ("2026-01-02", "2026-01-02 00:00:00.000000"),
    ("12/31/2026", "2026-12-31 00:00:00.000000"),
    ("31/12/2026", None),
    ("2026-13-45", None),
    ("2026-02-30", None),
    ("2026-2-3", None),
    ("2026-01-02 24:00:00", None),
    (" 2026-01-02", None),
    ("2026-01-02\n", None),
    ("", None),
    ("soon", None),
]


@pytest.mark.parametrize(("text", "meaning"), TIMES)
def test_a_timestamp_is_parsed_by_the_first_format_that_fits(parser: Engine, text: str, meaning: str | None) -> None:
    parsed = parser.dialect.parse_timestamp(exp.Literal.string(text), TIMESTAMP_FORMATS)
    assert parser.value(parser.dialect.text(parsed, t.TimestampTZ())) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [("2026-01-02", "2026-01-02"), ("20260102", "2026-01-02"), ("01/02/2026", "2026-01-02"), ("20260230", None)],
)
def test_a_date_is_parsed_by_the_first_format_that_fits(parser: Engine, text: str, meaning: str | None) -> None:
    parsed = parser.dialect.parse_date(exp.Literal.string(text), DATE_FORMATS)
    assert parser.value(parser.dialect.text(parsed, t.Date())) == meaning


def test_a_later_format_is_tried_when_an_earlier_one_gives_an_impossible_day(parser: Engine) -> None:
    parsed = parser.dialect.parse_date(exp.Literal.string("13/01/2026"), ("MM/DD/YYYY", "DD/MM/YYYY"))
    assert parser.value(parser.dialect.text(parsed, t.Date())) == "2026-01-13"


def test_instants_pass_through_parsing(parser: Engine) -> None:
    typed = parser.dialect.instant(datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC))
    parsed = parser.dialect.parse_timestamp(typed, ("MM/DD/YYYY",))
    assert parser.value(parser.dialect.text(parsed, t.TimestampTZ())) == "2026-01-02 03:04:05.000006"
    assert (
        parser.value(parser.dialect.text(parser.dialect.parse_date(typed, ("MM/DD/YYYY",)), t.Date())) == "2026-01-02"
    )


def test_whole_numbers_can_be_parsed_as_dates(parser: Engine) -> None:
    parsed = parser.dialect.parse_date(exp.Literal.number(20260102), ("YYYYMMDD",))
    assert parser.value(parser.dialect.text(parsed, t.Date())) == "2026-01-02"


@pytest.mark.parametrize("hook", ["PARSE_TIMESTAMP", "PARSE_DATE"])
def test_strict_parsing_refuses_what_does_not_fit_and_lets_null_through(parser: Engine, hook: str) -> None:
    def parse(value: str) -> object:
        call = parse_one(f"{hook}_STRICT({value}, 'YYYY-MM-DD')", read="postgres")
        return parser.value(
            parser.dialect.text(parse_one(parser.dialect.render(call, {}, {}), read=parser.dialect.name), t.Date())
        )

    assert parse("NULL") is None
    assert str(parse("'2026-01-02'")).startswith("2026-01-02")
    with pytest.raises(REFUSALS):
        parse("'02.01.2026'")


def test_hooks_inside_other_expressions_are_replaced(parser: Engine) -> None:
    nested = parse_one(
        "PARSE_DATE(COALESCE(PARSE_DATE('x', 'YYYY-MM-DD'), '2026-01-02'), 'YYYY-MM-DD')", read="postgres"
    )
    if parser.dialect.name == "sqlite":
        assert parser.value(nested) == "2026-01-02"
    else:
        assert "PARSE_DATE" not in parser.dialect.render(nested, {}, {})


@pytest.mark.parametrize("template", ["YYYY", "YYYY-MM-DD YYYY", "YYYY-MM-DD HH12", "Mon DD YYYY"])
def test_a_format_that_cannot_be_read_is_refused(template: str) -> None:
    with pytest.raises(SpecError, match="the format"):
        Template.of(template)


def test_quoted_letters_in_a_format_are_literal(parser: Engine) -> None:
    parsed = parser.dialect.parse_date(exp.Literal.string("day 2026.01.02"), ('"day" YYYY.MM.DD',))
    assert parser.value(parser.dialect.text(parsed, t.Date())) == "2026-01-02"
