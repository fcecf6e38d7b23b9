"""A real Slurm whose log is all that Jobsight has: requests that it lowers, and jobs that were measured in part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from .cluster import SlurmCluster, memory_is_limited, missing
from .live import LiveJobsight
from .workload import RealJob, RealWorkload

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.skipif(bool(missing()), reason=missing())]

MIB = 2**20
ASKED = 1600  # MiB


@pytest.fixture(scope="module")
def live() -> Iterator[LiveJobsight]:
    with SlurmCluster.made() as cluster, ThreadPoolExecutor() as pool:
        starting = pool.submit(cluster.start)
        live = LiveJobsight(cluster)
        starting.result()
        with live.following():
            yield live


@pytest.fixture(scope="module")
def work(live: LiveJobsight) -> RealWorkload:
    return RealWorkload(live.cluster)


def ended(live: LiveJobsight, *jobs: RealJob) -> list[dict[str, Any]]:
    """The last runs of these jobs, once Jobsight has learned them."""
    live.wait_until_profiled({str(job.job_id): job.label for job in jobs}, 90)
    runs = {run["job_id"]: run for run in live.runs()}
    return [runs[str(job.job_id)] for job in jobs]


def memory(live: LiveJobsight, job: RealJob) -> dict[str, Any]:
    run = live.site.api("job", name=str(job.job_id), cluster=live.cluster_name)["runs"][-1]
    (found,) = (profile for profile in run["profile"] if profile["metric"] == "memory")
    return dict(found)


def test_what_was_measured_in_part_is_a_lower_bound_and_the_rest_is_right(
    live: LiveJobsight, work: RealWorkload
) -> None:
    cluster, user = live.cluster, live.cluster.users[1]
    cluster.reconfigure({"JobAcctGatherFrequency": "task=30"})

    def submit(label: str, script: str, *options: str) -> RealJob:
        return RealJob(cluster.submit(user, script, f"--job-name={label}", *options), label, user)

    large, small = work.hold("large", 150, stay_s=1), work.hold("small", 40, stay_s=40)
    jobs = [
        # Four tasks that are over before Slurm has looked at all of them, then a small one that it sees.
        submit("short, then long", f"srun {large}; srun -n1 {small}", "-n4", "--mem=900M"),
        submit("long step", f"srun {work.hold('long', 200, stay_s=40)}", "-n1", "--mem=400M"),
        submit("two nodes", f"srun {work.hold('task', 100, stay_s=40)}", "-N2", "-n2", "--mem=200M"),
        submit("whole node", work.hold("alone", 300, stay_s=40), "-n1", "--exclusive", "--mem=600M"),
    ]
    array = cluster.submit(user, work.hold("array", 120, stay_s=40), "--job-name=array", "--array=1-2", "--mem=300M")
    jobs += [RealJob(task["job_id"], "array", user) for task in work._tasks(array, 2)]
    runs = ended(live, *jobs)
    for job, run in zip(jobs, runs, strict=True):
        found = memory(live, job)
        truth = work.memory_bytes(job)
        held = None if found["value"] is None else found["value"] * (run["asked_processors"] or run["processors"])
        print(job.label, held, truth, found["lower_bound"], found["reason"])
        assert held is not None, job
        assert found["lower_bound"] or held > 0.95 * truth, "below the truth, unmarked"
        assert held < 1.05 * truth
    assert memory(live, jobs[0])["lower_bound"]
    assert not memory(live, jobs[1])["lower_bound"]
    assert (runs[3]["processors"], runs[3]["asked_processors"]) == (16, 1)


def test_an_application_that_outgrows_its_lowered_request_gets_more_the_next_time(
    live: LiveJobsight, work: RealWorkload
) -> None:
    cluster, user = live.cluster, live.cluster.users[0]
    cluster.reconfigure({"JobAcctGatherFrequency": "task=1"})

    def run(mib: int, count: int = 1) -> list[tuple[RealJob, dict[str, Any]]]:
        """Submits jobs that hold so much and ask for ``ASKED``; what they got, once they have ended."""
        options = ("--job-name=grower", f"--mem={ASKED}M")
        jobs = [RealJob(cluster.submit(user, work.hold("grower", mib), *options), "grower", user) for _ in range(count)]
        return list(zip(jobs, ended(live, *jobs), strict=True))

    run(100, 6)
    live.install_submission()
    [(_, lowered)] = run(100)
    limit = lowered["requested_memory_bytes"] / MIB
    assert 100 < limit < 700, "lowered"
    assert lowered["asked_memory_bytes"] == ASKED * MIB
    assert lowered["exit_status"] == 0
    grown = int(limit * 1.1)
    [(job, killed)] = run(grown)
    assert killed["requested_memory_bytes"] < grown * MIB
    assert killed["exit_status"] != 0, "its limit was lowered, and it needed more"
    if memory_is_limited():
        assert killed["failure"] == "memory"
    [(job, after)] = run(grown)
    assert after["exit_status"] == 0, "the next submission succeeds"
    assert grown * MIB < after["requested_memory_bytes"] < ASKED * MIB
    comment = next(row for row in cluster.accounting() if row["job_id"] == job.job_id)["comment"]["administrator"]
    assert re.search("ran out of memory", comment), comment
    # Six times as much at once takes more attempts, each with twice as much.
    outcomes = [run(900)[0][1]["exit_status"]]
    while outcomes[-1] != 0 and len(outcomes) < 4:
        outcomes.append(run(900)[0][1]["exit_status"])
    assert outcomes[-1] == 0
    assert len(outcomes) <= 3
