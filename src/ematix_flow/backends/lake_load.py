"""One load into a table of a lake: the change is evaluated into files of the load's own, then made in one commit."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp, parse_one

from ..errors import BackendError, CheckError, ConflictError, FlowError
from ..spec.place import TableRef
from ..spec.run import Bookmark, Commit, Run
from ..spec.table import DELETED, Column, Table
from ..strategies.base import CHANGE_LABEL, INCOMING, TARGET, Append, Change, Replace, Upsert
from ..types import Text
from .base import Applied, Load, SchemaChange
from .file_commits import Entry
from .file_ledger import FileLedger
from .file_table import Layout
from .frames import (
    SPARK,
    FrameQueries,
    Tally,
    conform,
    evolved,
    mentions,
    null_rules,
    refuse_repeated,
    repeated,
    schema_ddl,
)
from .lake_log import LakeLog, LakeState
from .spark_errors import spark_errors
from .workshop import Workshop

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CHANGE", "Home", "LakeLoad", "merge_sql"]

CHANGE = "change"
"""The name of the rows of an upsert in the statement that brings them in."""


class Home(Protocol):
    """What a load needs of its backend."""

    workshop: Workshop

    @property
    def ledger(self) -> FileLedger:
        """What the connection remembers of runs."""

    def log(self, table: TableRef) -> LakeLog:
        """The log of a table."""

    def frame_at(self, table: TableRef, state: LakeState) -> DataFrame:
        """The rows of one version."""


class LakeLoad(Load):
    """One commit of one table; formats say how it is written."""

    def __init__(self, backend: Home, incoming: DataFrame, declared: Table, commit: Commit) -> None:
        self.backend, self.declared, self.commit = backend, declared, commit
        self._incoming = incoming
        self._ref = TableRef(declared.schema, declared.name)
        self._log = backend.log(self._ref)
        self._log.roll_forward()
        self._state = self._log.state()
        self.replayed = commit.token in self._state.tokens
        self._queries = FrameQueries(backend.workshop.spark(), commit, {c.name: c.type for c in declared.columns})
        self._read = 0
        self._change: Change | None = None
        self._rows: DataFrame | None = None
        self._merged: Sequence[str] = ()
        """Where the rows of the change are, if more than new rows come."""
        self._finished: tuple[Run, Bookmark | None] | None = None

    @cached_property
    def layout(self) -> Layout:
        """The columns as the load leaves them."""
        declared = self.declared
        return self._state.layout() or Layout(declared.columns, declared.partition_columns, declared.unique)

    def evolve(self, change: SchemaChange) -> None:
        """Take the new columns into the layout, which is committed with the rows."""
        self.layout = replace(self.layout, columns=evolved(self.layout.columns, change))

    def measure(self, query: exp.Query) -> Sequence[tuple[object, ...]]:
        """The rows of a small query; the incoming rows are evaluated once, whatever is asked of them."""
        self._bind(query)
        return self._queries.rows(query)

    def apply(self, change: Change) -> Applied:
        """Evaluate the change and see that it may be made; the commit makes it."""
        self._bind(exp.select("*").from_(INCOMING), change.rows)
        self._change = change
        labels = self._prepare_merge(change) if isinstance(change, Upsert) else self._prepare_rows(change)
        return Applied(read=self._read, labels=labels)

    def finish(self, run: Run, bookmark: Bookmark | None) -> None:
        """Keep the final record and bookmark for the commit."""
        self._finished = run, bookmark

    def close(self) -> None:
        """Commit, unless somebody else was faster."""
        if self.replayed or self.commit.dry_run:
            return
        if self._finished is None:
            raise BackendError("the load ended without its record")
        run, bookmark = self._finished
        self.backend.ledger.note_table(run)
        spec = self.layout.to_spec()
        entry = Entry(
            seq=self._state.seq + 1,
            token=self.commit.token,
            instant=self.commit.now,
            run=run,
            bookmark=bookmark,
            schema=None if self._state.schemas and self._state.schemas[-1] == spec else spec,
        )
        with self._log.turn():
            now = self._log.state()
            self._refuse_overtaken(now)
            try:
                with self._errors():
                    self._write(entry, now)
            except FlowError:
                # What failed may have come after the commit: then the load is done.
                if not self._log.holds(entry, self._state.version):
                    raise
            if not self._log.holds(entry, self._state.version):
                raise self._overtaken()
        self._log.roll_forward()

    @abstractmethod
    def _write(self, entry: Entry, now: LakeState) -> None:
        """Make the one commit, on top of the state that is there."""

    def _conflicts(self, said: str) -> bool:
        """Whether an error of the format means that somebody else was faster."""
        return False

    def _bind(self, *queries: exp.Query) -> None:
        """Let the names of the queries answer. The source is evaluated once: asked again, it could say other things."""
        if not self._queries.knows(INCOMING) and any(mentions(query, INCOMING) for query in queries):
            tally = Tally({})
            path = str(self._spool(INCOMING))
            tally.watch(self._incoming).write.parquet(path)
            self._read = tally.rows()
            self._queries.bind(INCOMING, self._queries.spark.read.schema(self._incoming.schema).parquet(path))
        if not self._queries.knows(TARGET) and any(mentions(query, TARGET) for query in queries):
            self._queries.bind(TARGET, self._target())

    def _target(self) -> DataFrame:
        stored = self._state.layout()
        if stored is None:
            return self._queries.spark.createDataFrame([], schema_ddl(self.declared.columns))
        frame = conform(self.backend.frame_at(self._ref, self._state), self.declared.columns, stored.types)
        if DELETED in self._added:
            # Rows that are there before the mark is are not deleted.
            frame = frame.na.fill(False, [DELETED])
        return frame

    def _spool(self, name: str) -> Path:
        return self.backend.workshop.exchange("lake") / name

    @property
    def _added(self) -> tuple[str, ...]:
        """Columns that an existing table gets by this load."""
        table = self._state.table
        known = {each.name for each in table.columns} if table else set()
        return tuple(each.name for each in self.layout.columns if each.name not in known) if table else ()

    @property
    def _widened(self) -> tuple[str, ...]:
        """Columns that get another type in the format's own eyes."""
        stored = self._state.layout()
        kept = {name: self._state.kept_type(kind) for name, kind in stored.types.items()} if stored else {}
        wanted = {name: self._state.kept_type(kind) for name, kind in self.layout.types.items()}
        return tuple(name for name, kind in wanted.items() if name in kept and kept[name] != kind)

    def _prepare_rows(self, change: Append | Replace) -> Mapping[str, int]:
        for group in self.declared.unique:
            query = repeated(change.rows, group, with_target=isinstance(change, Append))
            self._bind(query)
            refuse_repeated(str(self._ref), group, self._queries.rows(query))
        rows = self._queries.frame(change.rows)
        self._rows = self._shaped(rows)
        return {"insert": 0, **self._counted(rows.selectExpr("*", f"'insert' AS {SPARK.quote(CHANGE_LABEL)}"))}

    def _prepare_merge(self, change: Upsert) -> Mapping[str, int]:
        paths = [str(self._spool("change"))]
        found = self._queries.save(change.rows, paths[0])
        self._queries.bind(CHANGE, found)
        labels = self._counted(found)
        self._refuse_repeated_after(change)
        if DELETED in self._added:
            # Rows that are there before the mark is are written anew, with the mark.
            self._bind(rest := self._untouched(change, "t.*", f"'mark' AS {SPARK.quote(CHANGE_LABEL)}"))
            paths.append(str(self._spool("rest")))
            self._queries.save(rest, paths[-1])
        if len(paths) > 1 or labels.keys() - {"insert"}:
            self._merged = paths
        self._rows = self._shaped(found)
        return labels

    def _refuse_repeated_after(self, change: Upsert) -> None:
        """Unique groups that are not the keys of the change: no lake enforces them."""
        for group in (self.declared.primary_key, *self.declared.unique):
            if group and set(group) != set(change.keys):
                names = [SPARK.quote(name) for name in group]
                new = f"SELECT {', '.join(names)} FROM {CHANGE} WHERE {SPARK.quote(CHANGE_LABEL)} <> 'remove'"
                kept = self._untouched(change, *(f"t.{name}" for name in names))
                after = exp.union(parse_one(new, read=SPARK.name), kept, distinct=False)
                query = repeated(after, group, with_target=False)
                self._bind(query)
                refuse_repeated(str(self._ref), group, self._queries.rows(query))

    def _untouched(self, change: Upsert, *shown: str) -> exp.Query:
        """The rows of the target that the change says nothing of."""
        matched = " AND ".join(f"t.{key} = c.{key}" for key in map(SPARK.quote, change.keys))
        sql = f"SELECT {', '.join(shown)} FROM {TARGET} AS t LEFT ANTI JOIN {CHANGE} AS c ON {matched}"
        query = parse_one(sql, read=SPARK.name)
        assert isinstance(query, exp.Query)
        return query

    def _shaped(self, rows: DataFrame, *, labelled: bool = False) -> DataFrame:
        """The rows in the types of the table; a column that it has and nobody declared stays NULL."""
        given = {c.name: c.type for c in self.declared.columns if c.name in rows.columns}
        wanted = [column for column in self.layout.columns if column.name in given]
        label = [Column(Text(), name=CHANGE_LABEL)] if labelled else []
        return conform(rows, [*wanted, *label], {**given, CHANGE_LABEL: Text()})

    def _counted(self, rows: DataFrame) -> Mapping[str, int]:
        """How many rows there are of each label; CheckError where one of them may not be in the table."""
        stays = f"{SPARK.quote(CHANGE_LABEL)} <> 'remove'"
        rules = {**null_rules(self.declared.columns), **self._text_rules()}
        tally = Tally({offence: f"{stays} AND {condition}" for offence, condition in rules.items()})
        labels = tally.count(rows, CHANGE_LABEL)
        tally.check(f"table {self.declared.qualified_name!r}")
        return labels

    def _refuse_overtaken(self, now: LakeState) -> None:
        """What the load began from must be there still, as far as it has looked at it."""
        made = (now.table is None) != (self._state.table is None)
        if made or now.seq != self._state.seq or (self._queries.knows(TARGET) and now.version != self._state.version):
            raise self._overtaken()

    def _overtaken(self) -> ConflictError:
        return ConflictError(
            f"another load into {self._ref} committed first",
            hint="run again: the load starts from what the other one left",
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """The format's refusals in our words."""
        try:
            with spark_errors():
                yield
        except BackendError as error:
            said = str(error.__cause__)
            if self._conflicts(said):
                raise self._overtaken() from error
            if _SEVERAL.search(said) and isinstance(self._change, Upsert):
                raise CheckError(
                    f"{self._ref} holds several rows for one key ({', '.join(self._change.keys)})",
                    hint="remove the duplicates, or choose keys that identify one row",
                ) from error
            raise

    def _text_rules(self) -> dict[str, str]:
        """Further rules of the format: what to say of rows that break one, and the condition that they meet."""
        return {}

    def _own_session(self) -> SparkSession:
        """MERGE takes what its commit says from the session, so it gets one that nobody else writes with."""
        spark = self._queries.spark.newSession()
        for name in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled"):
            spark.conf.set(name, str(self._queries.spark.conf.get(name)))
        return spark

    def _merged_rows(self, spark: SparkSession) -> tuple[str, ...]:
        """Let the rows of the upsert answer to `CHANGE`; gives the columns that they fill."""
        rows = self._shaped(spark.read.parquet(*self._merged), labelled=True)
        rows.createOrReplaceTempView(CHANGE)
        return tuple(name for name in rows.columns if name != CHANGE_LABEL)


def merge_sql(table: str, change: Upsert, columns: Sequence[str], *, evolves: bool = False) -> str:
    """The statement that brings the rows of an upsert into `table`, named as Spark names it."""
    label = f"s.{SPARK.quote(CHANGE_LABEL)}"
    names = [SPARK.quote(name) for name in columns]
    matched = " AND ".join(f"t.{key} = s.{key}" for key in map(SPARK.quote, change.keys))
    values = ", ".join(f"s.{name}" for name in names)
    removing = [f"WHEN MATCHED AND {label} = 'remove' THEN DELETE"] if change.removes else []
    return "\n".join(
        (
            f"MERGE {'WITH SCHEMA EVOLUTION ' if evolves else ''}INTO {table} AS t",
            f"USING {SPARK.quote(CHANGE)} AS s ON {matched}",
            *removing,
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = s.{name}' for name in names)}",
            f"WHEN NOT MATCHED AND {label} <> 'remove' THEN INSERT ({', '.join(names)}) VALUES ({values})",
        )
    )


_SEVERAL = re.compile(r"\[(DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE|MERGE_CARDINALITY_VIOLATION)")
