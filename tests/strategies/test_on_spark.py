"""The same strategies and dialect facts on Spark: fewer loads, because each starts several jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

import pytest
from pyspark.sql import SparkSession
from sqlglot import exp, parse_one

from ematix_flow import types as t
from ematix_flow.backends.spark_dialect import SparkDialect
from ematix_flow.normalize import DATE_FORMATS, TIMESTAMP_FORMATS
from ematix_flow.strategies.base import Intent
from tests.oracle import Moment, Row, row_hash
from tests.strategies.harness import SparkBench, intent_for
from tests.strategies.test_dialects import ALL_TYPES, FITS, MISFITS, TIMES
from tests.strategies.test_random_loads import (
    KEYS,
    MERGE_OPTIONS,
    SCD2_OPTIONS,
    TYPES,
    check_load,
    moments,
    outcome,
    random_rows,
)

pytestmark = pytest.mark.slow

DIALECT = SparkDialect()


def storied(bench: SparkBench, mode: str, intent: Intent, dice: random.Random) -> Iterator[Moment]:
    """Give the target a past that the oracle wrote, so that one load on Spark meets a rich history."""
    clock, rows = moments(), list[Row]()
    for moment in islice(clock, 6):
        arrivals = random_rows(dice, event_time=intent.event_time, around=moment.now)
        past = outcome(mode, rows, arrivals, intent, moment)
        rows = rows if isinstance(past, str) else past.rows
    bench.insert("target", bench.names, rows)
    return clock


@pytest.mark.parametrize(
    "name",
    [
        "soft deletes, empty allowed",
        "ttl",
        "event time",
        "event time, late ignored",
        "event time, late inserted, soft deletes",
    ],
)
def test_an_scd2_load_agrees_with_the_oracle(spark: SparkSession, name: str) -> None:
    dice = random.Random(name)
    intent = intent_for("scd2", TYPES, keys=KEYS, compare=("v", "w"), **SCD2_OPTIONS[name])
    bench = SparkBench("scd2", intent, spark)
    moment = next(storied(bench, "scd2", intent, dice))
    rows = random_rows(dice, event_time=intent.event_time, around=moment.now)
    check_load(bench, "scd2", rows, intent, moment)


@pytest.mark.parametrize("name", ["some columns", "hard deletes"])
def test_a_merge_load_agrees_with_the_oracle(spark: SparkSession, name: str) -> None:
    dice = random.Random(name)
    intent = intent_for("merge", TYPES, keys=KEYS, **MERGE_OPTIONS[name])
    bench = SparkBench("merge", intent, spark)
    moment = next(storied(bench, "merge", intent, dice))
    check_load(bench, "merge", random_rows(dice, event_time=False, around=moment.now), intent, moment)


@pytest.mark.parametrize("mode", ["append", "truncate"])
def test_append_and_truncate_agree_with_the_oracle(spark: SparkSession, mode: str) -> None:
    dice = random.Random(mode)
    intent = intent_for(mode, TYPES, primary_key=KEYS)
    bench = SparkBench(mode, intent, spark)
    for moment, _ in zip(moments(), range(2), strict=False):
        rows = random_rows(dice, event_time=False, around=moment.now)
        check_load(bench, mode, rows, intent, moment)


def evaluate(
    spark: SparkSession, expressions: list[exp.Expr], types: dict[str, t.ColumnType] | None = None
) -> list[object]:
    """The values of many expressions in one job."""
    shown = ", ".join(
        f"{DIALECT.render(expression, {}, types or {})} AS c{number}" for number, expression in enumerate(expressions)
    )
    return list(spark.sql(f"SELECT {shown}").collect()[0])


def text_of(source: str, type: t.ColumnType) -> exp.Expr:
    return DIALECT.text(DIALECT.cast(parse_one(source, read="duckdb"), type), type)


def test_values_that_fit_have_the_same_canonical_text_as_elsewhere(spark: SparkSession) -> None:
    found = evaluate(spark, [text_of(source, kind) for kind, source, _ in FITS])
    assert dict(zip([f"{kind} {source}" for kind, source, _ in FITS], found, strict=True)) == {
        f"{kind} {source}": text for kind, source, text in FITS
    }


def test_null_stays_null_through_cast_and_text(spark: SparkSession) -> None:
    assert set(evaluate(spark, [text_of("NULL", kind) for kind in ALL_TYPES])) == {None}


@pytest.mark.parametrize(("kind", "source"), MISFITS, ids=[f"{kind} {source}" for kind, source in MISFITS])
def test_a_value_that_does_not_fit_ends_the_query(spark: SparkSession, kind: t.ColumnType, source: str) -> None:
    with pytest.raises(Exception, match=r"does not fit|cannot be|CAST|Cannot|USER_RAISED"):
        evaluate(spark, [text_of(source, kind)])


def test_timestamps_and_dates_are_parsed_as_elsewhere(spark: SparkSession) -> None:
    parsed = [DIALECT.parse_timestamp(exp.Literal.string(text), TIMESTAMP_FORMATS) for text, _ in TIMES]
    found = evaluate(spark, [DIALECT.text(value, t.TimestampTZ()) for value in parsed])
    assert dict(zip([text for text, _ in TIMES], found, strict=True)) == dict(TIMES)
    days = [DIALECT.parse_date(exp.Literal.string(text), DATE_FORMATS) for text in ("20260102", "02/30/2026")]
    assert evaluate(spark, [DIALECT.text(day, t.Date()) for day in days]) == ["2026-01-02", None]


def test_the_row_hash_is_the_same_as_in_python(spark: SparkSession) -> None:
    types: dict[str, t.ColumnType] = {"a": t.BigInt(), "b": t.Text(), "c": t.Boolean(), "d": t.Text()}
    query = parse_one("SELECT ROW_HASH(a, b, c, d) FROM (SELECT 5 AS a, 'ä:😀' AS b, TRUE AS c, NULL AS d) AS s")
    found = spark.sql(DIALECT.render(query, {}, types)).collect()[0][0]
    assert bytes(found) == row_hash({"a": 5, "b": "ä:😀", "c": True, "d": None}, types, types)
