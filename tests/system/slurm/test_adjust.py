"""A real Slurm whose waiting jobs are changed: more of them run at once, what fails gets more, and all is undone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.system.slurm.cluster import memory_is_limited, missing
from tests.system.slurm.live import LiveJobsight
from tests.system.slurm.settings import NODE_MEMORY_MIB
from tests.system.slurm.workload import LONG_S, RealJob, RealWorkload

from site_run import JOBSIGHT, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.skipif(bool(missing()), reason=missing())]

ASKED_MIB = 3000
AT_ONCE = 2 * (NODE_MEMORY_MIB // ASKED_MIB)
"""Jobs that ask for so much, on two nodes."""
WAITING = 12
LIMITS = """
[[adjust]]
cluster = "{cluster}"
users_share = 1.0
keep_share = 0.01
"""


class AdjustedSlurm:
    """Jobs of one application that ask for much and need little, and the command that changes them."""

    def __init__(self, live: LiveJobsight) -> None:
        self.live, self.cluster, self.work = live, live.cluster, RealWorkload(live.cluster)
        self.user = self.cluster.users[0]
        self.settings = live.directory / "jobsight.toml"
        self.settings.write_text(self.settings.read_text() + LIMITS.format(cluster=self.cluster.places.cluster))

    def submit(self, label: str, mib: float = 100, stay_s: float = LONG_S, *options: str) -> RealJob:
        command = self.work.hold(label, mib, stay_s=stay_s)
        asked = ("--acctg-freq=task=1", f"--job-name={label}", f"--mem={ASKED_MIB}M", "--time=60", *options)
        return RealJob(self.cluster.submit(self.user, command, *asked), label, self.user)

    def ended(self, *jobs: RealJob) -> None:
        def ended() -> bool:
            return all(run["state"] == "ended" and run["profiled"] for run in map(self.run, jobs))

        wait_until(ended, 120, lambda: f"{[self.run(job) for job in jobs]}")

    def run(self, job: RealJob) -> dict[str, Any]:
        """The job's last run, as Jobsight knows it."""
        listed = self.live.site.api("jobs", job_id=str(job.job_id), cluster=self.cluster.places.cluster)
        return dict(listed["jobs"][0]) if listed["jobs"] else {"state": "not known yet"}

    def queue(self) -> dict[int, tuple[str, int, int]]:
        """State, MiB per node and minutes of each job."""
        return {
            job["job_id"]: (job["job_state"], job["memory_per_node"], job["time_limit"]) for job in self.cluster.queue()
        }

    def queue_of(self, jobs: list[RealJob]) -> dict[int, tuple[str, int, int]]:
        """The same of these jobs."""
        queue = self.queue()
        return {job.job_id: queue[job.job_id] for job in jobs}

    def running(self) -> int:
        return [state for state, *_ in self.queue().values()].count("RUNNING")

    def recorded(self) -> int:
        """How many changes are on record."""
        with contextlib.closing(sqlite3.connect(self.live.site.database.removeprefix("sqlite:///"))) as database:
            return int(database.execute("SELECT count(*) FROM adjustments").fetchone()[0])

    def wait_until_known(self, *jobs: RealJob) -> None:
        """Until Jobsight has read that they wait."""

        def waiting() -> set[str]:
            of = {"cluster": self.cluster.places.cluster, "state": "queued", "limit": "100"}
            listed = self.live.site.api("jobs", **of)
            return {run["job_id"] for run in listed["jobs"]}

        wait_until(lambda: waiting() >= {str(job.job_id) for job in jobs}, 30, lambda: f"{waiting()}")

    def command(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "SLURM_CONF": self.cluster.environment["SLURM_CONF"], **more}
        whole = [*JOBSIGHT, "adjust", "--scheduler", "slurm", "--config", str(self.settings), *arguments]
        database = ("--database", self.live.site.database)
        return subprocess.Popen([*whole, *database], stdout=subprocess.PIPE, text=True, env=environment)

    def adjust(self, *arguments: str) -> dict[str, Any]:
        process = self.command("--json", *arguments)
        printed, _ = process.communicate(timeout=120)
        print(printed)
        assert process.returncode == 0
        return dict(json.loads(printed))


@pytest.fixture(scope="module")
def site(live: LiveJobsight) -> Iterator[AdjustedSlurm]:
    adjusted = AdjustedSlurm(live)
    with live.following():
        yield adjusted


@pytest.fixture(scope="module")
def learned(site: AdjustedSlurm) -> AdjustedSlurm:
    for _ in range(2):  # one burst is too little to lower a request by
        tiny = [site.submit("hello", 1) for _ in range(3)]
        site.ended(*(site.submit("solver") for _ in range(4)), *tiny)
    return site


@pytest.fixture
def waiting(learned: AdjustedSlurm) -> Iterator[list[RealJob]]:
    """Jobs that wait behind others which hold the nodes."""
    site = learned
    hold(site)
    jobs = [site.submit("solver") for _ in range(WAITING)]
    site.wait_until_known(*jobs)
    yield jobs
    everything = [str(job_id) for job_id in site.queue()]
    site.cluster.run("scancel", *everything)
    wait_until(lambda: site.running() == 0, 60, lambda: f"{site.queue()}")


def hold(site: AdjustedSlurm) -> None:
    """Fill the nodes, so that others wait."""
    holding = [site.submit("holder", 10, 300, "--exclusive", "--mem=0") for _ in site.cluster.nodes]
    wait_until(lambda: site.running() == len(holding), 30, lambda: f"{site.queue()}")


def release(site: AdjustedSlurm) -> None:
    """End those that hold the nodes."""
    site.cluster.run("scancel", "--name=holder")


def test_more_of_them_run_at_once_and_undo_restores_what_still_waits(
    learned: AdjustedSlurm, waiting: list[RealJob]
) -> None:
    site = learned
    before = site.queue_of(waiting)
    assert set(before.values()) == {("PENDING", ASKED_MIB, 60)}
    shown = site.adjust()
    assert {one["outcome"] for one in shown["changes"]} == {None}
    assert site.queue().items() >= before.items(), "a dry run changes nothing"
    assert {one["outcome"] for one in site.adjust("--apply")["changes"]} == {"done"}
    lowered = site.queue_of(waiting)
    assert all(100 < mib < ASKED_MIB / 2 and minutes == 60 for _, mib, minutes in lowered.values()), lowered
    assert {one["outcome"] for one in site.adjust("--undo")["changes"]} == {"undone"}
    assert site.queue().items() >= before.items()
    site.adjust("--apply")
    release(site)
    wait_until(lambda: site.running() > AT_ONCE, 60, lambda: f"{site.queue()}")
    print(site.running(), "run at once, where requests allow", AT_ONCE)
    wait_until(lambda: site.running() == WAITING, 60, lambda: f"{site.queue()}")
    site.ended(*waiting)
    for job in waiting:
        run = site.run(job)
        assert run["exit_status"] == 0
        assert run["requested_memory_bytes"] < run["asked_memory_bytes"] == ASKED_MIB * 2**20


def test_of_sixty_waiting_jobs_none_is_killed_that_would_have_lived(learned: AdjustedSlurm) -> None:
    """Half of an application that asks for too much, half of a new one of the same user, whose other jobs are tiny."""
    site = learned
    hold(site)
    known = [site.submit("solver") for _ in range(30)]
    new = [site.submit("novel", 250, 1, "--mem=1000M") for _ in range(30)]
    site.wait_until_known(*known, *new)
    site.adjust("--apply")
    queue = site.queue()
    assert all(100 < queue[job.job_id][1] < ASKED_MIB / 2 for job in known), "less than requested"
    assert all(queue[job.job_id][1] == 1000 for job in new), "its request"
    release(site)
    site.ended(*known, *new)
    assert {site.run(job)["exit_status"] for job in (*known, *new)} == {0}


@pytest.mark.skipif(not memory_is_limited(), reason="without cgroups, Slurm does not end what exceeds its memory")
def test_one_that_fails_gets_more_when_it_is_requeued_and_runs(learned: AdjustedSlurm, waiting: list[RealJob]) -> None:
    site = learned
    # It needs more than such jobs have needed until now; the site requeues what ran out of memory.
    outgrown = site.submit("solver", ASKED_MIB * 0.5, LONG_S, "--requeue")
    site.wait_until_known(outgrown)
    site.adjust("--apply")
    _, mib, _ = site.queue()[outgrown.job_id]
    assert mib < ASKED_MIB * 0.5
    release(site)
    site.ended(outgrown)
    assert site.run(outgrown)["failure"] == "memory"
    given = [mib]
    for _ in range(6):
        site.cluster.run("scontrol", "requeuehold", str(outgrown.job_id))
        site.wait_until_known(outgrown)
        site.adjust("--apply")
        given.append(site.queue()[outgrown.job_id][1])
        assert given[-2] < given[-1] <= ASKED_MIB, given
        site.cluster.run("scontrol", "release", str(outgrown.job_id))
        site.cluster.run("scontrol", "update", f"JobId={outgrown.job_id}", "StartTime=now")  # not in two minutes
        site.ended(outgrown)
        if site.run(outgrown)["exit_status"] == 0:
            break
    print("given", given)
    assert site.run(outgrown)["exit_status"] == 0, given
    assert site.run(outgrown)["asked_memory_bytes"] == ASKED_MIB * 2**20


def test_killed_in_the_middle_every_job_is_as_it_was_or_as_it_should_be(
    learned: AdjustedSlurm, waiting: list[RealJob]
) -> None:
    site = learned
    should: dict[str, dict[str, float]] = defaultdict(dict)
    for one in site.adjust()["changes"]:
        should[one["job_id"]][one["resource"]] = one["new"]
    before, states = site.recorded(), list[str]()
    for more in (1, 3, 6, 8, 11):
        process = site.command("--apply")
        wait_until(lambda at=before + more: site.recorded() >= at, 60, lambda: f"{site.recorded()}", 0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        time.sleep(1)  # a command that it had started
        queue = site.queue_of(waiting)
        for job_id, (_, mib, minutes) in queue.items():
            new = should[str(job_id)]
            assert mib in (ASKED_MIB, new["memory"] / 2**20), (job_id, mib)
            assert minutes == 60, (job_id, minutes)
        states.append(f"{sum(mib < ASKED_MIB for _, mib, _ in queue.values())} of {WAITING}")
    print("after each kill, lowered:", states)
    assert len(set(states)) > 2, "it was killed in the middle"
    finished = site.adjust("--apply")
    print("interrupted:", finished["resolved"])
    for job_id, found in site.queue_of(waiting).items():
        new = should[str(job_id)]
        assert found == ("PENDING", new["memory"] / 2**20, 60)
    site.adjust("--undo")
    assert set(site.queue_of(waiting).values()) == {("PENDING", ASKED_MIB, 60)}


def test_hostile_names_change_no_command_and_no_other_job(learned: AdjustedSlurm, waiting: list[RealJob]) -> None:
    site, marker = learned, Path(learned.cluster.directory) / "owned"
    name = f"solver;touch {marker}\n   MinMemoryCPU=1M $(touch {marker})"
    odd = RealJob(site.cluster.submit(site.user, "sleep 1", f"--job-name={name}", "--mem=2000M"), "odd", site.user)
    site.wait_until_known(odd)
    result = site.adjust("--apply")
    assert not marker.exists()
    mine = [one for one in result["changes"] if one["job_id"] == str(odd.job_id) and one["resource"] == "memory"]
    assert all(one["outcome"] == "left" for one in mine), "what its memory is called is not certain"
    assert site.queue()[odd.job_id][1] == 2000
