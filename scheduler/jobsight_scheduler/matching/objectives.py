"""The objectives as linear forms in Z (a job is matched), X (an instance serves a dependency), S (a resource is used),
F (the largest share used)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from .columns import ResourceColumns, bound_to
from .eligibility import Eligibility, ResourcesOfType
from .predicates import Name, Node
from .problem import Dependency, MatchJob, Objective, Resource, ValueOrder

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SMALLEST_TOTAL = 1e-300
"""A capacity with less has no share."""

_NO_RESOURCE = Resource("", "")


@dataclass(frozen=True, slots=True)
class LinearForm:
    """Coefficients of Z, X, S and F.

    ``z`` (jobs,), ``x`` for each dependency aligned to its candidates, None where all are 0, ``s`` for each type (R,),
    and ``f``. ``balanced`` says which resources of each type count for F, ``others`` are the shares in use of balanced
    capacities that no job asks for. ``constant`` is what S adds for held resources that no job asks for.
    """

    is_max: bool
    z: Floats
    x: list[Floats] | None = None
    s: dict[str, Floats] = field(default_factory=dict)
    f: float = 0.0
    balanced: dict[str, Flags] = field(default_factory=dict)
    others: Floats = field(default_factory=lambda: np.empty(0))
    constant: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Whether every value that it can have is a whole number."""
        return self.x is None and not self.s and not self.f and bool((self.z == np.rint(self.z)).all())

    @property
    def costs_only(self) -> bool:
        """Whether it is minimised and every match can only add to it."""
        terms = [self.z, *(self.x or ()), *self.s.values(), np.array([self.f])]
        return not self.is_max and all(bool((term >= 0.0).all()) for term in terms)


def linear_form(objective: Objective, eligibility: Eligibility, candidates: list[Integers]) -> LinearForm:
    """``objective`` over the batch (docs/definitions.md, Matching)."""
    jobs = eligibility.problem.jobs
    nothing = np.zeros(len(jobs))
    match "own" if objective.is_own else objective.name:
        case "throughput":
            return LinearForm(True, np.ones(len(jobs)))
        case "priority":
            return LinearForm(True, np.array([job.weight for job in jobs], dtype=np.float64))
        case "preferences" | "best-to-priority":
            by_priority = objective.name == "best-to-priority"
            x = [
                values * (jobs[at.job].weight if by_priority else 1.0) / (at.of.count * len(jobs[at.job].dependencies))
                for at, values in zip(eligibility.dependencies, preferences(eligibility, candidates), strict=True)
            ]
            return LinearForm(True, nothing, x)
        case "utilisation":
            return LinearForm(True, nothing, utilisation(eligibility, candidates))
        case "fewest":
            return LinearForm(False, nothing, **_in_use(Name("cost"), eligibility))
        case "balance":
            return LinearForm(False, nothing, f=1.0, **_shares(objective, eligibility))
    return _own(objective, eligibility, candidates)


def preferences(eligibility: Eligibility, candidates: list[Integers]) -> list[Floats]:
    """How much each dependency prefers each candidate, 0 to 1.

    That is the expression over E(j, d), scaled from its lowest to its highest value, 1 where all are equal, times the
    preference of the resource's policy. A candidate without a value has 0.
    """
    found = []
    for at, positions in zip(eligibility.dependencies, candidates, strict=True):
        of = eligibility.types[at.of.type]
        job = eligibility.problem.jobs[at.job]
        if at.of.prefer is None:
            scaled = np.ones(len(positions))
        else:
            scaled = _scaled(_values(at.of, job, of.columns)[positions])
        _, policy = eligibility.verdicts(of.name, job.job_class)
        found.append(scaled * policy[positions])
    return found


def utilisation(eligibility: Eligibility, candidates: list[Integers]) -> list[Floats]:
    """For each dependency and candidate the sum of amount / total over capacities."""
    inverse = {name: inverse_totals(of) for name, of in eligibility.types.items()}
    return [
        inverse[at.of.type][positions] @ eligibility.types[at.of.type].amounts[at.row]
        for at, positions in zip(eligibility.dependencies, candidates, strict=True)
    ]


def inverse_totals(of: ResourcesOfType) -> Floats:
    """1 / total for each resource and kind, (R, K); 0 where there is none."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(of.total > SMALLEST_TOTAL, 1.0 / of.total, 0.0)


def _values(dependency: Dependency, job: MatchJob, columns: ResourceColumns) -> Floats:
    if isinstance(dependency.prefer, ValueOrder):
        rank = dependency.prefer.ranks()
        given = columns.values(dependency.prefer.attribute)
        return np.array([np.nan if isinstance(value, tuple) else rank.get(value, np.nan) for value in given])
    node, is_lowest = dependency.preferred or (Name("cost"), False)
    values = columns.numbers(bound_to(node, job))
    return -values if is_lowest else values


def _scaled(values: Floats) -> Floats:
    known = ~np.isnan(values)
    if not known.any():
        return np.ones(len(values))
    low, high = values[known].min(), values[known].max()
    if low == high:
        return known.astype(np.float64)
    span = high / 2.0 - low / 2.0  # of numbers near the largest, the difference would overflow
    return np.where(known, np.clip((values / 2.0 - low / 2.0) / span, 0.0, 1.0), 0.0)


class _InUse(TypedDict):
    s: dict[str, Floats]
    constant: float


class _Shares(TypedDict):
    balanced: dict[str, Flags]
    others: Floats


def _in_use(node: Node, eligibility: Eligibility) -> _InUse:
    """The terms in S."""
    resources = eligibility.problem.resources
    every = np.nan_to_num(ResourceColumns(resources).numbers(node))
    is_asked = np.array([resource.type in eligibility.types for resource in resources], dtype=np.bool_)
    is_held = np.array([resource.is_held for resource in resources], dtype=np.bool_)
    return {
        "s": {name: every[of.members] for name, of in eligibility.types.items()},
        "constant": float(every[is_held & ~is_asked].sum()),
    }


def _shares(objective: Objective, eligibility: Eligibility) -> _Shares:
    """What counts for F."""
    resources, types = eligibility.problem.resources, eligibility.types

    def counts(resource: Resource) -> bool:
        return (objective.type is None or objective.type == resource.type) and (
            objective.resources is None or resource.name in objective.resources
        )

    return {
        "balanced": {
            name: np.array([counts(resources[member]) for member in of.members], dtype=np.bool_)
            for name, of in types.items()
        },
        "others": np.array(
            [
                capacity.used / capacity.total
                for resource in resources
                if counts(resource)
                for kind, capacity in resource.capacities.items()
                if capacity.total > SMALLEST_TOTAL
                and (resource.type not in types or kind not in types[resource.type].kinds)
            ]
        ),
    }


def _own(objective: Objective, eligibility: Eligibility, candidates: list[Integers]) -> LinearForm:
    """Where a coefficient has no value, it is 0."""
    jobs = eligibility.problem.jobs
    nodes = objective.coefficients
    z = np.zeros(len(jobs))
    if "Z" in nodes:
        z = np.array([constant_of(bound_to(nodes["Z"], job)) for job in jobs])
    x = None
    if "X" in nodes:
        x = [
            np.nan_to_num(eligibility.types[at.of.type].columns.numbers(bound_to(nodes["X"], jobs[at.job]))[positions])
            for at, positions in zip(eligibility.dependencies, candidates, strict=True)
        ]
    in_use: _InUse = _in_use(nodes["S"], eligibility) if "S" in nodes else {"s": {}, "constant": 0.0}
    f = constant_of(nodes["F"]) if "F" in nodes else 0.0
    shares: _Shares = _shares(objective, eligibility) if f else {"balanced": {}, "others": np.empty(0)}
    return LinearForm(objective.is_max, z, x, f=f, **in_use, **shares)


def constant_of(node: Node) -> float:
    """The value of an expression that reads no field of a resource; 0 where it has none."""
    return float(np.nan_to_num(ResourceColumns([_NO_RESOURCE]).numbers(node)[0]))
