"""The sets of jobs that could still beat the best known one, each tried exactly: finds the optimum and proves it.

With capacities priced (prices.py), a set of jobs is worth the bound, less what each job that it has, or has not,
loses against its margin, less what the capacities cost that it leaves. Where the prices are those of the linear
relaxation, hardly any sets lose less than the difference between the bound and the next better value, and of these
only those remain whose dependencies of each type are worth no more than the capacities of the type. Given a set, the
types are independent of each other (exact_fit.py).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .eligibility import Eligibility
from .exact_fit import TOLERANCE, ExactFit, UndecidedError
from .packing import Placement

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SETS_AT_MOST = 20_000
STEPS = (100,100,100,300,300,300,1000,1000,1000,3000,3000,3000,10000,10000,30000,100000)


class JobSets:
    def __init__(
        self, eligibility: Eligibility, candidates: list[Integers], weights: Floats, prices: dict[str, Floats]
    ) -> None:
        self._eligibility = eligibility
        self._weights = weights
        self._fits: dict[str, ExactFit] = {}
        self._jobs: dict[str, Integers] = {}
        self._costs: dict[str, Floats] = {}
        for name, of in sorted(eligibility.types.items(), key=lambda one: one[1].needs.size):
            numbers = eligibility.rows[name]
            at = [eligibility.dependencies[number] for number in numbers]
            self._fits[name] = ExactFit(of, [candidates[n] for n in numbers], [one.of.count for one in at], prices[name])
            self._jobs[name] = np.array([one.job for one in at], dtype=np.int64)
            self._costs[name] = np.bincount(self._jobs[name], self._fits[name].costs, len(weights))
        cost = np.sum(list(self._costs.values()), axis=0)
        self.margins = np.where((weights > 0.0) & np.isfinite(cost), weights - cost, -np.inf)
        self.bound = sum(fit.worth for fit in self._fits.values()) + float(np.maximum(self.margins, 0.0).sum())
        self._sums = np.column_stack((weights, *(np.where(np.isfinite(one), one, 0.0) for one in self._costs.values())))
        self._worths = np.array([fit.worth for fit in self._fits.values()])
        self._known: dict[tuple[str, bytes], dict[int, Integers] | None] = {}
        self.stats = {}; self.rng=np.random.default_rng(0)

    def sets(self, least: float, below: float) -> tuple[Flags, bool]:
        """Sets of jobs (N, jobs) worth ``least`` to ``below`` that may fit, those that lose least first; whether all."""
        slack = TOLERANCE * max(1.0, self.bound)
        most = self.bound - least + slack
        loss = np.abs(self.margins)
        open_jobs = np.flatnonzero(loss <= most)
        open_jobs = open_jobs[np.argsort(-loss[open_jobs], kind="stable")]
        found, lost, is_all = (self.margins > 0.0)[None], np.zeros(1), True
        for job in open_jobs.tolist():
            more = np.flatnonzero(lost + loss[job] <= most)
            flipped = found[more]
            flipped[:, job] ^= True
            found, lost = np.concatenate((found, flipped)), np.concatenate((lost, lost[more] + loss[job]))
            if len(found) > SETS_AT_MOST:
                kept = np.argpartition(lost, SETS_AT_MOST)[:SETS_AT_MOST]
                found, lost, is_all = found[kept], lost[kept], False
        n0 = len(found)
        totals = found.astype(np.float64) @ self._sums
        kept = (totals[:, 0] >= least - slack) & (totals[:, 0] < below - slack) & (totals[:, 1:] <= self._worths + slack).all(axis=1)
        found, lost = found[kept], lost[kept]
        self.stats[least] = (n0, len(found), is_all)
        return found[np.argsort(lost, kind="stable")], is_all

    def first_that_fits(self, sets: Flags, is_due: Callable[[], bool]) -> tuple[dict[int, Placement] | None, bool]:
        """Placements of the first of ``sets`` that fits; whether none is left undecided if none does."""
        for steps in STEPS:
            undecided = np.zeros(len(sets), dtype=np.bool_)
            alive = np.ones(len(sets), dtype=np.bool_)
            for index in range(len(sets)):
                if not alive[index]:
                    continue
                if is_due():
                    return None, False
                try:
                    wrong, placed = self._placed(sets[index], steps)
                except UndecidedError:
                    undecided[index] = True
                    continue
                if placed is not None:
                    return placed, True
                alive &= ~sets[:, wrong].all(axis=1)
            sets = sets[undecided & alive]
            if not len(sets):
                return None, True
        return None, False

    def _placed(self, jobs: Flags, steps: int) -> tuple[Integers, dict[int, Placement] | None]:
        found: dict[int, Integers] = {}
        undecided = False
        for name, fit in self._fits.items():
            rows = np.flatnonzero(jobs[self._jobs[name]])
            key = (name, rows.tobytes())
            if key not in self._known:
                try:
                    self._known[key] = fit.place(rows, steps, self.rng)
                except UndecidedError:
                    undecided = True
                    continue
            placed = self._known[key]
            if placed is None:
                return self._jobs[name][rows], None
            for row, resources in placed.items():
                found[self._eligibility.rows[name][row]] = resources
        if undecided:
            raise UndecidedError
        numbers = self._eligibility.numbers
        return np.empty(0, dtype=np.int64), {
            job: tuple(found[number] for number in numbers[job]) for job in np.flatnonzero(jobs).tolist()
        }
