"""Settings of the whole suite, and how several processes share it."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.postgresql import PostgresqlServer

pytest_plugins = ["tests.summary"]

# How long an example takes says something of the machine, not of the code: on busy cores Hypothesis' own limits fail.
# The same examples in every run judge a change by itself; JOBSIGHT_NEW_EXAMPLES=1 looks for faults with others.
# Fixtures that last for all examples of a test are real databases and servers, which is what we want.
settings.register_profile(
    "jobsight",
    deadline=None,
    derandomize=not os.environ.get("JOBSIGHT_NEW_EXAMPLES"),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("jobsight")

# A shell has the jobs that it starts in the background ignore SIGINT, and what tests start and interrupt inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


MEMORY = Path("/dev/shm")
ROOM_BYTES = 8 * 2**30


def pytest_configure() -> None:
    """Temporary files are in memory where there is room: thousands of small commits wait for a disk otherwise.

    Nothing is proved less: no test ends the machine, and what a killed process has written is kept either way.
    """
    if "PYTEST_DEBUG_TEMPROOT" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    found = os.statvfs(MEMORY)
    if not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize >= ROOM_BYTES:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)


# Tests that share a browser, a server or an emulated site, those that start many processes or fill the memory, and one
# that would miss the cgroups of another's jobs.
IN_ONE_PROCESS = {
    "tests/deploy/test_submission": "submission",
    "tests/deploy/test_workflow_": "workflow engines",
    "tests/emulator/test_readings.py": "readings",
    "tests/emulator/test_site.py": "emulated site",
    "tests/browser/": "browser",
    "tests/server/serve/test_watchdog.py": "watchdog",
    # Each process fills a PostgreSQL database of its own.
    **{f"tests/server/web/test_{name}.py": "planted" for name in ("accuracy", "now", "waste")},
    "tests/server/front/test_requests.py": "front",
    "tests/system/gridengine/": "gridengine",
    "tests/system/slurm/": "slurm",
    "tests/system/test_real_cgroups.py": "slurm",
    "tests/system/": "system",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first, so that at the end no process waits long for the others; seeds but the first are exhaustive."""
    for item in items:
        if getattr(item, "callspec", None) and item.callspec.params.get("seed", 0):  # type: ignore[attr-defined]
            item.add_marker("exhaustive")
        if item.get_closest_marker("alone") and not item.nodeid.startswith("tests/system/"):
            raise pytest.UsageError(f"{item.nodeid}: `make check` looks for tests marked `alone` in tests/system only")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exempt tests and modules from garbage collection: thousands stay to the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Test by test, but for ``IN_ONE_PROCESS``; `--dist loadgroup` groups nothing with pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((name for start, name in IN_ONE_PROCESS.items() if nodeid.startswith(start)), nodeid)

    return Together(config, log)


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """The server in ``JOBSIGHT_TEST_POSTGRESQL``, or a separate one for the tests."""
    if given := os.environ.get("JOBSIGHT_TEST_POSTGRESQL"):
        yield given
        return
    server = PostgresqlServer()
    try:
        server.start()
        yield server.url
    finally:
        server.remove()
