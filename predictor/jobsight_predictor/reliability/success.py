"""The probability that a machine does not fail a job, from outcomes on it and on the other machines.

A black hole fails every job within seconds, so it is mostly free and stays available. Without this probability it
would rank first.
"""

from __future__ import annotations

import numpy as np

from jobsight_predictor.arrays import Floats
from jobsight_predictor.reliability.fading import faded
from jobsight_predictor.reliability.resource_vector import JobEnd
from jobsight_predictor.reliability.survival import INTERVAL_Z, Chances

LATEST = 32.0
"""Jobs; limit on the total weight of a machine's jobs, the latest weighing most. A good past cannot hide a black hole,
and a machine that failed thousands of jobs recovers as fast as one that failed forty.
"""

BORROWED = 8.0
"""Jobs; weight of the mean of all machines beside a machine's own jobs."""


def with_end(sound: float, failed: float, end: JobEnd, ago_s: float) -> tuple[float, float]:
    """Update the weights of sound and failed jobs after a job left the machine ``ago_s`` seconds ago, at least 0.

    Evictions do not count, since they end sessions, nor do failures charged to the user.
    """
    weight = faded(ago_s)
    sound += weight * (end in ("success", "checkpointed"))
    failed += weight * (end == "failed")
    kept = LATEST / max(sound + failed, LATEST)
    return sound * kept, failed * kept


def chance_not_to_fail(sound: Floats, failed: Floats) -> Chances:
    """Estimate the probabilities of n machines, shape (n,), from the jobs that ended well on each and those that
    failed.

    The mean of a Beta distribution whose prior is the mean of all machines, each counted once because a black hole
    takes many jobs. The interval is that of the normal distribution with its variance.
    """
    jobs = sound + failed
    known = jobs > 0.0
    shares = sound[known] / jobs[known]
    of_all = (shares.sum() + 1.0) / (len(shares) + 1.0)
    mean = (sound + BORROWED * of_all) / (jobs + BORROWED)
    half = INTERVAL_Z * np.sqrt(mean * (1.0 - mean) / (jobs + BORROWED + 1.0))
    return Chances(mean, np.maximum(mean - half, 0.0), np.minimum(mean + half, 1.0), known)


def both(one: Chances, other: Chances) -> Chances:
    """Return the probabilities that both happen; known where either is."""
    return Chances(one.mean * other.mean, one.low * other.low, one.high * other.high, one.known | other.known)
