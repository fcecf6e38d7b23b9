"""Trials: assign each job that would be changed at random to be changed or left alone, once and for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, insert, select

from jobsight_server.adjust.plan import share_of
from jobsight_server.adjust.present import PresentJob
from jobsight_server.storage.schema import trial_jobs

Arm = Literal["advice", "none"]
SEED = "jobsight"


@dataclass(frozen=True, slots=True)
class Trial:
    """``share`` of the jobs are changed; ``seed`` names the draw."""

    share: float
    seed: str = SEED

    def arm(self, cluster: str, job: PresentJob) -> Arm:
        """Draw the arm by a hash of the job's id, which its user cannot choose."""
        return "advice" if share_of(self.seed, cluster, job.job_id, f"{job.submitted:.0f}") < self.share else "none"


def assigned(connection: Connection, cluster: str, seed: str) -> dict[tuple[str, float], Arm]:
    """Return the arms of assigned jobs, by id and submission."""
    of = trial_jobs.c
    query = select(of.job_id, of.submitted, of.arm).where(of.cluster == cluster, of.seed == seed)
    return {(job_id, submitted): arm for job_id, submitted, arm in connection.execute(query)}


def assign(connection: Connection, cluster: str, trial: Trial, job: PresentJob, now: float) -> Arm:
    """Record the arm of a job that was not assigned before."""
    arm = trial.arm(cluster, job)
    row = {"job_id": job.job_id, "user": job.user, "submitted": job.submitted}
    connection.execute(insert(trial_jobs).values(cluster=cluster, **row, seed=trial.seed, arm=arm, assigned=now))
    return arm
