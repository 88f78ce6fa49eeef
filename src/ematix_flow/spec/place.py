"""Where rows are read or written: a query, a table, a prefix of files; and rows that are at hand already."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import SpecError, nearest

__all__ = ["FORMATS", "Place", "Prefix", "Query", "Rows", "TableRef", "check_format", "format_from_path"]

FORMATS = ("csv", "json_lines", "orc", "parquet")
"""The file formats that can be named."""

_COMPRESSED = re.compile(r"\.(gz|bz2|zst|zstd|snappy|lz4)$")
_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "json_lines",
    ".jsonl": "json_lines",
    ".json": "json_lines",
    ".orc": "orc",
}


@dataclass(frozen=True)
class Query:
    """The rows of a query, in the words of the system that runs it."""

    sql: str
    connection: str | None = None
    """Who runs it, where that is not the pipeline's source."""

    def __post_init__(self) -> None:
        if not self.sql.strip():
            raise SpecError("a query cannot be empty", hint="return the SQL text of the source")

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True)
class TableRef:
    """A table by schema and name."""

    schema: str
    name: str

    def __post_init__(self) -> None:
        if not self.schema or not self.name:
            raise SpecError(f"a table needs a schema and a name, not {self.schema!r} and {self.name!r}")

    @classmethod
    def parse(cls, text: str) -> TableRef:
        """The table that ``"schema.table"`` names."""
        parts = [part.strip() for part in text.split(".")]
        if len(parts) != 2 or not all(parts):
            raise SpecError(f"{text!r} does not name a table", hint="write 'schema.table'")
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Prefix:
    """The files below `path`, all of one format."""

    path: str
    format: str

    def __post_init__(self) -> None:
        check_format(self.format, f"the files below {self.path!r}")

    def __str__(self) -> str:
        return self.path


Place = Query | TableRef | Prefix


@dataclass(frozen=True)
class Rows:
    """Rows that are at hand: a data frame of this process or of Spark."""

    frame: object
    kind: str
    """What the frame is, in words: ``pandas DataFrame``."""
    is_spark: bool = False
    is_stream: bool = False
    """The rows can be read once only, as far as anybody knows."""

    def __str__(self) -> str:
        return f"rows of a {self.kind}"


def check_format(format: str, owner: str) -> None:
    """Raise SpecError unless `format` is one of `FORMATS`; `owner` says whose format it is."""
    if format not in FORMATS:
        raise SpecError(f"{owner} cannot have the format {format!r}", hint=nearest("format", format, FORMATS))


def format_from_path(path: str) -> str | None:
    """The format that a file name's ending says, whatever its compression; None where it says none."""
    name = _COMPRESSED.sub("", path.lower())
    return next((format for suffix, format in _SUFFIXES.items() if name.endswith(suffix)), None)  # noqa: A001
