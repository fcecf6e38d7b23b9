"""The objectives as linear forms, and the values of placements, independent of any solver.

Z: a job is matched. X: an instance serves a job.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from jobsight_predictor.arrays import Floats, Integers
from jobsight_scheduler.matching.columns import ResourceColumns, bound_to
from jobsight_scheduler.matching.eligibility import Eligibility, ResourcesOfType
from jobsight_scheduler.matching.packing import Placement
from jobsight_scheduler.matching.problem import Objective, Resource

KEPT = 1e-7
"""Tolerance of a kept objective, as a share of its value, since solvers compute in floating point."""

_DECIMALS, _EXACT = 6, 2.0**53
_SMALLEST_TOTAL = 1e-300  # a smaller capacity has no share
_NO_RESOURCE = Resource("", "")


@dataclass(frozen=True)
class LinearForm:
    """Coefficients of Z and X: ``z`` (jobs,), ``x`` for each dependency aligned to its candidates (None: all 0).

    Those of a scaled form, and its values, are in a ``unit`` in which the largest is at least 1024, since solvers'
    tolerances are absolute. It is a power of two, so that nothing is rounded.
    """

    name: str
    is_max: bool
    z: Floats
    x: list[Floats] | None = None
    unit: float = 1.0

    @property
    def sign(self) -> float:
        """Return the factor that makes the objective a maximum."""
        return 1.0 if self.is_max else -1.0

    @cached_property
    def step(self) -> float:
        """Return the smallest difference that its values can have, from the coefficients as decimals; 0 if unknown."""
        coefficients = self._coefficients * self.unit
        largest = float(coefficients.max(initial=0.0))
        for decimals in range(_DECIMALS + 1):
            scale = 10.0**decimals
            whole = np.rint(coefficients * scale)
            if largest * scale < _EXACT and np.array_equal(whole / scale, coefficients):
                return float(np.gcd.reduce(whole.astype(np.int64), initial=0) or 1) / scale / self.unit
        return 0.0

    @property
    def _coefficients(self) -> Floats:
        return np.unique(np.abs(np.concatenate([self.z, *(self.x or ())])))

    def scaled(self, eligibility: Eligibility, candidates: list[Integers]) -> LinearForm:
        """Return the form in the ``unit`` of its largest coefficient, of jobs that have enough candidates."""
        possible = eligibility.possible(candidates)
        form = replace(
            self,
            z=np.where(possible, self.z, 0.0),
            x=None
            if self.x is None
            else [of * possible[at.job] for at, of in zip(eligibility.dependencies, self.x, strict=True)],
        )
        largest = float(form._coefficients.max(initial=0.0))
        unit = 2.0 ** (math.floor(math.log2(largest)) - 10) if largest else 1.0
        return replace(form, z=form.z / unit, x=None if form.x is None else [of / unit for of in form.x], unit=unit)

    def is_kept(self, value: float, than: float) -> bool:
        """Return whether ``value`` is no worse ``than``."""
        slack = KEPT * max(1.0, abs(than))
        return self.sign * (value - than) >= -(min(slack, self.step / 2.0) if self.step else slack)

    def value(self, eligibility: Eligibility, candidates: list[Integers], placed: Mapping[int, Placement]) -> float:
        """Return the value of placements."""
        found = float(self.z[list(placed)].sum())
        if self.x is not None:
            for job, placement in placed.items():
                for number, chosen in zip(eligibility.numbers[job], placement, strict=True):
                    found += float(self.x[number][np.searchsorted(candidates[number], chosen)].sum())
        return found


def linear_form(objective: Objective, eligibility: Eligibility, candidates: list[Integers]) -> LinearForm:
    """Return ``objective`` over the batch (docs/use/definitions.md, Matching)."""
    jobs, name = eligibility.problem.jobs, objective.name
    nothing = np.zeros(len(jobs))
    weights = np.array([job.weight for job in jobs], dtype=np.float64)
    match "own" if objective.is_own else name:
        case "throughput":
            return LinearForm(name, True, np.ones(len(jobs)))
        case "priority":
            return LinearForm(name, True, weights)
        case "preferences" | "best-to-priority":
            each = weights if name == "best-to-priority" else np.ones(len(jobs))
            x = [
                values * each[at.job] / (at.of.count * len(jobs[at.job].dependencies))
                for at, values in zip(eligibility.dependencies, _preferences(eligibility, candidates), strict=True)
            ]
            return LinearForm(name, True, nothing, x)
        case "utilisation":
            x = [
                _inverse_totals(of := eligibility.types[at.of.type])[positions] @ of.amounts[at.row]
                for at, positions in zip(eligibility.dependencies, candidates, strict=True)
            ]
            return LinearForm(name, True, nothing, x)
    return _own(objective, eligibility, candidates)


def _inverse_totals(of: ResourcesOfType) -> Floats:
    """Return 1 / total for each resource and kind, (R, K); 0 without one."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(of.total > _SMALLEST_TOTAL, 1.0 / of.total, 0.0)


def _preferences(eligibility: Eligibility, candidates: list[Integers]) -> list[Floats]:
    """Return the preference of each dependency for each candidate, 0 to 1.

    That is the expression over E(j, d), scaled from its lowest to its highest value, 1 where all are equal, times the
    preference of the resource's policy. A candidate without a value has 0.
    """
    found = []
    for at, positions in zip(eligibility.dependencies, candidates, strict=True):
        of, job = eligibility.types[at.of.type], eligibility.problem.jobs[at.job]
        node = at.of.preferred
        values = np.ones(len(positions)) if node is None else of.columns.numbers(bound_to(node, job))[positions]
        found.append(_scaled(values) * eligibility.verdicts(of.name, job.job_class)[1][positions])
    return found


def _scaled(values: Floats) -> Floats:
    known = ~np.isnan(values)
    if not known.any():
        return np.ones(len(values))
    low, high = values[known].min(), values[known].max()
    if low == high:
        return known.astype(np.float64)
    span = high / 2.0 - low / 2.0  # the difference of numbers near the largest would overflow
    return np.where(known, np.clip((values / 2.0 - low / 2.0) / span, 0.0, 1.0), 0.0)


def _own(objective: Objective, eligibility: Eligibility, candidates: list[Integers]) -> LinearForm:
    """Return the form of an own objective; a coefficient without a value is 0."""
    jobs, nodes = eligibility.problem.jobs, objective.coefficients
    z = np.zeros(len(jobs))
    if "Z" in nodes:
        nowhere = ResourceColumns([_NO_RESOURCE])
        z = np.array([float(np.nan_to_num(nowhere.numbers(bound_to(nodes["Z"], job))[0])) for job in jobs])
    x = None
    if "X" in nodes:
        x = [
            np.nan_to_num(eligibility.types[at.of.type].columns.numbers(bound_to(nodes["X"], jobs[at.job]))[positions])
            for at, positions in zip(eligibility.dependencies, candidates, strict=True)
        ]
    return LinearForm(objective.name, objective.is_max, z, x)
