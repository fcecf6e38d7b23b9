"""How much to reserve, so that a chosen share of jobs fits and little is wasted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, inf, log
from typing import Any, Self

from .forecasters import LARGEST, Crowd

SPREAD = ((1.0, 0.85), (1.02, 0.09), (1.12, 0.06))
"""Where a job may lie that goes to a known place: just there, or a little above."""

MEAN_SPREAD = sum(up * share for up, share in SPREAD)

BEYOND = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Reservations considered above everything seen, times the largest."""

FAINT = 4e-3
"""Places less likely than this are left out."""

NOVEL = 5.0
"""Jobs' worth of doubt in each level's crowd: a group of n leaves NOVEL / (n + NOVEL) to the wider one."""

RETRIED = 2.0 / log(2.0) - 1.0
"""A job that needs y and is tried with b, 2 b, 4 b .. until it fits holds 2 / ln 2 y - b idly, if y may be anything."""

REPEAT = 1.5
"""What a failed attempt with b costs, times b, where nothing is known of how much more is needed."""

PACE = 0.003
"""How fast the price of a failure follows the failures observed: slowly, since failures come in bursts."""

HASTE = 4.0
SETTLED = 500
"""The first jobs move the price up to 1 + HASTE times faster; after SETTLED of them half of the haste is gone."""

FIRST_PRICE = 0.5
STEEPNESS = 2.0
"""The logarithm of the price starts at FIRST_PRICE for 5 % of failures, and STEEPNESS higher for each e-th of them."""


class Bounds:
    """Reserves where the expected waste and the price of a failure balance; calibrates the price on line.

    The distribution of the next value is that of the most specific group, mixed with wider ones the more, the
    fewer it has seen; what even the widest leaves unexplained lies beyond everything seen (a Pareto tail). Of the
    candidates b, the one with the least

        E[b - y; y <= b] + E[RETRIED y - b; y > b] + P(y > b) price

    is reserved: what lies idle, what a failed attempt and its repetitions waste, and a price per failed job in units
    of the site's mean job, in value x seconds. That price rises a little with every failure and falls with every
    success, so that in the long run the failures are the share that was chosen, spent where waiting for certainty
    would waste the most. Cheap jobs are thus held safer than dear ones. Where even at a price of nothing too few jobs
    fail, because a failure wastes more than it saves, that waste is counted only in part.
    """

    def __init__(self, coverage: float = 0.95) -> None:
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage is {coverage}: it is a share of jobs, above 0 and below 1")
        self.coverage = coverage
        self._log_price = _first_price(coverage)
        self._mean_job = 0.0  # value x seconds
        self._n = 0
        self._mean_seconds = 1.0  # until a job tells
        self._timed = 0
        self._reserved = 0
        self._covered = 0

    def reserve(
        self, crowds: Sequence[Crowd], seconds: float | None = None, above: float = 0.0
    ) -> tuple[float, float] | None:
        """(what to reserve, the estimated probability that the job needs more); None without any history.

        `crowds` are those of the job's groups, specific to general; `seconds` how long it may hold the reservation,
        where unknown as long as jobs do in the mean; `above` the highest reservation known to have failed, which the
        bound exceeds.
        """
        mixed: dict[float, float] = {}
        unexplained = 1.0
        for crowd in crowds:
            if not crowd.n:
                continue
            places, total = crowd.crowd()
            weight = unexplained * crowd.n / ((crowd.n + NOVEL) * total)
            unexplained *= NOVEL / (crowd.n + NOVEL)
            for place, mass in places:
                mixed[place] = mixed.get(place, 0.0) + weight * mass
        if not mixed:
            return None
        price = exp(self._log_price) * self._mean_job / (seconds or self._mean_seconds)
        leniency = min(1.0, exp(self._log_price))
        steps = [(place * up, mass * share) for place, mass in mixed.items() if mass > FAINT for up, share in SPREAD]
        steps.sort()
        top = max(mixed)
        highest = steps[-1][0]
        steps += [(highest * up, 0.0) for up in BEYOND]
        # Mass, and mass x value, of all that is known, and of what would fit.
        known = sum(mixed.values())
        known_value = MEAN_SPREAD * sum([mass * place for place, mass in mixed.items()])
        least_share = 0.25 * known
        fits = fits_value = 0.0
        least = inf
        chosen = (highest, unexplained)
        for step, mass in steps:
            fits += mass
            fits_value += mass * step
            if fits < least_share:  # most would fail: never the least of costs, and not worth working out
                continue
            beyond = unexplained if step <= top else unexplained * top / step
            fails = known - fits
            wasted = RETRIED * (known_value - fits_value) + step * (REPEAT * beyond - fails)
            cost = step * fits - fits_value + leniency * wasted + price * (beyond + fails)
            if cost < least and step > above:
                least = cost
                chosen = (step, beyond + fails)
        if chosen[0] <= above:
            chosen = (above * BEYOND[1], unexplained)
        return min(chosen[0], LARGEST), min(1.0, max(0.0, chosen[1]))

    def score(self, reserved: float | None, value: float, seconds: float | None = None) -> None:
        """Take in what a job needed for which `reserved` had been the answer (None: there had been none)."""
        self._n += 1
        if seconds:
            self._timed += 1
            self._mean_seconds += (seconds - self._mean_seconds) / min(self._timed, 5000)
        job = min(value * (seconds or self._mean_seconds), LARGEST)
        self._mean_job += (job - self._mean_job) / min(self._n, 5000)
        if reserved is None:
            return
        failed = value > reserved
        self._reserved += 1
        self._covered += not failed
        pace = PACE * (1.0 + HASTE / (1.0 + self._reserved / SETTLED))
        self._log_price += pace * (failed - (1.0 - self.coverage))

    @property
    def observed_coverage(self) -> float | None:
        """Share of reservations that were enough; None while there were none."""
        return self._covered / self._reserved if self._reserved else None

    def state(self) -> dict[str, Any]:
        """Everything known, as values that JSON can carry."""
        return {
            "coverage": self.coverage,
            "log_price": self._log_price,
            "mean_job": self._mean_job,
            "n": self._n,
            "mean_seconds": self._mean_seconds,
            "timed": self._timed,
            "reserved": self._reserved,
            "covered": self._covered,
        }

    @classmethod
    def from_state(cls, coverage: float, state: Mapping[str, Any]) -> Self:
        """The bounds whose `state()` this was, exactly; where another coverage is now chosen, at a price for that."""
        restored = cls(coverage)
        restored._log_price = float(state["log_price"])
        if state["coverage"] != coverage:
            restored._log_price += _first_price(coverage) - _first_price(state["coverage"])
        restored._mean_job = float(state["mean_job"])
        restored._n = int(state["n"])
        restored._mean_seconds = float(state["mean_seconds"])
        restored._timed = int(state["timed"])
        restored._reserved = int(state["reserved"])
        restored._covered = int(state["covered"])
        return restored


def _first_price(coverage: float) -> float:
    return FIRST_PRICE + STEEPNESS * log(0.05 / (1.0 - coverage))
