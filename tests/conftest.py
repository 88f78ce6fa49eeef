"""What every test shares: a clean user folder and environment, and how hypothesis searches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Two shared cores make single examples slow now and then: that is no failure.
settings.register_profile("flow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("flow")


@pytest.fixture(scope="session", autouse=True)
def _clean_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the tests an empty home folder and no settings of the person who runs them.

    The cache folder stays, because what it holds is only faster and never different.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("EMATIX_FLOW_")]:
            patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("XDG_CACHE_HOME", cache)
        yield
