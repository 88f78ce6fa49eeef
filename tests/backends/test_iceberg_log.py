"""What is read of an Iceberg table without Spark, from its metadata."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ematix_flow.backends.file_commits import Entry
from ematix_flow.backends.iceberg_catalog import IcebergCatalog, local_folder
from ematix_flow.backends.iceberg_log import IcebergLog, IcebergState, folder_metadata
from ematix_flow.backends.lake_log import LakeField, commit_text
from ematix_flow.connections import IcebergConnection
from ematix_flow.errors import BackendError, SpecError, UnsupportedError
from ematix_flow.spec.run import Bookmark, Run
from ematix_flow.types import Integer, SmallInt, Text

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def entry(number: int) -> Entry:
    run = Run(
        run_id=f"run-{number}", pipeline="orders", schema="shop", table="customer", mode="append", path="cross_db",
        started_at=NOON, status="success",
    )  # fmt: skip
    columns = [{"name": "n", "type": SmallInt().to_spec(), "nullable": True, "primary_key": False}]
    return Entry(
        seq=number,
        token=f"token-{number}",
        instant=NOON + timedelta(minutes=number),
        run=run,
        bookmark=Bookmark("orders", "n", str(number)),
        schema={"columns": columns, "partition_columns": []},
    )


class Table:
    """The metadata of a table as it changes, and its log as we read it."""

    def __init__(self, folder: Path) -> None:
        self.data: dict[str, Any] | None = None
        self.heard: list[str] = []
        self.log = IcebergLog(
            lambda: self.data, folder / "sums", folder / "lock", published=lambda run: self.heard.append(run.run_id)
        )

    def make(self, uuid: str) -> None:
        fields = [
            ("n", "int"), ("t", "timestamptz"), ("d", "decimal(9, 2)"), ("u", "uuid"),
            ("l", {"type": "list"}), ("f", "fixed[3]"),
        ]  # fmt: skip
        schema = [{"id": at, "name": name, "type": kind, "required": False} for at, (name, kind) in enumerate(fields)]
        spec = [{"source-id": 0, "transform": "identity"}, {"source-id": 1, "transform": "day"}]
        self.data = {
            "table-uuid": uuid,
            "current-schema-id": 1,
            "schemas": [{"schema-id": 0, "fields": []}, {"schema-id": 1, "fields": schema}],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": spec}],
            "snapshots": [],
        }

    def add(self, number: int, text: str | None, *, parent: int | None = None, branch: str = "main") -> None:
        assert self.data is not None
        above = parent if parent is not None else self.data.get("current-snapshot-id")
        summary = {"operation": "append", **({"ematix_flow": text} if text else {})}
        snapshot = {"snapshot-id": number, "timestamp-ms": number, "summary": summary}
        self.data["snapshots"].append(snapshot | ({"parent-snapshot-id": above} if above else {}))
        if branch == "main":
            self.data["current-snapshot-id"] = number
        self.data["refs"] = {**self.data.get("refs", {}), branch: {"snapshot-id": number}}

    def expire(self, *numbers: int) -> None:
        assert self.data is not None
        self.data["snapshots"] = [each for each in self.data["snapshots"] if each["snapshot-id"] not in numbers]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path)
    made.make("one")
    return made


def test_columns_and_partitions_are_those_of_the_newest_metadata(table: Table) -> None:
    table.add(11, commit_text(entry(1)))
    state = table.log.state()
    assert state.table is not None
    assert [(each.name, each.kind) for each in state.table.columns] == [
        ("n", "int"), ("t", "timestamp"), ("d", "decimal(9,2)"), ("u", "string"), ("l", "list"), ("f", "binary"),
    ]  # fmt: skip
    # A transform that nobody can declare is the table's own affair.
    assert state.table.partitions == ("n",)
    # Iceberg has no small whole numbers, but what was declared is remembered.
    layout = state.layout()
    assert layout is not None
    assert layout.types["n"] == SmallInt()
    assert IcebergState.kept_type(SmallInt()) == Integer()
    assert LakeField("x", "string").type == Text()


def test_only_what_led_to_the_main_branch_was_committed(table: Table) -> None:
    table.add(11, commit_text(entry(1)))
    table.add(12, "somebody's words")
    table.add(13, commit_text(entry(2)), branch="ematix_flow~host~1~2~run-2")
    state = table.log.state()
    assert (state.version, state.seq, state.tokens) == (12, 1, {"token-1": 1})
    assert state.branches == ("ematix_flow~host~1~2~run-2",)
    assert not table.log.holds(entry(2), since=11)
    table.data = {**(table.data or {}), "current-snapshot-id": 13}
    assert table.log.holds(entry(2), since=11)
    assert not table.log.holds(entry(1), since=11)
    assert table.log.state().bookmarks["orders"][0].value == "2"


def test_snapshots_may_expire_once_they_are_summed_up(table: Table) -> None:
    for number in (1, 2, 3):
        table.add(10 + number, commit_text(entry(number)))
        table.log.roll_forward()
    assert table.heard == ["run-1", "run-2", "run-3"]
    before = table.log.state()
    table.add(14, None)
    table.expire(11, 12, 13)
    after = table.log.state()
    assert (after.tokens, after.bookmarks, after.schemas) == (before.tokens, before.bookmarks, before.schemas)
    assert (after.version, after.seq) == (14, 3)


def test_a_table_that_was_rolled_back_forgets_the_loads_behind_that_point(table: Table) -> None:
    for number in (1, 2):
        table.add(10 + number, commit_text(entry(number)))
        table.log.roll_forward()
    assert table.data is not None
    table.data["current-snapshot-id"] = 11
    assert list(table.log.state().tokens) == ["token-1"]
    table.add(13, commit_text(entry(2)), parent=11)
    assert list(table.log.state().tokens) == ["token-1", "token-2"]


def test_a_table_that_was_made_anew_begins_anew(table: Table) -> None:
    table.add(11, commit_text(entry(1)))
    table.log.roll_forward()
    table.make("two")
    assert (table.log.state().tokens, table.log.state().version) == ({}, -1)
    table.data = None
    assert table.log.state() == IcebergState()


def test_a_commit_of_a_newer_version_is_not_guessed_at(table: Table) -> None:
    text = json.loads(commit_text(entry(1)))
    text["ematix_flow"]["version"] = 2
    table.add(11, json.dumps(text))
    with pytest.raises(BackendError, match="newer version"):
        table.log.state()


def test_the_newest_version_is_found_though_the_hint_is_old_or_gone(tmp_path: Path) -> None:
    home = tmp_path / "metadata"
    home.mkdir()
    assert folder_metadata(tmp_path) is None
    for version in (1, 2):
        (home / f"v{version}.metadata.json").write_text(json.dumps({"table-uuid": str(version)}))
    (home / "v3.gz.metadata.json").write_bytes(gzip.compress(b'{"table-uuid": "3"}'))
    (home / "version-hint.text").write_text("1")
    assert folder_metadata(tmp_path) == {"table-uuid": "3"}
    (home / "version-hint.text").unlink()
    assert folder_metadata(tmp_path) == {"table-uuid": "3"}


def properties(**fields: Any) -> dict[str, str]:
    connection = IcebergConnection("lake", "/lake", **fields)
    return dict(IcebergCatalog(connection, Path("/lake")).properties)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"type": "hadoop"}),
        (
            {"catalog": "jdbc", "uri": "jdbc:sqlite:/c.db", "options": {"jdbc.password": "x"}},
            {"type": "jdbc", "uri": "jdbc:sqlite:/c.db", "jdbc.schema-version": "V1", "jdbc.password": "x"},
        ),
        (
            {"catalog": "rest", "uri": "http://h", "credential": "me:secret", "options": {"warehouse": "prod"}},
            {"type": "rest", "uri": "http://h", "credential": "me:secret", "warehouse": "prod"},
        ),
        ({"catalog": "rest", "uri": "http://h", "token": "t"}, {"type": "rest", "uri": "http://h", "token": "t"}),
        ({"catalog": "hive", "uri": "thrift://h:9083"}, {"type": "hive", "uri": "thrift://h:9083"}),
    ],
)
def test_what_a_connection_says_is_what_iceberg_is_told(fields: dict[str, Any], expected: dict[str, str]) -> None:
    assert properties(**fields) == {"warehouse": "/lake", "cache-enabled": "false", **expected}


def test_a_catalog_in_a_database_has_the_name_that_others_must_know() -> None:
    def name(**fields: Any) -> str:
        return IcebergCatalog(IcebergConnection("my-lake", "/lake", **fields), Path("/lake")).name

    assert name(catalog="jdbc", uri="jdbc:sqlite:/c.db") == "my_lake"
    assert name() == name()
    assert name() != name(options={"lock-impl": "other"})
    assert name(options={"s3.secret-access-key": "one"}) == name(options={"s3.secret-access-key": "two"})


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda: properties(catalog="jdbc", uri="sqlite:///c.db"), SpecError, "begins with jdbc:"),
        (lambda: local_folder(IcebergConnection("lake", "x"), "s3://b/x", "it"), UnsupportedError, "local disks"),
    ],
)
def test_what_this_version_cannot_reach_is_refused(
    wrong: Callable[[], object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        wrong()


def test_a_file_url_is_a_folder() -> None:
    assert local_folder(IcebergConnection("lake", "x"), "file:///lake/x", "it") == Path("/lake/x")
