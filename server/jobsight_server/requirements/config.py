"""How a site estimates memory requirements: by which estimator, in which groups, rounded to which capacities."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from jobsight_predictor.estimators import ESTIMATORS, Estimator
from jobsight_predictor.estimators.hierarchical import EXPLORE, Hierarchical
from jobsight_predictor.estimators.last_instance import LastInstance
from jobsight_predictor.estimators.robust_search import RobustSearch
from jobsight_predictor.estimators.successive_approximation import SuccessiveApproximation
from jobsight_server.amounts import memory_bytes
from jobsight_server.settings import Settings

REQUEST = "requested_memory_bytes"
JOBSIGHT = "jobsight"

SHARES = tuple(2.0 ** (step / 4) for step in range(-24, 1))
"""Shares of the request that stand for capacities where none are set: from a 64th on, in steps of 19 %."""

_FINEST = ("processors", "requested_time_s")
"""What Jobsight's estimator considers within a group, as on recorded workloads."""


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

    def estimator(self, name: str, requested: float) -> Estimator:
        """An estimator that knows nothing yet, for jobs with this request."""
        kind, capacities = ESTIMATORS[name], self.capacities or [share * requested for share in SHARES]
        fields = (*self.group, REQUEST)
        if kind is Hierarchical:
            # If nothing is known about the nodes, nothing is tried without a reported use to support it.
            return Hierarchical(capacities, levels=self.levels, explore=EXPLORE if self.capacities else 0.0)
        if kind in (SuccessiveApproximation, RobustSearch, LastInstance):
            return kind(capacities, fields)
        return kind(capacities)

    @property
    def levels(self) -> Sequence[tuple[str, ...]]:
        """The groups of Jobsight's estimator, from general to specific."""
        wider = [(*self.group[:count], REQUEST) for count in range(len(self.group) + 1)]
        return (*wider, (*self.group, REQUEST, *(field for field in _FINEST if field not in self.group)))

    def method(self, name: str) -> str:
        """What the state of an estimator is stored under: its name with a digest of what the state depends on."""
        content = msgspec.json.encode([self.group, self.capacities or SHARES])
        return f"{name} {hashlib.sha256(content).hexdigest()[:16]}"

    @property
    def methods(self) -> frozenset[str]:
        """The key of all state."""
        return frozenset({self.method(self.name), self.method(JOBSIGHT)})


def requirement_config(settings: Settings) -> RequirementConfig:
    """The configuration from the settings."""
    return RequirementConfig(
        name=settings.requirements_estimator,
        group=tuple(dict.fromkeys(settings.requirements_group)),
        capacities=tuple(sorted({memory_bytes(text) for text in settings.memory_capacities})),
        kept=settings.requirements_kept,
        expiry_s=settings.requirements_expiry_days * 86400.0,
    )
