"""What can be a cron schedule."""

from __future__ import annotations

import pytest

from ematix_flow.spec.cron import is_cron


@pytest.mark.parametrize(
    "text",
    ["0 5 * * *", "*/15 0-6,18-23 1,15 * mon-fri", "0 0 L * *", "0 0 ? * 5#2", "30 4 15W jan-mar/2 SUN", "0 5 * * * 30",
     "0 0 * * 7"],
)  # fmt: skip
def test_a_schedule_of_moments_that_there_are(text: str) -> None:
    assert is_cron(text)


@pytest.mark.parametrize(
    "text",
    ["", "0 5 * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *",
     "99 99 99 99 99", "a * * * *", "* * * mon *", "1-2-3 * * * *", ", * * * *", "? * * * *", "0 0 99#2 * *"],
)  # fmt: skip
def test_a_schedule_of_moments_that_there_are_not(text: str) -> None:
    assert not is_cron(text)
