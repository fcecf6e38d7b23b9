"""Sources of a job's expected bandwidth for a placement, by the names used in commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobsight_predictor.forecasters import FIVE
from jobsight_scheduler.prediction import BANDWIDTH, PREDICTORS, Predictor, Stated

from .synthetic import SyntheticWorkload

SOURCES = {"user": None, "predicted": "jobsight", "oracle": None, **{name: name for name in FIVE}}
"""The predictor of each source; None if a number is stated for each job."""


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
    """Numbers are ``bias`` times too large, and scattered: ``noise`` is the standard deviation of their logarithm."""

    bias: float = 1.0
    noise: float = 0.0


NO_ERROR = EstimateError()


def bandwidth_source(
    name: str, jobs: SyntheticWorkload, error: EstimateError = NO_ERROR, seed: int = 0, by_mean: bool = False
) -> BandwidthSource:
    """The source ``name`` for ``jobs``. ``error`` applies to users' statements and to the oracle.

    Raises:
        ValueError: unknown source, or an invalid error.
    """
    if not (0.0 < error.bias < np.inf and 0.0 <= error.noise < np.inf):
        raise ValueError(f"bias {error.bias}, noise {error.noise}: give a bias above 0 and a noise of 0 or more")
    if name not in SOURCES:
        raise ValueError(f"unknown bandwidth source {name!r}; choose from {', '.join(SOURCES)}")
    exact_bps = jobs.work.bandwidth_bps if name == "oracle" else jobs.stated_bps
    rng = np.random.default_rng([seed, 1])
    stated_bps = (exact_bps * error.bias * np.exp(error.noise * rng.standard_normal(len(exact_bps)))).tolist()
    predictor = SOURCES[name]
    if predictor is None:
        return BandwidthSource(Stated(stated_bps), stated_bps)
    return BandwidthSource(PREDICTORS[predictor](jobs.questions, BANDWIDTH), stated_bps, by_mean)
