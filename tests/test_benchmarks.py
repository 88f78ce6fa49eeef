"""The benchmarks run, compare what they say they compare, and speak in plain words."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.spending import READ, WRITE, in_words, spending

ROOT = Path(__file__).resolve().parent.parent
SMALL = "--only postgres --rows 2000 --pg-held 2000 --pg-changes 200 --pg-small 50 --repeat 1 --no-spark --peers none"


@pytest.mark.slow
@pytest.mark.server
def test_every_contender_without_spark_ends_with_the_same_rows() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks", *SMALL.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    rows = [re.split(r" *\| *", line.strip("| ")) for line in answer.stdout.splitlines() if line.startswith("| ")]
    first = [cells[0] for cells in rows]
    assert [cell for cell in first if cell.startswith(("ours", "by hand", "`psql"))] == [
        "ours: a pipeline between two connections",
        "`psql COPY` into `psql COPY`, binary",
        "ours: `flow run`",
        "ours: a pipeline inside the database",
        "by hand: one `INSERT … ON CONFLICT`",
        "ours: a pipeline inside the database",
        "by hand: one `INSERT … SELECT`",
    ]
    assert {READ, WRITE} & set(first), "the copy says what it spends on the rows"
    assert not [cell for cell in first if re.match(r"`(SELECT|INSERT|UPDATE|CREATE|WITH|ANALYZE)", cell)]


def test_a_statement_is_said_in_words_and_an_unknown_one_as_it_is() -> None:
    assert in_words("ANALYZE _ematix_incoming") == "let the server look at the incoming values: `ANALYZE`"
    assert in_words("VACUUM mart.orders") == "`VACUUM mart.orders`"


def test_what_is_spent_adds_up_to_the_whole() -> None:
    figures = {"seconds": 2.0, "statements": {READ: 1.2, WRITE: 0.3, "connect": 0.004, "SET TimeZone = '…'": 0.006}}
    shown = [float(line.split(" | ")[1].rstrip(" |")) for line in spending(figures)[2:-1]]
    assert shown == [1200.0, 300.0, 10.0, 490.0]


def test_a_tool_that_cannot_be_had_is_named_with_the_reason() -> None:
    lines = peers.whole_table(
        {"ours": {"seconds": 2.0, "mib": 80.0}}, {"sling": "not installable here: no wheel"}, 1000
    )
    assert lines[2].startswith("| ours: `flow run` | 2.00 | 500 |")
    assert lines[3].startswith("| Sling ")
    assert lines[3].endswith("| not installable here: no wheel |")


def test_a_tool_that_is_not_known_is_an_error() -> None:
    with pytest.raises(SystemExit, match=r"unknown peers: dtl\. Known: dlt, "):
        peers.wanted_peers("dtl")
