"""Whether dependencies of one type all fit on its resources at once: a depth-first search that also proves that not.

What is left of every capacity is one whole number: a field for each resource and kind, with a guard bit above it that
is cleared where a subtraction takes more than there is. So one subtraction and one comparison place an instance. The
prices bound the search: what is placed costs more on some resources than on others, what is left where nothing more
fits is lost, and all capacities together pay for both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .eligibility import ResourcesOfType

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Option = tuple[int, int, float]

TOLERANCE = 1e-7
"""By which sums of prices may be wrong, as a share of them."""

_INSTANCES_AT_MOST = 300
"""Each is a level of the recursion."""


class UndecidedError(Exception):
    """The search came to its limit."""


class ExactFit:
    """One type: ``candidates`` and ``counts`` by its dependencies, ``prices`` (R, K) of whole capacities."""

    def __init__(self, of: ResourcesOfType, candidates: list[Integers], counts: list[int], prices: Floats) -> None:
        free = np.maximum(of.free, 0)
        each = np.divide(prices, free, out=np.zeros(prices.shape), where=free > 0)
        costs = of.needs @ each.T
        self._candidates, self._counts = candidates, counts
        self._needs, self._free = of.needs, free.sum(axis=0)
        self._each: list[list[float]] = each.tolist()
        self._worth = float(prices[free > 0].sum())
        self._tolerance = TOLERANCE * max(1.0, self._worth)
        width = int(free.max(initial=0)).bit_length() + 1
        kinds = range(len(of.kinds))
        self._shifts = [[(r * len(of.kinds) + k) * width for k in kinds] for r in range(len(of.members))]
        self._field = (1 << (width - 1)) - 1
        self._guards = [self._packed(r, [self._field + 1 for _ in kinds]) for r in range(len(of.members))]
        self._full = sum(self._packed(r, row) for r, row in enumerate(free.tolist())) | sum(self._guards)
        self._sizes = (free / np.maximum(self._free, 1)).sum(axis=1)
        self._least = np.array([costs[d, c].min(initial=np.inf) for d, c in enumerate(candidates)])
        self._options = [
            [(r, self._packed(r, need), float(costs[d, r] - self._least[d])) for r in candidates[d].tolist()]
            for d, need in enumerate(of.needs.tolist())
        ]
        sizes = (of.needs / np.maximum(self._free, 1)).sum(axis=1)
        choices = np.array([max(1, len(one) + 1 - count) for one, count in zip(candidates, counts, strict=True)])
        self._rank = np.argsort(np.argsort(-sizes / choices, kind="stable"), kind="stable")
        self.costs = np.array(
            [np.sort(costs[d, c])[: counts[d]].sum() if len(c) >= counts[d] else np.inf for d, c in enumerate(candidates)]
        )
        """The least that each dependency costs, with all its instances; infinite where it cannot be placed."""

    @property
    def worth(self) -> float:
        """What all capacities cost."""
        return self._worth

    def place(self, rows: Integers, limit: int, rng: np.random.Generator) -> dict[int, Integers] | None:
        """The resources of each dependency in ``rows``; None if they do not fit together.

        Raises:
            UndecidedError: more than ``limit`` steps.
        """
        rows = rows[np.argsort(self._rank[rows])]
        items = [row for row in rows.tolist() for _ in range(self._counts[row])]
        needs = self._needs[items]
        spare: list[int] = (self._free - needs.sum(axis=0)).tolist()
        budget = self._worth - float(self._least[items].sum()) + self._tolerance
        if min(spare, default=0) < 0 or budget < 0.0:
            return None
        if len(items) > _INSTANCES_AT_MOST:
            raise UndecidedError
        chosen = self._search(items, self._ordered(rows, rng), spare, budget, limit)
        if chosen is None:
            return None
        return {row: np.array(sorted(chosen[i] for i, item in enumerate(items) if item == row)) for row in rows.tolist()}

    def _ordered(self, rows: Integers, rng: np.random.Generator) -> dict[int, list[Option]]:
        """The options of each dependency, large resources first, but for noise: another try takes another way."""
        noisy = (self._sizes * rng.uniform(0.5, 1.5, (len(rows), len(self._sizes)))).tolist()
        return {
            row: sorted(self._options[row], key=lambda option, sizes=sizes: -sizes[option[0]])
            for row, sizes in zip(rows.tolist(), noisy, strict=True)
        }

    def _search(self, items: list[int], options, spare: list[int], budget: float, limit: int) -> list[int] | None:
        full, field, count, steps = sum(self._guards), self._field, len(items), 0
        bounds = self._bounds(items)
        chosen = [0] * count
        failed: set[tuple[int, int]] = set()

        def is_lost(level: int, left: int, budget: float) -> bool:
            """Whether what is left fits so badly that the rest of the instances, or the budget, cannot bear it."""
            smallest, reach = bounds[level]
            fits = (left - smallest) & full
            lost = spare[:]
            for guard, kinds in reach:
                is_open = fits & guard == guard
                for kind, shift, sums, each in kinds:
                    rest = left >> shift & field
                    if not is_open:
                        lost[kind] -= rest
                        budget -= rest * each
                    elif not sums >> rest & 1:
                        rest += 1 - (sums & ((1 << rest) - 1)).bit_length()
                        lost[kind] -= rest
                        budget -= rest * each
            return budget < 0.0 or min(lost, default=0) < 0

        def descend(level: int, left: int, budget: float, first: int) -> bool:
            nonlocal steps
            if level == count:
                return True
            steps += 1
            if steps > limit:
                raise UndecidedError
            key = (level, left)  # the budget follows from what is left
            if key in failed or is_lost(level, left, budget):
                return False
            again = level + 1 < count and items[level + 1] == items[level]
            for option, (resource, need, extra) in enumerate(options[items[level]][first:], first):
                after = left - need
                if (
                    extra <= budget
                    and after & full == full
                    and descend(level + 1, after, budget - extra, option + 1 if again else 0)
                ):
                    chosen[level] = resource
                    return True
            if not first:
                failed.add(key)
            return False

        return chosen if descend(0, self._full, budget, 0) else None

    def _bounds(self, items: list[int]) -> list[tuple[int, list[tuple[int, list[tuple[int, int, int, float]]]]]]:
        """For each level what the instances from it on need at least of each resource, packed, and which sums they

        can have on it, as bits: for each resource its guards, and for each kind (kind, shift, sums, price of a unit).
        """
        every = (2 << self._field) - 1
        lowest = [[self._field] * len(shifts) for shifts in self._shifts]
        smallest = sum(map(self._packed, range(len(lowest)), lowest))
        reach = [
            (guard, [(kind, shift, 1, each) for kind, (shift, each) in enumerate(zip(shifts, prices, strict=True))])
            for guard, shifts, prices in zip(self._guards, self._shifts, self._each, strict=True)
        ]
        found = []
        for item in reversed(items):
            needs = self._needs[item].tolist()
            reach = reach[:]
            for resource, _, _ in self._options[item]:
                guard, kinds = reach[resource]
                reach[resource] = (
                    guard,
                    [
                        (kind, shift, (sums | sums << need) & every, each)
                        for (kind, shift, sums, each), need in zip(kinds, needs, strict=True)
                    ],
                )
                for kind, (low, need) in enumerate(zip(lowest[resource], needs, strict=True)):
                    if need < low:
                        lowest[resource][kind] = need
                        smallest -= low - need << self._shifts[resource][kind]
            found.append((smallest, reach))
        return found[::-1]

    def _packed(self, resource: int, values: list[int]) -> int:
        return sum(value << shift for value, shift in zip(values, self._shifts[resource], strict=True))
