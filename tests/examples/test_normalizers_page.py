"""The page about normalizers names all of them, and what it says they make of a value is true."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import duckdb
import pytest
from sqlglot import exp

from ematix_flow import normalize, types
from ematix_flow.backends.duckdb_dialect import DuckDBDialect
from ematix_flow.backends.duckdb_macros import MACROS
from ematix_flow.engine.cleaning import cleaned_rows
from ematix_flow.normalize.base import Marker
from ematix_flow.spec.row_transform import RowTransform
from ematix_flow.spec.table import Column

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/normalizers.md").read_text(encoding="utf-8")
CELL = r" `((?:[^`\\]|\\.)+)` "
ROWS = re.findall(rf"^\|{CELL}\| .*? \|{CELL}\|{CELL}\|{CELL}\|$", PAGE, re.MULTILINE)


def unescaped(cell: str) -> str:
    return cell.replace("\\|", "|")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_an_example_is_true(row: tuple[str, str, str, str]) -> None:
    marker = eval(unescaped(row[0]), vars(normalize))  # noqa: S307 - our own page
    declared = eval(row[1], vars(types))  # noqa: S307
    value, wanted = ast.literal_eval(row[2]), ast.literal_eval(row[3])
    dialect = DuckDBDialect()
    column = Column(declared, name="value", normalizers=(marker,))
    rows = cleaned_rows([column], {"value": "value"}, [], dialect)
    given = dialect.cast(exp.column("value", quoted=True), column.type)
    query = exp.select(dialect.text(given, column.type)).from_(rows.subquery("_rows"))
    with duckdb.connect() as connection:
        for statement in ("SET TimeZone = 'UTC'", *MACROS):
            connection.execute(statement)
        connection.execute('CREATE TEMPORARY TABLE "_source" AS SELECT CAST(? AS VARCHAR) AS value', [value])
        assert connection.execute(dialect.render(query, {}, {})).fetchone() == (wanted,)


def test_no_normalizer_is_missing() -> None:
    markers = {name for name in normalize.__all__ if isinstance(vars(normalize)[name], type)}
    markers = {name for name in markers if issubclass(vars(normalize)[name], Marker)}
    assert {unescaped(row[0]).partition("(")[0] for row in ROWS} == markers


def test_no_row_transform_is_missing() -> None:
    table = PAGE[PAGE.index("## Row transforms") :]
    named = set(re.findall(r"^\| `(\w+)\(", table, re.MULTILINE))
    assert {transform.__name__ for transform in RowTransform.__args__} <= named
