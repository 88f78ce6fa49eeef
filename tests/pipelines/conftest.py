"""The shop on the kinds of database that every test runs on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.shop import USUAL, Shop, open_shop


@pytest.fixture(params=USUAL)
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.chdir(tmp_path)
    with open_shop(request.param, tmp_path) as opened:
        yield opened
