"""Whom to believe: a tournament among forecasts by capped relative error, per user and for the site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .confidence import Hits
from .forecasters import Floats
from .quality import NEAR

FADE = 0.995
"""What a loss still counts for, one job later."""

REPEATED = 0.3
"""What a job counts whose forecasts were those of the job before: of a burst, each tells little that is new."""

PRIOR = 3.0
"""How many of a user's own jobs weigh as much as all that the site has seen."""

TRUST = 20.0
"""A forecast's vote weighs exp(-TRUST d) where its expected capped relative error is d above the least."""


def capped_error(forecast: float, actual: float) -> float:
    """`min(1, |forecast - actual| / actual)`, 0..1: what accuracy lacks to 1. Of an actual 0: 0 if exact, else 1."""
    miss = abs(forecast - actual)
    return miss / actual if miss < actual else float(miss > 0.0)


@dataclass(frozen=True, slots=True)
class Regret:
    """Capped relative error summed over a user's jobs: of the answers, and of the best candidate in hindsight."""

    jobs: int
    answered: float
    best: float
    best_candidate: int


class Ledger:
    """Losses of each candidate: faded for the choice, and plain for the regret; and how the answers fared.

    `debt` is how many more of the user's jobs ran out of their bounds than may.
    """

    __slots__ = ("answered", "counts", "debt", "hits", "jobs", "losses", "previous", "totals", "weights")

    def __init__(self, candidates: int) -> None:
        self.losses = np.zeros(candidates)
        self.counts = np.zeros(candidates)
        self.totals = np.zeros(candidates)
        self.weights: list[float] = [1.0] * candidates
        self.previous: list[float | None] = []
        self.hits = Hits()
        self.answered = 0.0
        self.jobs = 0
        self.debt = 0.0

    def take(self, lost: Floats, spoke: Floats, fade: float, weight: float) -> None:
        """Fade what those who `spoke` (1, else 0) have lost so far, and add what they `lost` (0 for the silent)."""
        fades = 1.0 - (1.0 - fade) * spoke
        self.losses *= fades
        self.counts *= fades
        self.losses += weight * lost
        self.counts += weight * spoke

    def expected(self) -> Floats:
        """Capped relative error that each candidate is expected to make, a half where nothing is known."""
        expected: Floats = (self.losses + 0.25) / (self.counts + 0.5)
        return expected

    def state(self) -> dict[str, Any]:
        """Everything known, as values that JSON can carry."""
        return {
            "losses": self.losses.tolist(),
            "counts": self.counts.tolist(),
            "totals": self.totals.tolist(),
            "weights": self.weights,
            "previous": self.previous,
            "hits": [self.hits.hits, self.hits.trials],
            "answered": self.answered,
            "jobs": self.jobs,
            "debt": self.debt,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The ledger whose `state()` this was, exactly."""
        restored = cls(0)
        restored.losses = np.array(state["losses"], dtype=np.float64)
        restored.counts = np.array(state["counts"], dtype=np.float64)
        restored.totals = np.array(state["totals"], dtype=np.float64)
        restored.weights = state["weights"]
        restored.previous = state["previous"]
        restored.hits = Hits(*state["hits"])
        restored.answered = state["answered"]
        restored.jobs = state["jobs"]
        restored.debt = state["debt"]
        return restored


class Tournament:
    """Turns the losses of a fixed number of candidates into weights of their votes.

    A user's weights rest on the user's own jobs, and on the site's as long as those are few; a user never seen gets
    the site's.
    """

    def __init__(self, candidates: int) -> None:
        self._candidates = candidates
        self.site = Ledger(candidates)
        self.users: dict[str | None, Ledger] = {}

    def weights(self, user: str | None) -> list[float]:
        """Weight of each candidate's vote, (candidates,), 1 for the one expected to be best."""
        ledger = self.users.get(user)
        return _votes(self.site.expected()) if ledger is None else ledger.weights

    def score(
        self, user: str | None, forecasts: list[float | None], answered: float | None, actual: float
    ) -> bool | None:
        """Take in how far each candidate (None: it had nothing to say) and the answer given were off.

        Returns whether the answer was within 20 %; None where there was none.
        """
        ledger = self.users.get(user)
        if ledger is None:
            ledger = self.users[user] = Ledger(self._candidates)
        values = np.array(forecasts, dtype=np.float64)
        spoke = (values == values).astype(np.float64)  # not NaN
        lost = np.abs(values - actual)
        if actual > 0.0:
            # Capped before divided: no quotient overflows. `fmin` takes the other of a NaN: silence loses all.
            np.fmin(lost, actual, out=lost)
            lost /= actual
        else:
            lost = (lost != 0.0).astype(np.float64)
        ledger.totals += lost
        lost *= spoke
        self.site.take(lost, spoke, FADE, 1.0)
        if forecasts == ledger.previous:
            ledger.take(lost, spoke, FADE**REPEATED, REPEATED)
        else:
            ledger.take(lost, spoke, FADE, 1.0)
        ledger.previous = forecasts
        ledger.jobs += 1
        hit = None
        if answered is None:
            ledger.answered += 1.0
        else:
            ledger.answered += capped_error(answered, actual)
            hit = abs(answered - actual) <= NEAR * actual
            ledger.hits.score(hit)
        ledger.weights = _votes((ledger.losses + PRIOR * self.site.expected()) / (ledger.counts + PRIOR))
        return hit

    def regret(self, user: str | None) -> Regret | None:
        """How the answers did beside the user's best single candidate in hindsight; None for a user without jobs."""
        ledger = self.users.get(user)
        if ledger is None:
            return None
        best = int(np.argmin(ledger.totals))
        return Regret(ledger.jobs, ledger.answered, float(ledger.totals[best]), best)


def _votes(expected: Floats) -> list[float]:
    votes: list[float] = np.exp(TRUST * (expected.min() - expected)).tolist()
    return votes


def elect(votes: Mapping[float, float]) -> list[tuple[float, float]]:
    """(accuracy expected by the weighted votes, forecast) for each forecast that counts, the best first.

    The first maximises `sum_q w_q max(0, 1 - |p - q| / q)`, whose maximum always lies at one of the votes. Votes
    that weigh less than a thousandth of the heaviest are left out.
    """
    least = max(votes.values()) * 1e-3
    heard = [(q, weight) for q, weight in votes.items() if weight > least]
    whole = sum([weight for _, weight in heard])
    expected: list[tuple[float, float]] = []
    for p, _ in heard:
        half = 0.5 * p
        total = 0.0
        for q, weight in heard:
            if p <= q:
                total += weight * (p / q) if q else weight
            elif half < q:
                total += weight * (2.0 - p / q)
        expected.append((total / whole, p))
    if len(expected) > 1:
        expected.sort(reverse=True)
    return expected
