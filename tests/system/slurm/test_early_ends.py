"""A real Slurm without ``PrologFlags=Contain``: the cgroup of a job vanishes on a node whose tasks have ended."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from .cluster import SlurmCluster, missing
from .live import LiveJobsight
from .workload import RealWorkload

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.skipif(bool(missing()), reason=missing())]

COUNT = 40
TOGETHER_S = 2.5
"""Agents read once a second: shorter peaks of both nodes together may lie between two readings."""


def test_memory_of_jobs_of_which_one_node_ends_early_is_true_or_marked() -> None:
    """The log has the larger task at most, or what a task held at its end; the agents have read both nodes."""
    with SlurmCluster.made() as cluster, ThreadPoolExecutor() as pool:
        starting = pool.submit(cluster.start)
        live = LiveJobsight(cluster)  # takes seconds too: every token is a command
        starting.result()
        with live.running():
            work = RealWorkload(cluster)
            jobs = work.ending_early(COUNT)
            live.wait_until_profiled({str(job.job_id): job.label for job in jobs}, 240)
            ratios = {job: live.used(job.job_id, "memory") / work.memory_bytes(job) for job in jobs}
            marked = {job for job in jobs if live.is_lower_bound(job.job_id, "memory")}
            # On a busy machine one task may still fill its memory when the other ends.
            known = {job for job in jobs if work.together_s(job) > TOGETHER_S}
    assert len(known) > COUNT / 2
    assert not {job: ratios[job] for job in known - marked if not ratios[job] >= 0.95}
    assert max(ratios.values()) < 1.05
    assert len(marked) < COUNT / 4, "what was read whole is exact"
