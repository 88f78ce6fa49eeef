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


SERVERS = {
    "SELECT 1 AS id,\n  2 AS n\nFROM no_such_table": {
        "postgres": "LINE 3: FROM no_such",
        "mysql": "no_such_table' doesn",
    },
    "SELECT id FRM rows_of": {"postgres": "LINE 1: SELECT id FRM rows_of", "mysql": "near 'rows_of' at line 1"},
    "SELECT 1 AS id,\n  (2": {"postgres": "LINE 2:   (2", "mysql": "near '' at line 2"},
    "SELECT 1 AS id; SELECT 2": dict.fromkeys(("postgres", "mysql"), "the query holds several statements"),
    "DELETE FROM shop.customer": dict.fromkeys(("postgres", "mysql"), "a statement that changes something"),
}


@only(lambda lane: lane.system.name in ("postgres", "mysql") and lane.path == "pushed")
def test_a_server_speaks_of_the_users_own_query_and_of_nothing_around_it(lab: Lab) -> None:
    lab.types = {"id": BigInt()}
    for sql, said in SERVERS.items():
        for ask in (lambda sql=sql: lab.run(sql=sql, mode="append"), lambda sql=sql: lab.target.query_columns(sql)):
            with pytest.raises(BackendError) as caught:
                ask()
            assert said[lab.lane.system.name] in caught.value.message
            assert "_source" not in str(caught.value)
    assert "pipeline 'load_customers'" in lab.runs()[0].error  # type: ignore[operator]


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
