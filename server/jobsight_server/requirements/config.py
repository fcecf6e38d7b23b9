"""How a site estimates memory requirements: by which estimator, in which groups, rounded to which capacities."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from jobsight_predictor.estimators import ESTIMATORS, Estimator
from jobsight_predictor.estimators.last_instance import LastInstance
from jobsight_predictor.estimators.robust_search import RobustSearch
from jobsight_predictor.estimators.successive_approximation import SuccessiveApproximation
from jobsight_server.amounts import memory_bytes
from jobsight_server.settings import Settings

REQUEST = "requested_memory_bytes"
JOBSIGHT = "jobsight"

SHARES = tuple(2.0 ** (step / 4) for step in range(-24, 1))
"""Shares of the request that stand for capacities where none are set: from a 64th on, in steps of 19 %."""


@dataclass(frozen=True, slots=True)
class RequirementConfig:
    """``group`` are the fields that jobs of one group share besides the request; ``capacities`` are ascending bytes.

    A requirement waits ``expiry_s`` for its feedback; ``kept`` of them are kept.
    """

    name: str = JOBSIGHT
    group: tuple[str, ...] = ("user", "application")
    capacities: tuple[float, ...] = ()
    kept: int = 100_000
    expiry_s: float = 30 * 86400.0

    def estimator(self, requested: float) -> Estimator:
        """A published estimator that knows nothing yet, for jobs with this request."""
        kind, capacities = ESTIMATORS[self.name], self.capacities or [share * requested for share in SHARES]
        if kind in (SuccessiveApproximation, RobustSearch, LastInstance):
            return kind(capacities, (*self.group, REQUEST))
        return kind(capacities)

    @property
    def method(self) -> str:
        """What the state of the estimator is stored under: its name with a digest of what the state depends on."""
        content = msgspec.json.encode([self.group, self.capacities or SHARES])
        return f"{self.name} {hashlib.sha256(content).hexdigest()[:16]}"


def requirement_config(settings: Settings) -> RequirementConfig:
    """The configuration from the settings."""
    return RequirementConfig(
        name=settings.requirements_estimator,
        group=tuple(dict.fromkeys(settings.requirements_group)),
        capacities=tuple(sorted({memory_bytes(text) for text in settings.memory_capacities})),
        kept=settings.requirements_kept,
        expiry_s=settings.requirements_expiry_days * 86400.0,
    )
