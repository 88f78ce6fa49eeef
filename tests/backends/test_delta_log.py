"""What is read of a Delta table without Spark, from logs that another program wrote."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from ematix_flow.backends import delta_log
from ematix_flow.backends.delta_log import DeltaLog
from ematix_flow.backends.file_commits import Entry
from ematix_flow.backends.file_ledger import FileLedger
from ematix_flow.backends.lake_log import LakeField, commit_text
from ematix_flow.backends.owner import current_owner
from ematix_flow.connections import DeltaLocalConnection
from ematix_flow.errors import BackendError, ConnectError
from ematix_flow.spec.place import TableRef
from ematix_flow.spec.run import Bookmark, Run
from ematix_flow.types import BigInt, Integer, String, Timestamp

NOBODY = current_owner().replace(f":{os.getpid()}:", ":999999999:")
"""A process of this machine that is not there."""
LOADS = 5
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def entry(number: int, **facts: object) -> Entry:
    run = Run(
        run_id=f"run-{number}", pipeline="orders", schema="shop", table="customer", mode="append", path="cross_db",
        started_at=NOON, status="success",
    )  # fmt: skip
    values: dict[str, object] = {
        "seq": number,
        "token": f"token-{number}",
        "instant": NOON + timedelta(minutes=number),
        "run": run,
        "bookmark": Bookmark("orders", "n", str(number)),
        **facts,
    }
    return Entry(**values)  # type: ignore[arg-type]


class Written:
    """A table that a program other than Spark writes, and its log as we read it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "customer"
        self.heard: list[str] = []
        self.log = DeltaLog(self.folder, folder / "lock", published=lambda run: self.heard.append(run.run_id))

    def write(
        self,
        *rows: dict[str, object],
        text: str | None = None,
        schema: pa.Schema | None = None,
        number: int | None = None,
    ) -> None:
        metadata = deltalake.CommitProperties(
            custom_metadata={"userMetadata": text} if text else {},
            app_transactions=[deltalake.Transaction("ematix_flow", number), deltalake.Transaction("theirs", 99)]
            if number
            else None,
        )
        table = pa.Table.from_pylist(list(rows), schema or pa.schema([("id", pa.int32()), ("v", pa.string())]))
        deltalake.write_deltalake(
            self.folder, table, mode="append", schema_mode="merge", commit_properties=metadata, partition_by=["v"]
        )


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def test_a_folder_without_a_log_is_no_table(written: Written) -> None:
    state = written.log.state()
    assert (state.version, state.table, state.layout()) == (-1, None, None)


def test_columns_and_partitions_are_those_of_the_newest_metadata(written: Written) -> None:
    written.write({"id": 1, "v": "a"})
    wider = pa.schema([("id", pa.int32()), ("v", pa.string()), ("at", pa.timestamp("us")), ("l", pa.list_(pa.int8()))])
    written.write({"id": 2, "v": "b", "at": None, "l": None}, schema=wider)
    state = written.log.state()
    assert state.version == 1
    assert state.table is not None
    assert [(each.name, each.kind, each.type) for each in state.table.columns] == [
        ("id", "int", Integer()),
        ("v", "string", state.table.columns[1].type),
        ("at", "timestamp_ntz", Timestamp()),
        ("l", "array", None),
    ]
    assert state.table.partitions == ("v",)
    assert "timestampNtz" in state.table.features
    # Loads fill what the catalogue knows.
    layout = state.layout()
    assert layout is not None
    assert list(layout.types) == ["id", "v", "at"]


def test_what_was_declared_is_remembered_where_it_is_still_so(written: Written) -> None:
    columns = [
        {"name": "id", "type": BigInt().to_spec(), "nullable": False, "primary_key": True},
        {"name": "v", "type": String(5).to_spec(), "nullable": False, "primary_key": False},
    ]
    spec = {"columns": columns, "partition_columns": ["v"], "unique_constraints": [["v"]]}
    written.write({"id": 1, "v": "a"}, text=commit_text(entry(1, schema=spec)))
    layout = written.log.state().layout()
    assert layout is not None
    # Somebody keeps `id` in another type than declared.
    assert [(each.name, each.type, each.nullable, each.primary_key) for each in layout.columns] == [
        ("id", Integer(), False, True),
        ("v", String(5), False, False),
    ]
    assert layout.unique == (("v",),)


def test_commits_tell_tokens_bookmarks_and_instants_and_those_of_others_do_not(written: Written) -> None:
    written.write({"id": 1, "v": "a"}, text=commit_text(entry(1)))
    written.write({"id": 2, "v": "a"}, text="somebody's words")
    written.write({"id": 3, "v": "a"})
    written.write({"id": 4, "v": "a"}, text=commit_text(entry(2)))
    state = written.log.state()
    assert (state.version, state.seq, state.tokens) == (3, 2, {"token-1": 1, "token-2": 2})
    assert state.bookmarks["orders"][0].value == "2"
    assert state.instants == {"orders": NOON + timedelta(minutes=2)}
    assert written.log.holds(entry(2), since=0)
    assert not written.log.holds(entry(2), since=3)
    assert not written.log.holds(entry(3), since=-1)


def test_old_commits_are_summed_up_and_outlive_the_files_of_the_log(written: Written) -> None:
    for number in range(1, LOADS + 1):
        written.write({"id": number, "v": "a"}, text=commit_text(entry(number)))
    written.write({"id": 0, "v": "a"})
    before = written.log.state()
    written.log.roll_forward()
    assert written.heard == [f"run-{number}" for number in range(1, LOADS + 1)]
    deltalake.DeltaTable(written.folder).create_checkpoint()
    for path in sorted((written.folder / "_delta_log").glob("*.json"))[:-1]:
        path.unlink()
    after = written.log.state()
    assert (after.tokens, after.bookmarks, after.seq) == (before.tokens, before.bookmarks, LOADS)
    assert (after.version, after.table) == (before.version, before.table)
    # Nothing is told twice.
    written.heard.clear()
    written.log.roll_forward()
    assert written.heard == []


def test_many_tokens_are_summed_up_less_often(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_log, "TOKENS_PER_COMMIT", 2)
    summed = []
    for number in range(1, 8):
        written.write({"id": number, "v": "a"}, text=commit_text(entry(number)))
        written.log.roll_forward()
        summed.append(max(int(path.stem[-20:]) for path in (written.folder / "_ematix" / "checkpoints").iterdir()))
    # Two tokens ask for two commits, four for three; versions begin with 0.
    assert summed == [0, 1, 1, 3, 3, 3, 6]


def test_a_log_whose_beginning_is_gone_is_read_from_its_checkpoint(written: Written) -> None:
    written.write({"id": 1, "v": "a"}, number=7)
    written.write({"id": 2, "v": "b"})
    deltalake.DeltaTable(written.folder).create_checkpoint()
    (written.folder / "_delta_log" / f"{0:020d}.json").unlink()
    state = written.log.state()
    assert state.table is not None
    assert state.table.columns == (LakeField("id", "int"), LakeField("v", "string"))
    # The number of our last commit is Delta's to keep: the next one must be greater.
    assert (state.version, state.seq, state.table.partitions) == (1, 7, ("v",))


def test_a_table_that_was_made_anew_begins_anew(written: Written) -> None:
    for number in range(1, LOADS + 2):
        written.write({"id": number, "v": "a"}, text=commit_text(entry(number)))
    written.log.roll_forward()
    for path in (written.folder / "_delta_log").iterdir():
        path.unlink()
    written.write({"id": 1, "v": "a"}, text=commit_text(entry(1)))
    state = written.log.state()
    assert (state.version, state.seq, list(state.tokens)) == (0, 1, ["token-1"])


def test_a_commit_of_a_newer_version_is_not_guessed_at(written: Written) -> None:
    text = json.loads(commit_text(entry(1)))
    text["ematix_flow"]["version"] = 2
    written.write({"id": 1, "v": "a"}, text=json.dumps(text))
    with pytest.raises(BackendError, match="newer version"):
        written.log.state()


def test_a_run_that_was_killed_after_its_commit_is_recorded_by_whoever_looks_next(tmp_path: Path) -> None:
    written = Written(tmp_path)
    ledger = FileLedger(tmp_path, lambda _: DeltaLog(written.folder, tmp_path / "lock", published=ledger.restore))
    done = entry(1)
    ledger.start(replace(done.run, status="running", owner=NOBODY))
    written.write({"id": 1, "v": "a"}, text=commit_text(done))
    assert ledger.runs() == [done.run]
    assert ledger.bookmark("orders") == Bookmark("orders", "n", "1")
    # One that was killed before its commit has failed, once the next run begins.
    ledger.start(replace(entry(2).run, status="running", owner=NOBODY))
    ledger.start(replace(entry(3).run, status="running"))
    assert sorted((run.run_id, run.status) for run in ledger.runs()) == [
        ("run-1", "success"),
        ("run-2", "failed"),
        ("run-3", "running"),
    ]


def test_a_folder_of_other_files_is_no_table(tmp_path: Path) -> None:
    backend = DeltaLocalConnection("lake", str(tmp_path)).open(None)
    table = TableRef("shop", "sales")
    assert backend.columns(table) is None
    (tmp_path / "shop" / "sales").mkdir(parents=True)
    assert backend.columns(table) is None
    (tmp_path / "shop" / "sales" / "mine.parquet").touch()
    with pytest.raises(BackendError, match=r"is no table, and holds files: mine\.parquet"):
        backend.columns(table)


def test_a_folder_that_cannot_be_made_is_an_error_of_the_connection(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ledger = FileLedger(tmp_path / "file" / "lake", lambda _: DeltaLog(tmp_path, tmp_path / "lock"))
    with pytest.raises(ConnectError, match="cannot be written to"):
        ledger.start(entry(1).run)
