"""Declaring a folder of files: formats and options are checked before anything is opened."""

from __future__ import annotations

from typing import Any

import pytest

from ematix_flow.backends.files import ObjectStoreLocalConnection
from ematix_flow.errors import SpecError, SpecTypeError, UnknownNameError


def connection(**fields: Any) -> ObjectStoreLocalConnection:
    return ObjectStoreLocalConnection(**{"name": "lake", "path": "x", "format": "csv", **fields})


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="did you mean 'parquet'"):
        connection(format="parqet")


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'delimiter'"):
        connection(options={"delimeter": ";"})
    with pytest.raises(UnknownNameError, match="compression"):
        connection(format="parquet", options={"header": True})


@pytest.mark.parametrize(
    ("option", "value"),
    [("header", "maybe"), ("delimiter", ""), ("delimiter", 3), ("quote", "ab"), ("escape", "\n"), ("null_value", None),
     ("encoding", "utf-99"), ("compression", "zip")],
)  # fmt: skip
def test_a_value_that_an_option_cannot_take_is_refused(option: str, value: object) -> None:
    with pytest.raises(SpecError, match=option):
        connection(options={option: value})


def test_options_are_a_mapping_and_references_wait_until_they_are_filled() -> None:
    with pytest.raises(SpecTypeError):
        connection(options=["header"])
    waiting = connection(format="${FORMAT}", options={"delimiter": "${SEP}"})
    assert waiting.resolve(lambda text: {"${FORMAT}": "csv", "${SEP}": ";"}.get(text, text)).options == {
        "delimiter": ";"
    }
    with pytest.raises(SpecError, match="format"):
        waiting.resolve(lambda text: "nonsense")
