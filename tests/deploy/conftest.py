"""A served site where user `ada` has run fourteen jobs, for the scripts that ask about her next one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import insert

from jobsight_server.forecasts import rebuild
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.schema import jobs, profiles
from site_run import Site, free_address

NOW = 1_700_000_000.0
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Submission:
    """Where the server listens, and a file with a token of role submitter."""

    site: Site
    port: int
    token_file: Path


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submission]:
    directory = tmp_path_factory.mktemp("submission")
    listen = free_address()
    site = Site(directory, ("alpha",), listen, ["--query-workers", "1"])
    token_file = directory / "submitter-token"
    token_file.touch(mode=0o600)
    token_file.write_text(site.token("submitter") + "\n")
    _learn(site.database)
    with site.serve():
        yield Submission(site, int(listen.rpartition(":")[2]), token_file)


def _learn(database: str) -> None:
    """Fourteen jobs of ada on 4 processors: 2.1 GiB of the 64 GiB requested, and 40 min of a day."""
    engine = open_engine(database)
    with engine.begin() as connection:
        for number in range(14):
            row = {
                "cluster": "alpha", "job_id": str(number), "start": NOW + number * 1e4,
                "end": NOW + number * 1e4 + 2400, "state": "ended", "user": "ada", "name": "cfd.sh", "queue": "batch",
                "processors": 4, "requested_memory_bytes": 64 * GIB, "requested_walltime_s": 86400.0,
                "recorded_at": NOW, "profiled": True,
            }  # fmt: skip
            run = connection.execute(insert(jobs).values(row).returning(jobs.c.id)).scalar_one()
            for metric, value in (("memory", 2.1 * GIB / 4), ("runtime", 2400.0)):
                key = {"run_id": run, "metric": metric, "learn_seq": number + 1}
                connection.execute(insert(profiles).values(key | {"value": value, "source": "accounting"}))
    rebuild(engine)
    engine.dispose()
