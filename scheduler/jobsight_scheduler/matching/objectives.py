"""The objectives as linear forms, and the values of placements, independent of any solver.

Z: a job is matched. X: an instance serves a job. S: a resource is used. F: the largest share used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from jobsight_predictor.arrays import Booleans, Floats, Integers

from .columns import ResourceColumns, bound_to
from .eligibility import Eligibility, ResourcesOfType
from .packing import Placement
from .predicates import Name, Node
from .problem import Objective, Resource

PIECES = 4
"""Squares are piecewise linear between multiples of 1 / ``PIECES``."""

KEPT = 1e-7
"""Tolerance of a kept objective, as a share of its value, since solvers compute in floating point."""

_DECIMALS, _EXACT = 6, 2.0**53
_SMALLEST_TOTAL = 1e-300  # a smaller capacity has no share
_NO_RESOURCE = Resource("", "")


@dataclass(frozen=True, slots=True)
class Shares:
    """The balanced capacities: ``counted`` (R, K) flags those of each type.

    ``others`` are the shares in use of those that no job asks for.
    """

    counted: dict[str, Booleans]
    others: Floats


@dataclass(frozen=True)
class LinearForm:
    """Coefficients of Z, X, S and F.

    ``z`` (jobs,), ``x`` for each dependency aligned to its candidates, None where all are 0, ``s`` for each type (R,),
    and ``f``, of the largest of ``shares``; with ``is_squared``, of the sum of their squares. ``constant`` does not
    depend on the matches.
    """

    name: str
    is_max: bool
    z: Floats
    x: list[Floats] | None = None
    s: dict[str, Floats] = field(default_factory=dict)
    f: float = 0.0
    shares: Shares | None = None
    is_squared: bool = False
    constant: float = 0.0

    @property
    def sign(self) -> float:
        """Return the factor that makes the objective a maximum."""
        return 1.0 if self.is_max else -1.0

    @cached_property
    def step(self) -> float:
        """Return the smallest difference that its values can have, from the coefficients as decimals; 0 if unknown."""
        if self.shares is not None:
            return 0.0
        coefficients = np.unique(np.abs(np.concatenate([self.z, *(self.x or ()), *self.s.values()])))
        largest = float(coefficients.max(initial=0.0))
        for decimals in range(_DECIMALS + 1):
            scale = 10.0**decimals
            whole = np.rint(coefficients * scale)
            if largest * scale < _EXACT and np.array_equal(whole / scale, coefficients):
                return float(np.gcd.reduce(whole.astype(np.int64), initial=0)) / scale
        return 0.0

    def is_kept(self, value: float, than: float) -> bool:
        """Whether ``value`` is no worse ``than``."""
        slack = KEPT * max(1.0, abs(than))
        return self.sign * (value - than) >= -(min(slack, self.step / 2.0) if self.step else slack)

    def value(self, eligibility: Eligibility, candidates: list[Integers], placed: Mapping[int, Placement]) -> float:
        """Return the value of placements."""
        found = float(self.z[list(placed)].sum()) + self.constant
        if self.x is not None:
            for job, placement in placed.items():
                for number, chosen in zip(eligibility.numbers[job], placement, strict=True):
                    found += float(self.x[number][np.searchsorted(candidates[number], chosen)].sum())
        if self.s:
            in_use = {name: of.is_held.copy() for name, of in eligibility.types.items()}
            for job, placement in placed.items():
                for number, chosen in zip(eligibility.numbers[job], placement, strict=True):
                    in_use[eligibility.dependencies[number].of.type][chosen] = True
            found += sum(float(self.s[name][used].sum()) for name, used in in_use.items())
        if self.shares is not None:
            shares = _shares_of(self.shares, eligibility, placed)
            found += (
                _squares(shares)
                if self.is_squared
                else self.f * float(max(shares.max(initial=0.0), self.shares.others.max(initial=0.0)))
            )
        return found


def linear_forms(objective: Objective, eligibility: Eligibility, candidates: list[Integers]) -> list[LinearForm]:
    """Return ``objective`` over the batch (docs/use/definitions.md, Matching); after ``balance`` the squares of shares.

    The largest share alone does not decide the others if one resource is saturated.
    """
    jobs, name = eligibility.problem.jobs, objective.name
    nothing = np.zeros(len(jobs))
    weights = np.array([job.weight for job in jobs], dtype=np.float64)
    match "own" if objective.is_own else name:
        case "throughput":
            return [LinearForm(name, True, np.ones(len(jobs)))]
        case "priority":
            return [LinearForm(name, True, weights)]
        case "preferences" | "best-to-priority":
            each = weights if name == "best-to-priority" else np.ones(len(jobs))
            x = [
                values * each[at.job] / (at.of.count * len(jobs[at.job].dependencies))
                for at, values in zip(eligibility.dependencies, _preferences(eligibility, candidates), strict=True)
            ]
            return [LinearForm(name, True, nothing, x)]
        case "utilisation":
            x = [
                inverse_totals(of := eligibility.types[at.of.type])[positions] @ of.amounts[at.row]
                for at, positions in zip(eligibility.dependencies, candidates, strict=True)
            ]
            return [LinearForm(name, True, nothing, x)]
        case "fewest":
            s, constant = _in_use(Name("cost"), eligibility)
            return [LinearForm(name, False, nothing, s=s, constant=constant)]
        case "balance":
            shares = _shares(objective, eligibility)
            largest = LinearForm(name, False, nothing, f=1.0, shares=shares)
            others = _squares(shares.others)
            return [largest, replace(largest, name=f"{name} (squares)", is_squared=True, constant=others)]
    return [_own(objective, eligibility, candidates)]


def inverse_totals(of: ResourcesOfType) -> Floats:
    """Return 1 / total for each resource and kind, (R, K); 0 without one."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(of.total > _SMALLEST_TOTAL, 1.0 / of.total, 0.0)


def _shares_of(shares: Shares, eligibility: Eligibility, placed: Mapping[int, Placement]) -> Floats:
    """Return the used share of each balanced capacity that jobs ask for."""
    used = {name: of.used.copy() for name, of in eligibility.types.items()}
    for job, placement in placed.items():
        for number, chosen in zip(eligibility.numbers[job], placement, strict=True):
            at = eligibility.dependencies[number]
            used[at.of.type][chosen] += eligibility.types[at.of.type].amounts[at.row]
    return np.concatenate(
        [
            np.empty(0),
            *((used[name] * inverse_totals(of))[shares.counted[name]] for name, of in eligibility.types.items()),
        ]
    )


def _squares(shares: Floats) -> float:
    """Return the sum of piecewise linear squares; the last piece has no end."""
    pieces = np.arange(PIECES)
    widths = np.append(np.full(PIECES - 1, 1.0 / PIECES), np.inf)
    parts = np.clip(shares[:, None] - pieces / PIECES, 0.0, widths)
    return float((parts @ (2.0 * pieces + 1.0)).sum() / PIECES)


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


def _in_use(node: Node, eligibility: Eligibility) -> tuple[dict[str, Floats], float]:
    """Return the terms in S, and their sum over held resources of types that no job asks for."""
    resources = eligibility.problem.resources
    every = np.nan_to_num(ResourceColumns(resources).numbers(node))
    rest = [resource.is_held and resource.type not in eligibility.types for resource in resources]
    return {name: every[of.members] for name, of in eligibility.types.items()}, float(every[rest].sum())


def _shares(objective: Objective, eligibility: Eligibility) -> Shares:
    """Return the shares that count for F."""
    types = eligibility.types
    of_objective = [
        (objective.type is None or objective.type == resource.type)
        and (objective.resources is None or resource.name in objective.resources)
        for resource in eligibility.problem.resources
    ]
    counts = np.array(of_objective, dtype=np.bool_)
    others = [
        capacity.used / capacity.total
        for resource, is_counted in zip(eligibility.problem.resources, of_objective, strict=True)
        for kind, capacity in resource.capacities.items()
        if is_counted
        and capacity.total > _SMALLEST_TOTAL
        and (resource.type not in types or kind not in types[resource.type].kinds)
    ]
    counted = {name: counts[of.members][:, None] & (inverse_totals(of) > 0.0) for name, of in types.items()}
    return Shares(counted, np.array(others))


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
    s, constant = _in_use(nodes["S"], eligibility) if "S" in nodes else ({}, 0.0)
    shares = _shares(objective, eligibility) if objective.largest else None
    return LinearForm(objective.name, objective.is_max, z, x, s, objective.largest, shares, constant=constant)
