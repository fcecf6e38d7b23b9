"""The grid resource vector of a machine: availability, success and speed (Addepalli, Andersen and Barnes).

GRV = w1 RA + w2 JS + w3 CA, all terms in [0, 1]. The publication prints neither base, cap and reset of RA nor initial
value, reward and penalty of JS: all defaults here are ours (docs/use/definitions.md, Grid resource vector).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, nan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

JobEnd = Literal["success", "evicted", "requeued", "checkpointed", "failed", "user-failed"]
"""How a job left a machine. ``user-failed``: the user or the application is charged, not the machine."""

PENALISED = ("evicted", "requeued", "checkpointed", "failed")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class VectorSettings:
    """Parameters of the terms. ``by_work`` weights each success by its hours of work; ``blame_users`` also penalises
    the machine for failures charged to a user or an application.

    Raises:
        ValueError: a setting is out of range.
    """

    weights: tuple[float, float, float] = (1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0)
    availability_base: float = 0.0
    availability_cap_s: float = 86_400.0
    success_initial: float = 0.0
    success_reward: float = 1.0
    success_penalty: float = 1.0
    success_cap: float = 20.0
    by_work: bool = False
    blame_users: bool = False
    raw_capacity: bool = False

    def __post_init__(self) -> None:
        if len(self.weights) != 3 or not all(0.0 <= weight < inf for weight in self.weights) or not sum(self.weights):
            raise ValueError(f"weights {self.weights!r}: give three of at least 0 for RA, JS and CA, not all 0")
        for name in ("availability_cap_s", "success_cap"):
            if not 0.0 < getattr(self, name) < inf:
                raise ValueError(f"{name} {getattr(self, name)!r}: give a number above 0")
        for name in ("success_reward", "success_penalty"):
            if not 0.0 <= getattr(self, name) < inf:
                raise ValueError(f"{name} {getattr(self, name)!r}: give a number of at least 0")
        if not 0.0 <= self.availability_base <= 1.0:
            raise ValueError(f"availability_base {self.availability_base!r}: give a number from 0 to 1")
        if not abs(self.success_initial) <= self.success_cap:
            raise ValueError(f"success_initial {self.success_initial!r}: beyond the cap of {self.success_cap:g}")


@dataclass(frozen=True, slots=True)
class SuccessRecord:
    """Outcomes of jobs on a machine: ``score`` is JS before it is mapped to [0, 1]; the others are counts."""

    score: float = 0.0
    successes: int = 0
    evictions: int = 0
    failures: int = 0
    user_failures: int = 0


DEFAULTS = VectorSettings()


def after_job(
    record: SuccessRecord, end: JobEnd, settings: VectorSettings = DEFAULTS, work_h: float = 1.0
) -> SuccessRecord:
    """Update ``record`` after a job left the machine. Requeues and checkpoints count as evictions.

    Raises:
        ValueError: ``work_h`` is negative or not finite.
    """
    if not 0.0 <= work_h < inf:
        raise ValueError(f"work of {work_h!r} hours: give a number of at least 0")
    change = 0.0
    if end == "success":
        change = settings.success_reward * (work_h if settings.by_work else 1.0)
        record = replace(record, successes=record.successes + 1)
    elif end == "failed":
        record = replace(record, failures=record.failures + 1)
    elif end == "user-failed":
        record = replace(record, user_failures=record.user_failures + 1)
    else:
        record = replace(record, evictions=record.evictions + 1)
    if end in PENALISED or (end == "user-failed" and settings.blame_users):
        change = -settings.success_penalty
    return replace(record, score=min(max(record.score + change, -settings.success_cap), settings.success_cap))


def new_record(settings: VectorSettings = DEFAULTS) -> SuccessRecord:
    """Make the record of a machine without jobs."""
    return SuccessRecord(settings.success_initial)


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
    """Terms and scores of n machines, each of shape (n,) and in [0, 1] (except a raw capacity); ``low`` and ``high``
    bound the score.

    An unknown term counts as the mean of the other machines, or as one half if none is known.
    """

    availability: Floats
    success: Floats
    capacity: Floats
    score: Floats
    low: Floats
    high: Floats


def vectors(
    age_s: Floats, success_score: Floats, jobs: Floats, capacity: Floats, settings: VectorSettings = DEFAULTS
) -> Vectors:
    """Compute the resource vectors of n machines.

    ``age_s``: seconds since each became available; ``capacity``: from ``capacities``; NaN is unknown. ``jobs``: number
    of job ends behind each ``success_score``; the score's range is half of the term's range over the root of 1 + jobs.
    The range of an unknown term is all of [0, 1].
    """
    weights = np.array(settings.weights) / sum(settings.weights)
    ra, js = availability(age_s, settings), success(success_score, settings)
    terms = np.stack([ra, js, np.asarray(capacity, dtype=np.float64)])
    unknown = ~np.isfinite(terms)
    terms = np.where(unknown, _means(terms)[:, None], terms)
    half = np.where(unknown, 0.5, 0.0)
    half[1] = np.maximum(half[1], 0.5 / np.sqrt(1.0 + np.maximum(jobs, 0.0)))
    score = weights @ terms
    most = np.maximum(terms, 1.0)  # a raw capacity exceeds 1
    low, high = weights @ np.maximum(terms - half, 0.0), weights @ np.minimum(terms + half, most)
    return Vectors(terms[0], terms[1], terms[2], score, low, high)


def availability(age_s: Floats, settings: VectorSettings = DEFAULTS) -> Floats:
    """Compute RA, in [0, 1]."""
    base, cap_s = settings.availability_base, settings.availability_cap_s
    return base + (1.0 - base) * np.minimum(np.maximum(age_s, 0.0), cap_s) / cap_s


def success(score: Floats, settings: VectorSettings = DEFAULTS) -> Floats:
    """Map JS to [0, 1]."""
    cap = settings.success_cap
    return (np.minimum(np.maximum(score, -cap), cap) / cap + 1.0) / 2.0


def _means(terms: Floats) -> Floats:
    known = np.isfinite(terms)
    sums = np.where(known, terms, 0.0).sum(axis=1)
    counts = known.sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), 0.5)


def capacities(flops: Floats, cores: Floats, settings: VectorSettings = DEFAULTS) -> Floats:
    """Compute CA of n machines: flops per core x cores over the largest, in [0, 1]; NaN if either is unknown.

    NaN and values not above 0 are unknown. With ``raw_capacity`` CA is the plain product, which outweighs the other
    terms.
    """
    speed = _positive(_positive(flops) * _positive(cores))
    largest = float(np.nan_to_num(speed).max(initial=0.0))
    return speed if settings.raw_capacity or largest == 0.0 else speed / largest


def _positive(values: Floats) -> Floats:
    given = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(given) & (given > 0.0), given, nan)
