"""What can be a cron schedule."""

from __future__ import annotations

import pytest

from ematix_flow.spec.cron import cron_problem


@pytest.mark.parametrize(
    "text",
    ["0 5 * * *", "*/15 0-6,18-23 1,15 * mon-fri", "0 0 L * *", "0 0 ? * 5#2", "30 4 15W jan-mar/2 SUN", "0 5 * * * 30",
     "0 0 * * 7"],
)  # fmt: skip
def test_a_schedule_of_moments_that_there_are(text: str) -> None:
    assert cron_problem(text) is None


@pytest.mark.parametrize(
    "text",
    ["", "0 5 * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *",
     "99 99 99 99 99", "a * * * *", "* * * mon *", "1-2-3 * * * *", ", * * * *", "? * * * *", "0 0 99#2 * *"],
)  # fmt: skip
def test_a_schedule_of_moments_that_there_are_not(text: str) -> None:
    assert cron_problem(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("60 * * * *", "the minute cannot be '60': it is 0 to 59"),
        ("* 0-24 * * *", "the hour cannot be '0-24': it is 0 to 23"),
        ("* * 0 * *", "the day of the month cannot be '0': it is 1 to 31"),
        ("* * * mon *", "the month cannot be 'mon': it is 1 to 12, or jan to dec"),
        ("* * * * 8", "the day of the week cannot be '8': it is 0 to 7, or sun to sat"),
        ("* * * * * 61", "the second cannot be '61'"),
        ("0 5 * *", "it has 4 fields"),
        ("", "it has 0 fields"),
    ],
)
def test_the_field_that_is_wrong_is_named_with_what_it_may_be(text: str, says: str) -> None:
    assert says in str(cron_problem(text))
