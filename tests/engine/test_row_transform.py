"""Row transforms before the load: on rows that are cleaned, inside a database and through Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import duckdb
import pytest

from ematix_flow import ematix, pk
from ematix_flow.config import Settings
from ematix_flow.connections import DuckDBConnection, SQLiteConnection, register_connection
from ematix_flow.engine.handle import Handle
from ematix_flow.errors import BackendError, UnknownNameError
from ematix_flow.normalize import derive, lower, parse_int, sql, trim
from ematix_flow.project import Project
from ematix_flow.source import Source
from ematix_flow.spec.registry import Registry
from ematix_flow.transforms import deduplicate_by, filter_where, limit, sample_pct
from ematix_flow.types import BigInt, Text

Load = Callable[..., list[tuple[Any, ...]]]

ROWS = """
    SELECT 1 AS id, ' Ada ' AS name, '2026-01-01 00:00:00' AS seen, 5 AS score, 'at' AS country
    UNION ALL SELECT 1, 'ada', '2026-02-01 00:00:00', 7, 'de'
    UNION ALL SELECT 2, 'Bo', '2026-01-01 00:00:00', 1, 'at'
    UNION ALL SELECT 2, 'BO', NULL, 2, 'at'
    UNION ALL SELECT 3, 'Cy', '2026-03-01 00:00:00', 9, 'de'
    UNION ALL SELECT 3, 'cy', '2026-03-01 00:00:00', 9, 'ch'
"""


class Person:
    id: Annotated[BigInt, pk()]
    name: Annotated[Text, trim(), lower()]


PATHS = [
    ("duckdb", "same_db"),
    ("sqlite", "same_db"),
    pytest.param(("duckdb", "cross_db"), marks=pytest.mark.slow),
    pytest.param(("sqlite", "cross_db"), marks=pytest.mark.slow),
]


@pytest.fixture(params=PATHS, ids=" ".join)
def load(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Load]:
    """Loads a query into a table, by one path, and gives the table's rows."""
    kind, path = request.param
    if path == "cross_db":
        request.getfixturevalue("spark")
    file = str(tmp_path / "shop")
    project = Project(Settings.load(tmp_path), Registry())
    numbers = iter(range(100))

    def run(*transforms: Any, rows: object = ROWS, shape: type = Person, **options: Any) -> list[tuple[Any, ...]]:
        name = options.pop("name", None) or f"people_{next(numbers)}"
        with project.active():
            register_connection((DuckDBConnection if kind == "duckdb" else SQLiteConnection)(name="default", path=file))
            table = ematix.table(schema="main", name=name)(
                type("People", (), {"__annotations__": shape.__annotations__})
            )
            declared = {"mode": "append", "force_path": path, "transforms_pre": list(transforms)} | options
            function = rows if callable(rows) else lambda _: rows
            handle = ematix.pipeline(target=table, name=name, **declared)(function)
            run.result = project.run(handle.pipeline)  # type: ignore[attr-defined]
            run.last = project.preview(handle.pipeline)  # type: ignore[attr-defined]
        connection = duckdb.connect(file) if kind == "duckdb" else sqlite3.connect(file)
        try:
            wanted = ", ".join(shape.__annotations__)
            return sorted(connection.execute(f"SELECT {wanted} FROM {name}").fetchall())
        finally:
            connection.close()

    yield run
    project.close()


def test_the_first_row_of_each_key_is_kept_in_the_order_that_is_given(load: Load) -> None:
    assert load(deduplicate_by("id", order_by="score DESC, country"), shape=WithScore) == [
        (1, "ada", 7), (2, "bo", 2), (3, "cy", 9),
    ]  # fmt: skip
    assert load(deduplicate_by(keys=("id",), order_by="score"), shape=WithScore) == [
        (1, "ada", 5), (2, "bo", 1), (3, "cy", 9),
    ]  # fmt: skip


class WithScore:
    id: Annotated[BigInt, pk()]
    name: Annotated[Text, trim(), lower()]
    score: BigInt


@pytest.mark.parametrize(
    ("order", "kept"),
    [("seen", 1), ("seen DESC", 2), ("seen NULLS FIRST", 2), ("seen DESC NULLS LAST", 1), ("seen ASC NULLS LAST", 1)],
)
def test_null_counts_as_the_largest_value_unless_told_otherwise(load: Load, order: str, kept: int) -> None:
    assert load(deduplicate_by("id", order_by=order), filter_where("id = 2"), shape=WithScore) == [(2, "bo", kept)]


def test_all_columns_break_ties_also_those_that_are_not_declared(load: Load) -> None:
    class WithCountry:
        id: Annotated[BigInt, pk()]
        country: Text

    assert load(deduplicate_by("id", order_by="score DESC"), filter_where("id = 3"), shape=WithCountry) == [(3, "ch")]
    assert load(deduplicate_by("id"), filter_where("id = 3"), shape=WithCountry) == [(3, "ch")]


def test_duplicates_are_found_in_cleaned_values(load: Load) -> None:
    class Name:
        name: Annotated[Text, trim(), lower(), pk()]

    assert load(deduplicate_by("name"), shape=Name) == [("ada",), ("bo",), ("cy",)]


def test_a_filter_sees_cleaned_values_and_columns_that_are_not_declared(load: Load) -> None:
    assert load(filter_where("name = 'ada' AND country = 'de' -- the newer one")) == [(1, "ada")]


def test_transforms_are_applied_in_their_order(load: Load) -> None:
    newest = deduplicate_by("id", order_by="score DESC, country")
    assert load(newest, filter_where("country = 'at'")) == [(2, "bo")]
    assert load(filter_where("country = 'at'"), newest) == [(1, "ada"), (2, "bo")]


def test_a_limit_leaves_so_many_rows(load: Load) -> None:
    assert len(load(deduplicate_by("id"), limit(2))) == 2
    assert load(limit(0)) == []
    assert len(load(deduplicate_by("id"), limit(9))) == 3


def test_a_sample_keeps_none_or_all_at_its_ends(load: Load) -> None:
    assert load(deduplicate_by("id"), sample_pct(0)) == []
    assert len(load(deduplicate_by("id"), sample_pct(1))) == 3


def test_an_event_time_that_is_not_declared_survives_cleaning(load: Load) -> None:
    rows = load(
        deduplicate_by("id", order_by="seen NULLS FIRST"), filter_where("seen IS NOT NULL"),
        mode="scd2", event_timestamp_column="seen",
    )  # fmt: skip
    assert rows == [(1, "ada"), (3, "cy")]


def test_sql_of_ones_own_sees_the_source_and_the_value_so_far(load: Load) -> None:
    class Labelled:
        id: Annotated[BigInt, pk()]
        label: Annotated[Text, derive("name || country"), trim(), sql("col || '/' || score || '/col'"), lower()]
        score: Annotated[BigInt, parse_int(), sql("col * 10 + length(name)")]

    rows = load(filter_where("id = 1 AND country = 'at'"), shape=Labelled)
    assert rows == [(1, "ada at/5/col", 55)]


def test_a_preview_shows_the_transforms(load: Load) -> None:
    load(deduplicate_by("id", order_by="score"), sample_pct(0.5))
    plan = load.last  # type: ignore[attr-defined]
    assert "deduplicate_by(keys=('id',), order_by='score'), sample_pct(p=0.5)" in plan.steps[1]
    assert "ROW_NUMBER() OVER" in plan.source_sql


def test_a_table_is_read_with_the_columns_that_transforms_speak_of(load: Load) -> None:
    class Raw:
        id: BigInt
        name: Text
        score: Annotated[BigInt, pk()]
        country: Text

    load(rows=ROWS.replace("3, 'cy'", "4, 'cy'").replace("9, 'ch'", "8, 'ch'"), shape=Raw, name="raw")

    class Labelled:
        id: Annotated[BigInt, pk()]
        label: Annotated[Text, derive("country || score")]

    newest = deduplicate_by("id", order_by="score DESC")
    rows = load(newest, filter_where("name <> 'Cy'"), rows=None, shape=Labelled, source_table="main.raw")
    assert rows == [(1, "de7"), (2, "at2"), (4, "ch8")]
    mapped = load(newest, rows=None, source_table="main.raw", column_map={"name": "country"})
    assert mapped == [(1, "de"), (2, "at"), (3, "de"), (4, "ch")]


def test_rows_of_earlier_loads_are_left_out_before_the_transforms(load: Load) -> None:
    class Scored:
        id: Annotated[BigInt, pk()]
        score: BigInt

    options = {"shape": Scored, "name": "scored", "incremental_column": "score"}
    assert load(filter_where("id = 2"), limit(1), rows="SELECT 2 AS id, 5 AS score", **options) == [(2, 5)]
    rows = " UNION ALL ".join(f"SELECT {number} AS id, {number} AS score" for number in (1, 3, 4, 7))
    # A limit before the filter could choose a row that was too old, and would then load none.
    assert load(filter_where("id <> 2"), limit(1), rows=rows, **options) == [(2, 5), (7, 7)]


def test_a_sample_is_drawn_once(load: Load) -> None:
    rows = " UNION ALL ".join(f"SELECT {number} AS id, 'n' AS name" for number in range(200))
    for mode in ("merge", "scd2"):
        loaded = load(sample_pct(0.5), rows=rows, mode=mode)
        assert load.result["rows_inserted"] == load.result["rows_read"] == len(loaded)  # type: ignore[attr-defined]
        assert 40 < len(loaded) < 160


def test_a_key_that_no_column_has_is_named(load: Load) -> None:
    with pytest.raises(UnknownNameError, match=r"deduplicate_by.*'idd'.*"):
        load(deduplicate_by("idd"))


def test_broken_sql_is_the_systems_to_report(load: Load) -> None:
    with pytest.raises(BackendError, match="pipeline"):
        load(filter_where("no_such_column = 1"))


def test_a_source_that_the_function_returns_is_cleaned_too(load: Load) -> None:
    def people(source: Handle) -> Source:
        return Source.from_query(source, ROWS)

    assert load(deduplicate_by("id"), rows=people) == [(1, "ada"), (2, "bo"), (3, "cy")]

    def again(source: Handle) -> Source:
        return Source.from_table(source, "main", "people_0", ["id", "name"])

    assert load(filter_where("id > 1"), rows=again) == [(2, "bo"), (3, "cy")]
