"""The grid resource vector of a machine: availability, success and speed (Addepalli, Andersen and Barnes).

GRV = w1 RA + w2 JS + w3 CA, all terms in [0, 1]. The publication prints neither base, cap and reset of RA nor initial
value, reward and penalty of JS: all defaults here are ours (docs/use/definitions.md, Grid resource vector).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from typing import Literal

import numpy as np

from jobsight_predictor.arrays import Floats

JobEnd = Literal["success", "evicted", "requeued", "checkpointed", "failed", "user-failed"]
"""How a job left a machine. ``user-failed``: the user or the application is charged, not the machine."""

PENALISED = ("evicted", "requeued", "checkpointed", "failed")


AVAILABILITY_CAP_S = 86_400.0
SUCCESS_CAP = 20.0

WEIGHTS = (1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0)
"""Of RA, JS and CA."""


@dataclass(frozen=True, slots=True)
class SuccessRecord:
    """Outcomes of jobs on a machine: ``score`` is JS before it is mapped to [0, 1]; the others are counts."""

    score: float = 0.0
    successes: int = 0
    evictions: int = 0
    failures: int = 0
    user_failures: int = 0


def after_job(record: SuccessRecord, end: JobEnd) -> SuccessRecord:
    """Update ``record`` after a job left the machine. Requeues and checkpoints count as evictions."""
    change = 0.0
    if end == "success":
        change = 1.0
        record = replace(record, successes=record.successes + 1)
    elif end == "failed":
        record = replace(record, failures=record.failures + 1)
    elif end == "user-failed":
        record = replace(record, user_failures=record.user_failures + 1)
    else:
        record = replace(record, evictions=record.evictions + 1)
    if end in PENALISED:
        change = -1.0
    return replace(record, score=min(max(record.score + change, -SUCCESS_CAP), SUCCESS_CAP))


def blamed(
    machine_failures: int, machine_jobs: int, group_failures: int, group_jobs: int
) -> Literal["failed", "user-failed"]:
    """Decide whether the machine or the user is charged with a failed run.

    ``machine`` counts the other groups' jobs on the machine, ``group`` the jobs of the same user and application on
    other machines.

    The one with the higher failure rate is charged, each estimated as (failures + 1/2) / (jobs + 1); the machine if
    they are equal.
    """
    of_machine = (machine_failures + 0.5) / (machine_jobs + 1.0)
    of_group = (group_failures + 0.5) / (group_jobs + 1.0)
    return "user-failed" if of_group > of_machine else "failed"


@dataclass(frozen=True, slots=True)
class Vectors:
    """Terms and scores of n machines, each of shape (n,) and in [0, 1]; ``low`` and ``high`` bound the score.

    An unknown term counts as the mean of the other machines, or as one half if none is known.
    """

    availability: Floats
    success: Floats
    capacity: Floats
    score: Floats
    low: Floats
    high: Floats


def vectors(age_s: Floats, success_score: Floats, jobs: Floats, capacity: Floats) -> Vectors:
    """Compute the resource vectors of n machines.

    ``age_s``: seconds since each became available; ``capacity``: from ``capacities``; NaN is unknown. ``jobs``: number
    of job ends behind each ``success_score``; the score's range is half of the term's range over the root of 1 + jobs.
    The range of an unknown term is all of [0, 1].
    """
    weights = np.array(WEIGHTS)
    ra, js = availability(age_s), success(success_score)
    terms = np.stack([ra, js, np.asarray(capacity, dtype=np.float64)])
    unknown = ~np.isfinite(terms)
    terms = np.where(unknown, _means(terms)[:, None], terms)
    half = np.where(unknown, 0.5, 0.0)
    half[1] = np.maximum(half[1], 0.5 / np.sqrt(1.0 + np.maximum(jobs, 0.0)))
    score = weights @ terms
    low, high = weights @ np.maximum(terms - half, 0.0), weights @ np.minimum(terms + half, 1.0)
    return Vectors(terms[0], terms[1], terms[2], score, low, high)


def availability(age_s: Floats) -> Floats:
    """Compute RA, in [0, 1]."""
    return np.minimum(np.maximum(age_s, 0.0), AVAILABILITY_CAP_S) / AVAILABILITY_CAP_S


def success(score: Floats) -> Floats:
    """Map JS to [0, 1]."""
    return (np.minimum(np.maximum(score, -SUCCESS_CAP), SUCCESS_CAP) / SUCCESS_CAP + 1.0) / 2.0


def _means(terms: Floats) -> Floats:
    known = np.isfinite(terms)
    sums = np.where(known, terms, 0.0).sum(axis=1)
    counts = known.sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), 0.5)


def capacities(flops: Floats, cores: Floats) -> Floats:
    """Compute CA of n machines: flops per core x cores over the largest, in [0, 1]; NaN if either is unknown.

    NaN and values not above 0 are unknown.
    """
    speed = _positive(_positive(flops) * _positive(cores))
    largest = float(np.nan_to_num(speed).max(initial=0.0))
    return speed if largest == 0.0 else speed / largest


def _positive(values: Floats) -> Floats:
    given = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(given) & (given > 0.0), given, nan)
