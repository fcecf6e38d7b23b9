"""Whether dependencies of one type fit on its resources all at once: a depth-first search that also proves that not.

What is left of all capacities is one whole number: a field for each resource and kind, each below a guard bit that is
cleared where more is taken than there is. So one subtraction and one comparison place an instance. Two bounds cut the
search: what is left of a resource beyond the largest sum that the instances to come can make of it is lost, and there
is only so much to lose; and the prices of all capacities pay for what is lost and for what costs more than elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .eligibility import ResourcesOfType
from .fillings import bound, fields_of

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

TOLERANCE = 1e-7
"""By which sums of prices may be wrong, as a share of them."""

_INSTANCES_AT_MOST = 300
"""Each is a level of the recursion."""

_STEPS_A_LOOK = 500
"""Steps between two looks at the clock."""

_Option = tuple[int, int, float]
"""A resource, what an instance needs of it (packed), what it costs there beyond the least."""


class UndecidedError(Exception):
    """The search came to its limit."""


class ExactFit:
    """One type, with ``candidates`` and ``counts`` of its dependencies and ``prices`` (R, K) of whole capacities.

    ``costs`` is the least that each dependency costs, infinite where it cannot be placed at all, and ``worth`` what all
    capacities cost: dependencies that cost more do not fit.
    """

    def __init__(
        self,
        of: ResourcesOfType,
        candidates: list[Integers],
        counts: list[int],
        prices: Floats,
        rng: np.random.Generator,
    ) -> None:
        free = np.maximum(of.free, 0)
        each = np.divide(prices, free, out=np.zeros(prices.shape), where=free > 0)
        on = [needs @ each[chosen].T for needs, chosen in zip(of.needs, candidates, strict=True)]
        self.costs = np.array(
            [
                float(np.sort(cost)[:count].sum()) if len(cost) >= count else np.inf
                for cost, count in zip(on, counts, strict=True)
            ]
        )
        self.worth = float(prices[free > 0].sum())
        self._counts, self._needs, self._rng = counts, of.needs, rng
        self._free = free.sum(axis=0, dtype=object)  # Python's numbers: these sums can exceed 64 bits
        totals = np.maximum(free.sum(axis=0, dtype=np.float64), 1.0)
        self._sizes = (free / totals).sum(axis=1)
        self._least = np.array([cost.min(initial=np.inf) for cost in on])
        # Large instances with few resources to choose from come first.
        sizes = (of.needs / totals).sum(axis=1)
        choices = [max(1, len(chosen) + 1 - count) for chosen, count in zip(candidates, counts, strict=True)]
        self._rank = np.argsort(np.argsort(-sizes / np.array(choices), kind="stable"), kind="stable")
        self._capacities: list[list[int]] = free.tolist()
        self._fields = fields_of(self._capacities, each.tolist())
        self._options: list[list[_Option]] = [
            [
                (resource, self._fields.packed(resource, needs), extra)
                for resource, extra in zip(chosen.tolist(), (cost - least).tolist(), strict=True)
            ]
            for needs, chosen, cost, least in zip(of.needs.tolist(), candidates, on, self._least, strict=True)
        ]
        self._fitted: list[tuple[int, dict[int, Integers]]] = []
        self._failed: list[int] = []

    def place(self, rows: Integers, steps: int, is_due: Callable[[], bool]) -> dict[int, Integers] | None:
        """The resources of each of the dependencies ``rows``; None if they do not fit together.

        Raises:
            UndecidedError: after so many ``steps``, or when due.
        """
        if not len(rows):
            return {}
        chosen = sum(1 << row for row in rows.tolist())
        for fitted, placed in self._fitted:
            if chosen & fitted == chosen:
                return placed
        if any(chosen & failed == failed for failed in self._failed):
            return None
        items = [row for row in rows[np.argsort(self._rank[rows])].tolist() for _ in range(self._counts[row])]
        if len(items) > _INSTANCES_AT_MOST:
            raise UndecidedError
        spare = (self._free - self._needs[items].sum(axis=0, dtype=object)).tolist()
        on = self._search(items, spare, steps, is_due) if min(spare, default=0) >= 0 else None
        if on is None:
            self._failed.append(chosen)
            return None
        placed = {
            row: np.array(sorted(at for item, at in zip(items, on, strict=True) if item == row), dtype=np.int64)
            for row in rows.tolist()
        }
        self._fitted.append((chosen, placed))
        return placed

    def _search(self, items: list[int], spare: list[int], most: int, is_due: Callable[[], bool]) -> list[int] | None:
        options = self._shuffled(items)
        on = [[resource for resource, _, _ in self._options[item]] for item in items]
        is_lost = bound(self._fields, self._capacities, self._needs[items].tolist(), on, spare)
        full, count, steps = sum(self._fields.guards), len(items), 0
        chosen = [0] * count
        failed: set[tuple[int, int]] = set()

        def descend(level: int, left: int, budget: float, first: int) -> bool:
            nonlocal steps
            if level == count:
                return True
            steps += 1
            if steps > most or (steps % _STEPS_A_LOOK == 0 and is_due()):
                raise UndecidedError
            state = (level, left)  # the budget follows from it
            if state in failed or is_lost(level, left, budget):
                return False
            item = items[level]
            is_again = level + 1 < count and items[level + 1] == item
            for option in range(first, len(options[item])):
                resource, needs, extra = options[item][option]
                after = left - needs
                if extra <= budget and after & full == full:
                    chosen[level] = resource
                    if descend(level + 1, after, budget - extra, option + 1 if is_again else 0):
                        return True
            if not first:
                failed.add(state)
            return False

        budget = self.worth - float(self._least[items].sum()) + TOLERANCE * max(1.0, self.worth)
        idle = full + sum(map(self._fields.packed, range(len(self._capacities)), self._capacities))
        return chosen if descend(0, idle, budget, 0) else None

    def _shuffled(self, items: list[int]) -> dict[int, list[_Option]]:
        """The options of each, large resources first, but for noise: another try takes another way."""
        noisy = (self._sizes * self._rng.uniform(0.5, 1.5, (len(items), len(self._sizes)))).tolist()
        found = {}
        for item, sizes in zip(items, noisy, strict=True):
            found[item] = [
                option for _, option in sorted((-sizes[option[0]], option) for option in self._options[item])
            ]
        return found
