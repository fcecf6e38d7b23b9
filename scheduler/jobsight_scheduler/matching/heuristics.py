"""The fast rungs of the ladder: greedy by density, in the order of a relaxation, ruin and recreate.

Sources: G. Schrimpf, J. Schneider, H. Stamm-Wilbrandt, G. Dueck, Record breaking optimization results using the ruin
and recreate principle (Journal of Computational Physics 159, 2000); R. Panigrahy, K. Talwar, L. Uyeda, U. Wieder,
Heuristics for vector bin packing (Microsoft Research, 2011), for the resource that suits a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from jobsight_predictor.arrays import Floats, Integers
from jobsight_scheduler.matching.eligibility import Eligibility
from jobsight_scheduler.matching.highs import Clock
from jobsight_scheduler.matching.objectives import LinearForm
from jobsight_scheduler.matching.packing import Packing, Placement, Score
from jobsight_scheduler.matching.program import relaxed_by_type

_TRIED = 15
"""Unmatched jobs to try in a round of search."""

_RUINED = 4
"""Placed jobs to remove in a round of search, at most."""

_LESS_LEFT = 1e-6
"""Weight of what is left beside the angle between it and the needs."""


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The best placements so far, which rung found them, and the bound so far."""

    placed: dict[int, Placement]
    value: float
    rung: str
    bound: float


class Heuristics:
    """Finds matches that maximise an objective in Z and X, better ones with every rung."""

    def __init__(
        self, eligibility: Eligibility, candidates: list[Integers], form: LinearForm, clock: Clock, until: float
    ) -> None:
        self._eligibility, self._candidates, self._form = eligibility, candidates, form
        self._clock, self._until = clock, until
        self._packing = Packing(eligibility, candidates)
        self._worth = _worth(eligibility, candidates, form)
        self._prefer = preferred(form, candidates)
        self._order = np.where(self._worth > 0.0, self._worth, -np.inf)

    def greedy(self) -> Incumbent:
        """Match by density."""
        order = [job for job in by_density(self._eligibility, self._worth) if self._worth[job] > 0.0]
        greedy(self._packing, order, self._prefer or aligned(self._packing))
        bound = float(self._worth[(self._worth > 0.0) & self._eligibility.possible(self._candidates)].sum())
        return Incumbent(dict(self._packing.placed), self._value(), "greedy", bound)

    def by_types(self, best: Incumbent, classes: Sequence[Sequence[int]]) -> Incumbent:
        """Match in the order of worth beyond cost, with all resources of a type as one."""
        possible = self._eligibility.possible(self._candidates)
        worth = np.where(possible, self._worth, 0.0)
        relaxed = relaxed_by_type(self._eligibility, classes, worth, self._clock, self._until)
        if relaxed is None:
            return best
        bound, margins = relaxed
        best = replace(best, bound=min(best.bound, bound))
        return self.relaxed(best, np.where(possible, margins, -np.inf), self._prefer)

    def relaxed(self, best: Incumbent, order: Floats, score: Score) -> Incumbent:
        """Match in the order of a relaxation."""
        self._order = np.where(self._worth > 0.0, order, -np.inf)
        jobs = [job for job in np.argsort(-self._order, kind="stable").tolist() if np.isfinite(self._order[job])]
        self._packing = Packing(self._eligibility, self._candidates)
        greedy(self._packing, jobs, score or aligned(self._packing))
        return self._better(best, "relaxation")

    def searched(self, best: Incumbent, target: float, until: float, rng: np.random.Generator) -> Incumbent:
        """Exchange some placed jobs for others, up to ``target`` or the time ``until``; undo each worse result."""
        packing = self._packing = Packing(self._eligibility, self._candidates, best.placed)
        score = self._prefer or aligned(packing)
        is_open = np.isfinite(self._order)
        spread = float(np.std(self._order[is_open])) if is_open.any() else 0.0
        is_open[list(packing.placed)] = False
        value = best.value
        while is_open.any() and value < target and self._clock() < until:
            placed = list(packing.placed)
            ruined = rng.integers(len(placed), size=min(len(placed), 1 + int(rng.integers(_RUINED)))).tolist()
            before = {job: packing.remove(job) for job in {placed[index] for index in ruined}}
            is_open[list(before)] = True
            jobs = np.flatnonzero(is_open)
            noisy = self._order[jobs] + rng.normal(0.0, 0.3 * spread + 1e-9, len(jobs))
            after: dict[int, Placement] = {}
            for job in jobs[np.argsort(-noisy, kind="stable")[:_TRIED]].tolist():
                if self._clock() >= until:
                    break
                if packing.place(job, score):
                    after[job] = packing.placed[job]
            change = self._gain(after) - self._gain(before)
            if change < -1e-12:
                for job in after:
                    packing.remove(job)
                for job, placement in before.items():
                    packing.put(job, placement)
                after, change = before, 0.0
            value += change
            is_open[list(after)] = False
        return self._better(best, f"{best.rung.removesuffix(', search')}, search")

    def _gain(self, placed: dict[int, Placement]) -> float:
        return self._form.value(self._eligibility, self._candidates, placed)

    def _value(self) -> float:
        return self._form.value(self._eligibility, self._candidates, self._packing.placed)

    def _better(self, best: Incumbent, rung: str) -> Incumbent:
        value = self._value()
        return Incumbent(dict(self._packing.placed), value, rung, best.bound) if value > best.value else best


def _worth(eligibility: Eligibility, candidates: list[Integers], form: LinearForm) -> Floats:
    """Return the largest possible worth of each job."""
    worth = form.z.copy()
    if form.x is not None:
        for at, gains in zip(eligibility.dependencies, form.x, strict=True):
            worth[at.job] += float(np.sort(gains)[-at.of.count :].sum()) if len(gains) >= at.of.count else -np.inf
    return worth


def preferred(form: LinearForm, candidates: list[Integers]) -> Score:
    """Score resources by their addition to an objective."""
    if form.x is None:
        return None
    gains, sign = form.x, -1.0 if form.is_max else 1.0

    def score(number: int, resources: Integers) -> Floats:
        return sign * gains[number][np.searchsorted(candidates[number], resources)]

    return score


def by_density(eligibility: Eligibility, weights: Floats) -> list[int]:
    """Sort jobs by weight over their share of the free capacity of all types, the highest first."""
    taken = np.zeros(len(eligibility.problem.jobs))
    for name, of in eligibility.types.items():
        totals = np.maximum(np.maximum(of.free, 0).sum(axis=0, dtype=np.float64), 1.0)
        entries = [eligibility.dependencies[number] for number in eligibility.rows[name]]
        counts = np.array([at.of.count for at in entries])
        taken += np.bincount([at.job for at in entries], counts * (of.needs / totals).sum(axis=1), len(taken))
    order: list[int] = np.argsort(-weights / np.maximum(taken, 1e-12), kind="stable").tolist()
    return order


def aligned(packing: Packing) -> Score:
    """Score resources by how far the capacities left are in proportion to the needs, then by how little is left."""
    eligibility = packing.eligibility
    unit = {
        name: 1.0 / np.maximum(np.maximum(of.free, 0).sum(axis=0, dtype=np.float64) / max(len(of.free), 1), 1.0)
        for name, of in eligibility.types.items()  # a type may have no resource
    }
    needs = [eligibility.types[at.of.type].needs[at.row] * unit[at.of.type] for at in eligibility.dependencies]

    def score(number: int, resources: Integers) -> Floats:
        of_type = eligibility.dependencies[number].of.type
        left = packing.left[of_type].take(resources, axis=1) * unit[of_type][:, None]
        if len(left) == 1:
            return np.asarray(left[0])
        lengths = np.sqrt((left * left).sum(axis=0))
        found: Floats = _LESS_LEFT * left.sum(axis=0) - needs[number] @ left / np.maximum(lengths, 1e-12)
        return found

    return score


def greedy(packing: Packing, order: list[int], score: Score) -> None:
    """Place the jobs of ``order`` that fit, in turn."""
    for job in order:
        packing.place(job, score)
