"""What is left of the resources while jobs are placed one by one, each whole or not at all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .eligibility import Eligibility
from .problem import Relation

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

Placement = tuple[Integers, ...]
"""For each dependency of a job the positions of its instances among the resources of their type."""

Score = Callable[[int, Integers], Floats]
"""How little a dependency (by its number in the batch) wants each of the given resources: the lowest is tried first."""

TRIES = 200
"""Nodes of the search for a job with relations; beyond them it counts as not placed."""


class Packing:
    """Free capacities of each type, reduced by the jobs that are placed."""

    def __init__(self, eligibility: Eligibility, candidates: list[Integers]) -> None:
        self.eligibility = eligibility
        self.candidates = candidates
        self.left = {name: of.free.copy() for name, of in eligibility.types.items()}
        self.placed: dict[int, Placement] = {}
        self._numbers: list[list[int]] = [[] for _ in eligibility.problem.jobs]
        self._needs: list[Integers] = []
        self._asked: list[Integers] = []
        for number, at in enumerate(eligibility.dependencies):
            self._numbers[at.job].append(number)
            needs = eligibility.types[at.of.type].needs[at.row]
            self._needs.append(needs)
            self._asked.append(np.flatnonzero(needs))

    def dependencies_of(self, job: int) -> list[int]:
        """The numbers of the dependencies of the job at position ``job``."""
        return self._numbers[job]

    def place(self, job: int, score: Score) -> bool:
        """Places a job on the resources with the lowest scores, if it fits; otherwise nothing is changed."""
        numbers = self._numbers[job]
        relations = self.eligibility.problem.jobs[job].relations
        order = sorted(range(len(numbers)), key=lambda index: len(self.candidates[numbers[index]]))
        found = self._search(job, order, relations, score) if relations else self._in_turn(numbers, order, score)
        if found is None:
            return False
        self.placed[job] = found
        return True

    def put(self, job: int, placement: Placement) -> bool:
        """Places a job as given, if it fits; otherwise nothing is changed."""
        for index, (number, chosen) in enumerate(zip(self._numbers[job], placement, strict=True)):
            if not self._fitting(number, chosen).all():
                for before in range(index):
                    self._give(self._numbers[job][before], placement[before])
                return False
            self._take(number, chosen)
        self.placed[job] = placement
        return True

    def remove(self, job: int) -> Placement:
        """Takes a placed job away; where it was."""
        placement = self.placed.pop(job)
        for number, chosen in zip(self._numbers[job], placement, strict=True):
            self._give(number, chosen)
        return placement

    def open_to(self, number: int) -> Integers:
        """The candidates of a dependency that have its amounts left."""
        candidates = self.candidates[number]
        fits: Integers = candidates[self._fitting(number, candidates)]
        return fits

    def _fitting(self, number: int, resources: Integers) -> Flags:
        asked = self._asked[number]
        left = self.left[self.eligibility.dependencies[number].of.type]
        if len(asked) == 1:
            return np.asarray(left[resources, asked[0]] >= self._needs[number][asked[0]])
        return np.asarray((left[resources[:, None], asked] >= self._needs[number][asked]).all(axis=1))

    def _take(self, number: int, chosen: Integers) -> None:
        asked = self._asked[number]
        left = self.left[self.eligibility.dependencies[number].of.type]
        left[chosen[:, None], asked] -= self._needs[number][asked]

    def _give(self, number: int, chosen: Integers) -> None:
        asked = self._asked[number]
        left = self.left[self.eligibility.dependencies[number].of.type]
        left[chosen[:, None], asked] += self._needs[number][asked]

    def _in_turn(self, numbers: list[int], order: list[int], score: Score) -> Placement | None:
        found: list[Integers] = [_NONE] * len(numbers)
        for step, index in enumerate(order):
            number = numbers[index]
            fits, count = self.open_to(number), self.eligibility.dependencies[number].of.count
            if len(fits) < count:
                for before in order[:step]:
                    self._give(numbers[before], found[before])
                return None
            scores = score(number, fits)
            best = [int(scores.argmin())] if count == 1 else np.argsort(scores, kind="stable")[:count]
            found[index] = fits[best]
            self._take(number, found[index])
        return tuple(found)

    def _search(self, job: int, order: list[int], relations: tuple[Relation, ...], score: Score) -> Placement | None:
        """Depth first, best score first; each instance of a dependency is a level of its own."""
        numbers = self._numbers[job]
        names = {self.eligibility.dependencies[number].of.name: index for index, number in enumerate(numbers)}
        related: dict[int, list[tuple[int, Relation, bool]]] = {}
        for relation in relations:
            first, second = names[relation.first], names[relation.second]
            related.setdefault(first, []).append((second, relation, True))
            related.setdefault(second, []).append((first, relation, False))
        levels = [index for index in order for _ in range(self.eligibility.dependencies[numbers[index]].of.count)]
        found: list[list[int]] = [[] for _ in numbers]
        tries = max(TRIES, 4 * len(levels))

        def allowed(index: int) -> Integers:
            fits = self.open_to(numbers[index])
            fits = fits[~np.isin(fits, found[index])] if found[index] else fits
            for other, relation, is_first in related.get(index, ()):
                for chosen in found[other]:
                    ends = (numbers[index], numbers[other]) if is_first else (numbers[other], numbers[index])
                    keep = self.eligibility.related(relation, *ends, fits, chosen, is_first)
                    fits = fits[keep]
            return fits

        def descend(level: int) -> bool:
            nonlocal tries
            if level == len(levels):
                return True
            index = levels[level]
            fits = allowed(index)
            for choice in fits[np.argsort(score(numbers[index], fits), kind="stable")].tolist():
                tries -= 1
                if tries < 0:
                    return False
                chosen = np.array([choice], dtype=np.int64)
                self._take(numbers[index], chosen)
                found[index].append(choice)
                if descend(level + 1):
                    return True
                found[index].pop()
                self._give(numbers[index], chosen)
            return False

        return tuple(np.array(chosen, dtype=np.int64) for chosen in found) if descend(0) else None


_NONE = np.empty(0, dtype=np.int64)
