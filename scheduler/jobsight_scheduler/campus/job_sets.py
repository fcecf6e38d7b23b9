"""The four published job sets, and jobs drawn for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobsight_predictor.reliability.exposure import HOUR_S, WEEK_HOURS, Ints
from jobsight_predictor.reliability.resource_vector import Floats


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """Jobs that completed without and with a restart, and the share of the former in % as printed."""

    done: int
    restarted: int
    printed: float

    @property
    def counted(self) -> float:
        """The share from the counts, in %."""
        return 100.0 * self.done / (self.done + self.restarted)


@dataclass(frozen=True, slots=True)
class JobSet:
    """A published set. ``mean_work_h`` is ours, fitted to the row of first come; the cluster's row is a share in %."""

    number: int
    jobs: int
    mean_work_h: float
    grv: PublishedRow
    first_come: PublishedRow
    cluster: float


SETS = {
    1: JobSet(1, 6004, 3.0, PublishedRow(5491, 509, 91.5), PublishedRow(4917, 512, 81.9), 97.3),
    2: JobSet(2, 1010, 7.5, PublishedRow(769, 231, 70.0), PublishedRow(590, 420, 59.0), 99.9),
    3: JobSet(3, 1237, 4.8, PublishedRow(1073, 164, 86.7), PublishedRow(883, 354, 71.38), 99.9),
    4: JobSet(4, 5873, 2.2, PublishedRow(3969, 1904, 67.58), PublishedRow(4790, 1083, 81.55), 96.5),
}

GROUPS = 30
GROUP_SIGMA = 0.6
SHAPE = 2.0
EARLIER_JOBS = 20


@dataclass(frozen=True, slots=True)
class CampusJobs:
    """Independent jobs of one core in order of submission, each of shape (jobs,).

    ``work_s`` is the run time on a machine of speed 1; ``predicted_s`` is what is known of it beforehand.
    """

    submit_s: Floats
    work_s: Floats
    predicted_s: Floats
    group: Ints

    def __len__(self) -> int:
        return len(self.submit_s)


def draw_jobs(rng: np.random.Generator, count: int, mean_work_h: float, load: float, capacity: float) -> CampusJobs:
    """``count`` jobs that offer ``load`` of a ``capacity`` in machines of speed 1, from a random hour of the week on.

    Work is Gamma distributed (shape 2) around the mean of one of 30 users, which is lognormal (sigma .6): its
    coefficient of variation is near that of an exponential distribution, as far as its mean tells. What is predicted is
    the geometric mean of 20 earlier jobs of the user.
    """
    mean_s = mean_work_h * HOUR_S
    level = np.exp(rng.normal(0.0, GROUP_SIGMA, GROUPS))
    group = rng.integers(0, GROUPS, count)
    level *= 1.0 / level[group].mean() if count else 1.0
    work = mean_s * level[group] * rng.gamma(SHAPE, 1.0 / SHAPE, count)
    earlier = mean_s * level[:, None] * rng.gamma(SHAPE, 1.0 / SHAPE, (GROUPS, EARLIER_JOBS))
    begin_s = rng.integers(0, WEEK_HOURS) * HOUR_S
    submit = begin_s + np.cumsum(rng.exponential(mean_s / (load * capacity), count))
    return CampusJobs(submit, work, np.exp(np.log(earlier).mean(axis=1))[group], group)
