"""Folders of files: every format gives back what it was given, loads are whole, and options are checked."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from ematix_flow.backends.base import Applied, Frame, SchemaChange
from ematix_flow.backends.files import FilesBackend, ObjectStoreLocalConnection
from ematix_flow.backends.frames import schema_ddl
from ematix_flow.backends.owner import current_owner
from ematix_flow.backends.workshop import Workshop
from ematix_flow.errors import (
    BackendError,
    CheckError,
    ConflictError,
    ConnectError,
    DriftError,
    SpecError,
    UnknownNameError,
    UnsupportedError,
)
from ematix_flow.spec.place import Prefix, Query, TableRef
from ematix_flow.spec.run import Bookmark, Commit, Run
from ematix_flow.spec.table import Column, Table
from ematix_flow.strategies.base import Intent, strategy_for
from ematix_flow.types import (
    JSON,
    UUID,
    BigInt,
    Boolean,
    Bytes,
    Date,
    Double,
    Float,
    Integer,
    Numeric,
    SmallInt,
    String,
    Text,
    Timestamp,
    TimestampTZ,
)

pytestmark = pytest.mark.slow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FORMATS = ["parquet", "orc", "json_lines", "csv"]
META = (Column(TimestampTZ(), nullable=False, name="_loaded_at"), Column(UUID(), nullable=False, name="_batch_id"))


def table(*columns: Column, partitions: tuple[str, ...] = ()) -> Table:
    key = Column(BigInt(), primary_key=True, name="id")
    return Table("s", "t", (key, *columns, *META), partition_columns=partitions)


NAMES = table(Column(Text(), name="name"))


class Loader:
    """Loads rows into `s.t` the way the engine does."""

    def __init__(self, backend: FilesBackend, spark: SparkSession) -> None:
        self.backend, self.spark = backend, spark

    def frame(self, declared: Table, rows: Sequence[tuple[object, ...]]) -> DataFrame:
        columns = [column for column in declared.columns if column not in META]
        return self.spark.createDataFrame(list(rows), schema_ddl(columns)).coalesce(1)

    def commit(self, declared: Table, mode: str = "append", **changes: Any) -> Commit:
        run = Run(
            run_id=str(uuid4()), pipeline="p", schema=declared.schema, table=declared.name, mode=mode, path="spark",
            started_at=changes.get("now", NOON), owner=current_owner(),
        )  # fmt: skip
        return Commit(**{"token": run.run_id, "run": run, "now": NOON, **changes})

    def __call__(
        self,
        rows: Sequence[tuple[object, ...]] | DataFrame,
        declared: Table = NAMES,
        mode: str = "append",
        *,
        bookmark: str | None = None,
        **changes: Any,
    ) -> Applied | None:
        frame = rows if isinstance(rows, DataFrame) else self.frame(declared, rows)
        commit, strategy = self.commit(declared, mode, **changes), strategy_for(mode)
        if not commit.dry_run:
            self.backend.ledger.start(commit.run)
        intent = Intent(
            columns=tuple(column.name for column in declared.columns if column not in META),
            types={column.name: column.type for column in declared.columns},
            primary_key=declared.primary_key,
        )
        with self.backend.load(Frame(frame), declared, commit) as load:
            if load.replayed:
                return None
            actual = self.backend.columns(TableRef("s", "t"))
            known = actual.column_names if actual else ()
            added = tuple(name for name in declared.column_names if name not in known) if actual else ()
            load.evolve(SchemaChange(declared, create=actual is None, add=added))
            for guard in strategy.guards(intent):
                if offences := load.measure(guard.query):
                    raise CheckError(guard.message(offences))
            applied = load.apply(strategy.change(intent))
            done = commit.run.with_outcome("success", NOON, rows={"rows_inserted": applied.labels["insert"]})
            load.finish(done, None if bookmark is None else Bookmark("p", "id", bookmark))
        return applied

    def rows(self, *names: str) -> list[tuple[object, ...]]:
        frame = self.backend.read(TableRef("s", "t"))
        kept = names or tuple(name for name in frame.columns if not name.startswith("_"))
        return sorted(map(tuple, frame.select(*kept).collect()), key=lambda row: str(row[0]).zfill(9))


Open = Callable[..., Loader]


@pytest.fixture
def open_files(spark: SparkSession, tmp_path: Path) -> Iterator[Open]:
    workshop = Workshop(lambda: spark, tmp_path / "scratch")

    def open_(format: str = "parquet", options: Mapping[str, object] | None = None) -> Loader:
        connection = ObjectStoreLocalConnection("lake", str(tmp_path / "lake"), format, options or {})
        return Loader(FilesBackend(connection, workshop), spark)

    with workshop.bench():
        yield open_


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lake" / "s" / "t"


def visible(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("part-*") if "_ematix" not in path.parts)


ALL_TYPES = table(
    Column(SmallInt(), name="small"),
    Column(Integer(), name="whole"),
    Column(Float(), name="single"),
    Column(Double(), name="double"),
    Column(Numeric(38, 10), name="exact"),
    Column(Boolean(), name="yes"),
    Column(Text(), name="text"),
    Column(String(9), name="short"),
    Column(Date(), name="day"),
    Column(Timestamp(), name="clock"),
    Column(TimestampTZ(), name="instant"),
    Column(JSON(), name="doc"),
    Column(UUID(), name="uid"),
)
CLOCK = datetime(1901, 2, 3, 4, 5, 6, 789012)  # noqa: DTZ001 - a time of day without a zone is what is tested
EVERYTHING = [
    (
        1, -32768, 2**31 - 1, 1.5, 0.1, Decimal("-1234567890123456789012345678.0123456789"), True,
        'a "quoted", text\nwith\r\nlines; ünï😀 \\ ', "x", date(1969, 12, 31), CLOCK,
        datetime(1960, 1, 1, 0, 0, 0, 1, tzinfo=UTC), '{"a": "b"}', str(uuid4()),
    ),
    (2, *(None for _ in range(13))),
    (3, 0, 0, -0.0, 1e300, Decimal(0), False, "", "", date(9999, 12, 31), CLOCK,
     NOON, "null", str(uuid4())),
]  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_every_type_comes_back_as_it_was_written(open_files: Open, format: str) -> None:
    load = open_files(format)
    load(EVERYTHING, ALL_TYPES)
    read = load.backend.read(TableRef("s", "t"))
    naive = [tuple(v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in row) for row in EVERYTHING]
    assert load.rows() == naive
    assert read.schema.simpleString().startswith(
        "struct<id:bigint,small:smallint,whole:int,single:float,double:double,exact:decimal(38,10),yes:boolean,"
        "text:string,short:string,day:date,clock:timestamp_ntz,instant:timestamp,"
    )


@pytest.mark.parametrize("format", FORMATS)
def test_append_adds_and_replace_takes_the_place_of_everything(open_files: Open, folder: Path, format: str) -> None:
    load = open_files(format)
    assert load([(1, "a"), (2, None)]) == Applied(read=2, labels={"insert": 2})
    load([(3, "")])
    assert load.rows() == [(1, "a"), (2, None), (3, "")]
    assert len(visible(folder)) == 2
    load([(9, "new")], mode="truncate")
    assert load.rows() == [(9, "new")]
    assert len(visible(folder)) == 1
    assert load([], mode="truncate") == Applied(read=0, labels={"insert": 0})
    assert load.rows() == []
    assert visible(folder) == []


TEXTS = [
    "", " ", " a ", ",", '"', '""', '"a', "\\", '\\"', "a\\", "\n", "\r", "\r\n", "a\nb", "#", "\t", "'", "NULL", "\\N",
    "ü😀", "\ufeffb", "null", "nan", "1e5", "{}", "a;b|c",
]  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"header": False, "escape": "\\"},
        {"delimiter": "|", "quote": "'", "null_value": "<none>"},
        {"compression": "gzip", "encoding": "utf-16"},
    ],
)
def test_awkward_texts_survive_csv(open_files: Open, options: Mapping[str, object]) -> None:
    load = open_files("csv", options)
    rows = [*enumerate(TEXTS), (len(TEXTS), None)]
    load(rows)
    assert load.rows() == rows


def test_a_text_that_reads_like_null_is_refused_in_csv(open_files: Open, folder: Path) -> None:
    load = open_files("csv", {"null_value": "NA"})
    with pytest.raises(CheckError, match="'NA' in the column 'name'"):
        load([(1, "NA")])
    assert not folder.exists()


def test_csv_keeps_instants_in_iso_form_with_microseconds(open_files: Open, folder: Path) -> None:
    load = open_files("csv")
    load([(1, NOON)], table(Column(TimestampTZ(), name="at")))
    assert "1,2026-01-01T12:00:00.000000Z," in (folder / visible(folder)[0]).read_text()


def test_json_lines_name_every_column_of_every_row(open_files: Open, folder: Path) -> None:
    load = open_files("json_lines")
    load([(1, None)])
    assert json.loads((folder / visible(folder)[0]).read_text())["name"] is None


def test_bytes_are_refused_in_csv_and_kept_elsewhere(open_files: Open, folder: Path) -> None:
    blobs = table(Column(Bytes(), name="blob"))
    with pytest.raises(UnsupportedError, match="column 'blob'"):
        open_files("csv")([(1, b"\x00\xff")], blobs)
    assert not folder.exists()
    load = open_files("json_lines")
    load([(1, b"\x00\xff")], blobs)
    assert load.rows() == [(1, b"\x00\xff")]


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_partition_columns_become_folders(open_files: Open, folder: Path, format: str) -> None:
    places = table(Column(Text(), name="place"), Column(Integer(), name="n"), partitions=("place",))
    load = open_files(format)
    load([(1, "a/b=ü", 5), (2, None, 6), (3, "007", None)], places)
    load([(4, "007", 7)], places)
    assert load.rows() == [(1, "a/b=ü", 5), (2, None, 6), (3, "007", None), (4, "007", 7)]
    assert [Path(name).parent.name for name in visible(folder)].count("place=007") == 2
    load([(5, "x", 1)], places, "truncate")
    assert sorted(path.name for path in folder.iterdir()) == ["_ematix", "place=x"]


def test_an_empty_text_cannot_name_a_folder(open_files: Open) -> None:
    places = table(Column(Text(), name="place"), partitions=("place",))
    with pytest.raises(CheckError, match="empty text in the column 'place'"):
        open_files()([(1, "")], places)


def test_other_partition_columns_than_the_stored_ones_are_drift(open_files: Open) -> None:
    load = open_files()
    load([(1, "a")])
    with pytest.raises(DriftError, match="other folders"):
        load([(2, "b")], table(Column(Text(), name="name"), partitions=("name",)))


def test_a_null_where_none_may_be_is_refused(open_files: Open, folder: Path) -> None:
    strict = table(Column(Text(), nullable=False, name="name"))
    with pytest.raises(CheckError, match="1 row has NULL in the column 'name'"):
        open_files()([(1, None)], strict)
    assert not folder.exists()


def test_a_key_that_the_folder_holds_is_refused_and_changes_nothing(open_files: Open, folder: Path) -> None:
    load = open_files("csv")
    load([(1, "a")])
    before = visible(folder)
    with pytest.raises(CheckError, match="id=1"):
        load([(1, "b"), (2, "c")])
    assert load.rows() == [(1, "a")]
    assert visible(folder) == before
    assert not (folder / "_ematix" / "staging").exists()


def test_a_source_that_answers_differently_each_time_is_asked_once(open_files: Open, spark: SparkSession) -> None:
    load = open_files()
    restless = spark.range(20).selectExpr("id", "uuid() AS name").filter("rand() < 0.5")
    applied = load(restless)
    assert applied is not None
    assert applied.read == applied.labels["insert"] == len(load.rows())


def test_a_repeated_token_changes_nothing(open_files: Open) -> None:
    load = open_files()
    load([(1, "a")], token="once")
    assert load([(2, "b")], token="once") is None
    assert load.rows() == [(1, "a")]


@pytest.mark.parametrize("before", [[], [(1, "a")]])
def test_a_dry_run_counts_and_leaves_nothing(open_files: Open, folder: Path, before: list[tuple[int, str]]) -> None:
    load = open_files()
    if before:
        load(before)
    files = sorted(folder.rglob("*"))
    assert load([(2, "b"), (3, "c")], dry_run=True) == Applied(read=2, labels={"insert": 2})
    assert sorted(folder.rglob("*")) == files
    assert folder.exists() == bool(before)


def test_a_load_that_fails_leaves_nothing(open_files: Open, tmp_path: Path) -> None:
    load = open_files()
    commit = load.commit(NAMES)
    opened = load.backend.load(Frame(load.frame(NAMES, [(1, "a")])), NAMES, commit)
    opened.__enter__().apply(strategy_for("append").change(Intent(columns=("id", "name"), types={})))
    assert (tmp_path / "lake" / "s").exists()
    error = ZeroDivisionError()
    assert not opened.__exit__(ZeroDivisionError, error, None)
    assert not (tmp_path / "lake" / "s").exists()


def test_a_load_without_its_record_is_an_error(open_files: Open) -> None:
    load = open_files()
    frame = Frame(load.frame(NAMES, [(1, "a")]))
    with pytest.raises(BackendError, match="without its record"), load.backend.load(frame, NAMES, load.commit(NAMES)):
        pass


def test_of_two_loads_from_one_state_the_second_conflicts(open_files: Open) -> None:
    load = open_files()
    load([(1, "a")])
    slow = load.commit(NAMES)
    change = strategy_for("append").change(Intent(columns=("id", "name"), types={}))
    opened = load.backend.load(Frame(load.frame(NAMES, [(2, "slow")])), NAMES, slow)
    late = opened.__enter__()
    late.apply(change)
    load([(3, "fast")])
    late.finish(slow.run, None)
    with pytest.raises(ConflictError):
        opened.__exit__(None, None, None)
    assert load.rows() == [(1, "a"), (3, "fast")]


def test_changing_single_rows_is_refused_with_a_pointer(open_files: Open) -> None:
    load = open_files()
    merge = strategy_for("merge").change(
        Intent(columns=("id", "name"), types={"id": BigInt(), "name": Text()}, keys=("id",), update=("name",))
    )
    frame = Frame(load.frame(NAMES, [(1, "a")]))
    with pytest.raises(UnsupportedError, match="Delta"), load.backend.load(frame, NAMES, load.commit(NAMES)) as one:
        one.apply(merge)
    assert type(merge) not in FilesBackend.can.changes


@pytest.mark.parametrize("format", FORMATS)
def test_a_new_column_is_null_in_the_rows_before_it(open_files: Open, format: str) -> None:
    load = open_files(format)
    load([(1, "a")])
    load([(2, 7, "b")], table(Column(Integer(), name="age"), Column(Text(), name="name")))
    assert load.rows("id", "name", "age") == [(1, "a", None), (2, "b", 7)]
    actual = load.backend.columns(TableRef("s", "t"))
    assert actual is not None
    assert actual.column_names == ("id", "name", "_loaded_at", "_batch_id", "age")


def test_columns_are_told_as_declared(open_files: Open) -> None:
    load = open_files("csv")
    assert load.backend.columns(TableRef("s", "t")) is None
    load([], table(Column(Numeric(12, 2), name="price")))
    actual = load.backend.columns(TableRef("s", "t"))
    assert actual is not None
    told = [(column.name, column.type, column.nullable, column.primary_key) for column in actual.columns[:2]]
    assert told == [("id", BigInt(), False, True), ("price", Numeric(12, 2), True, False)]


# Files of others.


def test_a_folder_of_others_is_read_whole(open_files: Open, folder: Path) -> None:
    load = open_files("csv")
    (folder / "deep [er]").mkdir(parents=True)
    (folder / "one.csv").write_text('id,name\r\n1,"a, b"\r\n2,\r\n')
    (folder / "deep [er]" / "two.csv").write_text('id,name\n3,""\n')
    (folder / "_skipped.csv").write_text("nonsense")
    (folder / ".hidden.csv").write_text("nonsense")
    assert load.rows() == [("1", "a, b"), ("2", None), ("3", "")]
    actual = load.backend.columns(TableRef("s", "t"))
    assert actual is not None
    assert [column.type for column in actual.columns] == [Text(), Text()]


def test_csv_files_with_other_headers_are_not_mixed_up(open_files: Open, folder: Path) -> None:
    load = open_files("csv")
    folder.mkdir(parents=True)
    (folder / "one.csv").write_text("id,name\n1,a\n")
    (folder / "two.csv").write_text("name,id\nb,2\n")
    with pytest.raises(Exception, match=r"(?i)header|FAILED_READ_FILE"):
        load.rows()


def test_a_load_keeps_the_files_it_found(open_files: Open, folder: Path, spark: SparkSession) -> None:
    load = open_files()
    load.frame(NAMES, [(1, "old")]).write.parquet(str(folder))
    load([(2, "new")])
    assert load.rows("id", "name") == [(1, "old"), (2, "new")]
    load([(3, "only")], mode="truncate")
    assert load.rows("id", "name") == [(3, "only")]
    assert len(visible(folder)) == 1


def test_a_prefix_reads_a_file_a_folder_or_a_pattern(open_files: Open, tmp_path: Path) -> None:
    load = open_files()
    raw = tmp_path / "lake" / "raw" / "day=2"
    raw.mkdir(parents=True)
    (raw / "x.jsonl").write_text('{"a": 1.10, "s": "x"}\n{"a": 22.5}\n')
    with gzip.open(raw / "y.csv.gz", "wt") as file:
        file.write("a\n5\n")
    read = load.backend.read
    assert read(Prefix("raw/day=2/x.jsonl", "json_lines")).count() == 2
    assert [tuple(row) for row in read(Prefix("raw/*/*.csv.gz", "csv")).collect()] == [("5", 2)]
    (raw / "y.csv.gz").unlink()
    assert read(Prefix("raw", "json_lines")).agg({"a": "sum"}).collect()[0][0] == Decimal("23.60")
    with pytest.raises(BackendError, match="no file at"):
        read(Prefix("nothing/*", "csv"))
    with pytest.raises(SpecError, match="not below"):
        read(Prefix("../outside", "csv"))


def test_a_query_reads_tables_by_their_names(open_files: Open) -> None:
    load = open_files()
    load([(1, "a{b}"), (2, "ü")])
    read = load.backend.read(
        Query(
            "WITH t AS (SELECT 'ü😀{}' AS x) "
            "SELECT s.t.id, `t`.name, u.x FROM `s`.t, t AS u /* {0} */ WHERE s.t.id > 1;"
        )
    )
    assert [tuple(row) for row in read.collect()] == [(2, "ü", "ü😀{}")]
    assert load.backend.read(Query("SELECT 1 AS one, '{}' AS braces")).collect()[0][1] == "{}"


def test_a_query_over_an_unknown_table_names_the_nearest(open_files: Open) -> None:
    load = open_files()
    load([(1, "a")])
    with pytest.raises(UnknownNameError, match=r"did you mean 's\.t'"):
        load.backend.read(Query("SELECT * FROM s.tt"))
    with pytest.raises(SpecError, match=r"schema\.table"):
        load.backend.read(Query("SELECT * FROM t"))
    with pytest.raises(SpecError, match="one SELECT"):
        load.backend.read(Query("DROP TABLE s.t"))


# Runs and bookmarks.


def test_the_record_becomes_success_with_the_rows(open_files: Open) -> None:
    load = open_files()
    load([(1, "a")], bookmark="1")
    load([(2, "b")], bookmark="2", now=NOON + timedelta(hours=1))
    newest, oldest = load.backend.ledger.runs(pipeline="p")
    assert (newest.status, newest.rows, newest.started_at) == (
        "success",
        {"rows_inserted": 1},
        NOON + timedelta(hours=1),
    )
    assert oldest.started_at == NOON
    assert load.backend.ledger.bookmark("p") == Bookmark("p", "id", "2")
    assert load.backend.ledger.last_instant(TableRef("s", "t")) == NOON + timedelta(hours=1)
    assert load.backend.ledger.runs(pipeline="other") == []
    assert len(load.backend.ledger.runs(limit=1)) == 1


def test_a_run_whose_process_died_is_marked_by_the_next(open_files: Open) -> None:
    load = open_files()
    dead = subprocess.run(
        [sys.executable, "-c", "from ematix_flow.backends.owner import current_owner as o; print(o())"],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    ).stdout.strip()  # fmt: skip
    ledger = load.backend.ledger
    first = load.commit(NAMES).run
    ledger.start(Run(**{**vars(first), "owner": dead}))
    assert [run.status for run in ledger.runs()] == ["running"]
    load([(1, "a")], now=NOON + timedelta(hours=1))
    assert [(run.status, (run.error or "")[:11]) for run in ledger.runs()] == [
        ("success", ""),
        ("failed", "interrupted"),
    ]


KILLED = """
import os, signal, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.backends.test_files import *
from ematix_flow.backends.file_commits import CommitLog
backend = FilesBackend(ObjectStoreLocalConnection("lake", {lake!r}, "csv"), None)
load = Loader(backend, None)
commit = load.commit(NAMES)
backend.ledger.start(commit.run)
from ematix_flow.backends.file_commits import DataFile, Entry
log = backend.log(TableRef("s", "t"))
state = log.state()
staging = log.stage(state, commit.run.run_id, commit.run.owner)
data = staging.path / "data" / "x.csv"
data.parent.mkdir()
data.write_text(f"id,name,_loaded_at,_batch_id\\n7,committed,2026-01-01T12:00:00.000000Z,{{commit.run.run_id}}\\n")
entry = Entry(seq=state.seq + 1, token="killed", instant=NOON, run=commit.run.with_outcome("success", NOON),
              bookmark=Bookmark("p", "id", "7"), added=(DataFile("part-x.csv", 0, str(data.relative_to(log.folder))),))
backend.ledger.note_table(commit.run)
if {committed!r}:
    log.commit(entry, staging)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("committed", [False, True])
def test_the_next_run_repairs_what_a_killed_process_left(open_files: Open, tmp_path: Path, committed: bool) -> None:
    load, root = open_files("csv"), Path(__file__).parents[2]
    load([(1, "a")], bookmark="1")
    script = KILLED.format(root=str(root), lake=str(tmp_path / "lake"), committed=committed)
    ended = subprocess.run(
        [sys.executable, "-c", script], check=False, env={**os.environ, "PYTHONPATH": str(root / "src")}
    )
    assert ended.returncode == -signal.SIGKILL
    rows: list[tuple[object, ...]] = [(1, "a"), (7, "committed")] if committed else [(1, "a")]
    assert load.rows() == rows
    assert load.backend.ledger.bookmark("p") == Bookmark("p", "id", "7" if committed else "1")
    load([(2, "b")])
    assert load.rows() == sorted([*rows, (2, "b")])
    assert not (tmp_path / "lake" / "s" / "t" / "_ematix" / "staging").exists()
    statuses = sorted(run.status for run in load.backend.ledger.runs())
    assert statuses == ["success", "success", "success"] if committed else ["failed", "success", "success"]


def test_a_name_that_leaves_the_folder_is_refused(open_files: Open) -> None:
    for schema, name in (("..", "t"), ("s", "a/b"), ("_ematix", "t")):
        with pytest.raises(SpecError, match="name of a folder"):
            open_files().backend.columns(TableRef(schema, name))


def test_a_ping_describes_the_folder(open_files: Open, tmp_path: Path) -> None:
    load = open_files("csv")
    assert "the first load creates it" in load.backend.ping()
    load([(1, "a")])
    assert load.backend.ping().endswith("lake: 1 table, csv files")
    (tmp_path / "file").write_text("")
    connection = ObjectStoreLocalConnection("lake", str(tmp_path / "file"), "csv")
    backend = FilesBackend(connection, load.backend.workshop)
    with pytest.raises(ConnectError, match="not a folder"):
        backend.ping()
