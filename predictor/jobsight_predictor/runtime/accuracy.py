"""The distribution of run time / requested time of similar jobs, on a grid of 1 %, and its learning.

Source: Birkenheuer, Brinkmann and Karl, Risk Aware Overbooking for Commercial Grids (2010), Figures 2 and 3.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from jobsight_predictor.arrays import Floats
from jobsight_predictor.question import GroupKey, JobGroup, JobGroups, Question, group_name

BINS = 100
"""Steps of the grid over (0, 1]."""

GRID = np.arange(BINS + 1) / BINS


@dataclass(frozen=True, slots=True)
class RuntimeAccuracy:
    """``cdf[k]`` is the probability that a job uses at most k % of its requested time, shape (101,).

    ``cdf[0]`` is 0, ``cdf[100]`` is 1: no job outlives its request. Values in between are interpolated. ``jobs`` is the
    weight of the evidence in jobs, ``source`` the name of the group.
    """

    cdf: Floats
    jobs: float
    source: str

    def within(self, fraction: float | Floats) -> Floats:
        """Return the probability that a job uses at most ``fraction`` of its requested time; same shape."""
        return np.asarray(np.interp(fraction, GRID, self.cdf))

    def after(self, fraction_run: float) -> RuntimeAccuracy:
        """Condition on a job having run for ``fraction_run`` of its requested time.

        A job that has run longer than all earlier ones is expected to use its whole request.
        """
        if fraction_run <= 0.0:
            return self
        before = float(self.within(fraction_run))
        if before >= 1.0 - 1e-12:
            return RuntimeAccuracy(np.where(GRID < 1.0, 0.0, 1.0), self.jobs, self.source)
        cdf = np.clip((self.cdf - before) / (1.0 - before), 0.0, 1.0)
        return RuntimeAccuracy(cdf, self.jobs, self.source)

    def quantiles(self, probabilities: Floats) -> Floats:
        """Return the fractions at these ``probabilities``, same shape; the inverse of ``within``."""
        return np.interp(probabilities, self.cdf, GRID)

    @property
    def mean(self) -> float:
        """Expected fraction of the requested time."""
        return float(np.trapezoid(1.0 - self.cdf, GRID))


def bin_of(ratio: float) -> int:
    """Return the bin of a ratio, 0..99: bin k holds ratios in (k %, k + 1 %]; more than 1 counts as 1."""
    return max(0, int(np.ceil(min(ratio, 1.0) * BINS - 1e-9)) - 1)


def accuracy_of_histogram(histogram: Floats, source: str) -> RuntimeAccuracy:
    """Make the distribution from counts (or weights) by ``bin_of``, shape (100,); uniform without jobs."""
    total = float(histogram.sum())
    if total <= 0.0:
        return RuntimeAccuracy(GRID.copy(), 0.0, source)
    cdf = np.concatenate(([0.0], np.cumsum(histogram) / total))
    cdf[-1] = 1.0
    return RuntimeAccuracy(np.clip(cdf, 0.0, 1.0), total, source)


SLICE_EDGES_H = (0.25, 1.0, 2.0, 3.0, 4.0, 8.0, 12.0)
"""Upper ends of the classes of requested time; the last class has none."""

FEWEST_JOBS = 30
"""Jobs; a class with fewer uses the distribution of all jobs."""

RISK_GROUPS: tuple[JobGroup, ...] = (
    ("user", "application", "processors", "requested_time_s"),
    ("user", "processors", "requested_time_s"),
    ("user", "requested_time_s"),
    ("user",),
)
"""Most specific first; the class of requested time and the site follow."""

FADE_JOBS = 200.0
"""Jobs of a group after which a job's weight has halved."""

PRIOR_JOBS = 5.0
"""Jobs; weight of the wider group's distribution in a narrower one."""

FULL_EVERY = 64
"""Jobs after which a decaying histogram is rescaled, so that weights stay finite."""


class SimpleAccuracy:
    """One distribution of all jobs, learned from finished ones."""

    def __init__(self) -> None:
        self._histogram = np.zeros(BINS)
        self._made: RuntimeAccuracy | None = None

    def learn(self, job: Question, ratio: float) -> None:
        """Learn from a finished job; ``ratio`` = run time / requested time, at least 0. Bounded memory per group."""
        self._histogram[bin_of(ratio)] += 1.0
        self._made = None

    def distribution(self, job: Question) -> RuntimeAccuracy:
        """Return the distribution for a job as described at submission. Changes nothing."""
        if self._made is None:
            self._made = accuracy_of_histogram(self._histogram, "site")
        return self._made


class TimeSliceAccuracy:
    """A distribution per class of requested time; that of all jobs for a class with few."""

    def __init__(self, fewest_jobs: int = FEWEST_JOBS) -> None:
        self._fewest = fewest_jobs
        self.all_jobs = SimpleAccuracy()
        self.slices = [SimpleAccuracy() for _ in range(len(SLICE_EDGES_H) + 1)]

    def learn(self, job: Question, ratio: float) -> None:
        self.all_jobs.learn(job, ratio)
        if job.requested_time_s is not None:
            self.slices[self.slice_of(job.requested_time_s / 3600.0)].learn(job, ratio)

    def distribution(self, job: Question) -> RuntimeAccuracy:
        if job.requested_time_s is None:
            return self.all_jobs.distribution(job)
        place = self.slice_of(job.requested_time_s / 3600.0)
        found = self.slices[place].distribution(job)
        if found.jobs < self._fewest:
            return self.all_jobs.distribution(job)
        return RuntimeAccuracy(found.cdf, found.jobs, self.name(place))

    def slice_of(self, requested_h: float) -> int:
        """Return the class of a requested time, from 0."""
        return bisect_left(SLICE_EDGES_H, requested_h)

    def name(self, place: int) -> str:
        """Write the class as text: ``up to 0.25 h``, ``1 to 2 h``, ``above 12 h``."""
        if place == 0:
            return f"up to {SLICE_EDGES_H[0]:g} h"
        if place == len(SLICE_EDGES_H):
            return f"above {SLICE_EDGES_H[-1]:g} h"
        return f"{SLICE_EDGES_H[place - 1]:g} to {SLICE_EDGES_H[place]:g} h"


class GroupAccuracy:
    """Distributions of similar jobs, most specific group first, each mixed with the next wider one; recent jobs weigh
    more.

    A group of weight n has the share n / (n + ``PRIOR_JOBS``), the wider groups the rest: without a job in its group, a
    job gets the distribution of its user, its class of requested time, or all jobs.
    """

    def __init__(self, wide: TimeSliceAccuracy | None = None, fade_jobs: float = FADE_JOBS) -> None:
        """``wide`` has the distributions of all jobs and their classes; None: learn them with the groups."""
        self._groups = JobGroups(RISK_GROUPS)
        self._growth = 2.0 ** (1.0 / fade_jobs)  # weight of a new job, relative to the one before
        self._learns_wide = wide is None
        self._wide = TimeSliceAccuracy(fewest_jobs=1) if wide is None else wide
        self._histograms: dict[GroupKey, _FadedHistogram] = {}

    def learn(self, job: Question, ratio: float) -> None:
        place = bin_of(ratio)
        if self._learns_wide:
            self._wide.learn(job, ratio)
        for _, key in self._groups.keys(job):
            self._histograms.setdefault(key, _FadedHistogram()).learn(place, self._growth)

    def distribution(self, job: Question) -> RuntimeAccuracy:
        wide = self._wide.distribution(job)
        cdf, jobs, source = wide.cdf, wide.jobs, wide.source
        for _, key in reversed(self._groups.keys(job)):
            histogram = self._histograms.get(key)
            if histogram is not None:
                weights = histogram.weights()
                jobs, source = float(weights.sum()), group_name(key)
                counts = np.concatenate(([0.0], np.cumsum(weights)))
                cdf = (counts + PRIOR_JOBS * cdf) / (jobs + PRIOR_JOBS)
                cdf[-1] = 1.0
        return RuntimeAccuracy(np.clip(cdf, 0.0, 1.0), jobs, source)


class _FadedHistogram:
    """Weighted counts by bin; each job weighs a little more than the one before."""

    __slots__ = ("_counts", "_jobs", "_next")

    def __init__(self) -> None:
        self._counts = np.zeros(BINS, dtype=np.float32)
        self._next = 1.0
        self._jobs = 0

    def learn(self, place: int, growth: float) -> None:
        self._next *= growth
        self._counts[place] += self._next
        self._jobs += 1
        if self._jobs % FULL_EVERY == 0:
            self._counts /= self._next
            self._next = 1.0

    def weights(self) -> Floats:
        """Return the weights, scaled to 1 for the newest job."""
        return self._counts.astype(np.float64) / self._next
