"""Frames of pandas, polars and Arrow: importing this module gives connection handles `read_df` and `write_df`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Protocol, Unpack, cast

from .backends.optional import optional
from .engine.frames import FrameLoad, FrameOptions, read_arrow, rows_of_frame, write_frame
from .engine.handle import Handle
from .engine.result import RunResult
from .errors import MissingExtraError, SpecError, nearest

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["read_arrow_table", "read_df", "to_pandas", "to_polars", "write_df"]

Library = Literal["auto", "polars", "pandas"]


def read_df(handle: Handle, sql: str, *, prefer: Library = "auto") -> pl.DataFrame | pd.DataFrame:
    """The rows of a query as a frame of polars, or of pandas where polars is not installed."""
    if prefer not in _READERS:
        raise SpecError(f"prefer={prefer!r} is not possible", hint=nearest("word", prefer, _READERS))
    library = prefer
    if prefer == "auto":
        found = next((name for name in ("polars", "pandas") if find_spec(name) is not None), None)
        if found is None:
            raise MissingExtraError("polars", "df")
        library = cast("Library", found)
    package = optional(library, extra="df")
    table = read_arrow(handle.backend, sql)
    frame: Any = package.from_arrow(table) if library == "polars" else table.to_pandas()
    return cast("pl.DataFrame | pd.DataFrame", frame)


_READERS = ("auto", "polars", "pandas")


def read_arrow_table(handle: Handle, sql: str) -> pa.Table:
    """The rows of a query as an Arrow table."""
    return read_arrow(handle.backend, sql)


def to_polars(handle: Handle, sql: str) -> pl.DataFrame:
    """The rows of a query as a frame of polars."""
    return cast("pl.DataFrame", read_df(handle, sql, prefer="polars"))


def to_pandas(handle: Handle, sql: str) -> pd.DataFrame:
    """The rows of a query as a frame of pandas."""
    return cast("pd.DataFrame", read_df(handle, sql, prefer="pandas"))


def write_df(
    handle: Handle,
    df: object,
    qualified_name: str,
    **options: Unpack[FrameOptions],
) -> RunResult:
    """Load a frame of pandas, polars or Arrow into a table, all of it or nothing.

    With `target=` the declared table says columns and types, and `qualified_name` only has to be one. Without it the
    frame does, and `keys` are the table's primary key.
    """
    rows = rows_of_frame(df, "write_df", "a frame of pandas, polars or Arrow", spark=False)
    load = FrameLoad.of("write_df", qualified_name, options)
    result = write_frame(handle.backend, rows, load)
    if load.target is None:
        mode = "merge" if options["mode"] == "scd1" else options["mode"]
        result["path"] = f"inferred_{mode}"
    return result


class _Attached(Protocol):
    read_df: object
    read_arrow: object
    to_polars: object
    to_pandas: object
    write_df: object


_handle = cast("_Attached", Handle)
_handle.read_df = read_df
_handle.read_arrow = read_arrow_table
_handle.to_polars = to_polars
_handle.to_pandas = to_pandas
_handle.write_df = write_df
