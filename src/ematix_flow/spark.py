"""Spark frames: importing this module gives connection handles `read_spark_df` and `write_spark_df`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Unpack, cast

from .engine.frames import FrameLoad, FrameOptions, read_spark, rows_of_frame, write_frame
from .engine.handle import Handle
from .engine.result import RunResult
from .errors import SpecTypeError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_spark_df", "write_spark_df"]


def read_spark_df(handle: Handle, spark: SparkSession, sql: str) -> DataFrame:
    """The rows of a query, as of now, as a frame of the session."""
    if not (hasattr(spark, "createDataFrame") and hasattr(spark, "read")):
        raise SpecTypeError(
            f"read_spark_df takes a SparkSession, not {type(spark).__name__}",
            hint="write handle.read_spark_df(spark, 'SELECT …')",
        )
    return read_spark(handle.backend, spark, sql)


def write_spark_df(
    handle: Handle,
    df: DataFrame,
    qualified_name: str,
    **options: Unpack[FrameOptions],
) -> RunResult:
    """Load a Spark frame into a table, all of it or nothing; `write_df` says what the keywords mean."""
    rows = rows_of_frame(df, "write_spark_df", "a Spark DataFrame", spark=True)
    load = FrameLoad.of("write_spark_df", qualified_name, options)
    result = write_frame(handle.backend, rows, load)
    if load.target is None:
        result["path"] = "inferred"
    return result


class _Attached(Protocol):
    read_spark_df: object
    to_pyspark: object
    write_spark_df: object
    from_pyspark: object


_handle = cast("_Attached", Handle)
_handle.read_spark_df = _handle.to_pyspark = read_spark_df
_handle.write_spark_df = _handle.from_pyspark = write_spark_df
