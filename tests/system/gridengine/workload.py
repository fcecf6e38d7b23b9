"""Jobs for a real Grid Engine."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from tests.system.gridengine.cluster import GridEngineCluster
from tests.system.programs import Programs

from site_run import wait_until

ODD_NAME = "odd|\"name\";{of}=[1],'x'%&<>~^"


@dataclass(frozen=True, slots=True)
class RealJob:
    """A submitted job, or a task of an array, and what must become of it.

    ``states``: of its runs, the last one last. ``measured``: its programs write the truth.
    """

    job_id: str
    label: str
    user: str
    submitted: float
    states: tuple[str, ...] = ("ended",)
    exit_status: int = 0
    failure: str | None = None
    processors: int = 1
    measured: bool = False


class RealWorkload:
    """Submits jobs to a cluster and knows what their programs did."""

    def __init__(self, cluster: GridEngineCluster) -> None:
        self.cluster = cluster
        self.programs = Programs(cluster.directory)

    def measured(self) -> list[RealJob]:
        """Jobs of the first two users that end well: plain, an array, and parallel ones of each kind."""
        first, second, _ = self.cluster.users
        hold, inherit = self.programs.hold, f"qrsh -inherit -V {self.cluster.host}"
        # Grid Engine counts 20 to 60 MB of shell and qrsh in a tight job, so its tasks hold far more than that.
        tight = f"{inherit} {hold('a', 1000, cpu_s=10)} & {inherit} {hold('b', 1000, stay_s=5)}"
        array = self._submit(first, "array", hold("array", 200, stay_s=8), "-t", "1-3", measured=True)
        summed = " & ".join(f"{inherit} {hold(name, 1000, stay_s=8)}" for name in "ab")
        return [
            *(replace(array, job_id=f"{array.job_id}.{task}", label=f"array {task}") for task in (1, 2, 3)),
            self._submit(first, "plain", hold("plain", 200, cpu_s=10), "-l", "h_rt=0:10:0,h_vmem=1G", measured=True),
            self._parallel(second, "loose", " & ".join([hold("loose", 200, stay_s=8)] * 2)),
            self._parallel(second, "tight", tight),
            self._parallel(second, "summed", summed),
        ]

    def ended_badly(self) -> list[RealJob]:
        """Jobs of the third user that fail, or run out of something, in the ways that Grid Engine knows."""
        user, hold = self.cluster.users[2], self.programs.hold
        stay, two = hold("stay", 100, stay_s=600), " & ".join([hold("two", 150, stay_s=600)] * 2)
        killed = {"exit_status": 137, "failure": "time"}
        deleted = self._submit(user, "deleted", stay, exit_status=137)
        waiting = self._submit(user, "deleted while it waits", "true", "-h", states=())
        jobs = [
            self._submit(user, "failed", f"{hold('failed', 200, stay_s=8)}; exit 3", exit_status=3, measured=True),
            self._submit(user, "too short", "true"),
            self._submit(user, "odd", hold("odd", 200, stay_s=8), "-A", "group|1", name=ODD_NAME, measured=True),
            self._submit(user, "h_rt", stay, "-l", "h_rt=3", **killed),
            self._submit(user, "s_rt", stay, "-l", "s_rt=3,h_rt=600", **{**killed, "exit_status": 138}),
            self._submit(user, "h_vmem", f"{two} & wait", "-l", "h_vmem=250M", exit_status=137, failure="memory"),
            self._submit(user, "s_vmem", f"{two} & wait", "-l", "s_vmem=250M", exit_status=152, failure="memory"),
            # One process alone cannot get more: it is not killed but refused, and ends as it likes.
            self._submit(user, "refused", hold("refused", 200), "-l", "h_vmem=150M", exit_status=1),
            self._submit(user, "not started", "true", "-wd", "/nonexistent", states=()),
        ]
        self._wait_for(deleted, "r")
        time.sleep(2)  # it has run for a while
        self.cluster.run("qdel", deleted.job_id, waiting.job_id, user=user)
        return [deleted, waiting, *jobs]

    def run_again(self) -> list[RealJob]:
        """Jobs of the third user that are scheduled again: by an administrator, and by themselves."""
        user, hold = self.cluster.users[2], self.programs.hold
        # Of the run that is cut short, Grid Engine logs neither start nor use.
        pushed = self._submit(user, "rescheduled", hold("again", 200, stay_s=8), "-r", "y", measured=True)
        once = "test -e again && exit 0; touch again; sleep 2; exit 99"
        asked = self._submit(user, "asked to run again", once, states=("requeued", "ended"))
        self._wait_for(pushed, "r")
        self.cluster.run("qmod", "-rj", pushed.job_id)
        return [pushed, asked]

    def _parallel(self, user: str, kind: str, script: str) -> RealJob:
        return self._submit(user, kind, f"{script} & wait", "-pe", kind, "2", processors=2, measured=True)

    def _submit(self, user: str, label: str, script: str, *options: str, name: str = "", **expected: object) -> RealJob:
        begin = time.time()
        job_id = self.cluster.submit(user, script, "-N", name or label.replace(" ", "_"), *options)
        return RealJob(str(job_id), label, user, begin, **expected)

    def _wait_for(self, job: RealJob, state: str) -> None:
        """Wait until qstat says so of a job."""
        number, states = int(job.job_id), self.cluster.states
        wait_until(lambda: states().get(number) == state, 60, lambda: f"{job} is not {state}: {states()}")
