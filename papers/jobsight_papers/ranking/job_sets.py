"""The four published job sets, and jobs drawn for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobsight_papers.ranking.owners import HOUR_S
from jobsight_predictor.arrays import Floats


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """Jobs that completed without a restart, and their share in % as printed."""

    done: int
    printed: float


@dataclass(frozen=True, slots=True)
class JobSet:
    """A published set. ``mean_work_h`` is fitted to the share of first come."""

    jobs: int
    mean_work_h: float
    grv: PublishedRow
    first_come: PublishedRow

    def counted(self, row: PublishedRow) -> float:
        """Return the share from the counts, in %: completed without restart over the jobs of the set."""
        return 100.0 * row.done / self.jobs


SETS = {
    1: JobSet(6004, 2.45, PublishedRow(5491, 91.5), PublishedRow(4917, 81.9)),
    2: JobSet(1010, 8.2, PublishedRow(769, 70.0), PublishedRow(590, 59.0)),
    3: JobSet(1237, 3.9, PublishedRow(1073, 86.7), PublishedRow(883, 71.38)),
    4: JobSet(5873, 2.3, PublishedRow(3969, 67.58), PublishedRow(4790, 81.55)),
}
"""Mean work started from 3.0, 7.5, 4.8 and 2.2 hours; set 2 is fitted to its counts, set 4 to its row as printed."""

GROUPS = 30
GROUP_SIGMA = 0.6
SHAPE = 2.0
EARLIER_JOBS = 20
MONDAY_S = 4 * 24 * HOUR_S
"""The first Monday of 1970; all times of the grid count from then."""


@dataclass(frozen=True, slots=True)
class CampusJobs:
    """Independent jobs of one core in order of submission, each of shape (jobs,).

    ``work_s`` is the run time on a machine of speed 1; ``predicted_s`` is its forecast.
    """

    submit_s: Floats
    work_s: Floats
    predicted_s: Floats

    def __len__(self) -> int:
        return len(self.submit_s)


def draw_jobs(rng: np.random.Generator, count: int, mean_work_h: float, load: float, capacity: float) -> CampusJobs:
    """Draw ``count`` jobs that offer ``load`` of a ``capacity`` in machines of speed 1, from 9:00 of a weekday on.

    Work is Gamma distributed (shape 2) around the mean of one of 30 users, which is lognormal (sigma .6): together its
    coefficient of variation is 1.07, near the 1 of an exponential distribution. The forecast is the geometric mean of
    20 earlier jobs of the user.
    """
    mean_s = mean_work_h * HOUR_S
    level = np.exp(rng.normal(0.0, GROUP_SIGMA, GROUPS))
    group = rng.integers(0, GROUPS, count)
    level *= 1.0 / level[group].mean() if count else 1.0
    work = mean_s * level[group] * rng.gamma(SHAPE, 1.0 / SHAPE, count)
    earlier = mean_s * level[:, None] * rng.gamma(SHAPE, 1.0 / SHAPE, (GROUPS, EARLIER_JOBS))
    begin_s = MONDAY_S + (24 * rng.integers(0, 5) + 9) * HOUR_S
    submit = begin_s + np.cumsum(rng.exponential(mean_s / (load * capacity), count))
    return CampusJobs(submit, work, np.exp(np.log(earlier).mean(axis=1))[group])
