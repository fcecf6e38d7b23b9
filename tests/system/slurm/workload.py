"""Jobs for a real Slurm."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from tests.system.programs import Programs
from tests.system.slurm.cluster import SlurmCluster, memory_is_limited

from site_run import wait_until

LONG_S = 31
"""Stays of jobs whose memory is exact by the log alone: Slurm's default interval between samples is 30 s."""


@dataclass(frozen=True, slots=True)
class RealJob:
    """A submitted job, or a task of an array, and what must become of it.

    ``state`` is Slurm's word for how its last run ends; empty where Slurm logs nothing. ``at_once``: its programs held
    their memory together, else only those of one label. ``measured``: its programs write the truth. ``in_part``: some
    of them are too short for Slurm to look at.
    """

    job_id: int
    label: str
    user: str
    state: str = "COMPLETED"
    at_once: bool = True
    measured: bool = True
    in_part: bool = False


class RealWorkload:
    """Submits jobs to a cluster and knows what their programs did."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster
        self.programs = Programs(cluster.directory)
        self.hold = self.programs.hold

    def memory_bytes(self, job: RealJob, kind: str = "peak_bytes") -> int:
        """What the job's programs held at most, each by its own peak: all together, or those of one label.

        ``anonymous_bytes``: without the pages of files that they share.
        """
        held: Counter[object] = Counter()
        for truth in self.programs.truths_of(job.job_id):
            held["all" if job.at_once else truth["label"]] += int(truth[kind])
        return max(held.values())

    def is_written(self, job: RealJob) -> bool:
        """Return whether one of the job's programs has written the truth, before it stays."""
        return any(self.programs.truths.glob(f"{job.job_id}-*.json"))

    def ran_s(self, job: RealJob) -> float:
        """How long the job's programs ran, from the first to the last."""
        truths = self.programs.truths_of(job.job_id)
        return max(truth["end"] for truth in truths) - min(truth["begin"] for truth in truths)

    def together_s(self, job: RealJob) -> float:
        """How long all of the job's programs held all of their memory."""
        truths = self.programs.truths_of(job.job_id)
        return min(truth["end"] for truth in truths) - max(truth["full"] for truth in truths)

    def cpu_s(self, job: RealJob) -> float:
        """What the job's programs burned."""
        return sum(float(truth["cpu_s"]) for truth in self.programs.truths_of(job.job_id))

    def solver(self, count: int) -> list[RealJob]:
        """An array of jobs of the first user that hold 200 MiB and ask for 1000."""
        user = self.cluster.users[0]
        array = self.cluster.submit(
            user, self.hold("solver", 200), "--job-name=solver", f"--array=1-{count}", "--mem=1000M"
        )
        ids = {task["array_task_id"]: task["job_id"] for task in self.tasks(array, count)}
        return [RealJob(ids[number], f"solver {number}", user) for number in range(1, count + 1)]

    def burners(self, count: int) -> list[RealJob]:
        """Jobs of the second user that burn 10 s on one of two processors.

        So long that what Slurm burns within the job's cgroup to start it, .3 s on a busy machine, is less than 5 %.
        """
        user = self.cluster.users[1]
        command, options = self.hold("burner", 200, cpu_s=10, stay_s=2), ("--job-name=burner", "--mem=600M", "-n2")
        return [RealJob(self.cluster.submit(user, command, *options), "burner", user) for _ in range(count)]

    def steps(self, *options: str, stay_s: float = 3) -> list[RealJob]:
        """Jobs of the third user with steps at once and in turn, and tasks on one node and on two."""
        step = "srun --exact -n1 --mem=400M"
        a, b, task = (
            self.hold(label, mib, cpu_s=5, stay_s=stay_s) for label, mib in (("a", 200), ("b", 300), ("task", 200))
        )
        tasks = f"srun {task}"
        return [
            self.submit("two steps at once", f"{step} {a} & {step} {b} & wait", "-n2", "--mem=900M", *options),
            self.submit("two steps in turn", f"{step} {a}; {step} {b}", "--mem=800M", *options, at_once=False),
            self.submit("two tasks", tasks, "-n2", "--mem=800M", *options),
            self.submit("two nodes", tasks, "-N2", "-n2", "--mem=400M", *options),
        ]

    def in_part(self) -> list[RealJob]:
        """Jobs of the third user of which Slurm sees but a part, for it looks once and their programs are over."""
        short, small = self.hold("short", 150, stay_s=0.2), self.hold("small", 40, stay_s=8)
        large = self.hold("large", 120, stay_s=0.2)
        return [
            self.submit("short tasks, then a small step", f"srun {short}; srun -n1 {small}", "-n4", "--mem=900M",
                         at_once=False, in_part=True),
            self.submit("short step beside a small one",
                         f"srun --exact -n1 --mem=400M {small} & srun --exact -n1 --mem=400M {large}; wait", "-n2",
                         "--mem=900M", in_part=True),
        ]  # fmt: skip

    def ending_early(self, count: int) -> list[RealJob]:
        """Jobs of the third user with a task on each of two nodes, of which now one, now the other ends early.

        Both stay so long that they hold their memory together, although a busy machine starts one seconds later.
        """
        jobs = []
        for number in range(count):
            early = self.hold("early", 120 + 83 * number % 300, stay_s=6 + number % 3)
            late = self.hold("late", 100 + 59 * number % 300, stay_s=12 + number % 4)
            task = f"srun sh -c 'if [ $SLURM_PROCID = {number % 2} ]; then exec {early}; else exec {late}; fi'"
            jobs.append(self.submit(f"early {number}", task, "-N2", "-n2", "--mem=600M"))
        return jobs

    def whole_nodes(self, count: int, *options: str, stay_s: float = 3) -> RealJob:
        """A job of the third user with all processors of so many nodes, and one task on each."""
        task = f"srun {self.hold('alone', 300, stay_s=stay_s)}"
        of = (f"-N{count}", f"-n{count}", "--exclusive", "--mem=600M")
        return self.submit(f"{count} whole", task, *of, *options)

    def troubled(self) -> list[RealJob]:
        """Jobs of the third user that fail, in every way that Slurm knows, and one with an odd name."""
        cluster, endless = self.cluster, self.hold("stay", 100, stay_s=600)
        # Where Slurm itself kills what is over its limit, it logs no more than a failure.
        killed = "OUT_OF_MEMORY" if memory_is_limited() else "FAILED"
        whole_cluster = ("--nodes=2", "--exclusive", "--mem=0")
        timeout = self.submit("timeout", endless, "--time=5", state="TIMEOUT", measured=False)
        cancelled = self.submit("cancelled", endless, state="CANCELLED", measured=False)
        requeued = self.submit("requeued", self.hold("requeued", 200), "--requeue")
        late = self.submit("cancelled early", "true", "--begin=now+1hour", state="", measured=False)
        waiting = self.submit("cancelled while it waits", "true", *whole_cluster, state="CANCELLED", measured=False)
        others = [
            self.submit('odd | "name" \\ of\ttwo\nlines', self.hold("odd", 200)),
            self.submit("failed", f"{self.hold('failed', 200)}; exit 3", state="FAILED"),
            self.submit("too short", "true", measured=False),
            *(self.submit("out of memory", self.hold("oom", 400), "--mem=150M", state=killed, measured=False)
              for _ in range(2)),
        ]  # fmt: skip
        for job in (timeout, cancelled, requeued):
            self.wait_for(job, "RUNNING")
        time.sleep(2)  # these have run for a while
        # Slurm's limits are whole minutes, looked at every half minute; an administrator may set an earlier end.
        soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 2))
        cluster.run("scontrol", "update", f"jobid={timeout.job_id}", f"endtime={soon}")
        cluster.run("scancel", *(str(job.job_id) for job in (cancelled, late, waiting)), user=timeout.user)
        cluster.run("scontrol", "requeue", str(requeued.job_id))
        self.wait_for(requeued, "PENDING")
        cluster.run("scontrol", "update", f"jobid={requeued.job_id}", "starttime=now")
        return [timeout, cancelled, late, waiting, requeued, *others]

    def wait_for(self, job: RealJob, state: str) -> None:
        """Wait until the controller says so of a job."""
        wait_until(lambda: self._state(job) == state, 60, lambda: f"{job} is {self._state(job)}, not {state}", 0.1)

    def submit(
        self, label: str, script: str, *options: str, state: str = "COMPLETED", at_once: bool = True,
        measured: bool = True, in_part: bool = False,
    ) -> RealJob:  # fmt: skip
        """A job of the third user that runs this shell script."""
        user = self.cluster.users[2]
        job_id = self.cluster.submit(user, script, f"--job-name={label}", "--mem=400M", *options)
        return RealJob(job_id, label, user, state, at_once, measured, in_part)

    def tasks(self, array: int, count: int) -> list[dict[str, int]]:
        """An array's tasks once each has an id of its own, which Slurm gives it when it starts."""
        tasks: list[dict[str, int]] = []

        def started() -> bool:
            tasks[:] = [job for job in self.cluster.queue() if array in (job["array_job_id"], job["job_id"])]
            return sum(task["array_task_id"] is not None for task in tasks) == count

        wait_until(started, 60, lambda: str([(task["job_id"], task["array_task_id"]) for task in tasks]))
        return tasks

    def _state(self, job: RealJob) -> str:
        return self.cluster.run("squeue", "-h", "-t", "all", "-o", "%T", "-j", str(job.job_id)).strip()
