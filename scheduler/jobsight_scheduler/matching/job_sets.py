"""Decides whether dependencies of one type fit on its resources together, by depth-first search.

The rest of all capacities is one whole number: a field for each resource and kind, each below a guard bit, which
clears if the field becomes negative. So one subtraction and one comparison place an instance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from jobsight_scheduler.matching.columns import Flags, Floats, Integers
from jobsight_scheduler.matching.eligibility import Eligibility, ResourcesOfType
from jobsight_scheduler.matching.packing import Placement

_INSTANCES_AT_MOST = 300  # each is a level of the recursion
_STEPS_A_LOOK = 500  # steps between two readings of the clock
_REMEMBERED = 1_000  # sets of dependencies that fit together, as do their subsets

_Option = tuple[int, int]
"""A resource, and an instance's need of it (packed)."""


class UndecidedError(Exception):
    """The search reached its limit."""


class ExactFit:
    """One type, with ``candidates`` and ``counts`` of its dependencies and ``prices`` (R, K) of whole capacities.

    ``costs`` is the lowest cost of each dependency, infinite if it fits nowhere, and ``worth`` the price of all
    capacities: dependencies that cost more do not fit.
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
        # Large instances with few candidates first.
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
        """Return the resources of each of the dependencies ``rows``; None if they do not fit together.

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
        """Pack ``values`` of the kinds into the fields of a resource."""
        first = resource * len(values)
        return sum(value << (first + kind) * self._width for kind, value in enumerate(values))

    def _shuffled(self, items: list[int]) -> dict[int, list[_Option]]:
        """Return the options of each, large resources first with noise, so that each try differs."""
        noisy = (self._sizes * self._rng.uniform(0.5, 1.5, (len(items), len(self._sizes)))).tolist()
        return {
            item: sorted(self._options[item], key=lambda option: -sizes[option[0]])
            for item, sizes in zip(items, noisy, strict=True)
        }


TOLERANCE = 1e-7
"""Error of sums of prices, as a share of them."""

_EFFORTS = ((2_000, 300), (20_000, 3_000), (100_000, 30_000), (200_000, 300_000))
"""Number of sets, those that lose least first, and steps of each search; each entry tries harder."""

_FLAGS_AT_MOST = 10_000_000
"""Most sets times jobs."""


class JobSets:
    """The sets of jobs of one batch.

    ``weights`` (jobs,) are the jobs' worth by the objective, ``classes`` the identical jobs, ``prices`` (R, K) of each
    type those of whole capacities; ``bound`` is the bound that they prove.
    """

    def __init__(
        self,
        eligibility: Eligibility,
        candidates: list[Integers],
        classes: list[list[int]],
        weights: Floats,
        prices: dict[str, Floats],
        rng: np.random.Generator,
    ) -> None:
        self._numbers = eligibility.numbers
        self._types: list[tuple[ExactFit, Integers, Integers]] = []
        costs = []
        for name, of in sorted(eligibility.types.items(), key=lambda item: item[1].needs.size):
            numbers = eligibility.rows[name]
            jobs = np.array([eligibility.dependencies[number].job for number in numbers], dtype=np.int64)
            counts = [eligibility.dependencies[number].of.count for number in numbers]
            fit = ExactFit(of, [candidates[number] for number in numbers], counts, prices[name], rng)
            self._types.append((fit, jobs, np.array(numbers, dtype=np.int64)))
            costs.append(np.bincount(jobs, fit.costs, len(weights)))
        cost = np.sum(costs, axis=0)
        is_possible = (weights > 0.0) & np.isfinite(cost)
        self._margins = np.where(is_possible, weights - cost, -np.inf)
        self._alike_before: dict[int, int] = {}
        for jobs_alike in classes:
            self._margins[jobs_alike] = self._margins[jobs_alike[0]]
            self._alike_before.update(zip(jobs_alike[1:], jobs_alike, strict=False))
        self._totals = np.where(is_possible, np.array([weights, *costs]), 0.0).T
        self._worth = np.array([fit.worth for fit, _, _ in self._types])
        self.bound = float(self._worth.sum() + np.maximum(self._margins, 0.0).sum())
        self._slack = TOLERANCE * max(1.0, self.bound)

    def improve(
        self, value: float, is_whole: bool, is_due: Callable[[], bool]
    ) -> tuple[dict[int, Placement] | None, float]:
        """Return the best placements found that are worth more than ``value``, None without any, and a bound.

        With ``is_whole``, values are whole numbers; otherwise differences up to half a millionth do not count. The
        bound is that value if no set was left out or undecided.
        """
        step = 1.0 if is_whole else 5.0 * self._slack
        best: dict[int, Placement] | None = None
        bound = float(np.floor(self.bound + self._slack)) if is_whole else self.bound
        is_all, sets = False, np.empty((1, len(self._margins)), dtype=np.bool_)
        for most, steps in _EFFORTS:
            if is_due() or value + step > bound + self._slack or (is_all and not len(sets)):
                break
            if not is_all:
                sets, is_all = self._sets(value + step, most)
            placed: dict[int, Placement] | None = {}
            while placed is not None:
                placed, sets = self._first_that_fits(sets, steps, is_due)
                if placed is not None:
                    best, value = placed, float(self._totals[list(placed), 0].sum())
                    sets = sets[sets @ self._totals[:, 0] > value + step / 2.0]
        is_proof = is_all and not len(sets)
        return best, min(bound, value if is_whole else value + step) if is_proof else bound

    def _sets(self, least: float, most_sets: int) -> tuple[Flags, bool]:
        """Return sets (N, jobs) worth ``least`` or more, those that lose least first, and whether these are all."""
        most = self.bound - least + self._slack
        most_sets = min(most_sets, _FLAGS_AT_MOST // len(self._margins))
        losses = np.abs(self._margins)
        open_jobs = np.flatnonzero(losses <= most)
        is_in = self._margins > 0.0
        found, lost, is_all = is_in[None], np.zeros(1), True
        totals = self._totals[is_in].sum(axis=0)[None]
        for job in open_jobs[np.argsort(-losses[open_jobs], kind="stable")].tolist():
            cheap = lost + losses[job] <= most
            if job in self._alike_before:  # identical jobs change in the order of the batch
                cheap &= found[:, self._alike_before[job]] != is_in[job]
            changed = found[cheap]
            changed[:, job] ^= True
            other = -self._totals[job] if is_in[job] else self._totals[job]
            found = np.concatenate((found, changed))
            lost = np.concatenate((lost, lost[cheap] + losses[job]))
            totals = np.concatenate((totals, totals[cheap] + other))
            if len(found) > most_sets:
                least_lost = np.argpartition(lost, most_sets)[:most_sets]
                found, lost, totals, is_all = found[least_lost], lost[least_lost], totals[least_lost], False
        kept = (totals[:, 0] >= least - self._slack) & (totals[:, 1:] <= self._worth + self._slack).all(axis=1)
        return found[kept][np.argsort(lost[kept], kind="stable")], is_all

    def _first_that_fits(
        self, sets: Flags, steps: int, is_due: Callable[[], bool]
    ) -> tuple[dict[int, Placement] | None, Flags]:
        """Return placements of one of the sets, None if none was found, and the sets not refuted."""
        is_open = np.ones(len(sets), dtype=np.bool_)
        for index in range(len(sets)):
            if not is_open[index]:
                continue
            if is_due():
                break
            try:
                placed, against = self._placed(sets[index], steps, is_due)
            except UndecidedError:
                continue
            if placed is not None:
                return placed, sets[is_open]
            is_open &= ~sets[:, against].all(axis=1)
        return None, sets[is_open]

    def _placed(
        self, jobs: Flags, steps: int, is_due: Callable[[], bool]
    ) -> tuple[dict[int, Placement] | None, Integers]:
        """Return placements of ``jobs``; or None, and those of them that do not fit together."""
        found: dict[int, Integers] = {}
        is_decided = True
        for fit, job_of, numbers in self._types:
            rows = np.flatnonzero(jobs[job_of])
            try:
                placed = fit.place(rows, steps, is_due)
            except UndecidedError:
                is_decided = False
                continue
            if placed is None:
                return None, job_of[rows]
            found |= {int(numbers[row]): placed[row] for row in rows.tolist()}
        if not is_decided:
            raise UndecidedError
        chosen = np.flatnonzero(jobs)
        return {job: tuple(found[number] for number in self._numbers[job]) for job in chosen.tolist()}, chosen
