"""Values of bookmarks: one form, and a way back."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from ematix_flow.engine.bookmark_value import earlier, kept_text
from ematix_flow.errors import SpecError
from ematix_flow.types import (
    BigInt,
    ColumnType,
    Date,
    Double,
    Numeric,
    SmallInt,
    String,
    Text,
    Timestamp,
    TimestampTZ,
)


@pytest.mark.parametrize(
    ("type", "given", "kept"),
    [
        (BigInt(), "+12", "12"),
        (Numeric(6, 2), "12.5", "12.50"),
        (Numeric(38, 0), "9" * 38, "9" * 38),
        (Double(), "1e3", "1000.0"),
        (Date(), "2026-01-31", "2026-01-31"),
        (Timestamp(), "2026-01-31T09:30", "2026-01-31 09:30:00.000000"),
        (TimestampTZ(), "2026-01-31 09:30:00+02:00", "2026-01-31 07:30:00.000000"),
        (TimestampTZ(), "2026-01-31 09:30", "2026-01-31 09:30:00.000000"),
        (Text(), "it's", "it's"),
        (String(4), "it's", "it's"),
    ],
)
def test_a_bookmark_is_kept_in_one_form(type: ColumnType, given: str, kept: str) -> None:
    assert kept_text(given, type) == kept


@pytest.mark.parametrize(
    ("type", "given"),
    [
        (BigInt(), "12.5"),
        (SmallInt(), "40000"),
        (Numeric(6, 2), "12.345"),
        (Numeric(6, 2), "10000"),
        (Numeric(6, 2), "NaN"),
        (Double(), "much"),
        (Double(), "nan"),
        (Double(), "-inf"),
        (Date(), "31.01.2026"),
        (Timestamp(), "2026-01-31 09:30:00Z"),
        (TimestampTZ(), "noon"),
        (String(3), "it's"),
    ],
)
def test_a_value_of_another_type_is_refused(type: ColumnType, given: str) -> None:
    with pytest.raises(SpecError, match="is not a value of") as caught:
        kept_text(given, type)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("type", "kept", "back", "before"),
    [
        (BigInt(), "12", Decimal(20), "-8"),
        (SmallInt(), "12", Decimal(10**6), "-32768"),
        (Numeric(4, 2), "1.50", Decimal("0.25"), "1.25"),
        (Numeric(4, 2), "1.50", Decimal(1000), "-99.99"),
        (
            Numeric(38, 0),
            "12345678901234567890123456789012345678",
            Decimal(100),
            "12345678901234567890123456789012345578",
        ),
        (Double(), "1.5", Decimal("0.5"), "1.0"),
        (Date(), "2026-03-01", timedelta(days=1), "2026-02-28"),
        (Date(), "0001-01-02", timedelta(days=9), "0001-01-01"),
        (TimestampTZ(), "2026-01-01 00:00:00.000001", timedelta(minutes=10), "2025-12-31 23:50:00.000001"),
        (Timestamp(), "0001-01-01 00:01:00", timedelta(days=9), "0001-01-01 00:00:00.000000"),
    ],
)
def test_a_value_is_moved_back_within_its_type(
    type: ColumnType, kept: str, back: timedelta | Decimal, before: str
) -> None:
    assert earlier(kept, type, back) == before
