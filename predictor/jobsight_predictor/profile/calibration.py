"""How answers fared that were given at one moment of jobs' lives, and what follows for the next ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .probability import SCARCE, Correction
from .reserve import FailurePrice, Held


class Reserved(Protocol):
    """What was recommended: the bound, and the probability of needing more by the distribution alone; None without."""

    @property
    def bound(self) -> float | None: ...

    @property
    def stated_exceed(self) -> float | None: ...


class Calibration:
    """The price of failures, the correction of probabilities and the shares held, of answers at one moment.

    A job's start has a calibration of its own: what was learned while the job waited makes answers better, and the
    price that held the chosen share at submission would hold more than that. Every job is judged at both moments, so
    neither has less evidence than the other.
    """

    def __init__(self, coverage: float) -> None:
        self.price = FailurePrice(coverage)
        self.exceeding = Correction(SCARCE)
        self.held = Held()

    def score(self, said: Reserved, value: float, seconds: float, weight: float) -> None:
        """Learn what a job used for ``seconds``; ``weight`` of the job in the correction, 0..1."""
        if said.bound is None:
            return
        failed = value > said.bound
        self.price.score(failed=failed)
        self.held.score(said.bound, value, seconds)
        if said.stated_exceed is not None:
            self.exceeding.score(said.stated_exceed, failed, weight)

    def score_lower_bound(self, said: Reserved, value: float) -> None:
        """Learn that a job needed more than ``value``: of a bound above that it is not known whether it holds."""
        if said.bound is not None and value >= said.bound:
            self.price.score(failed=True)
            if said.stated_exceed is not None:
                self.exceeding.score(said.stated_exceed, True, 1.0)

    def state(self) -> list[Any]:
        """The whole state, as JSON values."""
        return [self.price.state(), self.exceeding.state(), self.held.state()]

    def load(self, state: Sequence[Any]) -> None:
        """Take over ``state()``."""
        price, exceeding, held = state
        self.price.load(price)
        self.exceeding.load(exceeding)
        self.held = Held.from_state(held)
