"""Window, bins and alpha for a site: chosen on its earlier jobs, judged on its later ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats, Indices
from jobsight_predictor.evaluation.jobs import Jobs, Protocol, grouped
from jobsight_predictor.evaluation.replay import replay_forecaster
from jobsight_predictor.evaluation.scores import accuracies
from jobsight_predictor.series import DEFAULT_PARAMETERS, FiveParameters
from jobsight_scheduler.figures import resampled

EARLIER = 0.7
"""Share of the earliest jobs, which choose the parameters."""

FORECASTER_OF = {"window": "sliding-window", "bins": "weighted", "alpha": "exponential"}

GRID: dict[str, tuple[float, ...]] = {
    "window": (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100),
    "bins": (1, 2, 3, 5, 8, 10, 15, 20, 30, 50, 100),
    "alpha": (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
}
"""Values to try of each parameter, including the defaults."""


@dataclass(frozen=True, slots=True)
class TunedParameter:
    """One parameter: the value chosen on the earlier jobs, and mean accuracies on the later ones.

    ``tried`` has (value, accuracy on the earlier jobs). ``gain`` is that of the chosen value over the default on the
    later jobs, ``gain_interval`` its 95 % interval over users, None for too few.
    """

    parameter: str
    forecaster: str
    tried: tuple[tuple[float, float], ...]
    default: float
    chosen: float
    accuracy_default: float
    accuracy_chosen: float
    gain: float
    gain_interval: tuple[float, float] | None

    @property
    def helps(self) -> bool:
        """Return whether the later jobs confirm it: the whole interval is above 0."""
        return self.gain_interval is not None and self.gain_interval[0] > 0.0


def with_value(parameter: str, value: float) -> FiveParameters:
    """Return the defaults, with this value of one parameter."""
    whole: Any = value if parameter == "alpha" else int(value)
    return replace(DEFAULT_PARAMETERS, **{parameter: whole})


def sweep(jobs: Jobs, users: Sequence[Indices], protocol: Protocol, parameter: str) -> Iterator[tuple[float, Floats]]:
    """Yield each value of ``GRID`` and the accuracy of its forecasts for each job, (n,); NaN without a forecast."""
    for value in GRID[parameter]:
        yield value, _hits(jobs, users, protocol, FORECASTER_OF[parameter], with_value(parameter, value))


def tune_parameter(jobs: Jobs, protocol: Protocol, parameter: str) -> TunedParameter:
    """Choose ``parameter`` on the earlier 70 % of the jobs by mean accuracy; of equals, the one nearest the default.

    Raises:
        ValueError: too few jobs have a forecast in one of the two parts.
    """
    users = grouped([question.user for question in jobs.questions])
    is_earlier = earlier_jobs(jobs)
    hits = dict(sweep(jobs, users, protocol, parameter))
    there = ~np.isnan(next(iter(hits.values())))
    early, late = is_earlier & there, ~is_earlier & there
    if not early.any() or not late.any():
        raise ValueError("too few jobs with a forecast: at least one earlier and one later job are needed")
    tried = {value: float(of[early].mean()) for value, of in hits.items()}
    default = float(getattr(DEFAULT_PARAMETERS, parameter))
    chosen = min(tried, key=lambda value: (-tried[value], abs(value - default)))
    user = np.array([str(question.user) for question in jobs.questions])[late]
    gain, low, high = resampled((hits[chosen] - hits[default])[late], np.unique(user, return_inverse=True)[1])
    return TunedParameter(
        parameter=parameter,
        forecaster=FORECASTER_OF[parameter],
        tried=tuple(tried.items()),
        default=default,
        chosen=chosen,
        accuracy_default=float(hits[default][late].mean()),
        accuracy_chosen=float(hits[chosen][late].mean()),
        gain=gain or 0.0,
        gain_interval=None if low is None or high is None else (low, high),
    )


def earlier_jobs(jobs: Jobs) -> NDArray[np.bool_]:
    """Return whether each job is among the earlier 70 % by submission, (n,)."""
    found = np.zeros(len(jobs), dtype=bool)
    found[np.argsort(jobs.submitted, kind="stable")[: int(EARLIER * len(jobs))]] = True
    return found


def _hits(jobs: Jobs, users: Sequence[Indices], protocol: Protocol, name: str, parameters: FiveParameters) -> Floats:
    predicted = replay_forecaster(name, jobs, users, protocol, parameters=parameters)
    return np.where(np.isnan(predicted), np.nan, accuracies(predicted, jobs.values))
