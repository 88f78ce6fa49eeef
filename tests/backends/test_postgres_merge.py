"""How PostgreSQL merges: rows are touched where they were seen, in tables of every make, and no other row is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ematix_flow.errors import CheckError, ConflictError
from tests.backends.conftest import BY_NAME
from tests.backends.crash_run import no_spark
from tests.backends.lab import Lab, Lane, counts
from tests.backends.watch import watch_statements

pytestmark = pytest.mark.server
HEADER = "id | v"
COLUMNS = "v TEXT, _loaded_at TIMESTAMPTZ NOT NULL, _batch_id UUID NOT NULL"
MADE = {
    "as declared": "SELECT 1",
    "without an index": "ALTER TABLE shop.customer DROP CONSTRAINT customer_pkey",
    "with another key type": "ALTER TABLE shop.customer ALTER COLUMN id TYPE NUMERIC",
    "identity": "ALTER TABLE shop.customer ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (START 100)",
    "checked": "ALTER TABLE shop.customer ADD CHECK (v <> 'never')",
    "partitioned": f"""
        DROP TABLE shop.customer;
        CREATE TABLE shop.customer (id BIGINT NOT NULL PRIMARY KEY, {COLUMNS}) PARTITION BY RANGE (id);
        CREATE TABLE shop.low PARTITION OF shop.customer FOR VALUES FROM (0) TO (3);
        CREATE TABLE shop.high PARTITION OF shop.customer FOR VALUES FROM (3) TO (99);
        INSERT INTO shop.customer SELECT * FROM shop.kept""",
    "inherited": """
        CREATE TABLE shop.child () INHERITS (shop.customer);
        INSERT INTO shop.child SELECT * FROM shop.customer WHERE id = 2;
        DELETE FROM ONLY shop.customer WHERE id = 2""",
}
HEARD = """
CREATE TABLE shop.heard (what TEXT);
CREATE FUNCTION shop.hear() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO shop.heard VALUES (TG_OP); RETURN NEW; END $$;
CREATE TRIGGER hear BEFORE INSERT OR UPDATE ON shop.customer FOR EACH ROW EXECUTE FUNCTION shop.hear()
"""


class Meanwhile:
    """Does something before a statement."""

    def __init__(self, statement: str, act: Callable[[], object]) -> None:
        self.statement, self.act = statement, act

    def event(self, text: str) -> None:
        """Something is about to happen."""
        if text.startswith(self.statement):
            self.act()


@pytest.fixture
def load(tmp_path: Path) -> Lab:
    lab = Lab(Lane(BY_NAME["postgres"], "pushed"), tmp_path, no_spark, mode="merge", on_drift="ignore")
    lab(HEADER, "1 | a", "2 | b", "3 | NULL")
    return lab


def execute(load: Lab, sql: str) -> list[tuple[Any, ...]]:
    backend: Any = load.target
    with psycopg.connect(backend.connection.url) as connection:
        cursor = connection.execute(sql)  # type: ignore[call-overload]
        return list(cursor.fetchall()) if cursor.description else []


@pytest.mark.parametrize("make", MADE)
def test_rows_of_every_kind_of_table_are_found(load: Lab, make: str) -> None:
    execute(load, f"CREATE TABLE shop.kept AS TABLE shop.customer; {MADE[make]}")
    if make == "identity":
        assert counts(load(HEADER, "1 | a", "2 | B", "3 | NULL")) == (0, 1, 2)
        return
    assert counts(load(HEADER, "1 | a", "2 | B", "3 | NULL", "4 | d")) == (1, 1, 2)
    rows = execute(load, "SELECT id, v FROM shop.customer ORDER BY id")
    assert rows == [(1, "a"), (2, "B"), (3, None), (4, "d")]
    # Rows that are as they were have not been written again.
    assert execute(load, "SELECT COUNT(DISTINCT _batch_id) FROM shop.customer WHERE id IN (1, 3)") == [(1,)]


def test_few_changes_in_a_large_table_go_to_their_rows(load: Lab) -> None:
    execute(load, "INSERT INTO shop.customer SELECT i, 'x', now(), gen_random_uuid() FROM generate_series(4, 2000) i")
    execute(load, "ANALYZE shop.customer")
    load.defaults["handle_deletes"] = "hard"
    given = [f"{number} | x" for number in range(4, 1990)]
    result = load(HEADER, "1 | A", "2 | b", *given, "5000 | new")
    assert counts(result, "inserted", "updated", "deleted") == (1, 1, 12)
    assert execute(load, "SELECT COUNT(*), MAX(id) FROM shop.customer") == [(1989, 5000)]


def test_what_a_column_that_is_not_updated_would_get_does_not_matter(load: Lab) -> None:
    execute(load, "ALTER TABLE shop.customer ADD COLUMN w TEXT NOT NULL DEFAULT 'kept' CHECK (w <> 'never')")
    load("id | v | w", "1 | A | never", "2 | B | NULL", update_columns=["v"])
    assert execute(load, "SELECT v, w FROM shop.customer WHERE id < 3 ORDER BY id") == [("A", "kept"), ("B", "kept")]


def test_triggers_hear_of_what_happens_and_of_nothing_else(load: Lab) -> None:
    execute(load, HEARD)
    assert counts(load(HEADER, "1 | a", "2 | B", "3 | NULL", "4 | d")) == (1, 1, 2)
    assert sorted(execute(load, "SELECT what FROM shop.heard")) == [("INSERT",), ("UPDATE",)]


@pytest.mark.parametrize("rival", ["UPDATE shop.customer SET v = 'theirs' WHERE id = 2", "DELETE FROM shop.customer"])
def test_a_row_that_somebody_else_changes_meanwhile_is_a_conflict(load: Lab, rival: str) -> None:
    load.target.load_retries = 0
    watch_statements(load, Meanwhile("UPDATE", lambda: execute(load, rival)))
    with pytest.raises(ConflictError, match="somebody else changed"):
        load(HEADER, "1 | a", "2 | B", "3 | NULL", "4 | d", handle_deletes="hard")
    assert (2, "B") not in load.rows()
    assert 4 not in dict(load.rows())  # type: ignore[call-overload]


@pytest.mark.parametrize("rival", ["UPDATE shop.customer SET v = 'theirs' WHERE id = 2", "DELETE FROM shop.customer"])
def test_a_load_without_deletes_brings_each_row_in_whatever_others_do(load: Lab, rival: str) -> None:
    watch_statements(load, Meanwhile('INSERT INTO "shop"', lambda: execute(load, rival)))
    result = load(HEADER, "1 | a", "2 | B", "4 | d")
    assert counts(result) == ((1, 1, 1) if rival.startswith("UPDATE") else (3, 0, 0))
    assert {(1, "a"), (2, "B"), (4, "d")} <= set(load.rows())


def test_a_row_that_exists_needs_no_value_where_nobody_declared_one(load: Lab) -> None:
    execute(load, "ALTER TABLE shop.customer ADD COLUMN w TEXT; UPDATE shop.customer SET w = 'kept'")
    execute(load, "ALTER TABLE shop.customer ALTER COLUMN w SET NOT NULL")
    assert counts(load(HEADER, "1 | A", "2 | B", "3 | C")) == (0, 3, 0)
    assert execute(load, "SELECT DISTINCT w FROM shop.customer") == [("kept",)]


def test_a_constraint_that_waits_is_no_hindrance(load: Lab) -> None:
    execute(load, "ALTER TABLE shop.customer ADD UNIQUE (id) DEFERRABLE INITIALLY DEFERRED")
    assert counts(load(HEADER, "1 | A", "2 | B", "3 | C", "4 | d")) == (1, 3, 0)


def test_rows_that_stay_as_they_are_wait_for_nobody(load: Lab) -> None:
    backend: Any = load.target
    same = [f"{number} | x" for number in range(10, 40)]
    load(HEADER, "1 | a", *same)
    with psycopg.connect(backend.connection.url) as other:
        other.execute("SELECT 1 FROM shop.customer WHERE id BETWEEN 10 AND 40 FOR UPDATE")
        load.target.connection = replace(backend.connection, lock_timeout=1)
        assert counts(load(HEADER, "1 | A", *same)) == (0, 1, 30)


def test_a_server_that_does_not_count_merges_all_the_same(load: Lab) -> None:
    execute(
        load,
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET track_counts = off', current_database()); END $$",
    )
    assert counts(load(HEADER, "1 | a", "2 | B", "3 | NULL", "4 | d")) == (1, 1, 2)


def test_columns_of_one_name_are_told_apart_by_nobody(load: Lab) -> None:
    with load.refused(CheckError, "several columns of one name: 'id'"):
        load.run(sql="SELECT 1 AS id, 2 AS id, 'a' AS v")
