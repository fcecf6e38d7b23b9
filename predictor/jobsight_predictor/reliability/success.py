"""The chance that a machine does not fail a job: how jobs ended on it, beside how they end on the others.

A machine that fails every job within seconds is free most of the time and stays available: without this, such a black
hole would stand first.
"""

from __future__ import annotations

import numpy as np

from .fading import faded
from .resource_vector import Floats, JobEnd
from .survival import INTERVAL_Z, Chances

LATEST = 32.0
"""Jobs; so many of a machine's count at most, the latest most: a good past hides no black hole, and one that failed
thousands of jobs recovers as soon as one that failed forty.
"""

BORROWED = 8.0
"""Jobs; as many of the mean of all machines count beside a machine's own."""


def with_end(sound: float, failed: float, end: JobEnd, ago_s: float) -> tuple[float, float]:
    """What counts for and against a machine after a job left it ``ago_s`` seconds ago, at least 0.

    An eviction ends a session of the machine, which counts there, and a failure that follows the user says nothing of
    it.
    """
    weight = faded(ago_s)
    sound += weight * (end in ("success", "checkpointed"))
    failed += weight * (end == "failed")
    kept = LATEST / max(sound + failed, LATEST)
    return sound * kept, failed * kept


def chance_not_to_fail(sound: Floats, failed: Floats) -> Chances:
    """The chances of n machines, from the jobs that ended well on each and those that it failed, shape (n,).

    The mean of a Beta distribution around the mean of all machines, each of which counts once: a black hole takes many
    jobs. The interval is that of the normal distribution with its variance.
    """
    jobs = sound + failed
    known = jobs > 0.0
    shares = sound[known] / jobs[known]
    of_all = (shares.sum() + 1.0) / (len(shares) + 1.0)
    mean = (sound + BORROWED * of_all) / (jobs + BORROWED)
    half = INTERVAL_Z * np.sqrt(mean * (1.0 - mean) / (jobs + BORROWED + 1.0))
    return Chances(mean, np.maximum(mean - half, 0.0), np.minimum(mean + half, 1.0), known)


def both(one: Chances, other: Chances) -> Chances:
    """The chances that both happen, known where either is."""
    return Chances(one.mean * other.mean, one.low * other.low, one.high * other.high, one.known | other.known)
