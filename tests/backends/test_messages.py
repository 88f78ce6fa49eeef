"""Where a message points: the line of the user's own query, the key of the row that does not fit."""

from __future__ import annotations

import pytest

from ematix_flow.errors import BackendError, CheckError
from ematix_flow.types import JSON, BigInt, Date, Numeric, SmallInt, Text
from tests.backends.lab import Lab, Lane, only

QUERIES = {
    1: "SELECT no_such_column AS id FROM range(3)",
    3: "SELECT\n  range AS id\nFROM no_such_table",
}


@only(lambda lane: lane.system.name == "duckdb_memory")
@pytest.mark.parametrize("line", QUERIES)
def test_an_error_names_the_line_of_the_users_own_query(lab: Lab, line: int) -> None:
    lab.types = {"id": BigInt()}
    with pytest.raises(BackendError, match=f"LINE {line}:"):
        lab.run(sql=QUERIES[line], mode="append")


@only(lambda lane: lane.system.name == "duckdb_memory")
@pytest.mark.parametrize("line", QUERIES)
def test_a_mapped_column_moves_no_line(lab: Lab, line: int) -> None:
    lab.types = {"id": BigInt()}
    with pytest.raises(BackendError, match=f"LINE {line}:"):
        lab.run(sql=QUERIES[line], mode="append", column_map={"id": "range"})


def _is_plain(lane: Lane) -> bool:
    return lane.system.name in ("duckdb_memory", "sqlite", "memory") or _is_server(lane)


def _is_server(lane: Lane) -> bool:
    return lane.system.name in ("postgres", "mysql") and lane.path == "pushed"


@only(_is_plain)
def test_a_value_that_does_not_fit_names_its_row(lab: Lab) -> None:
    lab.seed({"id": BigInt(), "n": Text(), "day": Text()}, [
        {"id": 1, "n": "5", "day": "2026-01-31"},
        {"id": 7, "n": "it's", "day": "2026-01-31"},
        {"id": 8, "n": "6", "day": "31.01.26"},
    ])  # fmt: skip
    lab.types = {"id": BigInt(), "n": BigInt()}
    with lab.refused(CheckError, r"column 'n' \(BigInt\).*it's\"? \(id=7\)"):
        lab.run(mode="append")
    lab.types = {"id": BigInt(), "day": Date()}
    with lab.refused(CheckError, r"column 'day' \(Date\).*31.01.26'? \(id=8\)"):
        lab.run(mode="append")


@only(_is_server)
def test_a_value_that_is_too_large_names_itself_and_its_row_on_servers(lab: Lab) -> None:
    lab.seed({"id": BigInt(), "n": BigInt(), "v": Text()}, [
        {"id": 1, "n": 5, "v": "{}"},
        {"id": 7, "n": 123456, "v": "{}"},
        {"id": 8, "n": None, "v": "{no document"},
    ])  # fmt: skip
    for kind in (SmallInt(), Numeric(5, 2)):
        lab.types = {"id": BigInt(), "n": kind}
        with lab.refused(CheckError, r"column 'n' \((SmallInt|Numeric\[5, 2\])\).*\b123456\b.* \(id=7\)"):
            lab.run(mode="append")
    lab.types = {"id": BigInt(), "v": JSON()}
    with lab.refused(CheckError, r"column 'v' \(JSON\).*\{no document \(id=8\)"):
        lab.run(mode="append")
