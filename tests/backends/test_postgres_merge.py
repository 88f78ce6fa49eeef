"""How PostgreSQL merges: in one statement where a unique index finds the rows, by a change table elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.backends.conftest import BY_NAME
from tests.backends.crash_run import no_spark, watch_statements
from tests.backends.lab import Lab, Lane, counts

pytestmark = pytest.mark.server
HEADER = "id | v"
HEARD = """
CREATE TABLE shop.heard (what TEXT);
CREATE FUNCTION shop.hear() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO shop.heard VALUES (TG_OP); RETURN NEW; END $$;
CREATE TRIGGER hear BEFORE INSERT OR UPDATE ON shop.customer FOR EACH ROW EXECUTE FUNCTION shop.hear()
"""
LATER = """
ALTER TABLE shop.customer DROP CONSTRAINT customer_pkey;
ALTER TABLE shop.customer ADD PRIMARY KEY (id) DEFERRABLE INITIALLY DEFERRED
"""
UNKEYED = "ALTER TABLE shop.customer DROP CONSTRAINT customer_pkey"


class Heard(list[str]):
    """The statements of a load."""

    def event(self, text: str) -> None:
        """One statement."""
        self.append(text)


@pytest.fixture
def load(tmp_path: Path) -> Lab:
    lab = Lab(Lane(BY_NAME["postgres"], "pushed"), tmp_path, no_spark, mode="merge", on_drift="ignore")
    lab(HEADER, "1 | a", "2 | b", "3 | NULL")
    return lab


def merged(load: Lab) -> list[str]:
    """Merge one new, one changed and two equal rows, and give the statements that change the table."""
    heard = Heard()
    watch_statements(load, heard)
    result = load(HEADER, "1 | a", "2 | B", "3 | NULL", "4 | d")
    assert counts(result) == (1, 1, 2)
    assert load.rows() == [(1, "a"), (2, "B"), (3, None), (4, "d")]
    return [each for each in heard if 'INSERT INTO "shop"."customer"' in each]


def execute(load: Lab, sql: str) -> list[tuple[Any, ...]]:
    backend: Any = load.target
    with backend.session() as connection:
        return list(connection.execute(sql).fetchall()) if sql.startswith("SELECT") else connection.execute(sql) and []


def test_one_statement_does_it_and_the_preview_shows_it(load: Lab) -> None:
    (statement,) = merged(load)
    assert "ON CONFLICT" in statement
    assert any("ON CONFLICT" in sql for sql in load.project.preview(load.pipeline()).targets[0].plan_sql)
    assert load.rows("_batch_id")[0] != load.rows("_batch_id")[1]


def test_only_chosen_columns_of_a_row_that_exists_change(load: Lab) -> None:
    load("id | v | w", "1 | a | x", "5 | e | y", update_columns=["v"], on_drift="evolve")
    load("id | v | w", "1 | A | X", "5 | e | Y", "6 | f | Z", update_columns=["v"])
    assert [row for row in load.rows("id", "v", "w") if row[0] in (1, 5, 6)] == [
        (1, "A", None),
        (5, "e", "y"),
        (6, "f", "Z"),
    ]


@pytest.mark.parametrize("change", [LATER, UNKEYED])
def test_without_an_index_that_finds_rows_at_once_a_change_table_does(load: Lab, change: str) -> None:
    execute(load, change)
    assert not any("ON CONFLICT" in statement for statement in merged(load))


def test_triggers_hear_of_what_happens_and_of_nothing_else(load: Lab) -> None:
    execute(load, HEARD)
    assert not any("ON CONFLICT" in statement for statement in merged(load))
    assert sorted(execute(load, "SELECT what FROM shop.heard")) == [("INSERT",), ("UPDATE",)]
