"""What the metadata of an Iceberg table says, read without Spark: its columns, and the loads that were committed.

A load of ours is one snapshot on the table's main branch, and that snapshot's summary carries token, bookmark and run
record. Snapshots expire, so what loads add up to is kept beside the tables too, after every load.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..spec.run import Run
from ..types import ColumnType, Integer, SmallInt
from .file_commits import Entry, state_from_json, state_to_json, write_atomically
from .lake_log import APP, LakeField, LakeState, LakeTable, read_commit, turn

__all__ = ["IcebergLog", "IcebergState", "Metadata", "folder_metadata", "read_metadata"]

Metadata = Mapping[str, Any]
"""The metadata of a table at one moment, as Iceberg's specification describes its JSON."""

KEPT_SUMS = 3


@dataclass
class IcebergState(LakeState):
    """What our loads and Iceberg's own metadata add up to; `version` is the snapshot of the main branch."""

    branches: tuple[str, ...] = ()
    """Every branch of the table but the main one."""

    @classmethod
    def kept_type(cls, type: ColumnType) -> ColumnType:
        """The type that Iceberg keeps a declared one as: it has no smaller whole numbers than 32 bits."""
        return Integer() if isinstance(type, SmallInt) else super().kept_type(type)


class IcebergLog:
    """The commits of one Iceberg table."""

    def __init__(
        self,
        metadata: Callable[[], Metadata | None],
        sums: Path,
        lock: Path,
        published: Callable[[Run], None] = lambda run: None,
    ) -> None:
        self._metadata, self._sums, self._lock = metadata, sums, lock
        self._published = published
        """Hears the run of every commit; may hear it again."""

    def state(self) -> IcebergState:
        """What is committed at this moment."""
        data = self._metadata()
        state = self._summed_up(data)
        for _ in _behind(state, data):
            pass
        return state

    def roll_forward(self) -> None:
        """See that every commit has its run document, and is summed up before its snapshot expires."""
        data = self._metadata()
        state = self._summed_up(data)
        known = state.seq
        for entry in _behind(state, data):
            with suppress(OSError):  # who may only read has nothing to repair
                self._published(entry.run)
        if data is not None and state.seq != known:
            with suppress(OSError):
                self._sum_up(state, data)

    def holds(self, entry: Entry, since: int) -> bool:
        """Whether this very commit is on the main branch behind a snapshot, and not another one of its number."""
        data = self._metadata()
        chain = _ancestry(data) if data is not None else ()
        found = (_entry(each) for each in reversed(_after(chain, since)))
        return any(each is not None and each.run.run_id == entry.run.run_id for each in found)

    def turn(self) -> AbstractContextManager[None]:
        """The turn of one load among those of this machine."""
        return turn(self._lock)

    def _summed_up(self, data: Metadata | None) -> IcebergState:
        """What the newest sum says that is about the history of this table's main branch."""
        if data is None:
            return IcebergState()
        chain = _ancestry(data)
        line = {each["snapshot-id"] for each in chain}
        known = {each["snapshot-id"] for each in data.get("snapshots") or ()}
        is_cut = bool(chain) and chain[0].get("parent-snapshot-id") is not None
        for path in sorted(self._sums.glob("sum-*.json"), reverse=True):
            # A writer may remove an old sum: then there are newer ones, or it was no use.
            with suppress(FileNotFoundError):
                kept = json.loads(path.read_text(encoding="utf-8"))
                snapshot = kept["snapshot"]
                # One that has expired is known no longer; one on no line to the main branch was rolled back.
                if kept["table"] == data["table-uuid"] and (snapshot in line or (is_cut and snapshot not in known)):
                    return _state_from_json(kept)
        return IcebergState()

    def _sum_up(self, state: IcebergState, data: Metadata) -> None:
        newest = _ancestry(data)[-1]
        text = json.dumps({**state_to_json(state), "table": data["table-uuid"], "snapshot": newest["snapshot-id"]})
        write_atomically(self._sums / f"sum-{newest['timestamp-ms']:020d}-{newest['snapshot-id']}.json", text)
        for old in sorted(self._sums.glob("sum-*.json"))[:-KEPT_SUMS]:
            old.unlink(missing_ok=True)


def folder_metadata(folder: Path) -> Metadata | None:
    """The newest metadata of the table in `folder`, where files alone are the catalog; None where there is none."""
    home = folder / "metadata"
    try:
        version = int((home / "version-hint.text").read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        version = max((int(path.name[1:].split(".")[0]) for path in home.glob("v[0-9]*.metadata.json*")), default=0)
    found = None
    # The hint is written after the version that it names, so there may be newer ones.
    while (path := _version(home, version if found is None else version + 1)) is not None:
        version += found is not None
        found = path
    return None if found is None else read_metadata(found)


def read_metadata(path: Path) -> Metadata:
    """The metadata in a file, which may be compressed."""
    data = path.read_bytes()
    read: Metadata = json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    return read


def _version(home: Path, version: int) -> Path | None:
    names = (f"v{version}.metadata.json", f"v{version}.gz.metadata.json", f"v{version}.metadata.json.gz")
    return next((path for path in (home / name for name in names) if path.exists()), None)


def _behind(state: IcebergState, data: Metadata | None) -> Iterator[Entry]:
    """Our commits that `state` does not know yet, each taken into it once it was looked at."""
    if data is None:
        return
    chain = _ancestry(data)
    for snapshot in _after(chain, state.version):
        if (entry := _entry(snapshot)) is not None:
            yield entry
            state.take(entry)
    state.version = chain[-1]["snapshot-id"] if chain else -1
    state.table = _table(data)
    state.branches = tuple(name for name in data.get("refs") or () if name != "main")


def _ancestry(data: Metadata) -> Sequence[Mapping[str, Any]]:
    """The snapshots that led to the main branch, the oldest first, as far as they have not expired."""
    known = {each["snapshot-id"]: each for each in data.get("snapshots") or ()}
    chain = []
    current = known.get(data.get("current-snapshot-id"))
    while current is not None:
        chain.append(current)
        current = known.get(current.get("parent-snapshot-id"))
    return chain[::-1]


def _after(chain: Sequence[Mapping[str, Any]], snapshot: int) -> Sequence[Mapping[str, Any]]:
    """The part of a chain behind a snapshot; all of it where the snapshot is not part of it."""
    numbers = [each["snapshot-id"] for each in chain]
    return chain[numbers.index(snapshot) + 1 :] if snapshot in numbers else chain


def _entry(snapshot: Mapping[str, Any]) -> Entry | None:
    return read_commit((snapshot.get("summary") or {}).get(APP))


_KINDS = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp", "uuid": "string"}


def _table(data: Metadata) -> LakeTable:
    schemas = {each["schema-id"]: each for each in data.get("schemas") or ()}
    schema = schemas.get(data.get("current-schema-id")) or data["schema"]
    specs = {each["spec-id"]: each["fields"] for each in data.get("partition-specs") or ()}
    spec = specs.get(data.get("default-spec-id")) or data.get("partition-spec") or ()
    names = {each["id"]: each["name"] for each in schema["fields"]}
    # Other transforms are the table's own affair: a declaration cannot name them, and writers follow them anyway.
    partitions = tuple(names[each["source-id"]] for each in spec if each["transform"] == "identity")
    return LakeTable(tuple(map(_field, schema["fields"])), partitions)


def _field(data: Mapping[str, Any]) -> LakeField:
    kind = data["type"] if isinstance(data["type"], str) else str(data["type"]["type"])
    kind = "binary" if kind.startswith("fixed[") else _KINDS.get(kind, kind.replace(" ", ""))
    return LakeField(data["name"], kind, not data["required"])


def _state_from_json(data: Mapping[str, Any]) -> IcebergState:
    known = state_from_json(data)
    state = IcebergState(**{each.name: getattr(known, each.name) for each in fields(known)})
    state.version = data["snapshot"]
    return state
