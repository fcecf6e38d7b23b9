"""A real Slurm with 75 jobs of known use: what Jobsight says of each is true, or marked.

Their memory, processor time and duration differ; some run in steps, on two nodes or as tasks of an array, are killed,
cancelled or fail, last less than a second, or need most of their memory in the end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from tests.system.slurm.cluster import missing
from tests.system.slurm.live import LiveJobsight
from tests.system.slurm.workload import RealJob, RealWorkload

from site_run import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.exhaustive,
    pytest.mark.alone,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

Verdict = Literal["exact", "bound", "unknown"]
ASKED = "--mem=600M"
LOW = 0.99
"""The least share of the truth that an exact value has."""
ONE_S = 1.0
"""Slurm writes whole seconds, also of the processor time of processes that were killed."""


@dataclass(frozen=True, slots=True)
class Known:
    """A metric of a job: what Jobsight says, and the least that is true."""

    job: RealJob
    metric: str
    verdict: Verdict
    value: float
    truth: float
    why: str

    def __str__(self) -> str:
        high = self.value / self.truth - 1
        said = f"{self.verdict} {self.value:.4g}, truth {self.truth:.4g} ({high:+.1%}), {self.why}"
        return f"{self.job.job_id} {self.job.label} {self.metric}: {said}"


@pytest.fixture(scope="module")
def known(live: LiveJobsight) -> Iterator[list[Known]]:
    with live.running():
        work = RealWorkload(live.cluster)
        jobs = [*stopped(work), *plain(work), *in_steps(work), *on_two_nodes(work), *short(work), *growing(work)]
        assert len({job.job_id for job in jobs}) == 75
        live.wait_until_profiled({str(job.job_id): job.label for job in jobs}, 150)
        yield [one for job in jobs for one in said(work, job, live.run(job.job_id))]


def plain(work: RealWorkload) -> list[RealJob]:
    """One program each: of some memory, processor time and duration; ten of them are tasks of one array."""
    held = [
        work.submit(f"plain {n}", work.hold("plain", 40 + 37 * n % 300, cpu_s=n % 4, stay_s=3 + 2 * n), ASKED)
        for n in range(16)
    ]
    user = work.cluster.users[0]
    script = work.hold("task", "$((60 + 20 * SLURM_ARRAY_TASK_ID))", cpu_s=1, stay_s=6)
    array = work.cluster.submit(user, script, "--job-name=array", "--array=1-10", ASKED)
    return held + [RealJob(task["job_id"], f"task {task['array_task_id']}", user) for task in work.tasks(array, 10)]


def in_steps(work: RealWorkload) -> list[RealJob]:
    step = "srun --exact -n1 --mem=400M"
    jobs = []
    for n in range(4):
        first, second = work.hold("first", 80 + 50 * n, stay_s=4 + n), work.hold("second", 150 - 20 * n, stay_s=8 - n)
        both = f"{step} {first} & {step} {second} & wait"
        jobs += [
            work.submit(f"steps at once {n}", both, "-n2", "--mem=900M"),
            work.submit(f"steps in turn {n}", f"{step} {first}; {step} {second}", "--mem=600M", at_once=False),
            work.submit(f"two tasks {n}", f"srun {first}", "-n2", "--mem=900M"),
        ]
    return jobs


def on_two_nodes(work: RealWorkload) -> list[RealJob]:
    held = [
        work.submit(
            f"two nodes {n}", f"srun {work.hold('both', 90 + 60 * n, stay_s=5 + n)}", "-N2", "-n2", "--mem=600M"
        )
        for n in range(4)
    ]
    return held + work.ending_early(5)


def short(work: RealWorkload) -> list[RealJob]:
    """Jobs that end before or soon after anybody looks."""
    return [work.submit(f"short {n}", work.hold("short", 30 + 60 * n, stay_s=0.2 * n), ASKED) for n in range(6)]


def growing(work: RealWorkload) -> list[RealJob]:
    """Jobs that grow until they end, and such whose last program needs the most.

    Growth within the agents' interval is seen by nobody, so each of these takes longer.
    """
    ramps = [
        work.submit(f"ramp {n}", work.hold("ramp", 60, grown_mib=25 + 40 * n, grown_s=1.5 + 0.9 * n), ASKED)
        for n in range(7)
    ]
    lasts = [(work.hold("first", 60, stay_s=4), work.hold("last", 200 + 50 * n, stay_s=1.3)) for n in range(3)]
    return ramps + [work.submit("last is most", f"{first}; {last}", ASKED, at_once=False) for first, last in lasts]


def stopped(work: RealWorkload) -> list[RealJob]:
    """Jobs that are cancelled, fail, run out of time, or of memory while they grow."""
    stay = [work.hold("stay", 80 + 70 * n, cpu_s=2 + n, stay_s=600) for n in range(5)]
    cancelled = [work.submit("cancelled", each, ASKED, state="CANCELLED") for each in stay[:3]]
    late = [work.submit("late", each, ASKED, "--time=1", state="TIMEOUT") for each in stay[3:]]
    failed = [work.hold("failed", 100 + 80 * n) for n in range(3)]
    over = [work.hold("over", 40, stay_s=2 + n, grown_mib=300, grown_s=n) for n in range(4)]
    found = [
        *late,
        *(work.submit("failed", f"{each}; exit 3", ASKED, state="FAILED") for each in failed),
        *(work.submit("out of memory", each, "--mem=150M", state="OUT_OF_MEMORY") for each in over),
    ]
    wait_until(lambda: all(map(work.is_written, cancelled)), 60, lambda: f"{cancelled}: they burn yet")
    time.sleep(2)  # and stay
    work.cluster.run("scancel", *(str(job.job_id) for job in cancelled), user=cancelled[0].user)
    return [*cancelled, *found]


def said(work: RealWorkload, job: RealJob, run: dict[str, Any]) -> Iterator[Known]:
    """Yield what Jobsight says of the job's memory, processor time and run time."""
    held_s = run["end"] - run["start"]
    units = {"memory": run["asked_processors"] or run["processors"], "cpu": run["processors"] * held_s, "runtime": 1.0}
    truths = {"memory": work.memory_bytes(job, "anonymous_bytes"), "cpu": work.cpu_s(job), "runtime": work.ran_s(job)}
    for profile in run["profile"]:
        metric, value = profile["metric"], profile["value"]
        if metric in truths:
            verdict: Verdict = "unknown" if value is None else "bound" if profile["lower_bound"] else "exact"
            total = 0.0 if value is None else value * units[metric]
            yield Known(job, metric, verdict, total, truths[metric], f"{profile['source']}: {profile['reason']}")


def test_no_value_is_too_low_and_unmarked(known: list[Known]) -> None:
    for metric in ("memory", "cpu", "runtime"):
        print(metric, dict(Counter(one.verdict for one in known if one.metric == metric)))
    print(*known, sep="\n")
    slack = {"memory": 0.0, "cpu": ONE_S, "runtime": ONE_S}
    low = [one for one in known if one.verdict == "exact" and one.value < LOW * one.truth - slack[one.metric]]
    assert not low, "\n".join(map(str, low))


def test_use_of_jobs_that_were_stopped_is_marked(known: list[Known]) -> None:
    of_stopped = [one for one in known if one.job.state != "COMPLETED" and one.metric in ("memory", "runtime")]
    assert not [str(one) for one in of_stopped if one.verdict == "exact"]


def test_most_of_what_was_seen_whole_is_exact(known: list[Known]) -> None:
    """Else marks would be worth nothing."""
    exact = Counter(one.metric for one in known if one.verdict == "exact")
    assert exact["memory"] >= 35
    assert exact["cpu"] >= 50
    assert exact["runtime"] == 63
