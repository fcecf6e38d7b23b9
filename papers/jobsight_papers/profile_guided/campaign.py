"""The campaign: 600 jobs of many users, of which the last 50 are tests (README.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_papers.intervals import interval
from jobsight_papers.profile_guided.tuning import FORECASTER_OF, GRID, with_value
from jobsight_papers.profile_guided.users import forecast_series
from jobsight_predictor.arrays import Floats
from jobsight_predictor.evaluation.replay import UNCLIPPED
from jobsight_predictor.evaluation.scores import accuracies
from jobsight_predictor.series import FiveParameters, make_five, pqm

TESTED = 50
"""Number of last jobs of the campaign that test forecasts."""

ALIKE = 0.8
"""PQM above which a user's jobs count as similar."""

PUBLISHED = {
    "memory": {"share_above": 0.61, "accuracy": 0.80, "accuracy_above": 0.85},
    "bandwidth": {"share_above": 0.40, "accuracy": 0.72, "accuracy_above": 0.80},
}
"""Published: share of users with PQM above .8, accuracy of the exponential forecast for all and for those."""


@dataclass(frozen=True, slots=True)
class CampaignJobs:
    """The jobs of a campaign in order of completion: the user of each, and its use of one metric, (n,)."""

    users: tuple[str, ...]
    values: Floats


def campaign_account(jobs: CampaignJobs, parameters: FiveParameters) -> dict[str, Any]:
    """Return one campaign in one metric: the share of users with PQM above .8, and per forecaster the accuracies.

    ``accuracy`` is the mean over the tested jobs with a forecast from all of their user's jobs before,
    ``accuracy_above`` that for the users with PQM above .8, ``accuracy_frozen`` that of forecasts only from the jobs
    before the first tested one.
    """
    n = len(jobs.users)
    tested = np.arange(n) >= n - TESTED
    members = _members(jobs.users)
    alike = {user for user, of in members.items() if (pqm(jobs.values[of].tolist()) or 0.0) > ALIKE}
    above = np.array([user in alike for user in jobs.users])
    predicted, frozen = _forecasts(jobs.values, members, tested, parameters)
    forecast = tested & ~np.isnan(predicted["locality"])
    return {
        "jobs": n,
        "tested": int(tested.sum()),
        "without_forecast": int((tested & ~forecast).sum()),
        "users": len(members),
        "users_above": len(alike),
        "share_above": len(alike) / len(members),
        "tested_above": int((forecast & above).sum()),
        "forecasters": {
            name: {
                "accuracy": _mean(accuracies(predicted[name], jobs.values)[forecast]),
                "accuracy_above": _mean(accuracies(predicted[name], jobs.values)[forecast & above]),
                "accuracy_frozen": _mean(accuracies(frozen[name], jobs.values)[forecast & ~np.isnan(frozen[name])]),
            }
            for name in predicted
        },
    }


def sensitivity(jobs: CampaignJobs) -> dict[str, list[float | None]]:
    """Return the accuracy over the tested jobs by value of each parameter in ``GRID``."""
    n = len(jobs.users)
    tested = np.arange(n) >= n - TESTED
    members = _members(jobs.users)
    found: dict[str, list[float | None]] = {}
    for parameter, name in FORECASTER_OF.items():
        found[parameter] = []
        for value in GRID[parameter]:
            forecaster = make_five(with_value(parameter, value))[name]
            predicted = np.full(n, np.nan)
            for of in members.values():
                predicted[of] = forecaster.replay(jobs.values[of])
            there = tested & ~np.isnan(predicted)
            found[parameter].append(_mean(accuracies(predicted, jobs.values)[there]))
    return found


def over_seeds(accounts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return means of campaigns: each figure as ``mean`` and the 95 % interval ``low`` to ``high`` (Student)."""
    return {
        "seeds": len(accounts),
        "share_above": interval([one["share_above"] for one in accounts]),
        "forecasters": {
            name: {
                figure: interval([one["forecasters"][name][figure] for one in accounts])
                for figure in ("accuracy", "accuracy_above", "accuracy_frozen")
            }
            for name in accounts[0]["forecasters"]
        },
    }


def _members(users: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    import pandas as pd  # takes half a second to load

    found = pd.Series(users).groupby(np.array(users), sort=False).indices
    return {str(user): np.asarray(of, dtype=np.intp) for user, of in found.items()}


def _forecasts(
    values: Floats, members: Mapping[str, NDArray[np.intp]], tested: NDArray[np.bool_], parameters: FiveParameters
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return forecasts of each job from all of its user's jobs before, and from the untested ones; both (n,)."""
    names = (*make_five(parameters), UNCLIPPED)
    predicted, frozen = ({name: np.full(len(values), np.nan) for name in names} for _ in range(2))
    for of in members.values():
        series = forecast_series(values[of], parameters)
        learned = of[~tested[of]]
        before = forecast_series(values[learned], parameters).following if len(learned) else {}
        for name in names:
            predicted[name][of] = series.forecasts[name]
            frozen[name][of[tested[of]]] = before.get(name, np.nan)
    return predicted, frozen


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None
