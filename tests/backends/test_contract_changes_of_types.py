"""Values of every type compare with themselves: a repeated merge or scd2 finds nothing new, on every path."""

from __future__ import annotations

import pytest

from tests.backends.lab import Lab, counts, everywhere
from tests.backends.test_contract_types import columns_for, rows_for

MODE = "scd2"


@everywhere
@pytest.mark.parametrize("mode", ["merge", "scd2"])
def test_repeating_a_load_of_every_type_finds_every_row_unchanged(lab: Lab, mode: str) -> None:
    types = columns_for(lab)
    rows = rows_for(types)
    lab.load(types, rows, mode=mode)
    before = lab.table()
    again = lab.run(mode=mode)
    assert counts(again, "read", "inserted", "unchanged") == (len(rows), 0, len(rows))
    assert lab.table() == before


@pytest.mark.parametrize("mode", ["merge", "scd2"])
def test_a_change_of_any_one_type_is_seen(lab: Lab, mode: str) -> None:
    types = columns_for(lab)
    first, second = rows_for(types)[:2]
    names = [name for name in types if name != "id"]
    rows = [{**first, "id": number} for number in range(len(names))]
    lab.load(types, rows, mode=mode)
    changed = [{**row, name: second[name]} for row, name in zip(rows, names, strict=True)]
    assert lab.load(types, changed, mode=mode).rows_unchanged == 0
    assert lab.load(types, changed, mode=mode).rows_unchanged == len(names)
