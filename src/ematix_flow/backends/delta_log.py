"""What the log of a Delta table says, read without Spark: its columns, and the loads that were committed into it.

Every load of ours is one commit of the table, and that commit carries token, bookmark and run record in its
`userMetadata`. Delta removes old log files some day, so the loads are summed up from time to time beside the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ..spec.run import Run
from .file_commits import (
    FOLDER,
    Entry,
    state_from_json,
    state_to_json,
    write_atomically,
)
from .lake_log import APP, LakeField, LakeState, LakeTable, read_commit, turn

__all__ = ["DeltaLog", "DeltaState", "DeltaTable"]

TOKENS_PER_COMMIT = 500
"""A sum holds all tokens: it is written after every commit as long as they are few, and less often when they grow."""


@dataclass(frozen=True)
class DeltaTable(LakeTable):
    """What Delta knows of a table, its rows apart."""

    properties: Mapping[str, str] | None = None
    features: tuple[str, ...] = ()
    """The abilities that its readers and writers must have."""


@dataclass
class DeltaState(LakeState):
    """What our loads and Delta's own metadata add up to at one version."""

    table: DeltaTable | None = None


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
        state, news = self._summed_up(), 0
        known = len(state.tokens)
        for entry in self._behind(state):
            news += 1
            with suppress(OSError):  # who may only read has nothing to repair
                self._published(entry.run)
        if news > known // TOKENS_PER_COMMIT:
            with suppress(OSError):
                self._sum_up(state)

    def holds(self, entry: Entry, since: int) -> bool:
        """Whether this very commit is there behind a version, and not another one of its number."""
        found = (_entry(self._actions(version).get("commitInfo")) for version in self._versions() if version > since)
        return any(each is not None and each.run.run_id == entry.run.run_id for each in found)

    def turn(self) -> AbstractContextManager[None]:
        """The turn of one load among those of this machine."""
        return turn(self._lock)

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
                state.take(entry)

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
    return read_commit(info.get("userMetadata")) if info else None


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


def _field(data: Mapping[str, Any]) -> LakeField:
    kind = data["type"]
    if not isinstance(kind, str):
        kind = str(kind["type"])
    limited = data.get("metadata", {}).get(_LIMITED)
    return LakeField(data["name"], limited or _KINDS.get(kind, kind), data["nullable"])


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
        tuple(LakeField(**each) for each in table["columns"]),
        tuple(table["partitions"]),
        table["properties"],
        tuple(table["features"]),
    )
    return state
