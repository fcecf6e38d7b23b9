"""The order in which a job should try machines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Booleans, Floats


@dataclass(frozen=True, slots=True)
class Ranking:
    """``order`` lists machine numbers, best first; the other arrays have shape (n,), by machine.

    ``score`` is the ranking key: without history, a machine gets at most the mean of those with history.
    """

    order: NDArray[np.int64]
    score: Floats
    low: Floats
    high: Floats
    known: Booleans


def ranked(score: Floats, low: Floats, high: Floats, known: Booleans, eligible: Booleans | None = None) -> Ranking:
    """Rank the ``eligible`` machines (default: all), highest score first.

    Ties: machines with history first, then the lowest number. A machine without history never ranks above all that
    have one. NaN counts as the lowest score.
    """
    allowed = np.ones(len(score), dtype=np.bool_) if eligible is None else eligible
    value = np.where(np.isfinite(score), score, -np.inf)
    proven = known & allowed & np.isfinite(value)
    if proven.any():
        value = np.where(known, value, np.minimum(value, value[proven].mean()))
    numbers = np.flatnonzero(allowed)
    order = numbers[np.lexsort((numbers, ~known[numbers], -value[numbers]))]
    return Ranking(order, value, low, high, known)
