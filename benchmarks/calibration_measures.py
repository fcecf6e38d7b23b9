"""Differences between predicted probabilities and outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats

EDGES = (0.0, 0.001, 0.003, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98,
         0.99, 1.0)  # fmt: skip
"""Ends of the bins: finer towards 0, where most probabilities of needing more are, and towards 1. 0 has its own bin."""

DRAWS = 20
"""Number of random draws for the difference by chance."""


@dataclass(frozen=True, slots=True)
class Statements:
    """Predicted probability, outcome and burst of each job; arrays (n,)."""

    stated: Floats
    came: NDArray[np.bool_]
    burst: NDArray[np.intp]


def bins(stated: Floats, came: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Return mean predicted probability, observed share and number of jobs of each non-empty bin."""
    at = np.digitize(stated, EDGES, right=True)
    return [
        {"stated": float(stated[at == k].mean()), "came": float(came[at == k].mean()), "jobs": int((at == k).sum())}
        for k in np.unique(at).tolist()
    ]


def mean_difference(found: list[dict[str, Any]]) -> float:
    """Return the mean over jobs of the absolute difference of their bins."""
    jobs = sum(line["jobs"] for line in found)
    return sum(line["jobs"] * abs(line["stated"] - line["came"]) for line in found) / jobs


def chance(stated: Floats, burst: NDArray[np.intp]) -> float:
    """Return the mean difference if each probability is right and the jobs of a burst share one outcome."""
    rng = np.random.default_rng(22)
    fates = rng.uniform(size=(DRAWS, int(burst.max()) + 1))
    return float(np.mean([mean_difference(bins(stated, fate[burst] < stated)) for fate in fates]))


def differences(statements: Statements) -> dict[str, Any]:
    """Return the bins of one probability, and their mean difference."""
    found = bins(statements.stated, statements.came)
    return {"mean_difference": mean_difference(found), "bins": found}


def summary(statements: Statements) -> dict[str, Any]:
    """Return ``differences`` with the number of jobs and bursts, and the mean difference by ``chance``."""
    return {
        "jobs": len(statements.stated),
        "bursts": len(np.unique(statements.burst)),
        "chance": chance(statements.stated, statements.burst),
        **differences(statements),
    }
