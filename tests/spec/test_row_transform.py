"""Row transforms as they are declared."""

from __future__ import annotations

from typing import Annotated

import pytest

from ematix_flow.errors import SpecError, SpecTypeError
from ematix_flow.markers import pk
from ematix_flow.normalize import is_normalizer, trim
from ematix_flow.spec.origin import Origin
from ematix_flow.spec.pipeline import Pipeline, build_pipeline
from ematix_flow.spec.row_transform import OrderTerm
from ematix_flow.spec.table import build_table_class
from ematix_flow.transforms import deduplicate_by, filter_where, is_pipeline_transform, limit, sample_pct
from ematix_flow.types import BigInt

PLACE = Origin("pipelines.py", 7)


class Number:
    id: Annotated[BigInt, pk()]


def declared(transforms: object) -> Pipeline:
    table = build_table_class(Number, schema="dw")
    options = {"target": table, "mode": "append", "name": "numbers", "transforms_pre": transforms}
    return build_pipeline(lambda source: "SELECT 1 AS id", options, PLACE)


def test_keys_are_names_or_a_list() -> None:
    assert deduplicate_by("a", "b") == deduplicate_by(keys=["a", "b"]) == deduplicate_by(keys=("a", "b"))
    assert deduplicate_by(keys="a") == deduplicate_by("a")


@pytest.mark.parametrize(
    ("order", "terms"),
    [
        ("a", [("a", False, False)]),
        ("a DESC, b", [("a", True, True), ("b", False, False)]),
        ("a desc nulls last", [("a", True, False)]),
        ("a NULLS FIRST", [("a", False, True)]),
        ("coalesce(a, ',') ASC, \"b, desc\" DESC", [("coalesce(a, ',')", False, False), ('"b, desc"', True, True)]),
        ("list[1, 2]", [("list[1, 2]", False, False)]),
        ("description", [("description", False, False)]),
    ],
)
def test_an_order_is_read_term_by_term(order: str, terms: list[tuple[str, bool, bool]]) -> None:
    assert deduplicate_by("k", order_by=order).terms == tuple(OrderTerm(*term) for term in terms)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (deduplicate_by, "names no column"),
        (lambda: deduplicate_by(keys=()), "names no column"),
        (lambda: deduplicate_by("a", "a"), "repeat a column"),
        (lambda: deduplicate_by("a", keys=("b",)), "say the same thing"),
        (lambda: deduplicate_by(1), "names of columns"),
        (lambda: deduplicate_by("a", order_by=""), "order_by is empty"),
        (lambda: deduplicate_by("a", order_by="b,,c"), "empty term"),
        (lambda: deduplicate_by("a", order_by=["b"]), "SQL text"),
        (lambda: filter_where(" "), "is empty"),
        (lambda: filter_where(None), "SQL text"),
        (lambda: limit(-1), "no -1 rows"),
        (lambda: limit(1.5), "whole number"),
        (lambda: limit(True), "whole number"),
        (lambda: sample_pct(1.1), "no fraction"),
        (lambda: sample_pct(-0.1), "no fraction"),
        (lambda: sample_pct(float("nan")), "no fraction"),
        (lambda: sample_pct("half"), "takes a number"),
    ],
)
def test_a_transform_refuses_wrong_arguments_when_it_is_written(make, problem: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SpecError, match=problem):
        make()


def test_a_pipeline_takes_transforms_in_their_order() -> None:
    assert declared([filter_where("id > 1"), limit(3)]).transforms_pre == (filter_where("id > 1"), limit(3))
    assert declared(limit(3)).transforms_pre == (limit(3),)
    assert declared(()).transforms_pre == ()


@pytest.mark.parametrize(
    ("transforms", "problem"),
    [
        ([limit], r"transforms_pre\[0\] is no transform: limit"),
        ([limit(1), trim()], r"transforms_pre\[1\] is no transform: trim\(\)"),
        (["id > 1"], r"transforms_pre\[0\] is no transform"),
        ("id > 1", "transforms_pre= takes a list of transforms, not a str"),
        ({"limit": 1}, "transforms_pre= takes a list of transforms, not a dict"),
    ],
)
def test_anything_else_is_an_error_with_its_place(transforms: object, problem: str) -> None:
    with pytest.raises(SpecTypeError, match=f"pipeline 'numbers': {problem}") as caught:
        declared(transforms)
    assert caught.value.declared_at == PLACE


def test_normalizers_and_transforms_are_told_apart() -> None:
    assert is_pipeline_transform(limit(1))
    assert not is_pipeline_transform(trim())
    assert not is_pipeline_transform(limit)
    assert not is_normalizer(limit(1))
