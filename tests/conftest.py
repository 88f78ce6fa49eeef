"""What every test shares: a clean user folder and environment, how hypothesis searches, and one Spark session."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


@pytest.fixture(autouse=True)
def _no_secrets_of_others() -> Iterator[None]:
    """What one test hides, another one may show."""
    from ematix_flow.spec import redaction

    known = redaction._known.copy()
    yield
    redaction._known.intersection_update(known)


@pytest.fixture(scope="session")
def session() -> Iterator[Callable[[], SparkSession]]:
    """Gives the Spark session that all tests of this process share; the first call starts it."""
    from tests.spark_session import shared_session

    with ExitStack() as stack:
        started: list[SparkSession] = []

        def start() -> SparkSession:
            if not started:
                started.append(stack.enter_context(contextmanager(shared_session)()))
            return started[0]

        yield start


@pytest.fixture(scope="session")
def spark(session: Callable[[], SparkSession]) -> SparkSession:
    """The shared Spark session, started."""
    return session()
