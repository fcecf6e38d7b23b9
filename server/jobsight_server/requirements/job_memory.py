"""What is known of the memory that one job will need (docs/definitions.md, Requirements on line)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any

from jobsight_predictor.estimators.base import Estimator, Outcome
from jobsight_predictor.estimators.hierarchical import Hierarchical
from jobsight_predictor.question import Question
from jobsight_server.requirements.config import JOBSIGHT, RequirementConfig
from jobsight_server.requirements.stored import Part

_MIB = 2**20  # the finest that every scheduler takes


class JobMemory:
    """The site's estimator for one job, and Jobsight's, which estimates how safe a capacity is.

    ``job`` is held with the request as it was made, whole, in its ``requested_memory_bytes``.
    """

    def __init__(self, config: RequirementConfig, job: Question, requested_bytes: int) -> None:
        self.job = replace(job, requested_memory_bytes=float(requested_bytes))
        self.requested_bytes = requested_bytes
        self._rounds = bool(config.capacities)
        self._estimators: dict[str, Estimator] = {
            config.method(name): config.estimator(name, float(requested_bytes)) for name in (config.name, JOBSIGHT)
        }
        self._estimator = self._estimators[config.method(config.name)]

    def keys(self) -> list[Part]:
        """The parts that answers depend on."""
        return [
            (method, key)
            for method, estimator in self._estimators.items()
            for key in estimator.keys(self.job, self.requested_bytes)
        ]

    def learned_keys(self) -> list[Part]:
        """The parts that learning depends on and changes."""
        return [
            (method, key)
            for method, estimator in self._estimators.items()
            for key in estimator.learned_keys(self.job, self.requested_bytes)
        ]

    def load(self, parts: Mapping[Part, Any]) -> None:
        """Loads the stored parts."""
        for method, estimator in self._estimators.items():
            estimator.load({key: part for (of, key), part in parts.items() if of == method})

    def state(self) -> dict[Part, Any]:
        """The parts to store."""
        return {
            (method, key): part
            for method, estimator in self._estimators.items()
            for key, part in estimator.state().items()
        }

    def estimate_bytes(self) -> int:
        """What to ask for: at most the request; one of the site's capacities if these are known, else whole MiB."""
        estimate = self._estimator.estimate(self.job, float(self.requested_bytes))
        estimate = self._estimator.rounded(estimate) if self._rounds else ceil(estimate / _MIB) * _MIB
        return min(ceil(estimate), self.requested_bytes)

    def confidence(self, memory_bytes: int) -> float | None:
        """How likely it is that ``memory_bytes`` is enough; None if nothing like it has been tried."""
        (counts,) = [one for one in self._estimators.values() if isinstance(one, Hierarchical)]
        probability = counts.fail_probability(self.job, float(memory_bytes))
        return None if probability is None else 1.0 - probability

    def learn(self, memory_bytes: int, *, failed: bool, used_bytes: int | None) -> None:
        """Learns how a submission that asked for ``memory_bytes`` ended."""
        if failed and used_bytes is not None and used_bytes <= memory_bytes:
            used_bytes = None  # it was stopped there; its need is unknown
        outcome = Outcome(
            float(memory_bytes), float(memory_bytes), failed, None if used_bytes is None else float(used_bytes)
        )
        for estimator in self._estimators.values():
            estimator.learn(self.job, float(self.requested_bytes), outcome)
