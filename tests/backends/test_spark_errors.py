"""What Spark raises, as a user reads it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ematix_flow.backends.spark_errors import spark_errors
from ematix_flow.errors import BackendError, UnknownNameError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_a_column_that_is_not_there_is_an_unknown_name_with_the_nearest_one(spark: SparkSession) -> None:
    with pytest.raises(UnknownNameError, match="the source has no column 'nmae'") as caught, spark_errors():
        spark.sql("SELECT nmae FROM VALUES (1, 'a') AS t(id, name)")
    assert "did you mean 'name'?" in str(caught.value)


def test_a_row_that_cannot_be_read_names_the_file_and_the_row(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("id,name\n1,Ada\nx,Bob\n", encoding="utf-8")
    rows = spark.read.csv(str(file), header=True, schema="id INT, name STRING", mode="FAILFAST")
    with pytest.raises(BackendError) as caught, spark_errors():
        rows.collect()
    assert str(file) in str(caught.value)
    assert "Bob" in str(caught.value)


def test_a_row_with_too_many_values_says_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("id,name\n1,Ada\n2,Lovelace, Ada\n", encoding="utf-8")
    rows = spark.read.csv(str(file), header=True, schema="id INT, name STRING", mode="FAILFAST")
    with pytest.raises(BackendError, match="2,Lovelace") as caught, spark_errors():
        rows.collect()
    assert str(file) in str(caught.value)
    assert "into quotes" in str(caught.value.hint)


def test_other_exceptions_are_left_alone() -> None:
    with pytest.raises(LookupError), spark_errors():
        raise LookupError
