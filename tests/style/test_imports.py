"""Importing the package is cheap: it loads no engine, no driver and no data frame library."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("module", ["decorators", "pipeline", "source"])
def test_the_modules_that_declarations_use_load_no_engine(module: str) -> None:
    assert loaded_by(f"import ematix_flow.{module}") & HEAVY == set()
    engine = "assert not [name for name in sys.modules if name.startswith('ematix_flow.engine')]"
    loaded_by(f"import ematix_flow.{module}; {engine}")


def test_records_of_the_engine_are_there_when_they_are_asked_for() -> None:
    from ematix_flow import pipeline

    assert all(hasattr(pipeline, name) for name in pipeline.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Engine'"):
        pipeline.Engine  # noqa: B018


def test_a_heavy_import_would_be_noticed() -> None:
    assert "sqlglot" in loaded_by("import sqlglot")
