"""A real Grid Engine with jobs of all sorts, and a real Jobsight that follows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import isnan
from typing import Any

import pytest
from tests.system.gridengine.cluster import GridEngineCluster, missing
from tests.system.gridengine.live import INTERVAL_S, NAME, LiveJobsight
from tests.system.gridengine.workload import ODD_NAME, RealJob, RealWorkload

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.skipif(bool(missing()), reason=missing())]


@dataclass(frozen=True, slots=True)
class Wave:
    """Jobs that have ended, as Jobsight knows them; ``runs`` by job, each job's oldest first."""

    live: LiveJobsight
    work: RealWorkload
    jobs: tuple[RealJob, ...]
    runs: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def wave() -> Iterator[Wave]:
    with GridEngineCluster.made() as cluster, ThreadPoolExecutor() as pool:
        starting = pool.submit(cluster.start)
        live = LiveJobsight(cluster)  # takes seconds too: every token is a command
        starting.result()
        with live.running():
            work = RealWorkload(cluster)
            jobs = (*work.measured(), *work.run_again(), *work.ended_badly())
            live.wait_until_profiled({job.job_id: job.label for job in jobs if job.states}, 300)
            runs: dict[str, list[dict[str, Any]]] = {}
            for run in sorted(live.runs(), key=lambda run: run["start"]):
                runs.setdefault(run["job_id"], []).append(run)
            yield Wave(live, work, jobs, runs)


def details(wave: Wave, job: RealJob) -> dict[str, Any]:
    """The last run of a job, its profile by metric."""
    run = wave.live.site.api("job", name=job.job_id, cluster=NAME)["runs"][-1]
    return {**run, "profile": {entry["metric"]: entry for entry in run["profile"]}}


def test_every_run_is_known_with_its_outcome(wave: Wave) -> None:
    assert len(wave.jobs) == 20
    assert wave.runs.keys() == {job.job_id for job in wave.jobs if job.states}
    for job in wave.jobs:
        runs = wave.runs.get(job.job_id, [])
        assert tuple(run["state"] for run in runs) == job.states, job
        assert {(run["user"], run["group"], run["processors"]) for run in runs} <= {
            (job.user, job.user, job.processors)
        }
        assert {(run["exit_status"], run["failure"]) for run in runs[-1:]} <= {(job.exit_status, job.failure)}, job


def test_nothing_of_the_file_is_rejected(wave: Wave) -> None:
    assert wave.live.site.api("rejected")["rejected"] == []


def test_times_are_those_of_the_programs(wave: Wave) -> None:
    now = time.time()
    for job in wave.jobs:
        for run in wave.runs.get(job.job_id, []):
            assert job.submitted - 1 < run["queued"] <= run["start"] <= run["end"] < now + 1, job
    for job in (job for job in wave.jobs if job.measured):
        truths, run = wave.work.programs.truths_of(job.job_id), wave.runs[job.job_id][-1]
        # Whole seconds, and from before the prolog until after the epilog.
        assert run["start"] - 1 < min(truth["begin"] for truth in truths), job
        assert run["end"] + 1 > max(truth["end"] for truth in truths), job


def test_names_accounts_and_requests(wave: Wave) -> None:
    (odd,) = (run for job in wave.jobs if job.label == "odd" for run in wave.runs[job.job_id])
    (plain,) = (run for job in wave.jobs if job.label == "plain" for run in wave.runs[job.job_id])
    assert (odd["name"], odd["account"], odd["queue"]) == (ODD_NAME, "group|1", "batch.q")
    assert (plain["name"], plain["account"]) == ("plain", None)
    assert (plain["requested_walltime_s"], plain["requested_memory_bytes"]) == (600, 2**30)


def test_memory_is_within_five_per_cent_of_what_the_programs_had(wave: Wave) -> None:
    truths = {job: wave.work.programs.truths_of(job.job_id) for job in wave.jobs if job.measured}
    ratios = {
        job.label: wave.live.used(job.job_id, "memory") / sum(truth["virtual_bytes"] for truth in found)
        for job, found in truths.items()
    }
    assert len(ratios) == 10
    # An address space hardly larger than the resident memory could be either.
    unknown = {label for label, ratio in ratios.items() if isnan(ratio)}
    assert unknown <= {
        job.label
        for job, found in truths.items()
        if len(found) == 1 and found[0]["virtual_bytes"] <= 1.05 * found[0]["peak_bytes"]
    }
    assert not {label: of for label, of in ratios.items() if label not in unknown and not 0.95 < of < 1.05}


def test_processor_time_is_within_five_per_cent_of_what_the_programs_burned(wave: Wave) -> None:
    programs = wave.work.programs
    # What the others burn to hold their memory is little, and shell and qrsh are much beside it.
    told = [job for job in wave.jobs if job.measured and programs.burns(job.job_id)]
    ratios = {
        job.label: wave.live.used(job.job_id, "cpu") / sum(truth["cpu_s"] for truth in programs.truths_of(job.job_id))
        for job in told
    }
    assert ratios.keys() == {"plain", "tight"}
    assert not {label: ratio for label, ratio in ratios.items() if not 0.95 < ratio < 1.05}


def test_what_a_job_ran_out_of_is_a_lower_bound(wave: Wave) -> None:
    for job in (job for job in wave.jobs if job.failure):
        profile = details(wave, job)["profile"]
        bounded = {name for name, entry in profile.items() if entry["lower_bound"]}
        assert bounded == {"runtime", "memory"}, job


def test_hooks_mark_the_jobs(wave: Wave) -> None:
    """Two readings of each run, beside those that the agent takes by itself."""
    (node,) = wave.live.site.api("nodes")["nodes"]
    regular = 1 + (node["last_time"] - node["first_time"]) // INTERVAL_S
    assert node["name"] == wave.live.cluster.host
    assert node["samples"] - regular >= 2 * sum(map(len, wave.runs.values())), node
