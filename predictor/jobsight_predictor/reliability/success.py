"""The chance that a machine does not fail a job: how jobs ended on it, beside how they end on the others.

A machine that fails every job within seconds is free most of the time and stays available: without this, such a black
hole would stand first.
"""

from __future__ import annotations

import numpy as np

from .resource_vector import Floats, JobEnd
from .survival import Chances

HALF_LIFE_S = 7 * 86_400.0
"""What was learned of a machine counts half as much after so long: repaired, it recovers within a month."""

BORROWED = 8.0
"""Jobs; as many of the mean of all machines count beside a machine's own."""


def sound_and_failed(end: JobEnd) -> tuple[float, float]:
    """What the end of a job counts for and against its machine.

    An eviction ends a session of the machine, which counts there, and a failure that follows the user says nothing of
    it.
    """
    return float(end in ("success", "checkpointed")), float(end == "failed")


def chance_not_to_fail(sound: Floats, failed: Floats, interval_z: float) -> Chances:
    """The chances of n machines, from the jobs that ended well on each and those that it failed, shape (n,).

    The mean of a Beta distribution around the mean of all machines, each of which counts once: a black hole takes many
    jobs. The interval is that of the normal distribution with its variance.
    """
    jobs = sound + failed
    known = jobs > 0.0
    shares = sound[known] / jobs[known]
    of_all = (shares.sum() + 1.0) / (len(shares) + 1.0)
    mean = (sound + BORROWED * of_all) / (jobs + BORROWED)
    half = interval_z * np.sqrt(mean * (1.0 - mean) / (jobs + BORROWED + 1.0))
    return Chances(mean, np.maximum(mean - half, 0.0), np.minimum(mean + half, 1.0), known)


def both(one: Chances, other: Chances) -> Chances:
    """The chances that both happen, known where either is."""
    return Chances(one.mean * other.mean, one.low * other.low, one.high * other.high, one.known | other.known)


def faded(seconds: float) -> float:
    """The share of the evidence that is left after so long."""
    return float(0.5 ** (max(seconds, 0.0) / HALF_LIFE_S))
