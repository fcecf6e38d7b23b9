"""E(j, d): the resources that a dependency of a job may use, by type, predicates, policies and free capacity."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import msgspec
import numpy as np

from jobsight_predictor.arrays import Booleans, Floats, Integers
from jobsight_scheduler.matching.columns import ResourceColumns, bound_to
from jobsight_scheduler.matching.predicates import Node, names_in
from jobsight_scheduler.matching.problem import Dependency, MatchJob, Problem

_BITS, _DIGITS = 61, 15
_LARGEST = 2.0**_BITS
_ROUNDING = 2.0**-52


def in_units(amounts: Floats, totals: Floats, used: Floats, counts: Integers) -> tuple[Integers, Integers]:
    """Convert ``amounts`` of ``counts`` instances each and the free capacities (``totals - used``) to integers.

    A capacity above the sum of all amounts becomes that sum. The unit is the power of ten in which the other capacities
    and the amounts are written: 0.1 + 0.2 fits into 0.3. Where an integer has no room for that (17 digits), it is
    the power of two of which the largest has 2^61. This rounds amounts down and capacities up: every fit is found, and
    check.py withdraws a match that exceeds a capacity by less. An amount above all these capacities becomes more than
    the largest of them.
    """
    used = np.minimum(used, totals)
    left = totals - used
    is_ample = left > float((amounts * counts).sum()) * (1.0 + 1e-9)
    totals, used, left = totals[~is_ample], used[~is_ample], left[~is_ample]
    asked = np.minimum(amounts, np.ceil(totals.max(initial=0.0)) * 2.0 + 1.0)
    wanted = float((asked * counts).sum())
    most = wanted if is_ample.any() else min(wanted, float(totals.max(initial=0.0)))
    if (decimals := _decimals(np.concatenate((asked, totals, used)), most)) is not None:
        needs, whole, taken = np.split(decimals, (len(asked), len(asked) + len(totals)))
        some = whole - taken
    else:
        unit = 2.0 ** (np.ceil(np.log2(max(most, 1e-290))) - _BITS)
        # 0 means not requested: tiny amounts become 1, and capacities grow by as much.
        more = int(counts[(asked > 0.0) & (asked < unit)].sum()) + 1
        needs = np.maximum(_whole(asked, unit), asked > 0.0)
        some = np.where(left > 0.0, _whole(left + _ROUNDING * (totals + used), unit) + more, 0)
    free = np.full(len(is_ample), int((needs * counts).sum()) if is_ample.any() else 0)
    free[~is_ample] = some
    return np.minimum(needs, free.max(initial=0) + 1), free


def _whole(values: Floats, unit: float) -> Integers:
    with np.errstate(over="ignore"):
        return np.floor(np.minimum(values / unit, _LARGEST)).astype(np.int64)


def _decimals(values: Floats, most: float) -> Integers | None:
    """Return ``values`` in the power of ten that they are written in; None if an integer has no room for ``most``."""
    unique, at = np.unique(values, return_inverse=True)
    digits = Decimal(max(most, float(unique.max(initial=0.0)))).adjusted() + 1
    written: list[Decimal] = []
    places = 0
    for value in unique.tolist():
        written.append(Decimal(repr(value)).normalize())
        places = max(places, -int(written[-1].as_tuple().exponent))
        if digits + places > _DIGITS:
            return None
    return np.array([int(value.scaleb(places)) for value in written], dtype=np.int64)[at]


def job_classes(problem: Problem, is_counted: bool = True) -> list[list[int]]:
    """Group the positions of jobs that differ in name only; each class in the order of the batch.

    Fields that none of their expressions reads, nor an objective, may differ; so may their weights, unless
    ``is_counted``.
    """
    read = _job_fields(node for objective in problem.objectives for node in objective.coefficients.values())
    found: dict[Hashable, list[int]] = {}
    for index, job in enumerate(problem.jobs):
        found.setdefault((_key(job, read), job.weight if is_counted else 0.0), []).append(index)
    return list(found.values())


def _key(job: MatchJob, read: frozenset[str]) -> Hashable:
    expressions = [node for of in job.dependencies for node in (of.predicate, of.preferred) if node]
    values = {
        "job.name": job.name,
        "job.user": job.user,
        "job.priority": job.priority,
        "job.duration_s": job.duration_s,
    }
    fields = read | _job_fields(expressions)
    # Dependencies with their names, which appear in reasons.
    dependencies = msgspec.json.encode(job.dependencies, order="sorted")
    return job.job_class, dependencies, *(value for name, value in values.items() if name in fields)


def _job_fields(nodes: Iterable[Node]) -> frozenset[str]:
    return frozenset(name for node in nodes for name in names_in(node) if name.startswith("job."))


@dataclass(frozen=True, slots=True)
class ResourcesOfType:
    """Resources of one type: ``members`` (R,) are positions in the problem, ``kinds`` the names of capacities.

    ``free`` and ``idle`` (R, K) are integers, in the units of ``needs`` (one row per dependency of this type, in
    the order of the batch): free now, and free without any use. Where a resource lacks a kind they are -1. ``total``
    and ``used`` (R, K) and ``amounts`` (one row per dependency) are as given, 0 where a resource lacks the kind.
    """

    name: str
    members: Integers
    kinds: tuple[str, ...]
    columns: ResourceColumns
    free: Integers
    idle: Integers
    needs: Integers
    total: Floats
    used: Floats
    amounts: Floats
    available: Booleans


@dataclass(frozen=True, slots=True)
class DependencyAt:
    """A dependency of the batch: of the job at ``job``, the ``row`` of its type's ``needs``."""

    job: int
    of: Dependency
    row: int


class Eligibility:
    """E(j, d) of a batch. Each predicate is evaluated once for all dependencies that have it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.dependencies: list[DependencyAt] = []
        self.numbers: list[list[int]] = []
        """Numbers of each job's dependencies."""
        self.rows: dict[str, list[int]] = {}
        """Numbers of each type's dependencies, in the order of its ``needs``."""
        for index, job in enumerate(problem.jobs):
            first = len(self.dependencies)
            self.numbers.append(list(range(first, first + len(job.dependencies))))
            for dependency in job.dependencies:
                rows = self.rows.setdefault(dependency.type, [])
                rows.append(len(self.dependencies))
                self.dependencies.append(DependencyAt(index, dependency, len(rows) - 1))
        members: dict[str, list[int]] = {}
        for position, resource in enumerate(problem.resources):
            members.setdefault(resource.type, []).append(position)
        self.types: dict[str, ResourcesOfType] = {
            name: _of_type(problem, name, members.get(name, []), [self.dependencies[number].of for number in rows])
            for name, rows in self.rows.items()
        }
        self._verdicts: dict[tuple[str, str], tuple[Booleans, Floats]] = {}

    def satisfying(self, dependency: Dependency, job: MatchJob) -> Booleans:
        """Return which resources of its type satisfy the predicate, shape (R,)."""
        where = dependency.predicate
        of = self.types[dependency.type]
        return np.ones(len(of.members), dtype=np.bool_) if where is None else of.columns.satisfied(bound_to(where, job))

    def verdicts(self, of_type: str, job_class: str) -> tuple[Booleans, Floats]:
        """Return which resources policies allow to ``job_class``, and the preference of each, both (R,)."""
        key = (of_type, job_class)
        if key not in self._verdicts:
            resources = [self.problem.resources[position] for position in self.types[of_type].members]
            allowed, preference = np.ones(len(resources), dtype=np.bool_), np.ones(len(resources))
            for index, resource in enumerate(resources):
                found = resource.preference(job_class, self.problem.hour)
                allowed[index], preference[index] = found is not None, found or 0.0
            self._verdicts[key] = (allowed & self.types[of_type].available, preference)
        return self._verdicts[key]

    def fitting(self, at: DependencyAt, is_idle: bool = False) -> Booleans:
        """Return which resources of its type have the amounts, now or without any use, shape (R,)."""
        of = self.types[at.of.type]
        fits: Booleans = _fits(of.needs[at.row : at.row + 1], of.idle if is_idle else of.free)[0]
        return fits

    def eligible(self) -> list[Integers]:
        """Return E(j, d) for each dependency of the batch: positions among the resources of its type, ascending."""
        found: list[Integers] = [np.empty(0, dtype=np.int64)] * len(self.dependencies)
        for name, of in self.types.items():
            mask = _fits(of.needs, of.free)
            for row, number in enumerate(self.rows[name]):
                at = self.dependencies[number]
                job = self.problem.jobs[at.job]
                if at.of.where:
                    mask[row] &= self.satisfying(at.of, job)
                allowed, _ = self.verdicts(name, job.job_class)
                mask[row] &= allowed
            ends = mask.sum(axis=1).cumsum()[:-1]
            for number, positions in zip(self.rows[name], np.split(np.nonzero(mask)[1], ends), strict=True):
                found[number] = positions
        return found

    def possible(self, candidates: list[Integers]) -> Booleans:
        """Return which jobs have enough candidates for each dependency, shape (jobs,)."""
        found = np.ones(len(self.numbers), dtype=np.bool_)
        for at, positions in zip(self.dependencies, candidates, strict=True):
            found[at.job] &= len(positions) >= at.of.count
        return found

    def placement(self, job: int, resources: Mapping[str, Sequence[str]]) -> tuple[Integers, ...]:
        """Convert names of resources by dependency to positions among those of their types."""
        return tuple(
            np.array([self._positions[name] for name in resources[self.dependencies[number].of.name]], dtype=np.int64)
            for number in self.numbers[job]
        )

    @cached_property
    def asked(self) -> list[list[tuple[int, int]]]:
        """The kinds that each dependency of the batch needs, and how much of each."""
        return [
            [(kind, need) for kind, need in enumerate(self.types[at.of.type].needs[at.row].tolist()) if need]
            for at in self.dependencies
        ]

    @cached_property
    def _positions(self) -> dict[str, int]:
        resources = self.problem.resources
        return {
            resources[member].name: position
            for of in self.types.values()
            for position, member in enumerate(of.members.tolist())
        }


def _of_type(problem: Problem, name: str, positions: list[int], dependencies: list[Dependency]) -> ResourcesOfType:
    resources = [problem.resources[position] for position in positions]
    kinds = tuple(dict.fromkeys(kind for dependency in dependencies for kind in dependency.amounts))
    shape = (len(resources), len(kinds))
    free, idle = np.full(shape, -1, dtype=np.int64), np.full(shape, -1, dtype=np.int64)
    total, used, amounts = np.zeros(shape), np.zeros(shape), np.zeros((len(dependencies), len(kinds)))
    needs = np.zeros((len(dependencies), len(kinds)), dtype=np.int64)
    counts = np.array([dependency.count for dependency in dependencies], dtype=np.int64)
    for column, kind in enumerate(kinds):
        has = np.array([kind in resource.capacities for resource in resources], dtype=np.bool_)
        capacities = [resource.capacities[kind] for resource in resources if kind in resource.capacities]
        total[has, column] = [capacity.total for capacity in capacities]
        used[has, column] = [capacity.used for capacity in capacities]
        amounts[:, column] = [dependency.amounts.get(kind, 0.0) for dependency in dependencies]
        # Free and idle together, so that both are in the same unit.
        totals, taken = total[has, column], used[has, column]
        twice = in_units(
            amounts[:, column], np.concatenate((totals, totals)), np.concatenate((taken, 0.0 * taken)), counts
        )
        needs[:, column] = twice[0]
        free[has, column], idle[has, column] = twice[1][: len(totals)], twice[1][len(totals) :]
    return ResourcesOfType(
        name,
        np.array(positions, dtype=np.int64),
        kinds,
        ResourceColumns(resources),
        free,
        idle,
        needs,
        total,
        used,
        amounts,
        np.array([resource.unavailable is None for resource in resources], dtype=np.bool_),
    )


def _fits(needs: Integers, has: Integers) -> Booleans:
    """Return for each row of ``needs`` (D, K) which rows of ``has`` (R, K) suffice, shape (D, R); for 0, all do."""
    found = np.ones((len(needs), len(has)), dtype=np.bool_)
    for column in range(needs.shape[1]):
        asked = np.where(needs[:, column] == 0, -1, needs[:, column])
        found &= has[:, column] >= asked[:, None]
    return found
