"""The probability that a machine stays available for a job's run time, from the sessions of all machines.

The hazard is z_m x base x f(age of the session). f is constant within each range of ages, estimated as events over time
at risk. A machine's own z_m is Gamma distributed around 1, with a width estimated from all machines: a short history
counts little. Integrated over z_m, the probability is (b / (b + H))^a.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobsight_predictor.arrays import Booleans, Floats, Integers
from jobsight_predictor.reliability.fading import faded, faded_span

DAY_S = 86_400.0
AGES_S: Floats = 3600.0 * np.array([0.0, 1.0 / 12.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 48.0])
"""Lower ends of the ranges of ages; the last range has no upper end."""

BORROWED = 4.0
"""Events; weight of the hazard at all ages beside that of one range."""

INTERVAL_Z = 1.2816
"""Normal quantile of an 80 % interval."""

_ROUNDS = 10
_FOREVER_S = 1e12
_NARROWEST, _WIDEST = 0.02, 4.0


class Chances(NamedTuple):
    """Probability, its interval, and whether the machine has a history, each of shape (n,)."""

    mean: Floats
    low: Floats
    high: Floats
    known: Booleans


class Survival:
    """Survival model of n machines. By machine: ``events``, ``seconds`` at risk, and seconds times f, ``weighted``. By
    range of ages: ``age_events``, and seconds times each machine's factor, ``age_weighted``.
    """

    def __init__(self, machines: int) -> None:
        self.events, self.seconds, self.weighted = np.zeros((3, machines))
        self.age_events, self.age_weighted = np.zeros((2, len(AGES_S)))

    def learn(
        self, machine: Integers, began_s: Floats, from_s: Floats, to_s: Floats, ended: Booleans, now: float | Floats
    ) -> None:
        """Learn from parts of sessions: begin of the session, the observed part, and whether the machine then became
        unavailable. Older observations weigh less at ``now``.
        """
        (rate, shape), age_factor, count = self.spread(), self.age_factor(), len(self.events)
        factors = (shape + self.events) / (shape + rate * self.weighted)
        first, last = (np.maximum(times - began_s, 0.0)[:, None] for times in (from_s, to_s))
        ago_s = np.broadcast_to(np.asarray(now) - began_s, began_s.shape)[:, None]
        begin, end = (np.clip(bounds, first, last) for bounds in (AGES_S, np.append(AGES_S[1:], np.inf)))
        seconds = faded_span(np.maximum(ago_s - begin, 0.0), np.maximum(ago_s - end, 0.0))
        events = faded(np.maximum(now - to_s, 0.0)) * ended
        age = np.maximum(np.searchsorted(AGES_S, last[:, 0]) - 1, 0)
        self.age_weighted += (seconds * factors[machine][:, None]).sum(axis=0)
        self.age_events += np.bincount(age, events, len(AGES_S))
        self.events += np.bincount(machine, events, count)
        self.seconds += np.bincount(machine, seconds.sum(axis=1), count)
        self.weighted += np.bincount(machine, seconds @ age_factor, count)

    def fade(self, factor: float) -> None:
        """Multiply the weight of everything learned by ``factor``."""
        for sums in (self.events, self.seconds, self.weighted, self.age_events, self.age_weighted):
            sums *= factor

    def spread(self) -> tuple[float, float]:
        """Return events per second at risk of an average machine, and the shape of the Gamma distribution of z around
        1.

        Both by the method of moments, alternating: the mean of z over machines is 1, not that over time at risk. One
        event a day and a shape of 1 before anything was learned.
        """
        total = float(self.events.sum())
        rate, shape = (total + 1.0) / (float(self.weighted.sum()) + DAY_S), 1.0
        for _ in range(_ROUNDS if total > 0.0 else 0):
            factors = (shape + self.events) / (shape + rate * self.weighted)
            rate = (total + 1.0) / (float((factors * self.weighted).sum()) + DAY_S)
            expected = rate * self.weighted
            over = float(((self.events - expected) ** 2 - self.events).sum()) / max(float((expected**2).sum()), 1e-9)
            shape = 1.0 / min(max(over, _NARROWEST), _WIDEST)
        return rate, shape

    def age_factor(self) -> Floats:
        """Return f by range of ages; its mean over the time at risk is 1. f is 1 before anything was learned."""
        total = float(self.age_weighted.sum())
        if total == 0.0:
            return np.ones(len(AGES_S))
        factor = (self.age_events + BORROWED) / (self.spread()[0] * self.age_weighted + BORROWED)
        return factor * (total / float((factor * self.age_weighted).sum()))

    def chance(self, machine: Integers, age_s: Floats, run_s: float) -> Chances:
        """Return the probabilities that machines of these numbers, available for ``age_s``, stay so for ``run_s`` more.

        An unknown age (NaN) counts as 0. A machine has a history after an ended session, or a day of one.
        """
        rate, shape = self.spread()
        bounds = np.append(AGES_S, _FOREVER_S)
        passed = np.append(0.0, np.cumsum(self.age_factor() * np.diff(bounds)))
        age = np.minimum(np.where(age_s > 0.0, age_s, 0.0), _FOREVER_S / 2.0)
        hazard: Floats = rate * (np.interp(age + run_s, bounds, passed) - np.interp(age, bounds, passed))
        a, b = shape + self.events[machine], shape + rate * self.weighted[machine]
        # Wilson and Hilferty 1931: the quantiles of a Gamma distribution.
        middle, width = 1.0 - 1.0 / (9.0 * a), INTERVAL_Z / (3.0 * np.sqrt(a))
        least, most = (np.maximum(middle + sign * width, 0.0) ** 3 * a / b for sign in (-1.0, 1.0))
        mean = np.exp(-a * np.log1p(hazard / b))
        low, high = np.minimum(np.exp(-most * hazard), mean), np.maximum(np.exp(-least * hazard), mean)
        return Chances(mean, low, high, (self.events[machine] > 0.0) | (self.seconds[machine] >= DAY_S))
