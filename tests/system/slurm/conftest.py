"""One start of munge, MariaDB and slurmdbd for all modules; a cluster of its own for each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from tests.system.slurm.cluster import Accounting, SlurmCluster
from tests.system.slurm.live import LiveJobsight


@pytest.fixture(scope="session")
def accounting() -> Iterator[Accounting]:
    with Accounting.made() as services:
        services.start()
        yield services


@pytest.fixture(scope="module")
def cluster(accounting: Accounting) -> Iterator[SlurmCluster]:
    with contextlib.ExitStack() as cleanup:
        found = SlurmCluster(cleanup, accounting)
        found.start()
        yield found


@pytest.fixture(scope="module")
def live(cluster: SlurmCluster) -> LiveJobsight:
    """Jobsight's files beside a cluster that runs; nothing of it runs yet."""
    return LiveJobsight(cluster)
