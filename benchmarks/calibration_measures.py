"""How far stated probabilities are from what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EDGES = (0.0, 0.001, 0.003, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98,
         0.99, 1.0)  # fmt: skip
"""Ends of the bins: finer towards 0, where most probabilities of needing more are, and towards 1. 0 is a bin."""

LARGE = 300
"""Jobs; of a bin that is judged by itself."""

DRAWS = 20
"""How often fate is drawn to see what chance alone leaves."""


@dataclass(frozen=True, slots=True)
class Statements:
    """Of each job the probability stated, whether it came true, and its burst; arrays (n,)."""

    stated: Floats
    came: NDArray[np.bool_]
    burst: NDArray[np.intp]


def bins(stated: Floats, came: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Of each bin that is not empty, the mean probability stated, the share that came true, and the number of jobs."""
    at = np.digitize(stated, EDGES, right=True)
    return [
        {"stated": float(stated[at == k].mean()), "came": float(came[at == k].mean()), "jobs": int((at == k).sum())}
        for k in np.unique(at).tolist()
    ]


def mean_difference(found: list[dict[str, Any]]) -> float:
    """Mean over jobs of the absolute difference of their bins."""
    jobs = sum(line["jobs"] for line in found)
    return sum(line["jobs"] * abs(line["stated"] - line["came"]) for line in found) / jobs


def chance(stated: Floats, burst: NDArray[np.intp]) -> float:
    """The mean difference if each probability is right and the jobs of a burst share one fate."""
    rng = np.random.default_rng(22)
    fates = rng.uniform(size=(DRAWS, int(burst.max()) + 1))
    return float(np.mean([mean_difference(bins(stated, fate[burst] < stated)) for fate in fates]))


def differences(statements: Statements) -> dict[str, Any]:
    """How far one probability is off; ``worst`` is the bin of ``LARGE`` jobs or more that is farthest off, None if
    there is none."""
    found = bins(statements.stated, statements.came)
    large = [line for line in found if line["jobs"] >= LARGE]
    return {
        "mean_difference": mean_difference(found),
        "worst": max(large, key=lambda line: abs(line["stated"] - line["came"]), default=None),
        "brier": float(np.mean((statements.stated - statements.came) ** 2)),
        "bins": found,
    }


def summary(statements: Statements) -> dict[str, Any]:
    """``differences``, with the number of jobs and bursts, and the mean difference by ``chance``."""
    return {
        "jobs": len(statements.stated),
        "bursts": len(np.unique(statements.burst)),
        "chance": chance(statements.stated, statements.burst),
        **differences(statements),
    }
