"""The shop on each embedded database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.shop import Shop, open_shop


@pytest.fixture(params=[pytest.param("duckdb", marks=pytest.mark.slow), "sqlite"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.chdir(tmp_path)
    with open_shop(request.param, tmp_path) as opened:
        yield opened
