"""How good forecasts at submission were, as sums by day and week: what the page Trust is made from."""

from __future__ import annotations

from typing import Any

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.series import accuracy, within20
from jobsight_server.savings.kept import KeptSums, week_of

PARTS = 1_000_000
"""The mean accuracy is kept in millionths, so that sums are exact."""

SCORES = ("jobs", "accuracy", "within20", "bounds", "held")
"""Columns that are added up: ``jobs`` had a forecast and a value; ``bounds`` of them a bound; ``held`` stayed in it."""

SCORE_LEVELS = ("cluster", "user", "application")

SCORES_KEPT = KeptSums("forecast_scores", tuple(METRICS), SCORES, SCORE_LEVELS, "week", week_of, ("jobs",))


def score_of(row: Any) -> tuple[int, ...] | None:
    """The columns of one job and metric; None if it had no forecast, or no value that counts.

    A value that is only shown, such as a lower bound, counts for nothing here, as in ``queries.accuracy``.
    """
    if row.value is None or row.forecast is None or row.shown_only:
        return None
    near = round(accuracy(row.forecast, row.value) * PARTS)
    has_bound = row.bound is not None
    return (1, near, int(within20(row.forecast, row.value)), int(has_bound), int(has_bound and row.value <= row.bound))
