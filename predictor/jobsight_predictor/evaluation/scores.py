"""Scores many forecasts at once: accuracy, shares, ranking, calibration (docs/use/definitions.md, Quality)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats, Indices
from jobsight_predictor.series import NEAR

BINS = 10  # steps of probability in a calibration


def accuracies(forecasts: Floats, values: Floats) -> Floats:
    """Return the accuracy of each forecast, (n,), 0 where there is none (NaN)."""
    misses = np.abs(forecasts - values)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shares = np.where(values > 0.0, 1.0 - misses / values, np.where(misses == 0.0, 1.0, 0.0))
    return np.where(np.isnan(forecasts), 0.0, np.maximum(0.0, shares))


def summary(
    forecasts: Floats, values: Floats, users: Sequence[Indices], among: NDArray[np.bool_] | None = None
) -> dict[str, float | int | None]:
    """Compute micro, macro, within20 and under_rate over ``jobs`` jobs, and the ``share`` of all jobs with a forecast.

    Scores jobs with a forecast, of the compared jobs ``among``, (n,), or of all. Macro is the mean over users with at
    least two jobs.
    """
    hits = accuracies(forecasts, values)
    there = ~np.isnan(forecasts)
    counted = there if among is None else there & among
    means = [hits[user][counted[user]].mean() for user in users if len(user) >= 2 and counted[user].any()]
    return {
        "micro": _mean(hits[counted]),
        "macro": _mean(np.array(means)),
        "within20": _mean((np.abs(forecasts - values) <= NEAR * values)[counted]),
        "under_rate": _mean((forecasts < values)[counted]),
        "jobs": int(counted.sum()),
        "share": _mean(there),
    }


def hindsight(
    forecasts_of: Sequence[Floats], values: Floats, users: Sequence[Indices], among: NDArray[np.bool_]
) -> dict[str, float | None]:
    """Compute micro and macro of each user's best forecaster, chosen after the fact, over the jobs ``among``, (n,)."""
    hits_of = [np.where(among, accuracies(forecasts, values), 0.0) for forecasts in forecasts_of]
    counts = [int(among[user].sum()) for user in users]
    best = [max(float(hits[user].sum()) for hits in hits_of) for user in users]
    shares = [total / n for total, n, user in zip(best, counts, users, strict=True) if n and len(user) >= 2]
    return {"micro": sum(best) / sum(counts) if any(counts) else None, "macro": _mean(np.array(shares))}


def auc(scores: Floats, positive: NDArray[np.bool_]) -> float | None:
    """Return the probability that a positive scores above a negative, ties counting half; None if either is missing."""
    there = ~np.isnan(scores)
    scores, positive = scores[there], positive[there]
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if not n_positive or not n_negative:
        return None
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
    return float((ranks[positive].sum() - n_positive * (n_positive + 1) / 2.0) / (n_positive * n_negative))


def calibration(probabilities: Floats, hits: NDArray[np.bool_]) -> list[dict[str, float | int]]:
    """Compute how often forecasts came true, by tenths of their probability; arrays (n,).

    Each non-empty tenth has the mean claimed ``probability``, the observed ``hit_rate`` and the number of ``jobs``; NaN
    is ignored.
    """
    there = ~np.isnan(probabilities)
    claimed, came = probabilities[there], hits[there]
    tenth = np.minimum((claimed * BINS).astype(np.intp), BINS - 1)
    return [
        {
            "probability": float(claimed[tenth == k].mean()),
            "hit_rate": float(came[tenth == k].mean()),
            "jobs": int((tenth == k).sum()),
        }
        for k in np.unique(tenth).tolist()
    ]


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None
