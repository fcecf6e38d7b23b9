"""Which sets of jobs could still be worth more than the best one known, each tried exactly: the optimum, and its proof.

At given prices of capacities, a set of jobs is worth at most the bound, less what it loses against the
margins: of jobs in it that cost more than they are worth, of jobs left out that are worth more than they cost. At the
prices of the linear relaxation, few sets lose less than lies between the bound and the next better value, and of these
only those remain whose dependencies of each type cost no more than the capacities of the type. Given the set, types
are independent of each other (exact_fit.py). That holds for objectives in Z only, without relations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .arrays import Flags, Floats, Integers
from .eligibility import Eligibility
from .exact_fit import ExactFit, UndecidedError
from .packing import Placement

TOLERANCE = 1e-7
"""By which sums of prices may be wrong, as a share of them."""

_EFFORTS = ((2_000, 300), (20_000, 3_000), (100_000, 30_000), (200_000, 300_000))
"""How many sets are made, those that lose least, and how long each is tried, in steps of each search; then longer."""

_FLAGS_AT_MOST = 10_000_000
"""Sets times jobs."""


class JobSets:
    """The sets of jobs of one batch.

    ``weights`` (jobs,) are what the objective gives for each job, ``classes`` the jobs that are identical, ``prices``
    (R, K) of each type those of whole capacities; ``bound`` is what they prove.
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
        """The best placements worth more than ``value`` that are found, None if there are none, and a bound.

        With ``is_whole``, values are whole numbers; otherwise differences up to half a millionth do not count. The
        bound is that value where nothing was left out or undecided.
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
        """Sets (N, jobs) that are worth ``least`` or more, those that lose least first; whether that is all of them."""
        most = self.bound - least + self._slack
        most_sets = min(most_sets, _FLAGS_AT_MOST // len(self._margins))
        losses = np.abs(self._margins)
        open_jobs = np.flatnonzero(losses <= most)
        is_in = self._margins > 0.0
        found, lost, is_all = is_in[None], np.zeros(1), True
        totals = self._totals[is_in].sum(axis=0)[None]
        for job in open_jobs[np.argsort(-losses[open_jobs], kind="stable")].tolist():
            cheap = lost + losses[job] <= most
            if job in self._alike_before:  # of identical jobs, the first ones change
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
        """Placements of one of the sets, None if none was found; those that are not refuted."""
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
        """Placements of ``jobs``; or None, and those of them that do not fit together."""
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
