"""E(j, d): which resources a dependency of a job may use, by type, predicates, policies and free capacity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .columns import ResourceColumns, bound_to
from .policies import verdict
from .problem import AttributeValue, Dependency, MatchJob, Problem, Relation
from .units import in_units

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ResourcesOfType:
    """Resources of one type: ``members`` (R,) are positions in the problem, ``kinds`` the names of capacities.

    ``free`` and ``idle`` (R, K) are integers, in the units of ``needs`` (one row a dependency of this type, in the
    order of the batch): free now, and free if nothing were used. Where a resource lacks a kind they are -1.
    """

    name: str
    members: Integers
    kinds: tuple[str, ...]
    columns: ResourceColumns
    free: Integers
    idle: Integers
    needs: Integers
    available: Flags


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
        of_type: dict[str, list[Dependency]] = {}
        for index, job in enumerate(problem.jobs):
            for dependency in job.dependencies:
                rows = of_type.setdefault(dependency.type, [])
                self.dependencies.append(DependencyAt(index, dependency, len(rows)))
                rows.append(dependency)
        members: dict[str, list[int]] = {}
        for position, resource in enumerate(problem.resources):
            members.setdefault(resource.type, []).append(position)
        self.types: dict[str, ResourcesOfType] = {
            name: _of_type(problem, name, members.get(name, []), rows) for name, rows in of_type.items()
        }
        self._verdicts: dict[tuple[str, str], tuple[Flags, Floats]] = {}
        self._codes: dict[AttributeValue, int] = {}
        self._keys_of: dict[tuple[str, str], Integers] = {}

    def satisfying(self, dependency: Dependency, job: MatchJob) -> Flags:
        """Which resources of its type satisfy the predicate, shape (R,)."""
        where = dependency.where
        return self.types[dependency.type].columns.satisfied(None if where is None else bound_to(where, job))

    def verdicts(self, of_type: str, job_class: str) -> tuple[Flags, Floats]:
        """Which resources policies allow to ``job_class``, and how much each is preferred, both (R,)."""
        key = (of_type, job_class)
        if key not in self._verdicts:
            resources = [self.problem.resources[position] for position in self.types[of_type].members]
            allowed, preference = np.ones(len(resources), dtype=np.bool_), np.ones(len(resources))
            for index, resource in enumerate(resources):
                if resource.policies:
                    shares = [min(1.0, cap.used / cap.total) for cap in resource.capacities.values() if cap.total]
                    found = verdict(
                        resource.policies,
                        job_class,
                        self.problem.hour,
                        resource.matches_running,
                        max(shares, default=0.0),
                    )
                    allowed[index], preference[index] = found.allowed, found.preference
            self._verdicts[key] = (allowed & self.types[of_type].available, preference)
        return self._verdicts[key]

    def fitting(self, at: DependencyAt, is_idle: bool = False) -> Flags:
        """Which resources of its type have the amounts, now or if nothing were used, shape (R,)."""
        of = self.types[at.of.type]
        return _fits(of.needs[at.row], of.idle if is_idle else of.free, of, at.of.amounts)

    def eligible(self, at: DependencyAt) -> Integers:
        """E(j, d): positions among the resources of its type."""
        job = self.problem.jobs[at.job]
        allowed, _ = self.verdicts(at.of.type, job.job_class)
        return np.flatnonzero(self.satisfying(at.of, job) & allowed & self.fitting(at))

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
        names = [self._names(of_type) for of_type in types]
        mine_names, other_names = names if is_first else reversed(names)
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
    needs = np.zeros((len(dependencies), len(kinds)), dtype=np.int64)
    counts = np.array([dependency.count for dependency in dependencies], dtype=np.int64)
    for column, kind in enumerate(kinds):
        has = np.array([kind in resource.capacities for resource in resources], dtype=np.bool_)
        capacities = [resource.capacities[kind] for resource in resources if kind in resource.capacities]
        totals = np.array([capacity.total for capacity in capacities], dtype=np.float64)
        used = np.array([capacity.used for capacity in capacities], dtype=np.float64)
        amounts = np.array([dependency.amounts.get(kind, 0.0) for dependency in dependencies], dtype=np.float64)
        # Free and total in one go, so that both are in the same unit.
        twice = in_units(amounts, np.concatenate((totals, totals)), np.concatenate((used, 0.0 * used)), counts)
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
        np.array([resource.unavailable is None for resource in resources], dtype=np.bool_),
    )


def _fits(needs: Integers, has: Integers, of: ResourcesOfType, amounts: Mapping[str, float]) -> Flags:
    if not of.kinds:
        return np.ones(len(of.members), dtype=np.bool_)
    asked = [column for column, kind in enumerate(of.kinds) if kind in amounts and needs[column] > 0]
    return np.asarray((has[:, asked] >= needs[asked]).all(axis=1))
