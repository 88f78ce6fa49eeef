"""Every type of the catalogue comes back as it was given, at its limits too, from every system and path."""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from ematix_flow.errors import CheckError, FlowError, UnsupportedError
from ematix_flow.types import (
    JSON,
    JSONB,
    UUID,
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
    String,
    Text,
    Timestamp,
    TimestampTZ,
)
from tests.backends.lab import Lab, everywhere, only

MODE = "append"

TEXTS = [
    "",
    " kept spaces ",
    "NULL",
    'it\'s "quoted" \\ back, comma; | pipe',
    "line\nbreak\ttab",
    "🙂 é\u0301 名前 ñ",
    "{x} $1 %s ?",
]
VALUES: dict[ColumnType, list[Any]] = {
    SmallInt(): [-32768, 32767, 0],
    Integer(): [-(2**31), 2**31 - 1, 0],
    BigInt(): [-(2**63), 2**63 - 1, 0],
    Float(): [1.5, -3.4028234663852886e38, 1.401298464324817e-45],
    Double(): [0.1, 1.7976931348623157e308, 5e-324, -2.5],
    Numeric(12, 2): [Decimal("9999999999.99"), Decimal("-9999999999.99"), Decimal("0.01"), Decimal("0.00")],
    Numeric(38, 0): [Decimal(10**38 - 1), Decimal(-(10**38) + 1), Decimal(0)],
    Numeric(38, 10): [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001")],
    Boolean(): [True, False],
    Text(): TEXTS,
    String(5): ["abcde", "", "🙂🙂🙂🙂🙂"],
    Date(): [date(1970, 1, 1), date(1600, 2, 29), date(9999, 12, 31), date(1, 1, 1)],
    Timestamp(): [
        datetime.fromisoformat("1969-12-31 23:59:59.999999"),
        datetime.fromisoformat("9999-12-31 23:59:59.999999"),
        datetime.fromisoformat("1600-02-29 01:02:03.000004"),
    ],
    TimestampTZ(): [
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1600, 2, 29, 1, 2, 3, 4, tzinfo=UTC),
    ],
    JSON(): ['{"b": 1, "a": [1, 2.5, null]}', '"text"', "[]"],
    JSONB(): ['{"b": 1, "a": [1, 2.5, null]}', '{"ñ": "🙂"}'],
    UUID(): ["00000000-0000-0000-0000-000000000000", "f47ac10b-58cc-4372-a567-0e02b2c3d479"],
    Bytes(): [b"", b"\x00\x01\xff", b"text"],
}  # fmt: skip


@pytest.fixture
def load(lab: Lab) -> Lab:
    lab.defaults = {"mode": "append"}
    return lab


def columns_for(lab: Lab) -> dict[str, ColumnType]:
    """One column per type that the target and the source can hold."""
    refused = lab.lane.system.refused_types
    kinds = [kind for kind in VALUES if not isinstance(kind, refused)]
    return {"id": BigInt(), **{f"c{number}": kind for number, kind in enumerate(kinds)}}


def rows_for(types: dict[str, ColumnType]) -> list[dict[str, Any]]:
    """Every value of every type, and a row of NULLs."""
    height = max(len(VALUES[kind]) for name, kind in types.items() if name != "id")
    rows: list[dict[str, Any]] = [{"id": number} for number in range(height)]
    for row in rows:
        for name, kind in types.items():
            if name != "id":
                row[name] = VALUES[kind][row["id"] % len(VALUES[kind])]
    return [*rows, {"id": height, **{name: None for name in types if name != "id"}}]


def comparable(rows: list[dict[str, Any]], types: dict[str, ColumnType]) -> list[dict[str, Any]]:
    """JSON by what it says, floats by their bits; everything else as it is."""

    def value(given: Any, kind: ColumnType) -> Any:
        if given is None:
            return None
        match kind:
            case JSON() | JSONB():
                return json.loads(given)
            case Float():
                return struct.pack("f", given)
            case _:
                return given

    return [
        {name: value(row[name], kind) for name, kind in types.items()} for row in sorted(rows, key=lambda r: r["id"])
    ]


@everywhere
def test_every_value_comes_back_as_it_was_given(load: Lab) -> None:
    types, lost = columns_for(load), load.lane.system.lost_values
    rows = [{name: None if value in lost else value for name, value in row.items()} for row in rows_for(types)]
    load.load(types, rows)
    assert comparable(load.table(), types) == comparable(rows, types)


@everywhere
def test_what_a_format_would_lose_is_refused(load: Lab) -> None:
    for name in load.lane.system.lost_names:
        with load.refused(UnsupportedError, "lose the values"):
            load.load({"id": BigInt(), name: BigInt()}, [{"id": 1, name: 1}])
    for value in load.lane.system.lost_values:
        with load.refused(CheckError, "1969"):
            load.load({"id": BigInt(), "at": TimestampTZ()}, [{"id": 1, "at": value}])


def test_a_type_that_a_format_cannot_write_is_refused(load: Lab) -> None:
    for kind in load.lane.system.refused_types:
        with load.refused(UnsupportedError, "'c'"):
            load.load({"id": BigInt(), "c": kind()}, [])


def test_values_that_are_no_numbers_are_kept_or_refused_but_never_lost(load: Lab) -> None:
    from typing import Annotated

    from ematix_flow import pk

    if not load.lane.system.keeps_infinity:
        with load.refused(FlowError, "inf"):
            load("id | x:Text", "0 | inf", columns={"id": Annotated[BigInt, pk()], "x": Double})
        return
    types = {"id": BigInt(), "x": Double()}
    # SQLite gives NaN back as NULL, so there is no way to seed one.
    seeded = [math.inf, -math.inf, *([math.nan] if load.lane.system.keeps_nan else [])]
    load.load(types, [{"id": number, "x": value} for number, value in enumerate(seeded)])
    assert [str(value) for (value,) in load.rows("x")] == [str(value) for value in seeded]


def test_numbers_in_text_are_cast_to_the_declared_type_by_value(load: Lab) -> None:
    from typing import Annotated

    from ematix_flow import pk

    columns = {"id": Annotated[BigInt, pk()], "n": Numeric[10, 2], "b": Boolean, "d": Date}
    load("id | n:Text | b:Text | d:Text", "1 | 1.005 | true | 2026-02-28", columns=columns)
    load.types = {"id": BigInt(), "n": Numeric(10, 2), "b": Boolean(), "d": Date()}
    assert load.rows() == [(1, Decimal("1.01"), True, date(2026, 2, 28))]


@only(lambda lane: lane.system.name != "sqlite")  # it knows doubles alone
def test_a_single_number_becomes_the_same_double_everywhere(load: Lab) -> None:
    from typing import Annotated

    from ematix_flow import pk

    columns = {"id": Annotated[BigInt, pk()], "x": Double, "t": Text}
    sql = None
    if load.lane.path == "pushed" or load.source.can.pushed:
        sql = f"SELECT id, x, x AS t FROM {load.source.relation_sql(load.source_ref)}"
    else:
        columns.pop("t")
    load.load({"id": BigInt(), "x": Float()}, [{"id": 1, "x": 0.1}], columns=columns, sql=sql)
    load.types = {"id": BigInt(), "x": Double(), "t": Text()}
    assert load.rows("x") == [(0.10000000149011612,)]
    if sql is not None:
        assert load.rows("t") == [("0.10000000149011612",)]


def test_text_that_is_no_number_is_refused(load: Lab) -> None:
    from typing import Annotated

    from ematix_flow import pk

    with load.refused(FlowError, "twelve"):
        load("id | n:Text", "1 | twelve", columns={"id": Annotated[BigInt, pk()], "n": Integer})


@pytest.mark.parametrize("document", ['["a", "b"]', '{"a": ["b"], "c": "d"}', '[1, "nan"]', '["\\"", {}]'])
def test_a_document_with_texts_at_the_end_of_a_list_is_json(lab: Lab, document: str) -> None:
    lab.load({"id": BigInt(), "doc": JSON()}, [{"id": 1, "doc": document}], mode="append")
    assert lab.rows("id", "doc") == [(1, document)]
