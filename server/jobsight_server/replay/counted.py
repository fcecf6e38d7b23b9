"""The jobs of a record that count, and what its machines held when these began to be submitted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection

from jobsight_server.ground.amounts import DAY_S
from jobsight_server.replay.machines import MachineJob
from jobsight_server.replay.record import Floats, record_ends
from jobsight_server.storage.clusters import Part

DAYS = 90
EARLY = 0.1
"""Share of jobs submitted before the first end from which on the record is taken to begin there."""
HELD = "run at the end of the record, or were requeued: they hold their processors, and are not counted"
BEFORE = "were submitted before the days shown: they run or wait at their beginning, and are not counted"
NONE_COUNTED = "no finished job was submitted in this time; give an earlier --since"


def recent(connection: Connection, part: Part) -> Part:
    """Return this part of a database; without a beginning, its last ``DAYS``."""
    newest = max(record_ends(connection, part).values(), default=0.0)
    return part if part.since is not None else part._replace(since=newest - DAYS * DAY_S)


def counted_since(jobs: Sequence[MachineJob], since: float) -> float:
    """Return the time from which on submissions count: ``since``, or the first end where the record begins with it."""
    jobs = [job for job in jobs if job.counts]
    begin = min(job.end for job in jobs)
    begins = EARLY * len(jobs) < sum(job.submitted < begin for job in jobs) < len(jobs)
    return max(since, begin) if begins else since


def at_beginning(jobs: Sequence[MachineJob], since: float) -> list[MachineJob]:
    """Return the jobs by submission, those submitted before ``since`` as they were then, running or waiting."""
    submitted, start = np.array([(job.submitted, job.start) for job in jobs]).T
    placed = zip(jobs, submitted_as_of(submitted, start, since).tolist(), strict=True)
    return sorted((job._replace(submitted=at) for job, at in placed), key=lambda job: job.submitted)


def submitted_as_of(submitted: Floats, start: Floats, since: float) -> Floats:
    """Return the submissions, those before ``since`` as its last second, or the start before that."""
    return np.where(submitted >= since, submitted, np.minimum(start, since - 1.0))
