"""Network use of the jobs of a workload: drawn per user and application, or measured, with the names jobs carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats, Integers
from jobsight_predictor.question import Question
from jobsight_scheduler.workload.canonical import Workload, questions_of
from jobsight_scheduler.workload.swf import Trace


@dataclass(frozen=True, slots=True)
class CommunicatingJobs:
    """Jobs and their network use, arrays of shape (jobs,).

    ``bandwidth_bps`` per processor, on average over a dedicated run; ``share`` of that run in communication, 0..1.
    """

    jobs: Workload
    bandwidth_bps: Floats
    share: Floats


@dataclass(frozen=True, slots=True)
class Habits:
    """Variation of communication between applications, from job to job, and from users' statements."""

    median_bps: float = 10e6
    """Median over applications of the bandwidth per processor."""
    application_spread: float = 1.0
    """Standard deviation of its logarithm over applications."""
    job_spread: float = 0.1
    """Standard deviation of its logarithm over the jobs of one application of one user."""
    share: tuple[float, float] = (2.0, 3.0)
    """Beta distribution, over applications, of the share of time in communication."""
    share_spread: float = 0.03
    """Standard deviation of that share over the jobs of one application of one user."""
    half_bps: float | None = None
    """Bandwidth at which jobs communicate half of the time; the share rises with it. None: the share is drawn."""
    applications: int = 4
    """Largest number of applications of a user."""
    loyalty: float = 0.85
    """Probability that a user's next job is of the same application as the last."""
    stated_bias: float = 2.0
    """Median ratio of stated to used bandwidth: users ask for more than they need."""
    stated_spread: float = 0.8
    """Standard deviation of the logarithm of that factor over users."""


@dataclass(frozen=True, slots=True)
class SyntheticWorkload:
    """Jobs, their users' statements, and the questions to a predictor."""

    work: CommunicatingJobs
    stated_bps: NDArray[np.float64]
    questions: Sequence[Question]


def draw_communication(trace: Trace, jobs: Workload, seed: int, habits: Habits | None = None) -> SyntheticWorkload:
    """Draw the communication of ``jobs`` of ``trace``, per user and application, whose number is its name. The same
    seed gives the same result.

    Applications are assigned to users even if the trace has some: those of SDSC-SP2 are 44,722 in 49,943 jobs, names
    of single runs.
    """
    users = trace["user"][jobs.row].astype(np.int64)
    habits = habits or Habits()
    rng = np.random.default_rng(seed)
    labels = _dealt(users, habits, rng)
    pairs, of_job = np.unique(np.stack([users, labels]), axis=1, return_inverse=True)
    kinds = pairs.shape[1]
    typical: Floats = habits.median_bps * np.exp(habits.application_spread * rng.standard_normal(kinds))
    share = np.asarray(rng.beta(habits.share[0], habits.share[1], kinds))
    people, user_of_job = np.unique(users, return_inverse=True)
    factor = habits.stated_bias * np.exp(habits.stated_spread * rng.standard_normal(len(people)))
    bandwidth = typical[of_job] * np.exp(habits.job_spread * rng.standard_normal(len(users)))
    drawn = np.clip(share[of_job] + habits.share_spread * rng.standard_normal(len(users)), 0.0, 1.0)
    if habits.half_bps is not None:
        drawn = bandwidth / (bandwidth + habits.half_bps)
    questions = [
        question._replace(application=str(number))
        for question, number in zip(questions_of(trace, jobs.row), labels.tolist(), strict=True)
    ]
    return SyntheticWorkload(
        CommunicatingJobs(jobs, bandwidth, drawn), typical[of_job] * factor[user_of_job], questions
    )


def _dealt(users: Integers, habits: Habits, rng: np.random.Generator) -> Integers:
    """Return an application for each job: mostly that of the user's last job, else any of the user's."""
    stays, any_of_them = rng.random(len(users)) < habits.loyalty, rng.random(len(users))
    how_many: dict[int, int] = {}
    last: dict[int, int] = {}
    dealt = np.empty(len(users), dtype=np.int64)
    for i, user in enumerate(users.tolist()):
        if user not in how_many:
            how_many[user] = int(rng.integers(1, habits.applications + 1))
        if user not in last or not stays[i]:
            last[user] = int(any_of_them[i] * how_many[user])
        dealt[i] = last[user]
    return dealt
