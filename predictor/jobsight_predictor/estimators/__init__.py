"""Estimators of a job's memory (or disk, ...), often less than its request, learned from feedback."""

from __future__ import annotations

from .base import Estimator, JobOutcome, Requested, SystemState
from .hierarchical import Hierarchical
from .successive_approximation import SuccessiveApproximation

ESTIMATORS: dict[str, type[Estimator]] = {
    "none": Requested,
    "successive-approximation": SuccessiveApproximation,
    "jobsight": Hierarchical,
}

__all__ = ["ESTIMATORS", "Estimator", "JobOutcome", "Requested", "SystemState"]
