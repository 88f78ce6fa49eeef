from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ematix_flow.spec.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("90s", timedelta(seconds=90)),
        ("5m", timedelta(minutes=5)),
        ("6h", timedelta(hours=6)),
        ("1d", timedelta(days=1)),
        ("2w", timedelta(days=14)),
        ("250ms", timedelta(milliseconds=250)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        (" 5 M ", timedelta(minutes=5)),
        (90, timedelta(seconds=90)),
        (0.5, timedelta(milliseconds=500)),
        ("0s", timedelta(0)),
        (timedelta(days=3), timedelta(days=3)),
    ],
)
def test_a_duration_is_read_as_people_write_it(written, meant):
    assert parse_duration(written) == meant


@pytest.mark.parametrize(
    "written",
    ["", "  ", "5", "-5m", "5x", "m", "5m later", -1, timedelta(seconds=-1), float("nan"), "9" * 30 + "d", 1e300],
)
def test_text_that_says_no_length_of_time_is_a_value_error(written):
    with pytest.raises(ValueError, match=r"Hint: write a number and a unit"):
        parse_duration(written)


@pytest.mark.parametrize("written", [None, True, ["5m"], object()])
def test_a_thing_that_cannot_be_a_duration_is_a_type_error(written):
    with pytest.raises(TypeError, match="a duration cannot be"):
        parse_duration(written)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(weeks=1), "7d"),
        (timedelta(milliseconds=1500), "1s500ms"),
        (timedelta(minutes=-5), "-5m"),
    ],
)
def test_a_duration_is_shown_in_its_largest_units(duration, text):
    assert format_duration(duration) == text


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=100_000)))
def test_what_is_shown_reads_back_exactly(duration):
    assert parse_duration(format_duration(duration)) == duration
