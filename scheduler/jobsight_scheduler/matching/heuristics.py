"""The fast rungs of the ladder: greedy by density, by prices with relocation, ruin and recreate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .eligibility import Eligibility
from .greedy import best_fit, by_density, greedy
from .objectives import LinearForm
from .packing import Packing, Placement, Score
from .prices import STEPS, Priced, PriceSearch
from .relocation import Relocation
from .search import ruin_and_recreate

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Clock = Callable[[], float]

_PRICES_SHARE = 0.15
"""Of the time that is left, at most this share is spent on prices."""


@dataclass(slots=True)
class Incumbent:
    """The best placements so far, which rung found them, and the bound so far."""

    placed: dict[int, Placement]
    value: float
    rung: str
    bound: float


class Heuristics:
    """Finds matches for an objective in Z and X that is maximised, better ones with every rung."""

    def __init__(
        self, eligibility: Eligibility, candidates: list[Integers], form: LinearForm, clock: Clock, until: float
    ) -> None:
        self._eligibility, self._candidates, self._form = eligibility, candidates, form
        self._clock, self._until = clock, until
        self.packing = Packing(eligibility, candidates)
        self._worth = _worth(eligibility, candidates, form)
        self._prefer = preferred(form, candidates)
        self.priced: Priced | None = None
        self._order = np.where(self._worth > 0.0, self._worth, -np.inf)

    def is_due(self) -> bool:
        """Whether the time is over."""
        return self._clock() >= self._until

    def value(self) -> float:
        """The objective of what is placed now, from its gains alone."""
        placed = self.packing.placed
        found = float(self._form.z[list(placed)].sum())
        if self._form.x is not None:
            for job, placement in placed.items():
                for number, chosen in zip(self._eligibility.numbers[job], placement, strict=True):
                    found += float(self._form.x[number][np.searchsorted(self._candidates[number], chosen)].sum())
        return found

    def greedy(self) -> Incumbent:
        """By density, best fit."""
        order = [job for job in by_density(self._eligibility, self._worth) if self._worth[job] > 0.0]
        greedy(self.packing, order, self._prefer or best_fit(self.packing))
        bound = float(np.maximum(self._worth, 0.0)[self._possible()].sum())
        return Incumbent(dict(self.packing.placed), self.value(), "greedy", bound)

    def by_prices(self, best: Incumbent) -> Incumbent:
        """In the order of margins at the best prices found, then with relocation."""
        search = PriceSearch(self._eligibility, self._candidates, self._form)
        left = self._until - self._clock()
        self.priced = search.search(best.value, STEPS, self._clock, self._clock() + _PRICES_SHARE * left)
        self._order = np.where(self._worth > 0.0, self.priced.margins, -np.inf)
        best = Incumbent(best.placed, best.value, best.rung, min(best.bound, self.priced.bound))
        return self._filled(best, "prices", self._prefer)

    def by_relaxation(self, best: Incumbent, order: Floats, score: Score) -> Incumbent:
        """In the order of what the relaxation matches, on what it chooses."""
        self._order = np.where(self._worth > 0.0, order, -np.inf)
        return self._filled(best, "relaxation", score)

    def searched(self, best: Incumbent, target: float, until: float, rng: np.random.Generator) -> Incumbent:
        """Ruin and recreate from the best placements so far, up to ``target`` or the time ``until``."""
        self.set_to(best.placed)
        ruin_and_recreate(
            self.packing,
            Relocation(self.packing),
            self.value,
            self._order,
            target,
            lambda: self._clock() >= until,
            rng,
        )
        return self._better(best, best.rung if best.rung.endswith("search") else f"{best.rung}, search")

    def set_to(self, placed: dict[int, Placement]) -> None:
        """Makes the packing that of ``placed``; what does not fit together is left out."""
        for job in list(self.packing.placed):
            self.packing.remove(job)
        for job, placement in placed.items():
            self.packing.put(job, placement)

    def _filled(self, best: Incumbent, rung: str, score: Score) -> Incumbent:
        order = [job for job in np.argsort(-self._order, kind="stable").tolist() if np.isfinite(self._order[job])]
        self.set_to({})
        greedy(self.packing, order, score)
        if not self.is_due():
            Relocation(self.packing).improve(order, self.is_due)
        return self._better(best, rung)

    def _better(self, best: Incumbent, rung: str) -> Incumbent:
        value = self.value()
        return Incumbent(dict(self.packing.placed), value, rung, best.bound) if value > best.value else best

    def _possible(self) -> NDArray[np.bool_]:
        possible = np.ones(len(self._worth), dtype=np.bool_)
        for at, positions in zip(self._eligibility.dependencies, self._candidates, strict=True):
            if len(positions) < at.of.count:
                possible[at.job] = False
        return possible


def _worth(eligibility: Eligibility, candidates: list[Integers], form: LinearForm) -> Floats:
    """The most that each job can be worth."""
    worth = form.z.copy()
    if form.x is not None:
        for number, at in enumerate(eligibility.dependencies):
            gains = form.x[number]
            if at.of.count == 1:
                worth[at.job] += float(gains.max(initial=-np.inf)) if len(gains) else 0.0
            elif len(gains) >= at.of.count:
                worth[at.job] += float(np.partition(gains, -at.of.count)[-at.of.count :].sum())
    return worth


def preferred(form: LinearForm, candidates: list[Integers]) -> Score:
    """The resources that add most to an objective."""
    if form.x is None:
        return None
    gains, sign = form.x, -1.0 if form.is_max else 1.0

    def score(number: int, resources: Integers) -> Floats:
        return sign * gains[number][np.searchsorted(candidates[number], resources)]

    return score
