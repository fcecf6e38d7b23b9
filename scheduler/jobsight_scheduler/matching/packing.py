"""The rest of the resources while jobs are placed one by one, each whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from jobsight_predictor.arrays import Booleans, Floats, Integers
from jobsight_scheduler.matching.eligibility import Eligibility

Placement = tuple[Integers, ...]
"""Positions of the instances of each dependency of a job among the resources of their type."""

Score = Callable[[int, Integers], Floats] | None
"""Score of each given resource for a dependency (by its number in the batch): the lowest is tried first.

None is first fit: resources in the order of the batch.
"""


class Packing:
    """Free capacities of each type, less those of placed jobs; starts with ``placed`` as far as they fit together."""

    def __init__(
        self, eligibility: Eligibility, candidates: list[Integers], placed: Mapping[int, Placement] | None = None
    ) -> None:
        self.eligibility = eligibility
        self.candidates = candidates
        self.left: dict[str, Integers] = {name: of.free.T.copy() for name, of in eligibility.types.items()}
        """The rest of each type, (K, R)."""
        self.placed: dict[int, Placement] = {}
        self._numbers = eligibility.numbers
        self._asked = eligibility.asked
        self._left_of = [self.left[at.of.type] for at in eligibility.dependencies]
        for job, placement in (placed or {}).items():
            self.put(job, placement)

    def place(self, job: int, score: Score) -> bool:
        """Place a job on the resources with the lowest scores if it fits; otherwise change nothing."""
        numbers = self._numbers[job]
        order = sorted(range(len(numbers)), key=lambda index: len(self.candidates[numbers[index]]))
        found = self._in_turn(numbers, order, score)
        if found is None:
            return False
        self.placed[job] = found
        return True

    def put(self, job: int, placement: Placement) -> bool:
        """Place a job as given if it fits; otherwise change nothing."""
        for index, (number, chosen) in enumerate(zip(self._numbers[job], placement, strict=True)):
            if not self._fitting(number, chosen).all():
                for before in range(index):
                    self.give(self._numbers[job][before], placement[before])
                return False
            self.take(number, chosen)
        self.placed[job] = placement
        return True

    def remove(self, job: int) -> Placement:
        """Remove a placed job; return its placement."""
        placement = self.placed.pop(job)
        for number, chosen in zip(self._numbers[job], placement, strict=True):
            self.give(number, chosen)
        return placement

    def open_to(self, number: int) -> Integers:
        """Return the candidates of a dependency that have its amounts left."""
        candidates = self.candidates[number]
        fits: Integers = candidates[self._fitting(number, candidates)]
        return fits

    def _fitting(self, number: int, resources: Integers) -> Booleans:
        left = self._left_of[number]
        fits: Booleans | None = None
        for kind, need in self._asked[number]:
            enough = left[kind].take(resources) >= need
            fits = enough if fits is None else fits & enough
        return np.ones(len(resources), dtype=np.bool_) if fits is None else fits

    def take(self, number: int, chosen: Integers) -> None:
        """Subtract the amounts of a dependency from ``chosen``, which must have them."""
        self._add(number, chosen, -1)

    def give(self, number: int, chosen: Integers) -> None:
        """Undo ``take``."""
        self._add(number, chosen, 1)

    def _add(self, number: int, chosen: Integers, sign: int) -> None:
        for kind, need in self._asked[number]:
            self._left_of[number][kind, chosen] += sign * need

    def _in_turn(self, numbers: list[int], order: list[int], score: Score) -> Placement | None:
        found: list[Integers] = [_NONE] * len(numbers)
        for step, index in enumerate(order):
            number = numbers[index]
            fits, count = self.open_to(number), self.eligibility.dependencies[number].of.count
            if len(fits) < count:
                for before in order[:step]:
                    self.give(numbers[before], found[before])
                return None
            if score is None:
                found[index] = fits[:count]
            else:
                found[index] = fits[np.argsort(score(number, fits), kind="stable")[:count]]
            self.take(number, found[index])
        return tuple(found)


_NONE = np.empty(0, dtype=np.int64)
