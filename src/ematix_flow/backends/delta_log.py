"""What the log of a Delta table says, read without Spark: its columns, and the loads that were committed into it.

Every load of ours is one commit of the table, and that commit carries token, bookmark and run record in its
`userMetadata`. Delta removes old log files some day, so the loads are summed up from time to time beside the table.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import BackendError
from ..spec.run import Run
from ..spec.table import Column
from ..types import ColumnType
from .file_commits import (
    FOLDER,
    Entry,
    LogState,
    entry_from_json,
    entry_to_json,
    state_from_json,
    state_to_json,
    write_atomically,
)
from .file_table import Layout
from .spark_dialect import SparkDialect

__all__ = ["APP", "DeltaField", "DeltaLog", "DeltaState", "DeltaTable", "commit_text"]

APP = "ematix_flow"
"""Whose commits they are, as Delta's transaction identifiers say it; our commits have this key in their metadata."""

SUM_UP_EVERY = 20
_SPARK = SparkDialect()


@dataclass(frozen=True)
class DeltaField:
    """A column as Delta's log describes it; `kind` is its type in Spark's words."""

    name: str
    kind: str
    nullable: bool = True

    @property
    def type(self) -> ColumnType | None:
        """The type; None where it is outside the catalogue."""
        return _SPARK.column_type(self.kind)


@dataclass(frozen=True)
class DeltaTable:
    """What Delta knows of a table, its rows apart."""

    columns: tuple[DeltaField, ...]
    partitions: tuple[str, ...] = ()
    properties: Mapping[str, str] | None = None
    features: tuple[str, ...] = ()
    """The abilities that its readers and writers must have."""


@dataclass
class DeltaState(LogState):
    """What our loads and Delta's own metadata add up to at one version; `seq` is the number of our last load."""

    version: int = -1
    """Delta's version; -1 where there is no table."""
    table: DeltaTable | None = None

    def layout(self) -> Layout | None:
        """The columns that loads can fill: as they were declared, where what was declared is what is there."""
        if self.table is None:
            return None
        remembered = Layout.from_spec(self.schemas[-1]) if self.schemas else None
        declared = {column.name: column for column in remembered.columns} if remembered else {}
        columns = tuple(
            _as_declared(each, each.type, declared.get(each.name)) for each in self.table.columns if each.type
        )
        return Layout(columns, self.table.partitions, remembered.unique if remembered else None)


class DeltaLog:
    """The log of the Delta table in `folder`."""

    def __init__(self, folder: Path, lock: Path, published: Callable[[Run], None] = lambda run: None) -> None:
        self.folder, self._lock = folder, lock
        self._home = folder / "_delta_log"
        self._sums = folder / FOLDER / "checkpoints"
        self._published = published
        """Hears the run of every commit; may hear it again."""

    def state(self) -> DeltaState:
        """What is committed at this moment."""
        state = self._summed_up()
        for _ in self._behind(state):
            pass
        return state

    def roll_forward(self) -> None:
        """See that every commit has its run document; sum up when enough commits have gathered."""
        state = self._summed_up()
        for entry in self._behind(state):
            with suppress(OSError):  # who may only read has nothing to repair
                self._published(entry.run)
        if state.seq and state.version - state.checkpoint >= SUM_UP_EVERY:
            with suppress(OSError):
                self._sum_up(state)

    def holds(self, entry: Entry, since: int) -> bool:
        """Whether this very commit is there behind a version, and not another one of its number."""
        found = (_entry(self._actions(version).get("commitInfo")) for version in self._versions() if version > since)
        return any(each is not None and each.run.run_id == entry.run.run_id for each in found)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Loads of this machine commit one after the other: on a disk, Delta itself looks first and then renames."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("w") as lock:
            if sys.platform != "win32":
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _behind(self, state: DeltaState) -> Iterator[Entry]:
        """Our commits that `state` does not know yet, each taken into it once it was looked at."""
        newer = [version for version in self._versions() if version > state.version]
        is_whole = newer[0] == state.version + 1 if newer else state.version >= 0
        known_at = state.version if is_whole else self._read_checkpoint(state)
        for version in newer:
            actions = self._actions(version)
            if version > known_at:
                _learn(state, actions)
            state.version = max(state.version, version)
            if (entry := _entry(actions.get("commitInfo"))) is not None:
                yield entry
                state.add(entry)
                del state.schemas[:-1]

    def _versions(self) -> list[int]:
        return sorted(int(path.stem) for path in self._home.glob("*.json") if _COMMIT.fullmatch(path.name))

    def _actions(self, version: int) -> dict[str, dict[str, Any]]:
        """The actions of a commit that are not about files."""
        found: dict[str, dict[str, Any]] = {}
        with suppress(FileNotFoundError), self._path(version).open(encoding="utf-8") as lines:
            for line in lines:
                if _ACTION.match(line):
                    _keep(found, json.loads(line))
        return found

    def _read_checkpoint(self, state: DeltaState) -> int:
        """Learn from Delta's newest checkpoint what its removed log files said; gives its version."""
        found: dict[int, list[Path]] = {}
        for path in self._home.glob("*.checkpoint*"):
            if path.suffix in (".parquet", ".json") and path.name[:20].isdigit():
                found.setdefault(int(path.name[:20]), []).append(path)
        newest = max(found, default=-1)
        if newest <= state.version:
            return state.version
        for path in found[newest]:
            _learn(state, _checkpoint_actions(path))
        state.version = newest
        return newest

    def _summed_up(self) -> DeltaState:
        while paths := sorted(self._sums.glob("checkpoint-*.json")):
            # A writer may remove a sum that is two generations old: then there is a newer one.
            with suppress(FileNotFoundError):
                data = json.loads(paths[-1].read_text(encoding="utf-8"))
                if not self._reaches(data["delta_version"]):
                    break  # the table was made anew since
                return _state_from_json(data)
        return DeltaState()

    def _reaches(self, version: int) -> bool:
        if self._path(version).exists():
            return True
        versions = (path.name[:20] for path in self._home.glob("*"))
        return any(each.isdigit() and int(each) >= version for each in versions)

    def _sum_up(self, state: DeltaState) -> None:
        text = json.dumps({**state_to_json(state), "delta_version": state.version, "table": asdict(_table(state))})
        write_atomically(self._sums / f"checkpoint-{state.version:020d}.json", text)
        for old in sorted(self._sums.glob("checkpoint-*.json"))[:-2]:
            old.unlink(missing_ok=True)

    def _path(self, version: int) -> Path:
        return self._home / f"{version:020d}.json"


def commit_text(entry: Entry) -> str:
    """A commit of ours as Delta keeps it in its own."""
    return json.dumps({APP: entry_to_json(entry)})


_COMMIT = re.compile(r"\d{20}\.json")
_ACTION = re.compile(r'\s*\{\s*"(commitInfo|metaData|protocol|txn)"')
_KINDS = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_LIMITED = "__CHAR_VARCHAR_TYPE_STRING"


def _keep(found: dict[str, dict[str, Any]], line: Mapping[str, Any]) -> None:
    """Keep the action of a line, unless it is somebody else's transaction."""
    for kind, action in line.items():
        if action and (kind != "txn" or action["appId"] == APP):
            found[kind] = action


def _learn(state: DeltaState, actions: Mapping[str, Mapping[str, Any]]) -> None:
    """Take in what actions say of the table, and of the number of our last commit."""
    state.table = _changed(state.table, actions)
    if (ours := actions.get("txn")) is not None:
        state.seq = max(state.seq, int(ours["version"]))


def _entry(info: Mapping[str, Any] | None) -> Entry | None:
    text = info.get("userMetadata") if info else None
    if not isinstance(text, str) or not text.startswith(f'{{"{APP}"'):
        return None
    data = json.loads(text)[APP]
    if data["version"] != 1:
        raise BackendError("the table was loaded by a newer version", hint="upgrade ematix-flow-spark")
    return entry_from_json(data)


def _changed(table: DeltaTable | None, actions: Mapping[str, Mapping[str, Any]]) -> DeltaTable | None:
    """The table after actions, which may say nothing of it."""
    known = {} if table is None else {each.name: getattr(table, each.name) for each in fields(table)}
    if (meta := actions.get("metaData")) is not None:
        known["columns"] = tuple(map(_field, json.loads(meta["schemaString"])["fields"]))
        known["partitions"] = tuple(meta["partitionColumns"])
        # Parquet keeps a map as pairs.
        known["properties"] = dict(meta["configuration"] or {})
    if (protocol := actions.get("protocol")) is not None:
        features = [*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())]
        known["features"] = tuple(dict.fromkeys(features))
    return DeltaTable(**known) if "columns" in known else table


def _field(data: Mapping[str, Any]) -> DeltaField:
    kind = data["type"]
    if not isinstance(kind, str):
        kind = str(kind["type"])
    limited = data.get("metadata", {}).get(_LIMITED)
    return DeltaField(data["name"], limited or _KINDS.get(kind, kind), data["nullable"])


def _as_declared(field: DeltaField, type: ColumnType, declared: Column | None) -> Column:
    if declared is None:
        return Column(type, field.nullable, name=field.name)
    kept = declared.type if _SPARK.stored_type(declared.type) == type else type
    return Column(kept, field.nullable and declared.nullable, declared.primary_key, field.name)


def _checkpoint_actions(path: Path) -> dict[str, dict[str, Any]]:
    if path.suffix == ".json":
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    else:
        import pyarrow.parquet as pq

        lines = pq.read_table(path, columns=["metaData", "protocol", "txn"]).to_pylist()
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        _keep(found, {kind: line.get(kind) for kind in ("metaData", "protocol", "txn")})
    return found


def _table(state: DeltaState) -> DeltaTable:
    assert state.table is not None
    return state.table


def _state_from_json(data: Mapping[str, Any]) -> DeltaState:
    known = state_from_json(data)
    state = DeltaState(**{each.name: getattr(known, each.name) for each in fields(known)})
    state.version = state.checkpoint = data["delta_version"]
    table = data["table"]
    state.table = DeltaTable(
        tuple(DeltaField(**each) for each in table["columns"]),
        tuple(table["partitions"]),
        table["properties"],
        tuple(table["features"]),
    )
    return state
