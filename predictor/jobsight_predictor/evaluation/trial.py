"""Evaluates a randomised trial: the difference between two arms, with an interval for clustered jobs.

Jobs of one user are alike, so they are compared with the same user's jobs in the other arm, and users are resampled: a
wild cluster bootstrap with the null hypothesis imposed, inverted (A. C. Cameron, J. B. Gelbach and D. L. Miller,
Bootstrap-based improvements for inference with clustered errors, 2008). It is valid even if few users run most jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats

REPEATS = 1999
CLUSTERS_AT_LEAST = 6
"""With fewer there is no interval: five signs have only 32 combinations."""

_FAR = 1e6  # standard errors
_HALVINGS = 40


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of each arm, and the difference within clusters, treated minus control, with its interval.

    ``clusters`` counts those with jobs in both arms; if they are too few, ``low`` and ``high`` are None.
    """

    treated: float
    control: float
    difference: float
    low: float | None
    high: float | None
    clusters: int


def difference(
    values: Sequence[float],
    treated: Sequence[bool],
    clusters: Sequence[str],
    level: float = 0.95,
    repeats: int = REPEATS,
    seed: int = 1,
) -> Difference | None:
    """Compare jobs with these values, arms and clusters; None unless a cluster has jobs in both arms.

    Deterministic for the same input.
    """
    if not len(values):
        return None
    _, place = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    value, is_treated = np.asarray(values, dtype=np.float64), np.asarray(treated, dtype=bool)
    share = np.bincount(place, is_treated) / np.bincount(place)
    # A job's arm minus its cluster's mean: a regression on the arm with a constant for each cluster.
    apart = is_treated - share[place]
    both: Floats = np.bincount(place, apart * value).astype(np.float64)
    weight: Floats = np.bincount(place, apart**2).astype(np.float64)
    both, weight = both[weight > 0.0], weight[weight > 0.0]
    if not len(weight):
        return None
    found = float(both.sum() / weight.sum())
    means = float(value[is_treated].mean()), float(value[~is_treated].mean())
    if len(weight) < CLUSTERS_AT_LEAST:
        return Difference(*means, found, None, None, len(weight))
    signs = np.random.default_rng(seed).choice(np.asarray([-1.0, 1.0], dtype=np.float32), (repeats, len(weight)))
    low, high = (_end(both, weight, signs, found, side, 1.0 - level) for side in (-1.0, 1.0))
    return Difference(*means, found, low, high, len(weight))


def _end(
    both: Floats, weight: Floats, signs: NDArray[np.float32], found: float, side: float, alpha: float
) -> float | None:
    """Find the end of the interval: the farthest difference that is not rejected; None if none is rejected."""
    error = _error(both - found * weight, weight)
    if error == 0.0:
        return found
    near, far = 0.0, 1.0
    while _share(both, weight, signs, found, error, side * far) > alpha:
        near, far = far, 2.0 * far
        if far > _FAR:
            return None
    for _ in range(_HALVINGS):
        middle = (near + far) / 2.0
        if _share(both, weight, signs, found, error, side * middle) > alpha:
            near = middle
        else:
            far = middle
    return found + side * far * error


def _share(both: Floats, weight: Floats, signs: NDArray[np.float32], found: float, error: float, apart: float) -> float:
    """Return the share of random signs with a difference as large, if the true one is ``apart`` errors from the
    estimate."""
    scores = both - (found + apart * error) * weight
    total = weight.sum()
    again = signs @ scores / total
    squares = (scores**2).sum() - 2.0 * again * (signs @ (scores * weight)) + again**2 * (weight**2).sum()
    its_error = np.sqrt(squares.clip(0.0)) / total
    return float(np.mean(np.abs(again) >= abs(apart) * its_error * (1.0 - 1e-9)))


def _error(scores: Floats, weight: Floats) -> float:
    """Compute the standard error of the difference within clusters."""
    return float(np.sqrt((scores**2).sum()) / weight.sum())
