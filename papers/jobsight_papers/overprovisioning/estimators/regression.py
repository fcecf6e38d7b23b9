"""Regression: a job's use, from everything that it requests (explicit feedback; Yom-Tov and Aridor 2006, Table 1)."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Sequence
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, Estimator, SystemState
from jobsight_predictor.question import Question

QUANTILE = 0.95
"""Share of jobs that should stay within the estimate."""

FIRST = 50
"""Jobs before the first fit."""

WINDOW = 4000
"""Number of latest jobs in a fit."""

GROWTH = 1.5
"""The fit is repeated when the number of known jobs has grown by this factor, or the whole window is new."""

ROUNDING = 1e-9
"""Share by which an estimate is lowered: without it, an exact fit asks for the next capacity, or not, by chance."""


class Regression(Estimator):
    """The quantile of ``used / requested`` by quantile regression on the requested memory, processors and time.

    The logarithm of the ratio is fitted on their logarithms and the squares of these. If the use of a failed job is
    unknown, it counts as the whole request.
    """

    name = "regression"

    def __init__(self, capacities: Sequence[float]) -> None:
        super().__init__(capacities)
        self._jobs: deque[tuple[list[float], float]] = deque(maxlen=WINDOW)
        self._since = 0  # jobs since the last fit
        self._fitted_on = 0
        self._weights: list[float] | None = None

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        if self._weights is None:
            return requested
        ratio = exp(min(sum([a * b for a, b in zip(self._weights, self._features(job, requested), strict=True)]), 0.0))
        return min(requested, max(requested * ratio * (1.0 - ROUNDING), self.capacities[0]))

    def learn(self, job: Question, requested: float, outcome: AttemptOutcome) -> None:
        used = requested if outcome.failed and outcome.used is None else outcome.used
        if used is None or not used > 0.0:
            return
        self._jobs.append((self._features(job, requested), log(min(used / requested, 1.0))))
        self._since += 1
        if self._since >= min(max(FIRST, (GROWTH - 1.0) * self._fitted_on), WINDOW):
            self._fit()

    def _fit(self) -> None:
        from statsmodels.regression.quantile_regression import QuantReg  # takes seconds to load
        from statsmodels.tools.sm_exceptions import ModelWarning

        features = np.array([features for features, _ in self._jobs])
        ratios = np.array([ratio for _, ratio in self._jobs])
        self._fitted_on, self._since = len(ratios), 0
        # If the fit is exact, its standard errors (not needed) are undefined.
        with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
            # Full convergence makes no difference to a capacity that is rounded up.
            warnings.simplefilter("ignore", ModelWarning)
            weights: NDArray[np.float64] = QuantReg(ratios, features).fit(q=QUANTILE, max_iter=200).params
        if np.isfinite(weights).all():
            self._weights = weights.tolist()

    def _features(self, job: Question, requested: float) -> list[float]:
        hours = (job.requested_time_s or 3600.0) / 3600.0
        logs = [log(value) for value in (requested / self.capacities[-1], float(job.processors or 1), hours)]
        return [1.0, *logs, *(value * value for value in logs)]
