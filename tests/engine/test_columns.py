"""Sources that have more, fewer or other columns than the table: `strict_schema=` and its default."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
import pytest

from ematix_flow.engine.columns import is_safe
from ematix_flow.errors import CheckError, UnknownNameError
from ematix_flow.normalize import default, derive, trim
from ematix_flow.types import (
    UUID,
    BigInt,
    Bytes,
    Date,
    Double,
    Integer,
    Numeric,
    SmallInt,
    String,
    Text,
    Timestamp,
    TimestampTZ,
)
from tests.engine.test_frames import KEY, Bench, database  # noqa: F401 - a fixture


def source(bench: Bench, form: str, **columns: list[Any]) -> object:
    """Rows as a frame, or as the query of a table in the target's own database."""
    frame = pa.table(columns)
    if form == "frame":
        return frame
    shown = ", ".join(f"{_literal(values[0])} AS {name}" for name, values in columns.items())
    return f"SELECT {shown}"


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.fixture(params=["frame", "query"])
def form(request: pytest.FixtureRequest) -> str:
    """How the rows come."""
    return str(request.param)


def test_a_nullable_column_that_the_source_has_not_is_null_and_a_warning(database: Bench, form: str) -> None:  # noqa: F811
    columns = {"id": KEY, "n": Integer | None, "at": TimestampTZ | None, "raw": Bytes | None, "u": UUID | None}
    rows = source(database, form, id=[1], nn=[2], ats=[1], raws=[1], us=[1])
    with pytest.warns(UserWarning, match="has no 'n', 'at', 'raw', 'u', so that is NULL; it has id, nn"):
        assert database.load(rows, columns).rows_inserted == 1
    kinds: dict[str, Any] = {"id": BigInt(), "n": Integer(), "at": TimestampTZ(), "raw": Bytes(), "u": UUID()}
    assert database.rows(kinds) == [(1, None, None, None, None)]


def test_a_normalizer_gives_an_absent_column_its_default(database: Bench, form: str) -> None:  # noqa: F811
    columns = {"id": KEY, "name": Annotated[Text | None, trim(), default("nobody")]}
    with pytest.warns(UserWarning, match="'name'"):
        database.load(source(database, form, id=[1]), columns)
    assert database.rows({"id": BigInt(), "name": Text()}) == [(1, "nobody")]


@pytest.mark.parametrize("mode", ["merge", "scd1", "scd2"])
def test_no_column_may_be_absent_where_null_would_wipe_out_values(database: Bench, form: str, mode: str) -> None:  # noqa: F811
    columns = {"id": KEY, "name": Text | None}
    database.load(source(database, form, id=[1], name=["Ada"]), columns, mode=mode)
    with pytest.raises(UnknownNameError, match="did you mean 'nmae'"):
        database.load(source(database, form, id=[1], nmae=["Ada"]), columns, mode=mode)
    assert database.rows({"name": Text()}) == [("Ada",)]


def test_columns_that_are_not_declared_are_left_out(database: Bench, form: str) -> None:  # noqa: F811
    database.load(source(database, form, id=[1], other=["x"]), {"id": KEY})
    assert database.rows({"id": BigInt()}) == [(1,)]


def test_a_required_column_must_be_there(database: Bench, form: str) -> None:  # noqa: F811
    with pytest.raises(UnknownNameError, match="'name'"):
        database.load(source(database, form, id=[1]), {"id": KEY, "name": Text})


@pytest.mark.parametrize("keyword", ["keys", "update_columns", "compare_columns"])
def test_a_column_that_the_pipeline_names_must_be_there(database: Bench, form: str, keyword: str) -> None:  # noqa: F811
    columns = {"id": KEY, "code": Text | None, "name": Text | None}
    with pytest.raises(UnknownNameError, match="'code'"):
        database.load(source(database, form, id=[1], name=["x"]), columns, mode="merge", **{keyword: ["code"]})


def test_a_strict_pipeline_lists_everything_that_is_wrong(database: Bench, form: str) -> None:  # noqa: F811
    columns = {"id": KEY, "n": Integer | None, "name": Text | None}
    with pytest.raises(CheckError) as caught:
        database.load(source(database, form, id=[1], n=["x"], other=[1]), columns, strict_schema=True)
    assert "column 'name' is declared, and the source has it not" in str(caught.value)
    assert "column 'other' is in the source but not declared" in str(caught.value)
    typed = form == "frame" or database.target.connection.kind == "duckdb"
    # SQLite's columns have no types: there the values decide.
    assert ("column 'n' has type Text in the source, declared is Integer" in str(caught.value)) is typed


def test_a_strict_pipeline_loads_what_is_declared(database: Bench, form: str) -> None:  # noqa: F811
    columns = {"id": KEY, "whole": Annotated[Text, derive("first || last")], "n": BigInt}
    rows = source(database, form, ID=[1], first=["a"], last=["b"], n=[7])
    assert database.load(rows, columns, strict_schema=True).rows_inserted == 1
    assert database.rows({"whole": Text(), "n": BigInt()}) == [("ab", 7)]


@pytest.mark.parametrize(
    ("given", "declared", "safe"),
    [
        (SmallInt(), BigInt(), True),
        (BigInt(), Integer(), False),
        (BigInt(), Numeric(19, 0), True),
        (BigInt(), Numeric(20, 2), False),
        (Integer(), Double(), True),
        (BigInt(), Double(), False),
        (Numeric(10, 2), Numeric(12, 3), True),
        (Numeric(10, 2), Numeric(10, 1), False),
        (Text(), String(5), True),
        (Text(), UUID(), True),
        (Text(), BigInt(), False),
        (Date(), Timestamp(), True),
        (TimestampTZ(), Date(), False),
        (Double(), Text(), True),
        (Bytes(), Text(), False),
    ],
)
def test_a_type_is_safe_where_all_its_values_fit(given: Any, declared: Any, *, safe: bool) -> None:
    assert is_safe(given, declared) is safe
