"""How much jobs communicate, which workloads do not record: drawn per user and application, and stable there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Habits:
    """How communication varies between applications, from job to job, and from users' statements."""

    median_bps: float = 10e6
    """Median over applications of the bandwidth per processor."""
    application_spread: float = 1.0
    """Standard deviation of its logarithm over applications."""
    job_spread: float = 0.1
    """The same over the jobs of one application of one user."""
    share: tuple[float, float] = (2.0, 3.0)
    """Beta distribution, over applications, of the share of time in communication."""
    share_spread: float = 0.03
    """Standard deviation of that share over the jobs of one application of one user."""
    half_bps: float | None = None
    """If given, the share of time in communication is not drawn but rises with the bandwidth: half at this one."""
    applications: int = 4
    """Largest number of applications of a user, if the trace does not record them."""
    loyalty: float = 0.85
    """Probability that a user's next job is of the same application as the last."""
    stated_bias: float = 2.0
    """Median ratio of stated to used bandwidth: users ask for more than they need."""
    stated_spread: float = 0.8
    """Standard deviation of the logarithm of that factor over users."""


@dataclass(frozen=True, slots=True)
class Communication:
    """Arrays of shape (jobs,): application (numbered per user), bandwidth per processor while alone, share of the
    dedicated run time in communication, and the bandwidth that the user states at submission.
    """

    application: Ints
    bandwidth_bps: Floats
    share: Floats
    stated_bps: Floats


def communication(users: Ints, applications: Ints, seed: int, habits: Habits | None = None) -> Communication:
    """Draws the communication of jobs, given in the order of submission with their users and applications.

    Negative applications are unknown: those users' jobs are divided among some applications of their own. The same seed
    gives the same result.

    Raises:
        ValueError: the arrays differ in length.
    """
    if len(users) != len(applications):
        raise ValueError(f"{len(users)} users and {len(applications)} applications are not of the same jobs")
    habits = habits or Habits()
    rng = np.random.default_rng(seed)
    labels = np.where(applications >= 0, applications, _dealt(users, habits, rng))
    pairs, of_job = np.unique(np.stack([users, labels, applications >= 0]), axis=1, return_inverse=True)
    kinds = pairs.shape[1]
    typical: Floats = habits.median_bps * np.exp(habits.application_spread * rng.standard_normal(kinds))
    share = np.asarray(rng.beta(habits.share[0], habits.share[1], kinds))
    people, user_of_job = np.unique(users, return_inverse=True)
    factor = habits.stated_bias * np.exp(habits.stated_spread * rng.standard_normal(len(people)))
    bandwidth = typical[of_job] * np.exp(habits.job_spread * rng.standard_normal(len(users)))
    drawn = np.clip(share[of_job] + habits.share_spread * rng.standard_normal(len(users)), 0.0, 1.0)
    return Communication(
        application=labels.astype(np.int64),
        bandwidth_bps=bandwidth,
        share=drawn if habits.half_bps is None else bandwidth / (bandwidth + habits.half_bps),
        stated_bps=typical[of_job] * factor[user_of_job],
    )


def _dealt(users: Ints, habits: Habits, rng: np.random.Generator) -> Ints:
    """An application for each job: mostly that of the user's last job, else any of the user's."""
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
