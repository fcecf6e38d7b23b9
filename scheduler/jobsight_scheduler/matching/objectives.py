"""The objectives as linear forms in Z (a job is matched), X (an instance serves a dependency), S (a resource is used),
F (the largest share used)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .columns import ResourceColumns, bound_to
from .eligibility import Eligibility, ResourcesOfType
from .predicates import Node
from .problem import Objective, Preference, Resource, ValueOrder
from .value_order import ranks

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_NO_RESOURCE = Resource("", "")


@dataclass(frozen=True, slots=True)
class LinearForm:
    """Coefficients of Z, X, S and F.

    ``z`` (jobs,), ``x`` for each dependency aligned to its candidates, None where all are 0, ``s`` for each type (R,),
    and ``f``. ``balanced`` says which resources of each type count for F.
    """

    is_max: bool
    z: Floats
    x: list[Floats] | None = None
    s: dict[str, Floats] = field(default_factory=dict)
    f: float = 0.0
    balanced: dict[str, Flags] = field(default_factory=dict)

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
    match objective.kind:
        case "throughput":
            return LinearForm(True, np.ones(len(jobs)))
        case "priority":
            return LinearForm(True, np.array([job.priority for job in jobs], dtype=np.float64))
        case "preferences" | "best-to-priority":
            by_priority = objective.kind == "best-to-priority"
            x = [
                values
                * (jobs[at.job].priority if by_priority else 1.0)
                / (at.of.count * len(jobs[at.job].dependencies))
                for at, values in zip(eligibility.dependencies, preferences(eligibility, candidates), strict=True)
            ]
            return LinearForm(True, nothing, x)
        case "utilisation":
            return LinearForm(True, nothing, utilisation(eligibility, candidates))
        case "fewest":
            return LinearForm(
                False, nothing, s=_per_resource(eligibility, [r.cost for r in eligibility.problem.resources])
            )
        case "balance":
            return LinearForm(False, nothing, f=1.0, balanced=_balanced(objective, eligibility))
    return _own(objective, eligibility, candidates)


def preferences(eligibility: Eligibility, candidates: list[Integers]) -> list[Floats]:
    """How much each dependency prefers each candidate, 0 to 1.

    That is the expression over E(j, d), scaled from its lowest to its highest value, 1 where all are equal, times the
    preference of the resource's policy. A candidate without a value has 0.
    """
    found = []
    raw: dict[tuple[str, Preference], Floats] = {}
    for at, positions in zip(eligibility.dependencies, candidates, strict=True):
        of = eligibility.types[at.of.type]
        job = eligibility.problem.jobs[at.job]
        if at.of.prefer is None:
            scaled = np.ones(len(positions))
        else:
            key = (at.of.type, _bound(at.of.prefer, eligibility, at.job))
            if key not in raw:
                raw[key] = _values(key[1], eligibility, at.of.type)
            scaled = _scaled(raw[key][positions])
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
        return np.where(of.total > 1e-300, 1.0 / of.total, 0.0)


def _bound(preference: Preference, eligibility: Eligibility, job: int) -> Preference:
    if isinstance(preference.by, ValueOrder):
        return preference
    return Preference(bound_to(preference.by, eligibility.problem.jobs[job]), preference.is_lowest)


def _values(preference: Preference, eligibility: Eligibility, of_type: str) -> Floats:
    columns = eligibility.types[of_type].columns
    if isinstance(preference.by, ValueOrder):
        rank = ranks(preference.by)
        given = columns.values(preference.by.attribute)
        return np.array([np.nan if isinstance(value, tuple) else rank.get(value, np.nan) for value in given])
    values = columns.numbers(preference.by)
    return -values if preference.is_lowest else values


def _scaled(values: Floats) -> Floats:
    known = ~np.isnan(values)
    if not known.any():
        return np.ones(len(values))
    low, high = values[known].min(), values[known].max()
    if low == high:
        return known.astype(np.float64)
    span = high / 2.0 - low / 2.0  # of numbers near the largest, the difference would overflow
    return np.where(known, np.clip((values / 2.0 - low / 2.0) / span, 0.0, 1.0), 0.0)


def _per_resource(eligibility: Eligibility, values: list[float]) -> dict[str, Floats]:
    every = np.array(values, dtype=np.float64)
    return {name: every[of.members] for name, of in eligibility.types.items()}


def _balanced(objective: Objective, eligibility: Eligibility) -> dict[str, Flags]:
    resources = eligibility.problem.resources
    return {
        name: np.array(
            [
                (objective.type is None or objective.type == name)
                and (objective.resources is None or resources[member].name in objective.resources)
                for member in of.members
            ],
            dtype=np.bool_,
        )
        for name, of in eligibility.types.items()
    }


def _own(objective: Objective, eligibility: Eligibility, candidates: list[Integers]) -> LinearForm:
    """Where a coefficient has no value, it is 0."""
    jobs = eligibility.problem.jobs
    nodes = objective.coefficients
    z = np.zeros(len(jobs))
    if "Z" in nodes:
        z = np.array([_of_job(bound_to(nodes["Z"], job)) for job in jobs])
    x = None
    if "X" in nodes:
        x = [
            np.nan_to_num(eligibility.types[at.of.type].columns.numbers(bound_to(nodes["X"], jobs[at.job]))[positions])
            for at, positions in zip(eligibility.dependencies, candidates, strict=True)
        ]
    s: dict[str, Floats] = {}
    if "S" in nodes:
        s = {name: np.nan_to_num(of.columns.numbers(nodes["S"])) for name, of in eligibility.types.items()}
    f = _of_job(nodes["F"]) if "F" in nodes else 0.0
    balanced = _balanced(objective, eligibility) if f else {}
    return LinearForm(objective.is_max, z, x, s, f, balanced=balanced)


def _of_job(node: Node) -> float:
    """The value of an expression that reads no field of a resource; 0 where it has none."""
    return float(np.nan_to_num(ResourceColumns([_NO_RESOURCE]).numbers(node)[0]))
