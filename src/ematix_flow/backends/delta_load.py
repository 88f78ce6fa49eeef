"""One load into a Delta table, which is one commit of its log."""

from __future__ import annotations

import re

from ..strategies.base import Replace, Upsert
from ..types import JSON, JSONB, UUID, String, Text, Timestamp
from .delta_log import DeltaLog, DeltaState
from .file_commits import Entry
from .frames import SPARK
from .lake_load import LakeLoad, merge_sql
from .lake_log import APP, LakeState, commit_text

__all__ = ["DeltaLoad", "delta_name"]


class DeltaLoad(LakeLoad):
    """One commit of one Delta table."""

    _log: DeltaLog
    _state: DeltaState

    def _text_rules(self) -> dict[str, str]:
        """Texts that would come back as NULL: those in the name of a folder."""
        texts = (c.name for c in self.layout.columns if isinstance(c.type, Text | String | JSON | JSONB | UUID))
        return {
            f"an empty text in the column {name!r}, which names folders": f"{SPARK.quote(name)} = ''"
            for name in texts
            if name in self.layout.partitions
        }

    def _write(self, entry: Entry, now: LakeState) -> None:
        """The one commit. Its number lets Delta refuse it where a commit of ours has taken that number."""
        if self._state.table is not None and (wanted := self._abilities()):
            pairs = ", ".join(f"'{name}' = '{value}'" for name, value in wanted.items())
            self._queries.spark.sql(f"ALTER TABLE {delta_name(self._log.folder)} SET TBLPROPERTIES ({pairs})")
        if self._merged:
            self._merge(entry)
            return
        assert self._rows is not None
        mode = "overwrite" if isinstance(self._change, Replace) else "append"
        writer = self._rows.write.format("delta").mode(mode).option("partitionOverwriteMode", "static")
        writer = writer.options(txnAppId=APP, txnVersion=entry.seq, userMetadata=commit_text(entry))
        if self._state.table is None:
            writer = writer.partitionBy(*self.layout.partitions).options(**self._abilities())
        elif self._added or self._widened:
            writer = writer.option("mergeSchema", "true")
        writer.save(str(self._log.folder))

    def _merge(self, entry: Entry) -> None:
        assert isinstance(self._change, Upsert)
        spark = self._own_session()
        spark.conf.set("spark.databricks.delta.write.txnAppId", APP)
        spark.conf.set("spark.databricks.delta.write.txnVersion", str(entry.seq))
        spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", commit_text(entry))
        # The files of the change never change, so there is no need to keep a copy of their rows.
        spark.conf.set("spark.databricks.delta.merge.materializeSource", "none")
        columns, evolves = self._merged_rows(spark), bool(self._added or self._widened)
        spark.sql(merge_sql(delta_name(self._log.folder), self._change, columns, evolves=evolves)).collect()

    def _abilities(self) -> dict[str, str]:
        """What the table must be told that it can do before the columns of this load fit."""
        table = self._state.table
        features, properties = (table.features, table.properties or {}) if table else ((), {})
        new = [each for each in self.layout.columns if table is None or each.name in self._added]
        wanted = {}
        if any(set(each.name) & set(_SPECIAL) for each in new):
            wanted["delta.columnMapping.mode"] = "name"
        if table is not None and any(isinstance(each.type, Timestamp) for each in new):
            wanted["delta.feature.timestampNtz"] = "supported" if "timestampNtz" not in features else ""
        if self._widened:
            wanted["delta.enableTypeWidening"] = "true"
        return {name: value for name, value in wanted.items() if value and properties.get(name) != value}

    def _conflicts(self, said: str) -> bool:
        return _CONFLICT.search(said) is not None


def delta_name(folder: object) -> str:
    """The table in `folder` as Spark's SQL names it."""
    return f"delta.{SPARK.quote(str(folder))}"


_SPECIAL = " ,;{}()\n\t="
"""What the name of a column may have only where Delta keeps columns by other names."""
_CONFLICT = re.compile(r"\[DELTA_(CONCURRENT_\w+|METADATA_CHANGED|PROTOCOL_CHANGED)")
