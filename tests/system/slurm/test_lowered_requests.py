"""A real Slurm whose log is all that Jobsight has: requests that it lowers, and jobs that were measured in part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.system.slurm.cluster import memory_is_limited, missing
from tests.system.slurm.live import LiveJobsight
from tests.system.slurm.workload import LONG_S, RealJob, RealWorkload

from site_run import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.skipif(bool(missing()), reason=missing())]

MIB = 2**20
OFTEN = "--acctg-freq=task=1"
"""For jobs that Slurm measures all the time; others it looks at every 5 s."""
BURSTS = (3, 2)
"""Jobs after which the plugin lowers requests: five that have been measured, in two bursts."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A job that has ended: its last run, and what sbatch said when it was submitted."""

    job: RealJob
    run: dict[str, Any]
    said: str


@dataclass(frozen=True, slots=True)
class Application:
    """What the first user submits over and over, always asking for the same."""

    live: LiveJobsight
    work: RealWorkload
    name: str
    options: tuple[str, ...]

    def submit(self, mib: float | str, stay_s: float = 3) -> tuple[RealJob, str]:
        """A job that holds so much (or what the shell makes of a text) for so long, and what sbatch says."""
        user = self.live.cluster.users[0]
        command = self.work.hold(self.name, mib, stay_s=stay_s)
        job_id, said = self.live.cluster.submit_and_read(user, command, OFTEN, f"--job-name={self.name}", *self.options)
        return RealJob(job_id, self.name, user), said

    def run(self, mib: float | str, stay_s: float = 3) -> Attempt:
        """The same once it has ended."""
        job, said = self.submit(mib, stay_s)
        (run,) = ended(self.live, job)
        return Attempt(job, run, said)

    def learn(self, mib: float) -> None:
        """Has Jobsight measure enough such jobs, none of which gets less than it asks for."""
        for count in BURSTS:
            for run in ended(self.live, *(self.submit(mib, LONG_S)[0] for _ in range(count))):
                assert run["asked_memory_bytes"] is None


@pytest.fixture(scope="module")
def live(live: LiveJobsight) -> Iterator[LiveJobsight]:
    """The server follows a cluster whose plugin lowers requests."""
    with live.following():
        # A busy machine must not let a job pass without advice.
        live.install_submission(time="lower", limit_s=5)
        live.cluster.reconfigure({"JobAcctGatherFrequency": "task=5"})
        yield live


@pytest.fixture(scope="module")
def work(live: LiveJobsight) -> RealWorkload:
    return RealWorkload(live.cluster)


def ended(live: LiveJobsight, *jobs: RealJob) -> list[dict[str, Any]]:
    """The last runs of these jobs, once Jobsight has learned them."""
    live.wait_until_profiled({str(job.job_id): job.label for job in jobs}, 240)
    runs = {run["job_id"]: run for run in live.runs()}
    return [runs[str(job.job_id)] for job in jobs]


def as_soon_as_ended(live: LiveJobsight, job: RealJob) -> dict[str, Any]:
    """The job's run once Jobsight has read its end, which need not be learned yet."""
    listed: list[dict[str, Any]] = []

    def is_read() -> bool:
        listed[:] = live.site.api("jobs", job_id=str(job.job_id), cluster=live.cluster.places.cluster)["jobs"]
        return bool(listed) and listed[0]["state"] == "ended"

    wait_until(is_read, 60, lambda: f"{listed}", 0.1)
    return listed[0]


def test_what_was_measured_in_part_is_a_lower_bound_and_the_rest_is_right(
    live: LiveJobsight, work: RealWorkload
) -> None:
    array = live.cluster.submit(
        live.cluster.users[2], work.hold("array", 200, stay_s=LONG_S), OFTEN, "--job-name=array", "--array=1-2",
        "--mem=300M",
    )  # fmt: skip
    jobs = [
        *work.in_part(),
        *work.steps(OFTEN, stay_s=LONG_S),
        work.whole_nodes(1, OFTEN, stay_s=LONG_S),
        *(RealJob(task["job_id"], "array", live.cluster.users[2]) for task in work.tasks(array, 2)),
    ]
    runs = ended(live, *jobs)
    ratios = {job: live.used(job.job_id, "memory") / work.memory_bytes(job) for job in jobs}
    marked = {job for job in jobs if live.is_lower_bound(job.job_id, "memory")}
    print({job.label: (ratio, job in marked) for job, ratio in ratios.items()})
    assert not {job: ratio for job, ratio in ratios.items() if not (ratio > 0.95 or job in marked) or ratio > 1.05}
    # Of two nodes on one machine, Slurm measures the first one's tasks; agents measure both.
    assert {job.label for job in marked} - {"two nodes"} == {job.label for job in jobs if job.in_part}
    (whole,) = (run for job, run in zip(jobs, runs, strict=True) if job.label == "1 whole")
    assert (whole["processors"], whole["asked_processors"]) == (16, 1)
    owner, stranger = live.cluster.users[2], live.cluster.users[1]
    assert f"{live.used(jobs[-1].job_id, 'memory') / MIB:.0f} MiB" in live.seff(owner, f"{array}_2")
    with pytest.raises(RuntimeError, match="no job"):
        live.seff(stranger, f"{array}_2")


def test_an_application_that_outgrows_its_lowered_memory_gets_more_the_next_time(
    live: LiveJobsight, work: RealWorkload
) -> None:
    grower = Application(live, work, "grower", ("--mem=1000M", "--time=5"))
    grower.learn(200)
    lowered = grower.run(200)
    assert "Your last 5 similar jobs used at most" in lowered.said
    assert 200 < lowered.run["requested_memory_bytes"] / MIB < 500
    assert (lowered.run["asked_memory_bytes"], lowered.run["exit_status"]) == (1000 * MIB, 0)
    outgrown, _ = grower.submit("$((SLURM_MEM_PER_NODE * 114 / 100))")  # with the interpreter, some 20 % more
    killed = as_soon_as_ended(live, outgrown)
    assert killed["exit_status"] != 0, "its limit was lowered, and it needed more"
    if memory_is_limited():
        assert killed["failure"] == "memory"
    limit = killed["requested_memory_bytes"] / MIB
    again = grower.run(limit * 1.14)  # submitted at once, as users and workflow engines do
    assert again.run["exit_status"] == 0, "the next submission succeeds"
    assert limit * 1.14 < again.run["requested_memory_bytes"] / MIB <= 1000
    comment = live.cluster.comment(again.job.job_id)
    print(lowered, killed, again, comment, sep="\n")
    for text in (again.said, comment):
        assert "1 ran out of memory" in text or "submitted just now" in text, "the user reads why"
    is_set = again.run["requested_memory_bytes"] < 1000 * MIB  # other jobs of the user may have run out, too
    assert ("jobsight_asked=mem_per_node:1000M" in comment) == is_set


def test_the_rule_and_the_facts_of_a_comment_outlast_a_log_without_comments(
    live: LiveJobsight, work: RealWorkload
) -> None:
    """slurmdbd stores the user's comment only with a flag that is not set here; the plugin copies what it says."""
    name, comment = "7c9e6679-7425-40de-944b-e07fc1f90ae7", "rule_align_wildcards_s1 jobsight:input_bytes=3.1e9,n=2"
    user, command = live.cluster.users[0], work.hold("align", 100)
    job_id = live.cluster.submit(user, command, f"--job-name={name}", f"--comment={comment}", "--mem=300M")
    (run,) = ended(live, RealJob(job_id, "align", user))
    assert run["name"] == "snakejob.align"
    assert "; rule_align_wildcards_s1; jobsight:input_bytes=3.1e9,n=2; " in live.cluster.comment(job_id)
    (facts,) = (job["facts"] for job in live.site.api("job", name=job_id)["runs"])
    assert facts == {"input_bytes": 3.1e9, "n": 2.0}
