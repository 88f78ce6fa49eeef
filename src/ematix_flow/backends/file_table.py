"""A folder of data files as a table: which files are live, what columns they have, and their rows as a frame."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ..errors import BackendError, DriftError
from ..spec.table import Column, Table
from ..types import ColumnType, Text, type_from_spec
from .base import Actual, ActualColumn
from .file_commits import FOLDER, CommitLog, DataFile, LogState
from .file_formats import EMPTY_TEXT, FileFormat
from .frames import SPARK, conform, schema_ddl, stored_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DATA", "FileReader", "FileTable", "Layout", "data_files", "frame_types"]

DATA = "data"
"""The folder below a load's staging that holds the files to publish."""


@dataclass(frozen=True)
class Layout:
    """The columns of a table, and which of them are folders."""

    columns: tuple[Column, ...]
    partitions: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] | None = None
    """Unique groups; None where nobody declared the table."""

    def to_spec(self) -> dict[str, object]:
        """The layout as plain data."""
        groups = {} if self.unique is None else {"unique_constraints": [list(names) for names in self.unique]}
        columns = [column.to_spec() for column in self.columns]
        return {"columns": columns, "partition_columns": list(self.partitions), **groups}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Layout:
        """The layout that `to_spec` described."""
        columns = tuple(
            Column(type_from_spec(each["type"]), each["nullable"], each["primary_key"], each["name"])
            for each in spec["columns"]
        )
        groups = spec.get("unique_constraints")
        unique = None if groups is None else tuple(tuple(names) for names in groups)
        return cls(columns, tuple(spec["partition_columns"]), unique)

    @property
    def types(self) -> dict[str, ColumnType]:
        """The type of each column."""
        return {column.name: column.type for column in self.columns}


@dataclass(frozen=True)
class FileReader:
    """How the files of one connection are read."""

    spark: SparkSession
    format: FileFormat
    options: Mapping[str, object] = field(default_factory=dict)

    def written(self, files: Sequence[Path], base: Path, layout: Layout) -> DataFrame:
        """The rows of files that loads wrote with this layout."""
        if self.format.typed:
            return self._load(files, base, layout.columns, {})
        texts = tuple(Column(Text(), name=column.name) for column in layout.columns)
        frame = self._restored(self._load(files, base, texts, {"lineSep": "\n"}))
        return conform(frame, layout.columns, {column.name: column.type for column in texts})

    def found(self, files: Sequence[Path], base: Path) -> DataFrame:
        """The rows of files that others wrote: by name, whatever columns they have."""
        if self.format.typed:
            return self._load(files, base, None, {"mergeSchema": "true"})
        first = next((file for file in files if file.stat().st_size), files[0])
        # Spark reads a header with line breaks allowed only from paths without brackets, so they are not allowed in it.
        header = self._load([first], first.parent, None, {}, {"multiLine": "false"}).columns
        texts = tuple(Column(Text(), name=name) for name in header)
        # The other files may not have their columns in another order than the first one.
        return self._restored(self._load(files, base, texts, {"enforceSchema": "false"}))

    def _load(
        self,
        files: Sequence[Path],
        base: Path,
        columns: Iterable[Column] | None,
        more: Mapping[str, str],
        fixed: Mapping[str, str] | None = None,
    ) -> DataFrame:
        partitioned = any("=" in part for file in files for part in file.relative_to(base).parent.parts)
        place = {"basePath": str(base)} if partitioned else {"recursiveFileLookup": "true"}
        options = self.format.spark_options(self.options, {**self.format.reading, **more, **place})
        reader = self.spark.read.format(self.format.spark).options(**{**options, **(fixed or {})})
        if columns is not None:
            reader = reader.schema(schema_ddl(columns))
        return reader.load([_escaped(file) for file in files])

    def _restored(self, frame: DataFrame) -> DataFrame:
        texts = {each.name for each in frame.schema.fields if each.dataType.simpleString() == "string"}
        quoted = {name: SPARK.quote(name) for name in frame.columns}
        return frame.selectExpr(
            *(
                f"CASE WHEN {q} = '{EMPTY_TEXT}' THEN '' ELSE {q} END AS {q}" if name in texts else q
                for name, q in quoted.items()
            )
        )


class FileTable:
    """The table in one folder, with its log; a folder without a log is read whole."""

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.folder = log.folder

    def exists(self, state: LogState) -> bool:
        """Whether there is a table: somebody committed, or there are files."""
        return state.seq > 0 or bool(self.foreign(state))

    def foreign(self, state: LogState) -> tuple[str, ...]:
        """The data files of a folder that no load has written to yet."""
        return tuple(data_files(self.folder)) if state.seq == 0 else ()

    def layout(self, state: LogState) -> Layout | None:
        """The columns as the last load left them; None where no load has."""
        return Layout.from_spec(state.schemas[-1]) if state.schemas else None

    def frame(self, state: LogState, reader: FileReader) -> DataFrame:
        """The live rows."""
        layout = self.layout(state)
        if layout is None:
            return reader.found([self.folder / path for path in self.foreign(state)], self.folder)
        if not state.files:
            return reader.spark.createDataFrame([], schema_ddl(layout.columns))
        frames = []
        for (base, schema), files in self._groups(state.files.values()).items():
            if schema is None:
                frame = reader.found(files, base)
                given = frame_types(frame)
            else:
                own = Layout.from_spec(state.schemas[schema])
                frame, given = reader.written(files, base, own), own.types
            frames.append(conform(frame, layout.columns, given))
        return reduce(lambda one, other: one.unionAll(other), frames)

    def actual(self, state: LogState, open_reader: Callable[[], FileReader]) -> Actual | None:
        """The table as it is: as declared where a load wrote it, otherwise as the files say."""
        if not self.exists(state):
            return None
        layout = self.layout(state)
        if layout is None:
            return Actual(_reflected(self.frame(state, open_reader())))
        return stored_table(layout.columns, layout.unique)

    def target_layout(self, state: LogState, declared: Table, open_reader: Callable[[], FileReader]) -> Layout:
        """The layout to load `declared` into: the stored one, or the files' own, or the declared one."""
        stored = self.layout(state)
        if stored is None and self.foreign(state):
            stored = Layout(self._adopted(state, declared, open_reader()), self._found_partitions(state))
        if stored is None:
            return Layout(declared.columns, declared.partition_columns, declared.unique)
        if stored.partitions != declared.partition_columns:
            raise DriftError(
                f"table {declared.qualified_name!r} is kept in other folders than declared",
                [f"declared by {declared.partition_columns or 'none'}, kept by {stored.partitions or 'none'}"],
                hint="declare the partition columns that it has, or load into a new table",
                declared_at=declared.declared_at,
            )
        return stored

    def _adopted(self, state: LogState, declared: Table, reader: FileReader) -> tuple[Column, ...]:
        known = {column.name: column for column in declared.columns}
        columns = []
        for each in _reflected(self.frame(state, reader)):
            if each.type is None:
                raise BackendError(
                    f"{self.folder}: column {each.name!r} has the type {each.declared}, which loads cannot keep",
                    hint="load into a new table",
                )
            own = known.get(each.name)
            columns.append(
                own
                if own and SPARK.stored_type(own.type) == each.type
                else Column(each.type, own is None or own.nullable, own is not None and own.primary_key, each.name)
            )
        return tuple(columns)

    def _found_partitions(self, state: LogState) -> tuple[str, ...]:
        parts = Path(self.foreign(state)[0]).parent.parts
        return tuple(unquote(part.partition("=")[0]) for part in parts if "=" in part)

    def _groups(self, files: Iterable[DataFile]) -> Mapping[tuple[Path, int | None], list[Path]]:
        """Files that one read can take: below one folder and of one layout."""
        groups: dict[tuple[Path, int | None], list[Path]] = defaultdict(list)
        for file in files:
            path = self.log.location(file)
            inner = path.relative_to(self.folder).parts
            base = self.folder.joinpath(*inner[: inner.index(DATA) + 1]) if inner[0] == FOLDER else self.folder
            groups[base, file.schema].append(path)
        return groups


def data_files(folder: Path) -> list[str]:
    """The files below `folder` that hold rows, relative to it: no name on the way begins with `_` or `.`."""
    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        found += [os.path.relpath(Path(parent, name), folder) for name in sorted(files) if not _is_hidden(name)]
    return found


def _is_hidden(name: str) -> bool:
    # A partition column's folder may begin with an underscore.
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _escaped(path: Path) -> str:
    """The path as Spark must be given it: a character that it takes for a pattern stands for itself."""
    return "".join(f"\\{each}" if each in "{}[]*?\\" else each for each in str(path))


def frame_types(frame: DataFrame) -> dict[str, ColumnType]:
    """The types of a frame's columns, as far as they are in the catalogue."""
    return {each.name: each.type for each in _reflected(frame) if each.type is not None}


def _reflected(frame: DataFrame) -> tuple[ActualColumn, ...]:
    kinds = {each.name: each.dataType.simpleString() for each in frame.schema.fields}
    return tuple(ActualColumn(name, SPARK.column_type(kind), kind) for name, kind in kinds.items())
