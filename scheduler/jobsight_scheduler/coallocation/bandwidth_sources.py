"""Sources of a job's expected bandwidth for a placement, by the names used in commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.question import Question
from jobsight_scheduler.prediction import BANDWIDTH, PREDICTORS, Predictor, Stated

from .baselines import CONSTANT_BPS, ApplicationMeans
from .synthetic import SyntheticWorkload


def _learns(name: str) -> Callable[[Sequence[Question]], Predictor]:
    return lambda questions: PREDICTORS[name](questions, BANDWIDTH)


SOURCES: dict[str, Callable[[Sequence[Question]], Predictor] | None] = {
    "user": None,
    "predicted": _learns("jobsight"),
    "oracle": None,
    "constant": None,
    "application-means": ApplicationMeans,
    **{name: _learns(name) for name in FIVE},
}
"""The predictor of each source; None if it learns nothing."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Bits per second per processor of a finished job: on average, and in the best of the intervals of its life.

    Other jobs on its links can only have lowered them.
    """

    mean_bps: float
    peak_bps: float


class BandwidthSource:
    """Bits per second per processor of jobs, by job index; the users' statement if a predictor knows nothing.

    A predictor learns the best interval of a job's life, which shows best what the job would use alone; with
    ``by_mean``, the mean over its life, which is lower the more others slowed it down.
    """

    def __init__(self, predictor: Predictor, stated_bps: Sequence[float], by_mean: bool = False) -> None:
        self._predictor = predictor
        self._stated_bps = stated_bps
        self._by_mean = by_mean

    def expected(self, job: int) -> float:
        """The expected bandwidth of the job, submitted now."""
        forecast = self._predictor.forecast(job)
        return self._stated_bps[job] if forecast is None else forecast

    def learn(self, job: int, measured: Measured) -> None:
        """The job is over."""
        self._predictor.learn(job, measured.mean_bps if self._by_mean else measured.peak_bps)

    def state(self) -> Any:
        """Everything learned, as JSON values."""
        return self._predictor.state()

    def restore(self, state: Any) -> None:
        """Restores the result of ``state``."""
        self._predictor.restore(state)


@dataclass(frozen=True, slots=True)
class EstimateError:
    """Numbers are ``bias`` times too large, and scattered: ``noise`` is the standard deviation of their logarithm.

    ``silent`` is the share of users who state nothing: their jobs are not spread, unless a forecast says more.

    Raises:
        ValueError: a bias that is not above 0, a noise below 0, or a share beyond 0 to 1.
    """

    bias: float = 1.0
    noise: float = 0.0
    silent: float = 0.0

    def __post_init__(self) -> None:
        if not (0.0 < self.bias < np.inf and 0.0 <= self.noise < np.inf):
            raise ValueError(f"bias {self.bias}, noise {self.noise}: give a bias above 0 and a noise of 0 or more")
        if not 0.0 <= self.silent <= 1.0:
            raise ValueError(f"a share of users who state nothing of {self.silent}: give it from 0 to 1")


NO_ERROR = EstimateError()


def bandwidth_source(
    name: str,
    jobs: SyntheticWorkload,
    error: EstimateError = NO_ERROR,
    seed: int = 0,
    by_mean: bool = False,
    constant_bps: float = CONSTANT_BPS,
) -> BandwidthSource:
    """The source ``name`` for ``jobs``. ``error`` applies to users' statements and to the oracle, ``constant_bps`` to
    ``constant``.

    Raises:
        ValueError: unknown source, or a constant that is not a number of 0 or more.
    """
    if name not in SOURCES:
        raise ValueError(f"unknown bandwidth source {name!r}; choose from {', '.join(SOURCES)}")
    if not 0.0 <= constant_bps < np.inf:
        raise ValueError(f"a constant bandwidth of {constant_bps} bit/s; give 0 or more")
    exact_bps = jobs.work.bandwidth_bps if name == "oracle" else jobs.stated_bps
    rng = np.random.default_rng([seed, 1])
    # A product beyond all floating-point numbers is infinite: such a job is not spread.
    with np.errstate(over="ignore"):
        stated = exact_bps * error.bias * np.exp(error.noise * rng.standard_normal(len(exact_bps)))
    stated_bps = np.where(_silent(jobs.questions, error.silent, seed), np.inf, stated).tolist()
    if name == "constant":
        return BandwidthSource(Stated([constant_bps] * len(stated_bps)), stated_bps)
    predictor = SOURCES[name]
    if predictor is None:
        return BandwidthSource(Stated(stated_bps), stated_bps)
    return BandwidthSource(predictor(jobs.questions), stated_bps, by_mean)


def _silent(questions: Sequence[Question], share: float, seed: int) -> list[bool]:
    """Whether each job's user states nothing. Each user draws once; with a larger ``share``, the same and more do."""
    if not share:
        return [False] * len(questions)
    users = sorted({question.user or "" for question in questions})
    drawn = dict(zip(users, np.random.default_rng([seed, 2]).random(len(users)).tolist(), strict=True))
    return [drawn[question.user or ""] < share for question in questions]
