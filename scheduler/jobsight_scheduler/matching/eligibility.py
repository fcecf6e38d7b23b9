"""E(j, d): which resources a dependency of a job may use, by type, predicates, policies and free capacity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .columns import ResourceColumns, bound_to
from .problem import AttributeValue, Dependency, MatchJob, Problem, Relation
from .units import in_units

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ResourcesOfType:
    """Resources of one type: ``members`` (R,) are positions in the problem, ``kinds`` the names of capacities.

    ``free`` and ``idle`` (R, K) are integers, in the units of ``needs`` (one row a dependency of this type, in the
    order of the batch): free now, and free if nothing were used. Where a resource lacks a kind they are -1. ``total``
    and ``used`` (R, K) and ``amounts`` (one row a dependency) are as given, 0 where a resource lacks the kind.
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
    available: Flags
    is_held: Flags


@dataclass(frozen=True, slots=True)
class DependencyAt:
    """A dependency of the batch: of the job at ``job``, the ``row`` of its type's ``needs``."""

    job: int
    of: Dependency
    row: int


class Eligibility:
    """E(j, d) of a batch. What is asked of a predicate is found once for all dependencies that have it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.dependencies: list[DependencyAt] = []
        self.numbers: list[list[int]] = []
        """For each job the numbers of its dependencies."""
        self.rows: dict[str, list[int]] = {}
        """For each type the numbers of its dependencies, in the order of its ``needs``."""
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
        self._verdicts: dict[tuple[str, str], tuple[Flags, Floats]] = {}
        self._codes: dict[AttributeValue, int] = {}
        self._keys_of: dict[tuple[str, str], Integers] = {}

    def satisfying(self, dependency: Dependency, job: MatchJob) -> Flags:
        """Which resources of its type satisfy the predicate, shape (R,)."""
        where = dependency.predicate
        of = self.types[dependency.type]
        return np.ones(len(of.members), dtype=np.bool_) if where is None else of.columns.satisfied(bound_to(where, job))

    def verdicts(self, of_type: str, job_class: str) -> tuple[Flags, Floats]:
        """Which resources policies allow to ``job_class``, and how much each is preferred, both (R,)."""
        key = (of_type, job_class)
        if key not in self._verdicts:
            resources = [self.problem.resources[position] for position in self.types[of_type].members]
            allowed, preference = np.ones(len(resources), dtype=np.bool_), np.ones(len(resources))
            for index, resource in enumerate(resources):
                found = resource.preference(job_class, self.problem.hour)
                allowed[index], preference[index] = found is not None, found or 0.0
            self._verdicts[key] = (allowed & self.types[of_type].available, preference)
        return self._verdicts[key]

    def fitting(self, at: DependencyAt, is_idle: bool = False) -> Flags:
        """Which resources of its type have the amounts, now or if nothing were used, shape (R,)."""
        of = self.types[at.of.type]
        fits: Flags = _fits(of.needs[at.row : at.row + 1], of.idle if is_idle else of.free)[0]
        return fits

    def eligible(self) -> list[Integers]:
        """E(j, d) for each dependency of the batch: positions among the resources of its type, ascending."""
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
            positions = np.nonzero(mask)[1]
            ends = mask.sum(axis=1).cumsum()
            start = 0
            for number, end in zip(self.rows[name], ends.tolist(), strict=True):
                found[number] = positions[start:end]
                start = end
        return found

    def possible(self, candidates: list[Integers]) -> Flags:
        """Which jobs have enough candidates for each dependency, shape (jobs,)."""
        found = np.ones(len(self.numbers), dtype=np.bool_)
        for at, positions in zip(self.dependencies, candidates, strict=True):
            found[at.job] &= len(positions) >= at.of.count
        return found

    def related(
        self, relation: Relation, first: int, second: int, resources: Integers, chosen: int, is_first: bool
    ) -> Flags:
        """Which of ``resources`` are related to ``chosen``.

        ``first`` and ``second`` are the numbers of the dependencies that ``relation`` is between. ``resources`` are of
        the first where ``is_first``, and ``chosen`` is of the second; otherwise the other way round.
        """
        types = [self.dependencies[number].of.type for number in (first, second)]
        if relation.same is not None:
            keys = [self._keys(of_type, relation.same) for of_type in types]
            mine, other = keys if is_first else reversed(keys)
            related: Flags = (mine[resources] == other[chosen]) & (mine[resources] >= 0)
            return related
        mine_names, other_names = map(self._names, types if is_first else reversed(types))
        pairs, to = relation.pairs or frozenset(), other_names[chosen]
        return np.array(
            [((mine_names[one], to) if is_first else (to, mine_names[one])) in pairs for one in resources.tolist()],
            dtype=np.bool_,
        )

    def _keys(self, of_type: str, attribute: str) -> Integers:
        """Equal numbers for equal values of an attribute, in all types; -1 where it is missing."""
        if (of_type, attribute) not in self._keys_of:
            members = self.types[of_type].members
            values = [self.problem.resources[position].attributes.get(attribute) for position in members]
            self._keys_of[of_type, attribute] = np.array(
                [-1 if value is None else self._codes.setdefault(value, len(self._codes)) for value in values],
                dtype=np.int64,
            )
        return self._keys_of[of_type, attribute]

    def _names(self, of_type: str) -> list[str]:
        return [self.problem.resources[position].name for position in self.types[of_type].members]


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
        # Free and idle in one go, so that both are in the same unit.
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
        np.array([resource.is_held for resource in resources], dtype=np.bool_),
    )


def _fits(needs: Integers, has: Integers) -> Flags:
    """For each row of ``needs`` (D, K) which rows of ``has`` (R, K) have it, shape (D, R); of 0 all have enough."""
    found = np.ones((len(needs), len(has)), dtype=np.bool_)
    for column in range(needs.shape[1]):
        asked = np.where(needs[:, column] == 0, -1, needs[:, column])
        found &= has[:, column] >= asked[:, None]
    return found
