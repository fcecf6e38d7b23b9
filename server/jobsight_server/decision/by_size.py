"""Need against a job's size, such as the bytes of its input, where that explains it better than the largest use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jobsight_predictor.question import Facts
from jobsight_server.decision.evidence import Runs

LEAST = 8
"""Runs with the fact needed for a fit."""

HALVES = 0.5
"""The fit counts if it leaves at most this share of the spread of the needs."""

LARGEST = 1.25
"""Factor on the largest size seen, beyond which the fit is not trusted."""

_LEAST_SHARE = 0.5  # of the least need: the fit goes no lower


class Sized(NamedTuple):
    """The ``need`` of a job of this size; ``is_beyond``: it is larger than any that was seen."""

    need: float
    is_beyond: bool


def need_by_size(rows: Sequence[Runs], facts: Facts) -> Sized | None:
    """Fit the need to each of the job's facts, never falling with it; None unless one explains half of the spread.

    The line has the median of the slopes between all pairs of runs (Theil and Sen), and the job gets what the run
    farthest above the line would need at its size.
    """
    best: tuple[float, Sized] | None = None
    for name, size in facts:
        known = [
            (dict(row.shape.facts)[name], max(row.most, row.at_least, row.failed_at))
            for row in rows
            if name in dict(row.shape.facts)
        ]
        if len(known) < LEAST:
            continue
        import numpy as np  # few sites send facts

        x, y = np.array(known, dtype=float).T
        below, above = np.triu_indices(len(x), 1)
        apart = x[above] != x[below]
        if not apart.any():
            continue
        slopes = (y[above] - y[below])[apart] / (x[above] - x[below])[apart]
        slope = max(0.0, float(np.median(slopes)))
        start = float(np.median(y - slope * x))
        line = np.maximum(start + slope * x, _LEAST_SHARE * y.min())
        ratio = float((y / line).max())
        spread = float((ratio * line - y).sum()) / max(float((y.max() - y).sum()), 1e-9)
        if spread > HALVES or (best is not None and spread >= best[0]):
            continue
        need = ratio * max(start + slope * size, _LEAST_SHARE * float(y.min()))
        best = spread, Sized(need, size > LARGEST * float(x.max()))
    return best and best[1]
