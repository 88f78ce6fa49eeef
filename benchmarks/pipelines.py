"""The pipelines that are measured: one per system, mode and path."""

from __future__ import annotations

from typing import Annotated

from ematix_flow import BigInt, Boolean, Double, Integer, Project, Text, TimestampTZ, ematix, pk
from ematix_flow.config import Settings
from ematix_flow.connections import register_connection
from ematix_flow.spec.connection import connection_from_mapping
from ematix_flow.spec.registry import Registry


def open_project(folder: str, memory: str = "1g") -> Project:
    """A project over the databases and files in `folder`."""
    project = Project(Settings(spark_memory=memory), Registry())
    with project.active():
        for name, fields in {
            "duckdb": {"kind": "duckdb", "path": f"{folder}/bench.duckdb"},
            "sqlite": {"kind": "sqlite", "path": f"{folder}/bench.sqlite"},
            "files": {"kind": "object_store_local", "path": f"{folder}/files", "format": "parquet"},
        }.items():
            register_connection(connection_from_mapping(name, fields))
    return project


def declare(project: Project, mode: str, *, source: str, target: str, rows: str) -> str:
    """Declare the load of `raw.<rows>` into `mart.orders_<mode>` and give back its name."""
    with project.active():

        @ematix.table(schema="mart", name=f"orders_{mode}")
        class Orders:
            id: Annotated[BigInt, pk()]
            name: Text
            grp: Integer
            amount: Double
            ts: TimestampTZ
            flag: Boolean

        @ematix.pipeline(
            target=Orders,
            mode=mode,
            name=f"{mode}_{rows}",
            source_connection=source,
            target_connection=target,
            source_table=f"raw.{rows}",
        )
        def load() -> None:
            return None

    return f"{mode}_{rows}"
