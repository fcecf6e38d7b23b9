"""A served site where user `ada` has run fourteen small and six large jobs, for scripts that ask about her next one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import make
from tests.deploy.workflow_site import Workflow, served_workflow

from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.storage.engine import open_engine
from site_run import Site, free_address

NOW = 4_000_000_000.0
"""Later than any test: a run that ended since shows how those lowered by the tests did."""
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Submission:
    """Where the server listens, and a file with a token of role submitter."""

    site: Site
    port: int
    token_file: Path


@pytest.fixture(scope="session")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submission]:
    directory = tmp_path_factory.mktemp("submission")
    listen = free_address()
    site = make.site(directory, listen=listen)
    token_file = directory / "submitter-token"
    token_file.touch(mode=0o600)
    token_file.write_text(site.token("submitter") + "\n")
    _learn(site.database)
    with site.serve():
        yield Submission(site, int(listen.rpartition(":")[2]), token_file)


@pytest.fixture(scope="session")
def workflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workflow]:
    with served_workflow(tmp_path_factory.mktemp("workflow")) as served:
        yield served


def _learn(database: str) -> None:
    """Fourteen jobs of ada on 4 processors: 2.1 GiB of the 64 GiB requested, and 40 min of a day.

    Six more need all of 24 GiB and an hour; two were killed.
    """
    engine = open_engine(database)
    with engine.begin() as connection:
        for number in range(14):
            start = NOW + number * 1e4
            make.job(
                connection, str(number), start=start, end=start + 2400, name="cfd.sh", queue="batch", processors=4,
                requested_memory_bytes=64 * GIB, requested_walltime_s=86400.0,
                used={"memory": 2.1 * GIB / 4, "runtime": 2400.0},
            )  # fmt: skip
        for number, failure in enumerate((None, None, None, None, "memory", "time")):
            start = NOW + number * 1e5
            make.job(
                connection, f"large {number}", start=start, end=start + 3600, name="large.sh", queue="batch",
                processors=4, requested_memory_bytes=24 * GIB, requested_walltime_s=3600.0, failure=failure,
                used={
                    "memory": {"value": 24 * GIB / 4, "lower_bound": failure == "memory"},
                    "runtime": {"value": 3600.0, "lower_bound": failure == "time"},
                },
            )  # fmt: skip
    rebuild(engine)
    engine.dispose()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that other accounts can enter; pytest's own are closed to them."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
