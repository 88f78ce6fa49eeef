"""A declared table against the one that exists: every kind of difference under every policy, and `ensure`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

from ematix_flow import ManagedTable, ematix, natural_key, pk
from ematix_flow.backends.base import Backend
from ematix_flow.backends.workshop import Workshop
from ematix_flow.connections import DuckDBConnection, MemoryConnection, ObjectStoreLocalConnection, SQLiteConnection
from ematix_flow.engine.handle import Handle
from ematix_flow.engine.schema import differences, ensure_table, is_wider
from ematix_flow.errors import DriftError, SpecError, UnsupportedError
from ematix_flow.spec import registry as registries
from ematix_flow.spec.place import TableRef
from ematix_flow.spec.table import Table
from ematix_flow.types import (
    JSON,
    UUID,
    BigInt,
    ColumnType,
    Double,
    Float,
    Integer,
    Numeric,
    SmallInt,
    String,
    Text,
)
from tests.engine.test_frames import start_no_spark

KEY = Annotated[BigInt, pk()]
REF = TableRef("dw", "item")
CONNECTIONS: dict[str, Callable[[Path], Any]] = {
    "duckdb": lambda folder: DuckDBConnection("shop", str(folder / "shop.duckdb")),
    "sqlite": lambda folder: SQLiteConnection("shop", str(folder / "shop.db")),
    "memory": lambda _: MemoryConnection("shop"),
}


def declared(**columns: object) -> type[ManagedTable]:
    with registries.scope():
        return ematix.table(schema="dw")(type("Item", (), {"__annotations__": columns}))


@pytest.fixture(params=CONNECTIONS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """An empty system that keeps tables."""
    opened = CONNECTIONS[request.param](tmp_path).open(Workshop(start_no_spark, tmp_path / "scratch"))
    yield opened
    opened.close()
    if hasattr(opened, "drop"):
        opened.drop()


@pytest.fixture
def conn(backend: Backend) -> Handle:
    """A handle of the system."""
    return Handle(backend)


def kind(conn: Handle) -> str:
    return conn.kind


BEFORE = declared(id=KEY, code=Annotated[String[5], natural_key()], n=Integer, price=Numeric[8, 2], name=Text | None)

CHANGES: dict[str, tuple[dict[str, object], str, set[str]]] = {
    # The declaration that is compared, the line it gives, and the systems that cannot see the difference.
    "missing column": ({"city": Text | None}, "column 'city' is declared but not in the table", set()),
    "type": ({"n": Text}, "column 'n' has type Integer, declared is Text", set()),
    "length": (
        {"code": Annotated[String[9], natural_key()]},
        "column 'code' has type String[5], declared is String[9]",
        {"duckdb"},
    ),
    "precision": ({"price": Numeric[9, 3]}, "column 'price' has type Numeric[8, 2], declared is Numeric[9, 3]", set()),
    "nullability": ({"name": Text}, "column 'name' allows NULL, declared is not null", set()),
    "primary key": ({"n": Annotated[Integer, pk()]}, "column 'n' is not part of the primary key", {"duckdb"}),
    "unique constraint": ({"code": String[5]}, "unique constraint (code) is not declared", {"duckdb"}),
    "another unique constraint": (
        {"n": Annotated[Integer, natural_key("numbers")]},
        "unique constraint (n) is missing",
        {"duckdb"},
    ),
}


def changed(change: str) -> type[ManagedTable]:
    columns = {
        "id": KEY, "code": Annotated[String[5], natural_key()], "n": Integer, "price": Numeric[8, 2],
        "name": Text | None,
    }  # fmt: skip
    return declared(**{**columns, **CHANGES[change][0]})


def test_a_table_is_created_and_then_matches(conn: Handle) -> None:
    assert BEFORE.ensure(conn) == {"action": "created", "differences": []}
    assert BEFORE.ensure(conn) == {"action": "matched", "differences": []}


@pytest.mark.parametrize("change", CHANGES)
def test_each_kind_of_difference_is_an_error_that_names_it(conn: Handle, change: str) -> None:
    BEFORE.ensure(conn)
    _, line, blind = CHANGES[change]
    if kind(conn) in blind:
        assert changed(change).ensure(conn)["action"] == "matched"
        return
    with pytest.raises(DriftError) as caught:
        changed(change).ensure(conn)
    assert line in caught.value.differences
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "missing column"])
def test_a_warning_lets_the_difference_be(conn: Handle, change: str) -> None:
    BEFORE.ensure(conn)
    _, line, blind = CHANGES[change]
    if kind(conn) in blind:
        assert changed(change).ensure(conn, "warn")["action"] == "matched"
        return
    with pytest.warns(UserWarning, match="is not what was declared"):
        outcome = changed(change).ensure(conn, on_drift="warn")
    assert outcome["action"] == "drift"
    assert line in outcome["differences"]  # type: ignore[operator]


def test_ignoring_says_nothing_but_what_it_gives(conn: Handle) -> None:
    BEFORE.ensure(conn)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = changed("type").ensure(conn, on_drift="ignore")
    assert outcome["action"] == "drift"


def test_an_extra_column_is_a_difference(conn: Handle) -> None:
    changed("missing column").ensure(conn)
    with pytest.raises(DriftError, match="column 'city' is in the table but not declared"):
        BEFORE.ensure(conn)


def test_all_differences_are_in_one_error(conn: Handle) -> None:
    BEFORE.ensure(conn)
    other = declared(id=KEY, n=Text, city=Text | None)
    with pytest.raises(DriftError) as caught:
        other.ensure(conn)
    assert len(caught.value.differences) >= 5


@pytest.mark.parametrize("policy", ["evolve", "add_columns"])
def test_evolving_adds_a_nullable_column(conn: Handle, policy: Any) -> None:
    BEFORE.ensure(conn)
    outcome = changed("missing column").ensure(conn, on_drift=policy)
    assert outcome == {"action": "evolved", "differences": ["added column 'city'"]}
    assert changed("missing column").ensure(conn)["action"] == "matched"


WIDENINGS: list[tuple[ColumnType, ColumnType]] = [
    (SmallInt(), Integer()),
    (SmallInt(), BigInt()),
    (Integer(), BigInt()),
    (Float(), Double()),
    (Numeric(8, 2), Numeric(10, 3)),
    (String(5), String(9)),
    (String(5), Text()),
]


@pytest.mark.parametrize(("old", "new"), WIDENINGS)
def test_evolving_widens_where_the_system_can(conn: Handle, old: ColumnType, new: ColumnType) -> None:
    declared(id=KEY, v=old | None).ensure(conn)
    wider = declared(id=KEY, v=new | None)
    if kind(conn) == "duckdb" and isinstance(old, String):
        assert wider.ensure(conn)["action"] == "matched"  # it keeps no lengths
        return
    if kind(conn) == "sqlite":
        with pytest.raises(DriftError, match="cannot change the type of 'v'"):
            wider.ensure(conn, on_drift="evolve")
        return
    outcome = wider.ensure(conn, on_drift="evolve")
    assert outcome == {"action": "evolved", "differences": [f"widened column 'v' from {old} to {new}"]}
    assert wider.ensure(conn)["action"] == "matched"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (BigInt(), Integer()),
        (Text(), String(5)),
        (Numeric(8, 2), Numeric(8, 3)),
        (Numeric(8, 2), Numeric(8, 2)),
        (Double(), Float()),
        (UUID(), Text()),
        (JSON(), Text()),
    ],
)
def test_nothing_else_is_wider(old: ColumnType, new: ColumnType) -> None:
    assert not is_wider(old, new)


def test_evolving_never_narrows(conn: Handle) -> None:
    declared(id=KEY, n=BigInt).ensure(conn)
    with pytest.raises(DriftError, match="'n' has type BigInt, declared is SmallInt"):
        declared(id=KEY, n=SmallInt).ensure(conn, on_drift="evolve")


def test_a_type_outside_the_catalogue_is_drift_and_no_crash(conn: Handle) -> None:
    if kind(conn) == "memory":
        return  # it has no types but the catalogue's
    table = declared(id=KEY, v=Text | None)
    table.ensure(conn)
    name = conn._backend.relation_sql(REF)
    conn.execute(f"DROP TABLE {name}")
    strange = {"duckdb": "INTERVAL", "sqlite": "GEOMETRY"}[kind(conn)]
    conn.execute(f"CREATE TABLE {name} (id BIGINT NOT NULL PRIMARY KEY, v {strange})")
    with pytest.raises(DriftError, match="which no declared type matches"):
        table.ensure(conn)
    with pytest.warns(UserWarning, match="which no declared type matches"):
        assert table.ensure(conn, on_drift="warn")["action"] == "drift"


def test_columns_that_loads_add_are_no_difference(conn: Handle) -> None:
    assert BEFORE.ensure(conn, mode="append")["action"] == "created"
    assert BEFORE.ensure(conn)["action"] == "matched"
    assert BEFORE.ensure(conn, mode="append")["action"] == "matched"


def test_another_policy_is_a_value_error_that_names_the_keyword(conn: Handle) -> None:
    with pytest.raises(SpecError, match="on_drift='warm' is not possible"):
        BEFORE.ensure(conn, on_drift="warm")


def test_a_change_that_fails_leaves_the_table_as_it_was(backend: Backend) -> None:
    ensure_table(backend, BEFORE._table())
    before = backend.columns(REF)
    with pytest.raises(DriftError):
        ensure_table(backend, declared(id=KEY, city=Text | None, n=SmallInt)._table(), "evolve")
    assert backend.columns(REF) == before


def test_a_spec_says_the_same_as_the_table(conn: Handle) -> None:
    assert conn.ensure_table(BEFORE._to_normalized_spec())["action"] == "created"
    assert BEFORE.ensure(conn)["action"] == "matched"


def test_files_make_tables_only_in_loads(tmp_path: Path) -> None:
    workshop = Workshop(start_no_spark, tmp_path / "scratch")
    backend = ObjectStoreLocalConnection("lake", str(tmp_path / "lake"), "parquet").open(workshop)
    with pytest.raises(UnsupportedError, match="only in loads"):
        BEFORE.ensure(Handle(backend))


def test_differences_have_a_kind(backend: Backend) -> None:
    ensure_table(backend, BEFORE._table())
    actual = backend.columns(REF)
    assert actual is not None
    table: Table = declared(id=KEY, code=Annotated[String[5], natural_key()], n=Text, price=Numeric[9, 2])._table()
    found = differences(table, actual, backend)
    assert [(each.kind, each.name) for each in found] == [
        ("extra column", "name"), ("type", "n"), ("length", "price"),
    ]  # fmt: skip
