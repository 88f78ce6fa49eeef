"""Which options of `@ematix.pipeline` go together, and which columns they may name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ematix_flow.errors import SpecTypeError, UnknownNameError
from ematix_flow.spec import registry
from tests.spec.declaring import Pair, Person, declared, no_arguments, refusal


@pytest.fixture(autouse=True)
def _fresh_registry():
    with registry.scope():
        yield


# ── combinations ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Rule:
    """A keyword, a value it may have, and the modes that honour it."""

    keyword: str
    value: object
    modes: tuple[str, ...]


MODES = ("append", "truncate", "merge", "scd1", "scd2")
KEYED = ("merge", "scd1", "scd2")
RULES = [
    Rule("event_timestamp_column", "seen_at", ("scd2",)),
    Rule("ttl", "5m", ("scd2",)),
    Rule("compare_columns", ["name"], KEYED),
    Rule("update_columns", ["name"], ("merge", "scd1")),
    Rule("keys", ["email"], KEYED),
    Rule("incremental_column", "id", ("append", *KEYED)),
    Rule("on_duplicate_order_by", "seen_at", KEYED),
]
CASES = [(rule, mode) for rule in RULES for mode in MODES]


@pytest.mark.parametrize(("rule", "mode"), CASES, ids=[f"{rule.keyword}-{mode}" for rule, mode in CASES])
def test_an_option_is_refused_by_modes_that_would_ignore_it(rule: Rule, mode: str) -> None:
    options = {"mode": mode, rule.keyword: rule.value}
    if rule.keyword == "on_duplicate_order_by":
        options["on_duplicate"] = "error" if mode not in rule.modes else "last"
    if mode in rule.modes:
        assert getattr(declared(**options), rule.keyword) is not None
    else:
        assert f"{rule.keyword}= is for mode" in str(refusal(**options))


@pytest.mark.parametrize("mode", MODES)
def test_late_events_belong_to_history_with_an_event_time(mode: str) -> None:
    if mode == "scd2":
        pipeline = declared(mode=mode, late_events="insert", event_timestamp_column="seen_at")
        assert pipeline.late_events == "insert"
    else:
        assert "late_events= is for mode" in str(refusal(mode=mode, late_events="insert"))


def test_late_events_without_an_event_time_are_refused() -> None:
    assert "needs event_timestamp_column=" in str(refusal(mode="scd2", late_events="ignore"))


@pytest.mark.parametrize(
    ("mode", "deletes"), [("merge", "hard"), ("merge", "soft"), ("scd1", "hard"), ("scd2", "soft")]
)
def test_each_keyed_mode_has_its_forms_of_deletes(mode: str, deletes: str) -> None:
    assert declared(mode=mode, handle_deletes=deletes).handle_deletes == deletes


@pytest.mark.parametrize("mode", ["append", "truncate"])
def test_modes_without_keys_refuse_deletes(mode: str) -> None:
    assert "handle_deletes= is for mode" in str(refusal(mode=mode, handle_deletes="hard"))


def test_history_is_never_deleted() -> None:
    assert "'soft'" in str(refusal(mode="scd2", handle_deletes="hard"))


@pytest.mark.parametrize("mode", ["merge", "scd1"])
def test_columns_to_update_and_to_compare_are_one_thing_in_a_merge(mode: str) -> None:
    assert "say the same" in str(refusal(mode=mode, update_columns=["name"], compare_columns=["email"]))


# ── columns ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("keyword", ["keys", "update_columns", "compare_columns"])
def test_an_unknown_column_names_the_nearest(keyword: str) -> None:
    error = refusal(UnknownNameError, mode="merge", **{keyword: ["emial"]})
    assert keyword in error.message
    assert "did you mean 'email'?" in str(error)


def test_an_unknown_incremental_column_names_the_nearest() -> None:
    assert "did you mean 'seen_at'?" in str(refusal(UnknownNameError, incremental_column="seen"))


@pytest.mark.parametrize("keyword", ["keys", "update_columns", "compare_columns"])
@pytest.mark.parametrize("value", ["name", [1], {"name"}])
def test_column_names_come_in_a_list(keyword: str, value: object) -> None:
    assert "list of column names" in str(refusal(SpecTypeError, mode="merge", **{keyword: value}))


@pytest.mark.parametrize("keyword", ["keys", "update_columns", "compare_columns"])
def test_a_column_named_twice_is_refused(keyword: str) -> None:
    assert "'name' twice" in str(refusal(mode="merge", **{keyword: ["name", "name"]}))


@pytest.mark.parametrize(("mode", "keyword"), [("merge", "update_columns"), ("scd2", "compare_columns")])
def test_a_named_key_never_changes(mode: str, keyword: str) -> None:
    error = refusal(mode=mode, keys=["email"], **{keyword: ["name", "email"]})
    assert f"{keyword}=: 'email' is a key" in error.message


def test_a_key_that_the_table_gives_never_changes() -> None:
    assert "'email' is a key" in str(refusal(target=Person, mode="merge", update_columns=["email"]))


def test_an_empty_list_of_keys_says_where_keys_come_from() -> None:
    assert "natural_key()" in str(refusal(mode="merge", keys=[]))


@pytest.mark.parametrize("options", [{"target": Pair}, {"compare_columns": []}])
def test_history_needs_something_to_compare(options: dict[str, Any]) -> None:
    assert "no columns to compare" in str(refusal(mode="scd2", **options))


def test_a_merge_of_keys_alone_is_possible() -> None:
    assert declared(target=Pair, mode="merge").mode == "merge"


def test_a_column_that_the_load_fills_cannot_be_named() -> None:
    assert "'_loaded_at'" in str(refusal(mode="merge", update_columns=["_loaded_at"]))


# ── column_map ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_map_of_columns_is_kept_as_a_copy() -> None:
    given = {"id": "cid"}
    pipeline = declared(no_arguments, source_table="raw.people", column_map=given)
    given.clear()
    assert pipeline.column_map == {"id": "cid"}


def test_an_unknown_column_of_a_map_names_the_nearest() -> None:
    error = refusal(UnknownNameError, no_arguments, source_table="raw.people", column_map={"emial": "mail"})
    assert "did you mean 'email'?" in str(error)


@pytest.mark.parametrize("column_map", [{"id": 1}, {1: "id"}, {"id": None}])
def test_a_map_of_other_things_than_text_is_refused(column_map: dict[Any, Any]) -> None:
    refusal(SpecTypeError, no_arguments, source_table="raw.people", column_map=column_map)


def test_a_map_to_an_empty_text_is_refused() -> None:
    assert "'id' to nothing" in str(refusal(source_table="raw.people", column_map={"id": " "}))


def test_a_map_of_a_derived_column_is_refused() -> None:
    assert "'loud_name'" in str(refusal(source_table="raw.people", column_map={"loud_name": "shout"}))


def test_a_map_may_name_the_columns_of_a_query() -> None:
    assert declared(column_map={"id": "cid"}).column_map == {"id": "cid"}
