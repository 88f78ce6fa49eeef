"""The documented language, part one: types, tables, connections and pipelines as users declare them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import pytest

from ematix_flow import (
    BigInt,
    DuckDBConnection,
    ManagedTable,
    Numeric,
    PostgresConnection,
    String,
    Text,
    config,
    connect,
    ematix,
    get_connection,
    natural_key,
    pk,
    register_connection,
)
from ematix_flow.engine.handle import Handle
from ematix_flow.errors import DriftError
from ematix_flow.types import Column, Integer

pytestmark = pytest.mark.slow


def test_01_types_and_their_errors() -> None:
    assert (String(5), Numeric(10, 2)) == (String[5], Numeric[10, 2])
    with pytest.raises(ValueError, match="length"):
        String(0)
    with pytest.raises(ValueError, match="scale"):
        Numeric(2, 3)
    with pytest.raises(TypeError):
        Numeric[5]  # type: ignore[misc]

    @ematix.table(schema="s")
    class Ok:
        id: Annotated[BigInt, pk()]
        a: Text | None
        b: String[5] | None
        c: Optional[Integer]  # noqa: UP045 - the older spelling must work
        d: Text

    assert [column.nullable for _, column in Ok.__columns__] == [False, True, True, True, False]
    with pytest.raises(TypeError, match="int"):

        @ematix.table(schema="s")
        class Wrong:
            id: int


def test_02_names_groups_dunders_and_stacking() -> None:
    @ematix.table(schema="s")
    class ABTest2Result:
        id: Annotated[BigInt, pk()]
        code: Annotated[Text, natural_key("b")]
        kind: Annotated[Text, natural_key()]

    assert ABTest2Result.__tablename__ == "ab_test2_result"
    assert ABTest2Result._unique_constraints() == [["kind"], ["code"]]

    @ematix.table(schema="s", name="other")
    class Named:
        __unique_constraints__ = (("code",),)
        id: Annotated[BigInt, pk()]
        code: Annotated[Text, natural_key("x")]

    assert (Named.__tablename__, Named._unique_constraints()) == ("other", [["code"]])
    from dataclasses import dataclass

    with pytest.raises(TypeError, match="dataclass"):

        @ematix.table(schema="s")
        @dataclass
        class Stacked:
            id: BigInt


def test_03_a_table_has_one_fingerprint_however_it_is_written() -> None:
    @ematix.table(schema="dw", name="item")
    class Decorated:
        id: Annotated[BigInt, pk()]
        name: Text | None

    class Item(ManagedTable):
        __schema__, __tablename__ = "dw", "item"
        id = Column(BigInt(), nullable=False, primary_key=True)
        name = Column(Text())

    assert Decorated._to_normalized_spec() == Item._to_normalized_spec()
    with pytest.raises(ValueError, match="primary key"):

        @ematix.table(schema="dw")
        class Keyless:
            name: Text


def test_04_ensure_creates_matches_and_tells_drift(conn: Handle) -> None:
    @ematix.table(schema="raw")
    class Item:
        id: Annotated[BigInt, pk()]
        name: Text | None

    assert Item.ensure(conn)["action"] == "created"
    assert Item.ensure(conn) == {"action": "matched", "differences": []}
    conn.execute("ALTER TABLE raw.item ADD COLUMN extra BIGINT")
    with pytest.raises(DriftError, match="extra"):
        Item.ensure(conn)
    with pytest.warns(UserWarning, match="extra"):
        assert Item.ensure(conn, on_drift="warn")["action"] == "drift"
    with pytest.raises(ValueError, match="on_drift"):
        Item.ensure(conn, on_drift="shrug")  # type: ignore[arg-type]


def test_05_connections_are_found_in_the_documented_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conn: Handle
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    config.set_connection("shop", "duckdb:///user.duckdb")
    assert config.resolve_dsn("shop").endswith("user.duckdb")
    Path(".ematix-flow.toml").write_text('[connections.shop]\nurl = "duckdb:///${WHERE}.duckdb"\n')
    with pytest.raises(KeyError, match="WHERE"):
        config.resolve_dsn("shop")
    monkeypatch.setenv("WHERE", "project")
    assert config.resolve_dsn("shop").endswith("project.duckdb")
    monkeypatch.setenv("EMATIX_FLOW_DSN_SHOP", "postgres://bob:hunter2@db/x")
    assert config.resolve_dsn("shop") == "postgres://bob:hunter2@db/x"
    shown = config.list_connections()
    assert "hunter2" not in str(shown)
    assert "bob" in shown["shop"]
    assert config.check_connection("default")[0]
    assert not config.check_connection("nobody")[0]
    with pytest.raises(LookupError, match="EMATIX_FLOW_DSN_NOBODY"):
        config.resolve_dsn("nobody")


def test_06_typed_connections_are_checked_redacted_and_filled_late(
    conn: Handle, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="url"):
        PostgresConnection("shop", "")

    @ematix.connection
    class lake:  # noqa: N801 - a connection is named like this
        kind = "duckdb"
        name = "named"
        path = "${LAKE_PATH}"

    assert isinstance(lake, DuckDBConnection)
    assert get_connection("named") is lake
    with pytest.raises(KeyError, match="LAKE_PATH"):
        connect("named")
    monkeypatch.setenv("LAKE_PATH", ":memory:")
    assert connect("named").fetch_scalar_int("SELECT 7") == 7
    secret = register_connection(PostgresConnection("secret", "postgres://bob:hunter2@db/x"))
    assert "hunter2" not in repr(secret)


def test_07_functions_and_what_they_may_return(conn: Handle) -> None:
    conn.execute("INSERT INTO raw.customers VALUES (1, 'Ada', now())")

    @ematix.table(schema="dw")
    class Customer:
        id: Annotated[BigInt, pk()]
        name: Text | None

    load = {"target": Customer, "mode": "truncate"}

    @ematix.pipeline(**load)
    async def slowly(source):
        return "SELECT 1 AS id, 'async' AS name"

    @ematix.pipeline(**load, source_table="raw.customers")
    def beaten(source):
        return "SELECT 2 AS id, 'body' AS name"

    @ematix.pipeline(**load, source_table="raw.customers", column_map={"name": "upper(name)"})
    def table():
        pass

    @ematix.pipeline(**load)
    def escape(source):
        return {"done": True}

    def stored() -> list[list[object]]:
        return conn.query("SELECT id, name FROM dw.customer")["rows"]

    slowly()
    assert stored() == [[1, "async"]]
    beaten()
    assert stored() == [[2, "body"]]
    table()
    assert stored() == [[1, "ADA"]]
    assert escape() == {"done": True}
    with pytest.raises(TypeError, match="arguments"):
        ematix.pipeline(**load)(lambda a, b, c: None)
    with pytest.raises(TypeError, match="source_table"):
        ematix.pipeline(**load)(lambda: None)
    with pytest.raises(ValueError, match="nmae"):
        ematix.pipeline(**load, source_table="raw.customers", column_map={"nmae": "name"})(lambda: None)


def test_08_the_ladder_of_keys_and_its_warnings(conn: Handle) -> None:
    @ematix.table(schema="dw")
    class Person:
        id: Annotated[BigInt, pk()]
        email: Annotated[Text, natural_key()]
        name: Text | None

    def declared(**options: object):
        return ematix.pipeline(target=Person, mode="merge", **options)(  # type: ignore[arg-type]
            lambda source: "SELECT 1 AS id, 'a@x' AS email, 'Ada' AS name"
        )

    with pytest.warns(UserWarning, match="primary key"):
        plan = declared(name="derived").preview()
    assert plan.targets[0].merge_keys == ("email",)
    assert declared(name="explicit", keys=["id"]).preview().targets[0].merge_keys == ("id",)


def test_17_preview_is_data_and_text(conn: Handle) -> None:
    @ematix.table(schema="dw")
    class Customer:
        id: Annotated[BigInt, pk()]
        name: Text | None

    @ematix.pipeline(target=Customer, mode="scd2", schedule="0 5 * * *")
    def customers(source):
        return "SELECT 1 AS id, 'Ada' AS name"

    shown = json.loads(customers.preview().to_json())
    assert (shown["pipeline_name"], shown["schedule"], shown["mode"]) == ("customers", "0 5 * * *", "scd2")
    (target,) = shown["targets"]
    assert target["augmented_columns"] == [
        "valid_from",
        "valid_to",
        "is_current",
        "row_hash",
        "_loaded_at",
        "_batch_id",
    ]
    assert target["path"] == "same_db"
    counted = customers.dry_run()
    assert counted.targets[0].dry_run_rows_affected["rows_inserted"] == 1
    assert conn.query("SELECT * FROM information_schema.tables WHERE table_schema = 'dw'")["rows"] == []
    assert customers.validate().ok

    @ematix.pipeline(target=Customer, mode="scd2")
    def broken(source):
        return "SELECT 1 AS id FROM nowhere"

    found = broken.validate()
    assert not found.ok
    assert "nowhere" in found.errors[0]
