"""Machines in the order in which a job should try them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .resource_vector import Floats

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Ranking:
    """``order`` are the numbers of the machines, best first; the rest are of shape (n,), by machine.

    ``score`` is what was ranked by: a machine without history counts with at most the mean of those with one.
    """

    order: NDArray[np.int64]
    score: Floats
    low: Floats
    high: Floats
    known: Bools


def ranked(score: Floats, low: Floats, high: Floats, known: Bools, eligible: Bools | None = None) -> Ranking:
    """The ``eligible`` machines (default: all), highest score first.

    Among equals those with history come first, then the lowest number. A machine without history is never above all
    of those with one. NaN counts as the lowest score.
    """
    allowed = np.ones(len(score), dtype=np.bool_) if eligible is None else eligible
    value = np.where(np.isfinite(score), score, -np.inf)
    proven = known & allowed & np.isfinite(value)
    if proven.any():
        value = np.where(known, value, np.minimum(value, value[proven].mean()))
    numbers = np.flatnonzero(allowed)
    order = numbers[np.lexsort((numbers, ~known[numbers], -value[numbers]))]
    return Ranking(order, value, low, high, known)
