"""Whether dependencies of one type fit on its resources all at once: a depth-first search that also proves that not.

What is left of all capacities is one whole number: a field for each resource and kind, each below a guard bit that is
cleared where more is taken than there is. So one subtraction and one comparison place an instance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from .arrays import Floats, Integers
from .eligibility import ResourcesOfType

_INSTANCES_AT_MOST = 300  # each is a level of the recursion
_STEPS_A_LOOK = 500  # steps between two looks at the clock
_REMEMBERED = 1_000  # dependencies that fit together; so do some of them

_Option = tuple[int, int]
"""A resource, and what an instance needs of it (packed)."""


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
        self.costs = np.array(
            [
                float(np.sort(needs @ each[chosen].T)[:count].sum()) if len(chosen) >= count else np.inf
                for needs, chosen, count in zip(of.needs, candidates, counts, strict=True)
            ]
        )
        self.worth = float(prices[free > 0].sum())
        self._counts, self._needs, self._rng = counts, of.needs, rng
        self._free = free.sum(axis=0, dtype=object)  # Python's numbers: these sums can exceed 64 bits
        totals = np.maximum(free.sum(axis=0, dtype=np.float64), 1.0)
        self._sizes = (free / totals).sum(axis=1)
        # Large instances with few resources to choose from come first.
        choices = [max(1, len(chosen) + 1 - count) for chosen, count in zip(candidates, counts, strict=True)]
        self._rank = -(of.needs / totals).sum(axis=1) / np.array(choices)
        self._fitted: deque[dict[int, Integers]] = deque(maxlen=_REMEMBERED)
        self._width = int(free.max(initial=0)).bit_length() + 1
        self._full = sum(1 << (field + 1) * self._width - 1 for field in range(free.size))
        self._idle = self._full + sum(self._packed(resource, row) for resource, row in enumerate(free.tolist()))
        self._options: list[list[_Option]] = [
            [(resource, self._packed(resource, needs)) for resource in chosen.tolist()]
            for needs, chosen in zip(of.needs.tolist(), candidates, strict=True)
        ]

    def place(self, rows: Integers, steps: int, is_due: Callable[[], bool]) -> dict[int, Integers] | None:
        """The resources of each of the dependencies ``rows``; None if they do not fit together.

        Raises:
            UndecidedError: after so many ``steps``, or when due.
        """
        chosen = set(rows.tolist())
        for fitted in self._fitted:
            if chosen <= fitted.keys():
                return fitted
        in_turn = rows[np.argsort(self._rank[rows], kind="stable")].tolist()
        items = [row for row in in_turn for _ in range(self._counts[row])]
        if len(items) > _INSTANCES_AT_MOST:
            raise UndecidedError
        is_enough = bool((self._free >= self._needs[items].sum(axis=0, dtype=object)).all())
        on = self._search(items, steps, is_due) if is_enough else None
        if on is None:
            return None
        placed = {
            row: np.array(sorted(at for item, at in zip(items, on, strict=True) if item == row), dtype=np.int64)
            for row in rows.tolist()
        }
        self._fitted.append(placed)
        return placed

    def _search(self, items: list[int], most: int, is_due: Callable[[], bool]) -> list[int] | None:
        options = self._shuffled(items)
        full, count, steps = self._full, len(items), 0
        chosen = [0] * count

        def descend(level: int, left: int, first: int) -> bool:
            nonlocal steps
            if level == count:
                return True
            steps += 1
            if steps > most or (steps % _STEPS_A_LOOK == 0 and is_due()):
                raise UndecidedError
            item = items[level]
            is_again = level + 1 < count and items[level + 1] == item
            for option in range(first, len(options[item])):
                resource, needs = options[item][option]
                after = left - needs
                if after & full == full:
                    chosen[level] = resource
                    if descend(level + 1, after, option + 1 if is_again else 0):
                        return True
            return False

        return chosen if descend(0, self._idle, 0) else None

    def _packed(self, resource: int, values: list[int]) -> int:
        """``values`` of the kinds in the fields of a resource."""
        first = resource * len(values)
        return sum(value << (first + kind) * self._width for kind, value in enumerate(values))

    def _shuffled(self, items: list[int]) -> dict[int, list[_Option]]:
        """The options of each, large resources first, but for noise: another try takes another way."""
        noisy = (self._sizes * self._rng.uniform(0.5, 1.5, (len(items), len(self._sizes)))).tolist()
        return {
            item: sorted(self._options[item], key=lambda option: -sizes[option[0]])
            for item, sizes in zip(items, noisy, strict=True)
        }
