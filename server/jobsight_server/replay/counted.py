"""The jobs of a record that count, and what its machines held when these began to be submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sqlalchemy import Connection

from jobsight_scheduler.workload.swf import Trace
from jobsight_server.replay.machines import Machine, MachineJob, newest_end
from jobsight_server.storage.clusters import Part

DAY_S = 86_400.0
DAYS = 90
EARLY = 0.1
"""Share of jobs submitted before the first end from which on the record is taken to begin there."""
BEFORE = "were submitted before the days shown: they run or wait at their beginning, and are not counted"
NONE_COUNTED = "no finished job was submitted in this time; give an earlier --since"


def recent(connection: Connection, part: Part) -> Part:
    """Return this part of a database; without a beginning, its last ``DAYS``."""
    return part if part.since is not None else part._replace(since=newest_end(connection, part) - DAYS * DAY_S)


def counted_since(jobs: Sequence[MachineJob], since: float) -> float:
    """Return the time from which on submissions count: ``since``, or the first end where the record begins with it."""
    begin = min(job.end for job in jobs)
    begins = EARLY * len(jobs) < sum(job.submitted < begin for job in jobs) < len(jobs)
    return max(since, begin) if begins else since


def at_beginning(jobs: Sequence[MachineJob], since: float) -> list[MachineJob]:
    """Return the jobs by submission, those submitted before ``since`` as they were then, running or waiting."""
    early = [job._replace(submitted=min(job.start, since - 1.0)) for job in jobs if job.submitted < since]
    return sorted([*early, *(job for job in jobs if job.submitted >= since)], key=lambda job: job.submitted)


def trace_of_machines(trace: Trace, machines: Sequence[Machine], since: float) -> tuple[Trace, int]:
    """Return the trace as its machines were at the beginning of what is counted, and the number of earlier jobs."""
    jobs = sorted((job for machine in machines for job in machine.jobs), key=lambda job: (job.submitted, job.id))
    since, row_of = counted_since(jobs, since), {job.id: row for row, job in enumerate(jobs)}
    begun = at_beginning(jobs, since)
    columns = {name: column[[row_of[job.id] for job in begun]] for name, column in trace.columns.items()}
    submitted = np.array([job.submitted for job in begun])
    columns["submit_s"], columns["wait_s"] = (
        submitted - submitted[0],
        np.array([job.start for job in begun]) - submitted,
    )
    return replace(trace, columns=columns), int((submitted < since).sum())
