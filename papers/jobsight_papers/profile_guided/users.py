"""Single users: the five forecasts over one user's jobs (README.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jobsight_predictor.arrays import Floats
from jobsight_predictor.evaluation.replay import UNCLIPPED
from jobsight_predictor.evaluation.scores import accuracies
from jobsight_predictor.forecasters.published import UnclippedExponential
from jobsight_predictor.series import FiveParameters, make_five, pqm

PUBLISHED_PARAMETERS = FiveParameters(window=6, alpha=0.1)
"""The users of the published experiment."""

LAST = 10
"""Number of last jobs of each user in the published accuracy."""

OVERSHOT = 0.1
"""Share of a job's use; an unclipped forecast overshoots if it is further above the job and all jobs before."""


@dataclass(frozen=True, slots=True)
class ForecastSeries:
    """Each forecaster's forecasts of a user's jobs, (n,), NaN for the first, and of the next job after all."""

    forecasts: dict[str, Floats]
    following: dict[str, float]


def forecast_series(values: Floats, parameters: FiveParameters) -> ForecastSeries:
    """Return the five forecasts, and the exponential one without clipping, as published, over ``values`` in order of
    completion.

    Raises:
        ValueError: a value is not a measurement, or there is none.
    """
    if not len(values):
        raise ValueError("no values: a user needs at least one finished job")
    extended = np.append(values, 0.0)  # the forecast after all
    forecasters = {**make_five(parameters), UNCLIPPED: UnclippedExponential(parameters.alpha)}
    found = {name: forecaster.replay(extended) for name, forecaster in forecasters.items()}
    return ForecastSeries(
        {name: every[:-1] for name, every in found.items()},
        {name: float(every[-1]) for name, every in found.items()},
    )


def user_account(values: Floats, parameters: FiveParameters) -> dict[str, Any]:
    """Return one user in the shape that the command prints: PQM, and per forecaster forecasts and accuracy.

    ``accuracy`` is over the last ten jobs. ``overshoots`` counts jobs with an unclipped forecast more than 10 % above
    the job and all jobs before.
    """
    series = forecast_series(values, parameters)
    last = slice(max(1, len(values) - LAST), None)
    known = values.tolist()
    raw = series.forecasts[UNCLIPPED][1:]
    # A clipped forecast is never above a value seen: only the unclipped one can overshoot.
    ceiling = np.maximum(np.maximum.accumulate(values[:-1]), values[1:])
    return {
        "jobs": len(values),
        "pqm": pqm(known),
        "values": known,
        "overshoots": int((raw > (1.0 + OVERSHOT) * ceiling).sum()),
        "forecasters": {
            name: {
                "accuracy": float(accuracies(predicted[last], values[last]).mean()) if len(values) > 1 else None,
                "next": series.following[name],
                "forecasts": [None, *predicted[1:].tolist()],
            }
            for name, predicted in series.forecasts.items()
        },
    }
