"""Importing the package is cheap: it loads no engine, no driver and no data frame library."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"adbc_driver_manager", "duckdb", "numpy", "pandas", "polars", "py4j", "pyarrow", "pyspark", "sqlglot"}


def loaded_by(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter holds after a statement."""
    script = f"import sys\n{statement}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    command = [sys.executable, "-c", script]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_by("import ematix_flow")
    assert "ematix_flow" in loaded
    assert loaded & HEAVY == set()


def test_a_heavy_import_would_be_noticed() -> None:
    assert "sqlglot" in loaded_by("import sqlglot")
