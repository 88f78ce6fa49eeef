"""Values of every type compare with themselves: a repeated merge or scd2 finds nothing new, on every path."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ematix_flow.spec.place import TableRef
from ematix_flow.types import BigInt, ColumnType
from tests.backends.lab import Lab, counts, everywhere
from tests.backends.test_contract_types import columns_for, rows_for

MODE = "scd2"
WIDTH = 6
"""Types per table: Spark's parser takes long over a history of many columns."""


def tables(lab: Lab) -> Iterator[dict[str, ColumnType]]:
    """Narrow tables, one after the other, that hold every type between them."""
    kinds = [(name, kind) for name, kind in columns_for(lab).items() if name != "id"]
    for start in range(0, len(kinds), WIDTH):
        lab.target_ref = TableRef("shop", f"table_{start}")
        yield {"id": BigInt(), **dict(kinds[start : start + WIDTH])}


@everywhere
@pytest.mark.parametrize("mode", ["merge", "scd2"])
def test_repeating_a_load_of_every_type_finds_every_row_unchanged(lab: Lab, mode: str) -> None:
    for types in tables(lab):
        rows = rows_for(types)
        lab.load(types, rows, mode=mode)
        before = lab.table()
        again = lab.run(mode=mode)
        assert counts(again, "read", "inserted", "unchanged") == (len(rows), 0, len(rows))
        assert lab.table() == before


@pytest.mark.parametrize("mode", ["merge", "scd2"])
def test_a_change_of_any_one_type_is_seen(lab: Lab, mode: str) -> None:
    for types in tables(lab):
        first, second = rows_for(types)[:2]
        names = [name for name in types if name != "id"]
        rows = [{**first, "id": number} for number in range(len(names))]
        lab.load(types, rows, mode=mode)
        changed = [{**row, name: second[name]} for row, name in zip(rows, names, strict=True)]
        assert lab.load(types, changed, mode=mode).rows_unchanged == 0
        assert lab.load(types, changed, mode=mode).rows_unchanged == len(names)
