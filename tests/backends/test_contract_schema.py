"""Tables that differ from their declaration, odd names, declared columns that loads fill: on every system and path."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import pytest

from ematix_flow import natural_key, nullable, pk
from ematix_flow.errors import DriftError, FlowError
from ematix_flow.spec.place import TableRef
from ematix_flow.types import UUID, BigInt, Integer, String, Text, TimestampTZ
from tests.backends.lab import Lab, everywhere, only
from tests.backends.store import SqlStore

MODE = "append"
KEY: dict[str, Any] = {"id": Annotated[BigInt, pk()]}


@pytest.fixture
def load(lab: Lab) -> Lab:
    lab.defaults = {"mode": "append"}
    return lab


@everywhere
def test_a_declared_column_that_the_table_has_not_is_drift_and_evolve_adds_it(load: Lab) -> None:
    load("id | v", "1 | a")
    for policy in ("error", "warn"):
        with load.refused(DriftError, "'city'"):
            load("id | v | city", "2 | b | Bern", on_drift=policy)
    result = load("id | v | city", "2 | b | Bern", on_drift="evolve")
    assert result.drift == ["added column 'city'"]
    assert load.rows("id", "v", "city") == [(1, "a", None), (2, "b", "Bern")]
    assert load("id | v | city", "3 | c | Basel").rows_inserted == 1


@everywhere
def test_a_column_that_is_not_declared_is_drift_and_a_warning_on_request(load: Lab) -> None:
    load("id | v | city", "1 | a | Bern")
    with load.refused(DriftError, "'city'"):
        load("id | v", "2 | b")
    with pytest.warns(UserWarning, match="'city'"):
        result = load("id | v", "2 | b", on_drift="warn")
    assert result.drift == ["column 'city' is in the table but not declared"]
    assert load.rows("id", "v", "city") == [(1, "a", "Bern"), (2, "b", None)]


def test_another_type_is_drift_and_names_both(load: Lab) -> None:
    load("id | n:Integer", "1 | 5")
    with load.refused(DriftError, "'n'") as error:
        load("id | n:Text", "2 | 6")
    assert "Integer" in str(error.value)
    assert "Text" in str(error.value)


def test_another_nullability_is_drift(load: Lab) -> None:
    load("id | v", "1 | a")
    with load.refused(DriftError, "'v'.*NULL"):
        load("id | v", "2 | b", columns={**KEY, "v": Text})


@everywhere
@only(lambda lane: not lane.system.name.startswith("sqlite"))
def test_evolve_widens_a_column_inside_the_load(load: Lab) -> None:
    load("id | n:SmallInt | p:Numeric[4,1]", "1 | 5 | 1.5")
    with load.refused(DriftError, "'n'.*\n.*'p'"):
        load("id | n:BigInt | p:Numeric[8,3]", "2 | 6 | 2.125")
    result = load("id | n:BigInt | p:Numeric[8,3]", "2 | 5000000000 | 2.125", on_drift="evolve")
    assert result.drift == [
        "widened column 'n' from SmallInt to BigInt",
        "widened column 'p' from Numeric[4, 1] to Numeric[8, 3]",
    ]
    assert load.rows("id", "n", "p") == [(1, 5, Decimal("1.5")), (2, 5_000_000_000, Decimal("2.125"))]
    assert load("id | n:BigInt | p:Numeric[8,3]", "3 | 7 | 0").rows_inserted == 1


@only(lambda lane: lane.system.name.startswith("sqlite"))
def test_sqlite_says_that_it_cannot_widen(load: Lab) -> None:
    load("id | n:SmallInt", "1 | 5")
    with load.refused(DriftError, "cannot change the type of 'n'"):
        load("id | n:BigInt", "2 | 6", on_drift="evolve")
    with pytest.warns(UserWarning, match="'n'"):
        load("id | n:BigInt", "2 | 5000000000", on_drift="warn")
    assert load.rows("id", "n") == [(1, 5), (2, 5_000_000_000)]


def test_drift_that_is_ignored_is_not_mentioned(load: Lab) -> None:
    load("id | v | city", "1 | a | Bern")
    result = load("id | v", "2 | b", on_drift="ignore")
    assert result["drift"] == []
    assert load.rows("id", "v", "city") == [(1, "a", "Bern"), (2, "b", None)]


def test_a_unique_group_may_not_stand_twice(load: Lab) -> None:
    columns = {**KEY, "v": Annotated[Text, nullable(), natural_key()]}
    load("id | v", "1 | a", "2 | NULL", columns=columns)
    with load.refused(FlowError, "b|UNIQUE"):
        load("id | v", "3 | b", "4 | b", columns=columns)
    with load.refused(FlowError, "a|UNIQUE"):
        load("id | v", "3 | b", "4 | a", columns=columns)
    load("id | v", "3 | b", "4 | NULL", columns=columns)
    assert load.rows("id", "v") == [(1, "a"), (2, None), (3, "b"), (4, None)]


def test_evolve_does_not_add_a_column_that_may_not_be_null(load: Lab) -> None:
    load("id | v", "1 | a")
    columns = {**KEY, "v": Annotated[Text, nullable()], "city": Text}
    with load.refused(DriftError, "'city'"):
        load("id | v | city", "2 | b | Bern", columns=columns, on_drift="evolve")


def test_evolve_that_fails_later_adds_no_column(load: Lab) -> None:
    load("id | v", "1 | a")
    with load.refused(FlowError, "id=1"):
        load("id | v | city", "1 | b | Bern", on_drift="evolve")
    assert "city" not in load.table()[0]


def test_null_in_a_column_that_may_not_be_null_is_refused(load: Lab) -> None:
    columns = {**KEY, "v": Text}
    load("id | v", "1 | a", columns=columns)
    with load.refused(FlowError, "v"):
        load("id | v", "2 | b", "3 | NULL", columns=columns)


def test_a_value_that_does_not_fit_is_refused_and_not_cut(load: Lab) -> None:
    load("id | v", "1 | abc", columns={**KEY, "v": String[3]})
    with load.refused(FlowError, "abcd"):
        load("id | v", "2 | abcd", columns={**KEY, "v": String[3]})


def test_a_number_that_does_not_fit_is_refused(load: Lab) -> None:
    columns = {**KEY, "n": Integer}
    load("id | n:BigInt", "1 | 2147483647", columns=columns)
    with load.refused(FlowError, "2147483648|Spark refused"):
        load("id | n:BigInt", "2 | 2147483648", columns=columns)


def test_columns_that_loads_fill_may_be_declared(load: Lab) -> None:
    columns = {**KEY, "_batch_id": UUID, "v": Text, "_loaded_at": TimestampTZ}
    result = load("id | v", "1 | a", at="09:00", columns=columns)
    assert list(load.table()[0]) == ["id", "_batch_id", "v", "_loaded_at"]
    assert load.rows("id", "v", "_loaded_at", "_batch_id") == [(1, "a", "09:00", result.run_id)]


ODD_NAMES = (
    "select",
    "größe",
    "名前",
    'a "quoted" name',
    "it's",
    "semi;colon",
    "per%cent",
    "back`tick",
    "brace{}",
    "a b",
)


@everywhere
def test_reserved_words_quotes_and_other_alphabets_are_names_like_any_other(load: Lab) -> None:
    names = tuple(name for name in ODD_NAMES if name not in load.lane.system.lost_names)
    types = {"id": BigInt(), **{name: Text() for name in names}}
    load.target_ref = TableRef("my order", "größe 'x' table")
    load.source_ref = TableRef("raw group", "from")
    load.load(types, [{"id": 1, **{name: f"value of {name}" for name in names}}])
    load.load(types, [{"id": 2, **dict.fromkeys(names)}])
    assert load.rows(*names) == [tuple(f"value of {name}" for name in names), (None,) * len(names)]


@only(lambda lane: lane.system.pushed)
def test_a_table_made_by_somebody_else_takes_loads(load: Lab) -> None:
    assert isinstance(load.store, SqlStore)
    name = load.target.relation_sql(load.target_ref)
    kinds = ", ".join(
        f"{load.target.dialect.quote(column)} {load.target.dialect.type_name(kind)}{rest}"
        for column, kind, rest in (
            ("id", BigInt(), " PRIMARY KEY NOT NULL"),
            ("v", Text(), ""),
            ("_loaded_at", TimestampTZ(), " NOT NULL"),
            ("_batch_id", UUID(), " NOT NULL"),
        )
    )
    load.store.make_schema("shop")
    load.store.execute(f"CREATE TABLE {name} ({kinds})")
    assert load("id | v", "1 | a").rows_inserted == 1
    with load.refused(FlowError, "id=1"):
        load("id | v", "1 | b")


@only(lambda lane: lane.system.pushed)
def test_a_unique_column_may_have_a_comma_in_its_name(load: Lab) -> None:
    columns = {**KEY, "a, b": Annotated[Text, nullable(), natural_key()]}
    types = {"id": BigInt(), "a, b": Text()}
    load.load(types, [{"id": 1, "a, b": "x"}], columns=columns)
    with load.refused(FlowError, "x|UNIQUE"):
        load.load(types, [{"id": 2, "a, b": "x"}], columns=columns)
