"""What reservations cost, and the rules that others reserve by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from dataclasses import dataclass

import numpy as np

from .forecasters import LARGEST, Floats

RETRIES = 10
"""Doublings of a reservation that was too small, before the job gets what it needs."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`failures` jobs whose first reservation was too small, of `jobs`; `maq` what was used of all that was held.

    MAQ (memory allocation quality, Witt et al. 2019) is used / (used + wasted), in value x seconds, the failed
    attempts included; `wasted` is in value x seconds.
    """

    jobs: int
    failures: int
    coverage: float
    wasted: float
    maq: float


def cost(reserved: Floats, values: Floats, seconds: Floats) -> Cost | None:
    """Cost of first reservations `reserved`, (n,), NaN where there was none; None when there were none at all.

    A job that runs out fails at its end and is run again with twice as much, until it fits; after `RETRIES` with
    just what it needs. The same rule for all.
    """
    there = ~np.isnan(reserved)
    if not there.any():
        return None
    # In units of the largest, so that sums of huge values stay finite.
    scale = max(float(reserved[there].max()), float(values[there].max())) or 1.0
    held, used, lasted = reserved[there] / scale, values[there] / scale, seconds[there]
    failed = used > held
    attempts = np.zeros(len(held))
    last = held.copy()
    for _ in range(RETRIES):
        short = last < used
        attempts += short
        last = np.where(short, 2.0 * last, last)
    last = np.maximum(last, used)
    total_used = float((used * lasted).sum())
    total_wasted = float(((held * (2.0**attempts - 1.0) + last - used) * lasted).sum())
    return Cost(
        jobs=len(held),
        failures=int(failed.sum()),
        coverage=float(1.0 - failed.mean()),
        wasted=min(total_wasted * scale, LARGEST),
        maq=total_used / (total_used + total_wasted) if total_used + total_wasted > 0.0 else 1.0,
    )


def wasted(reserved: float, value: float) -> float:
    """What one job's attempts hold beyond `value`, per second, by the same rule as `cost`."""
    held = 0.0
    for _ in range(RETRIES):
        if value <= reserved:
            break
        held += reserved
        reserved *= 2.0
    return held + max(reserved, value) - value


class Rule(ABC):
    """Reserves for the next job of one user from what the user's finished jobs used."""

    @abstractmethod
    def learn(self, value: float, seconds: float) -> None:
        """Take in a finished job."""

    @abstractmethod
    def reserve(self) -> float | None:
        """What to reserve for the next; None before anything was learned."""


class MaximumSeen(Rule):
    """The most that any job of the user has used."""

    def __init__(self) -> None:
        self._most: float | None = None

    def learn(self, value: float, seconds: float) -> None:
        self._most = value if self._most is None else max(self._most, value)

    def reserve(self) -> float | None:
        return self._most


class PaddedP90(Rule):
    """The 90 % quantile of what the user's jobs used, times 1.15, as Kubernetes' vertical autoscaler recommends."""

    def __init__(self) -> None:
        self._values: list[float] = []

    def learn(self, value: float, seconds: float) -> None:
        insort(self._values, value)

    def reserve(self) -> float | None:
        values = self._values
        return values[min(len(values) - 1, int(0.9 * len(values)))] * 1.15 if values else None


class FirstAllocation(Rule):
    """The first allocation of Tovar et al. 2018: the value seen that would have wasted least, retried at the maximum.

    Minimises `a sum(t) + a_max sum(t of jobs above a)` over the last 1,000 jobs; looked for anew whenever the
    history has grown by 1 %.
    """

    MEMORY = 1000

    def __init__(self) -> None:
        self._jobs: list[tuple[float, float]] = []
        self._learned = 0
        self._known = 0
        self._best: float | None = None

    def learn(self, value: float, seconds: float) -> None:
        self._jobs.append((value, seconds))
        self._learned += 1
        if len(self._jobs) >= 2 * self.MEMORY:
            del self._jobs[: -self.MEMORY]

    def reserve(self) -> float | None:
        if self._jobs and (self._best is None or self._learned > 1.01 * self._known):
            jobs = np.array(sorted(self._jobs[-self.MEMORY :]))
            values, seconds = jobs[:, 0], jobs[:, 1]
            above = seconds.sum() - np.cumsum(seconds)
            self._best = float(values[np.argmin(values * seconds.sum() + values[-1] * above)])
            self._known = self._learned
        return self._best


RULES: dict[str, type[Rule]] = {
    "maximum": MaximumSeen,
    "p90-x-1.15": PaddedP90,
    "first-allocation": FirstAllocation,
}
"""The rivals that learn; the fourth is the user's own request."""
