"""Statements laid out for reading say the same as before."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ematix_flow.cli.sql_text import laid_out

LONG = (
    "CREATE TEMPORARY TABLE changed AS WITH points AS (SELECT t.id, t.name, t.valid_from FROM target AS t LEFT JOIN "
    "incoming AS i ON t.id = i.id WHERE t.is_current), kept AS (SELECT id FROM points) SELECT id FROM kept "
    "WHERE name IS DISTINCT FROM 'SELECT a FROM b'"
)


def test_a_long_statement_has_one_clause_on_each_line() -> None:
    assert laid_out(LONG).splitlines() == [
        "CREATE TEMPORARY TABLE changed AS",
        "WITH points AS (",
        "  SELECT t.id, t.name, t.valid_from",
        "  FROM target AS t",
        "  LEFT JOIN incoming AS i ON t.id = i.id",
        "  WHERE t.is_current",
        "), kept AS (SELECT id FROM points)",
        "SELECT id",
        "FROM kept",
        "WHERE name IS DISTINCT FROM 'SELECT a FROM b'",
    ]


def test_lines_that_fit_stay_as_they_were_written() -> None:
    written = "SELECT id,\n       name -- the name\nFROM people WHERE id > 1"
    assert laid_out(written) == written


def test_a_text_with_a_line_break_is_never_touched() -> None:
    written = f"SELECT 'first\nsecond' AS words, {'x, ' * 50}y FROM t"
    assert laid_out(written) == written


def test_a_long_list_is_broken_after_commas_outside_brackets() -> None:
    columns = [f"coalesce(column_{number}, 0)" for number in range(8)]
    lines = laid_out(f"SELECT {', '.join(columns)} FROM t").splitlines()
    assert max(len(line) for line in lines) <= 100
    assert all(line.endswith(("),", "7, 0)", "FROM t")) for line in lines)


@pytest.mark.parametrize("word", ["'", '"', "(", ")", "--", "/*"])
def test_a_statement_that_ends_too_early_is_survived(word: str) -> None:
    broken = f"{LONG} {word} "
    assert re.sub(r"\s", "", laid_out(broken)) == re.sub(r"\s", "", broken)


@given(
    st.lists(st.sampled_from([*"(),'\"`\n", "--", "/*", "*/", "SELECT", "FROM", "WITH", "JOIN", "a", " "]), max_size=80)
)
def test_only_white_space_outside_quotes_changes(words: list[str]) -> None:
    statement = " ".join(words)
    shown = laid_out(statement)
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", statement)
    quoted = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/"
    assert re.findall(quoted, shown, re.DOTALL) == re.findall(quoted, statement, re.DOTALL)
