"""The fast rungs of the ladder: greedy by density, in the order of a relaxation, ruin and recreate.

Source of the last: G. Schrimpf, J. Schneider, H. Stamm-Wilbrandt, G. Dueck, Record breaking optimization results using
the ruin and recreate principle (Journal of Computational Physics 159, 2000).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .columns import Floats, Integers
from .eligibility import Eligibility
from .highs import Clock
from .objectives import LinearForm
from .packing import Packing, Placement, Score
from .program import relaxed_by_type

_TRIED = 30
"""Unmatched jobs to try in a round of search."""


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

    def is_due(self) -> bool:
        """Whether the time is over."""
        return self._clock() >= self._until

    def greedy(self) -> Incumbent:
        """Match by density, best fit."""
        order = [job for job in by_density(self._eligibility, self._worth) if self._worth[job] > 0.0]
        greedy(self._packing, order, self._prefer or best_fit(self._packing))
        bound = float(self._worth[(self._worth > 0.0) & self._eligibility.possible(self._candidates)].sum())
        return Incumbent(dict(self._packing.placed), self._value(), "greedy", bound)

    def by_types(self, best: Incumbent) -> Incumbent:
        """Match in the order of worth beyond cost, with all resources of a type as one."""
        possible = self._eligibility.possible(self._candidates)
        relaxed = relaxed_by_type(self._eligibility, np.where(possible, self._worth, 0.0), self._clock, self._until)
        if relaxed is None:
            return best
        bound, margins = relaxed
        best = replace(best, bound=min(best.bound, bound))
        return self.relaxed(best, np.where(possible, margins, -np.inf), self._prefer)

    def searched(self, best: Incumbent, target: float, until: float, rng: np.random.Generator) -> Incumbent:
        """Empty and refill resources, up to ``target`` or the time ``until``; undo each worse result."""
        packing = self._packing = Packing(self._eligibility, self._candidates, best.placed)
        score = self._prefer or best_fit(packing)
        jobs = np.flatnonzero(np.isfinite(self._order))
        spread = float(np.std(self._order[jobs])) if len(jobs) else 0.0
        value = best.value
        while len(jobs) and value < target and self._clock() < until:
            before = packing.snapshot()
            for job in _ruined(packing, rng):
                packing.remove(job)
            open_jobs = np.array([job for job in jobs.tolist() if job not in packing.placed], dtype=np.int64)
            noisy = self._order[open_jobs] + rng.normal(0.0, 0.3 * spread + 1e-9, len(open_jobs))
            for job in open_jobs[np.argsort(-noisy, kind="stable")[:_TRIED]].tolist():
                if self._clock() >= until:
                    break
                packing.place(job, score)
            now = self._value()
            if now >= value - 1e-12:
                value = now
            else:
                packing.restore(before)
        return self._better(best, f"{best.rung.removesuffix(', search')}, search")

    def _value(self) -> float:
        return self._form.value(self._eligibility, self._candidates, self._packing.placed)

    def relaxed(self, best: Incumbent, order: Floats, score: Score) -> Incumbent:
        """Match in the order of a relaxation, on the resources that it chooses."""
        self._order = np.where(self._worth > 0.0, order, -np.inf)
        jobs = [job for job in np.argsort(-self._order, kind="stable").tolist() if np.isfinite(self._order[job])]
        self._packing = Packing(self._eligibility, self._candidates)
        greedy(self._packing, jobs, score)
        return self._better(best, "relaxation")

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


def best_fit(packing: Packing) -> Score:
    """Score resources by the rest left on them, as a share of the capacity free at first."""
    eligibility = packing.eligibility
    share = {name: 1.0 / np.maximum(of.free.T, 1) for name, of in eligibility.types.items()}

    def score(number: int, resources: Integers) -> Floats:
        of_type = eligibility.dependencies[number].of.type
        left: Floats = (packing.left[of_type][:, resources] * share[of_type][:, resources]).sum(axis=0)
        return left

    return score


def greedy(packing: Packing, order: list[int], score: Score) -> None:
    """Place the jobs of ``order`` that fit, in turn."""
    for job in order:
        packing.place(job, score)


def _ruined(packing: Packing, rng: np.random.Generator) -> set[int]:
    """Return the jobs on a random resource of a placed job, and up to three others."""
    placed, eligibility = list(packing.placed), packing.eligibility
    if not placed:
        return set()
    ruined = {placed[int(rng.integers(len(placed)))] for _ in range(1 + int(rng.integers(4)))}
    seed = next(iter(ruined))
    if numbers := eligibility.numbers[seed]:
        index = int(rng.integers(len(numbers)))
        of_type = eligibility.dependencies[numbers[index]].of.type
        resource = int(packing.placed[seed][index][0])
        for job, placement in packing.placed.items():
            for number, chosen in zip(eligibility.numbers[job], placement, strict=True):
                if eligibility.dependencies[number].of.type == of_type and resource in chosen:
                    ruined.add(job)
    return ruined
