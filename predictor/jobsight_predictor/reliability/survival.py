"""The chance that a machine stays available for the run time of a job, from the sessions of this and other machines.

The hazard is z_m x base x f(age of the session) x g(hour of the week, group): constant within each hour and range of
ages, estimated as events over time at risk. Groups (departments, clusters) take from all machines what they have too
few events for, and a machine's own z_m is Gamma distributed around 1 with a width estimated from all machines, so that
a thin history counts little. Integrated over z_m, the chance is (b / (b + H))^a.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .exposure import HOUR_S, WEEK_HOURS, Exposure, Ints, Pieces, cut
from .hazard import Hazard
from .resource_vector import Floats

LONGEST_RUN_S = 28 * 86_400.0
"""A longer run time counts as this."""

DAY_HOUR = np.arange(WEEK_HOURS) % 24 + 24 * (np.arange(WEEK_HOURS) >= 120)
"""By hour of the week: the hour of a working day (0 to 23), or 24 + that of a day of the weekend."""

LATEST_S = 1e12
"""A later time, some 30,000 years on, is none."""

LEARNED = ("events", "seconds", "weighted", "hour_events", "hour_weighted", "age_events", "age_weighted")
ROUNDS = 10
ALIKE = 1e9
"""The shape where all machines count as the same."""


@dataclass(frozen=True, slots=True)
class SurvivalSettings:
    """``borrowed_events``: how many expected events of the wider class count beside an estimate's own: of the hour of
    the day for an hour of the week, of all ages for a range of ages. ``lent_events``: the same of all groups for a
    group's hour of the day; fewer, since groups may differ much.

    Without ``by_hour``, ``by_age`` and ``by_machine`` the hazard does not depend on these. ``interval_z`` is the normal
    quantile of the interval's ends (1.2816: 80 %).
    """

    age_bounds_h: tuple[float, ...] = (0.0, 1.0 / 12.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 48.0)
    by_hour: bool = True
    by_age: bool = True
    by_machine: bool = True
    borrowed_events: float = 4.0
    lent_events: float = 1.0
    utc_offset_s: float = 0.0
    interval_z: float = 1.2816


@dataclass(frozen=True, slots=True)
class Chances:
    """Each of shape (n,): the chance to stay, its interval, and whether the machine has a history."""

    mean: Floats
    low: Floats
    high: Floats
    known: NDArray[np.bool_]


DEFAULTS = SurvivalSettings()


class Survival:
    """What was learned of n machines, as arrays of plain numbers that can be stored and put back.

    By machine, shape (n,): ``group``, ``events``, ``seconds`` at risk, and ``weighted`` seconds, those multiplied by
    the other factors. By ``(group, hour of the week)`` and by range of ages: ``*_events`` and ``*_weighted``.
    Change them through the methods only: what is derived from them is kept.
    """

    def __init__(self, group: Ints, settings: SurvivalSettings = DEFAULTS) -> None:
        self.settings = settings
        self.group = group
        machines, groups, ages = len(group), int(group.max(initial=0)) + 1, len(settings.age_bounds_h)
        self.events, self.seconds, self.weighted = np.zeros((3, machines))
        self.hour_events, self.hour_weighted = np.zeros((2, groups, WEEK_HOURS))
        self.age_events, self.age_weighted = np.zeros((2, ages))
        self._spread: tuple[float, float] | None = None
        self._kept: Hazard | None = None

    def fit(self, exposure: Exposure, passes: int = 8) -> None:
        """Learns ``exposure`` and nothing else; each pass sharpens the factors by those of the pass before."""
        pieces = self._cut(exposure)
        for _ in range(passes):
            hazard, own = self._hazard(), self._own()
            for sums in self._sums():
                sums[...] = 0.0
            self._add(pieces, hazard, own)

    def learn(self, exposure: Exposure) -> None:
        """Adds ``exposure`` to what was learned."""
        self._add(self._cut(exposure), self._hazard(), self._own())

    def fade(self, factor: float) -> None:
        """All that was learned counts ``factor`` times as much from now on.

        Raises:
            ValueError: ``factor`` is not from 0 to 1.
        """
        if not 0.0 <= factor <= 1.0:
            raise ValueError(f"factor {factor!r}: give a number from 0 to 1")
        for sums in self._sums():
            sums *= factor
        self._spread = self._kept = None

    def forget(self, machine: int) -> None:
        """The machine of this number is another one now."""
        self.events[machine] = self.seconds[machine] = self.weighted[machine] = 0.0
        self._spread = self._kept = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Machines with a history: a session that ended, or a day without one."""
        return (self.events > 0.0) | (self.seconds >= 86_400.0)

    def spread(self) -> tuple[float, float]:
        """Events per second at risk of an average machine, and the shape of the Gamma distribution of z around 1.

        Both by the method of moments, in turn: the mean of z over machines is 1, not that over time at risk. One event
        a day, and a shape of 1, if nothing was learned.
        """
        if self._spread is None:
            self._spread = _spread(self.events, self.weighted, self.settings.by_machine)
        return self._spread

    def chance(self, machine: Ints, age_s: Floats, now_s: float, run_s: float | Floats) -> Chances:
        """The chances that machines, available for ``age_s``, stay so for ``run_s`` more, with their intervals.

        ``machine`` are numbers, shape (k,); ``run_s`` is one for all, or of shape (k,). An unknown age (NaN) is 0.

        Raises:
            ValueError: ``run_s`` or ``now_s`` is not a time.
        """
        a, b, expected = self._asked(machine, age_s, now_s, run_s)
        quantile = self.settings.interval_z / (3.0 * np.sqrt(a))
        middle = 1.0 - 1.0 / (9.0 * a)
        # Wilson and Hilferty 1931: the quantiles of a Gamma distribution.
        least, most = (np.maximum(middle + sign * quantile, 0.0) ** 3 * a / b for sign in (-1.0, 1.0))
        mean = np.exp(-a * np.log1p(expected / b))
        low, high = np.exp(-most * expected), np.exp(-least * expected)
        return Chances(mean, np.minimum(low, mean), np.maximum(high, mean), self.known[machine])

    def mean_chance(self, machine: Ints, age_s: Floats, now_s: float, run_s: float | Floats) -> Floats:
        """Only the chances, shape (k,)."""
        a, b, expected = self._asked(machine, age_s, now_s, run_s)
        mean: Floats = np.exp(-a * np.log1p(expected / b))
        return mean

    def _asked(
        self, machine: Ints, age_s: Floats, now_s: float, run_s: float | Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Shape and rate of each machine's z, and the expected events of an average machine over the run."""
        runs = np.atleast_1d(np.asarray(run_s, dtype=np.float64))
        if not (abs(now_s) <= LATEST_S and bool((runs >= 0.0).all())):
            raise ValueError(
                f"a run time of {run_s!r} s at {now_s!r}: give seconds of at least 0, and seconds since 1970"
            )
        age = np.where(age_s > 0.0, age_s, 0.0)
        expected = self._hazard().integral(self.group[machine], age, now_s, np.minimum(runs, LONGEST_RUN_S))
        base, shape = self.spread()
        return shape + self.events[machine], shape + base * self.weighted[machine], expected

    def _hazard(self) -> Hazard:
        if self._kept is None:
            age, hour = self._estimated()
            bounds = np.array(self.settings.age_bounds_h) * HOUR_S
            self._kept = Hazard(self.spread()[0], age, hour, bounds, self.settings.utc_offset_s)
        return self._kept

    def _estimated(self) -> tuple[Floats, Floats]:
        """f by range of ages, and g by group and hour of the week; 1 where nothing is known."""
        base, borrowed = self.spread()[0], self.settings.borrowed_events
        age = np.ones(len(self.age_events))
        if self.settings.by_age:
            age = _around_1((self.age_events + borrowed) / (base * self.age_weighted + borrowed), self.age_weighted)
        if not self.settings.by_hour:
            return age, np.ones(self.hour_events.shape)
        events, expected = _by_day(self.hour_events), base * _by_day(self.hour_weighted)
        of_all = (events.sum(axis=0) + borrowed) / (expected.sum(axis=0) + borrowed)
        lent = self.settings.lent_events
        of_group = (events + lent * of_all) / (expected + lent)
        hour = (self.hour_events + borrowed * of_group[:, DAY_HOUR]) / (base * self.hour_weighted + borrowed)
        return age, _around_1(hour, self.hour_weighted)

    def _cut(self, exposure: Exposure) -> Pieces:
        return cut(exposure, np.array(self.settings.age_bounds_h) * HOUR_S, self.settings.utc_offset_s)

    def _own(self) -> Floats:
        """The mean of each machine's z, shape (n,)."""
        base, shape = self.spread()
        own: Floats = (shape + self.events) / (shape + base * self.weighted)
        return own

    def _add(self, pieces: Pieces, hazard: Hazard, own_factor: Floats) -> None:
        machine, hour, age, group = pieces.machine, pieces.hour, pieces.age, self.group[pieces.machine]
        by_age, by_hour, own = hazard.age[age], hazard.hour[group, hour], own_factor[machine]
        count = len(self.events)
        self._spread = self._kept = None
        self.events += np.bincount(machine, pieces.events, count)
        self.seconds += np.bincount(machine, pieces.seconds, count)
        self.weighted += np.bincount(machine, pieces.seconds * by_age * by_hour, count)
        cell, cells = group * WEEK_HOURS + hour, self.hour_events.size
        self.hour_events += np.bincount(cell, pieces.events, cells).reshape(-1, WEEK_HOURS)
        self.hour_weighted += np.bincount(cell, pieces.seconds * by_age * own, cells).reshape(-1, WEEK_HOURS)
        self.age_events += np.bincount(age, pieces.events, len(self.age_events))
        self.age_weighted += np.bincount(age, pieces.seconds * by_hour * own, len(self.age_events))

    def state(self) -> dict[str, Floats]:
        """What was learned, by the names of the attributes."""
        return dict(zip(LEARNED, self._sums(), strict=True))

    def load(self, state: Mapping[str, Floats]) -> None:
        """Takes in what ``state`` of one with as many machines, groups and ranges of ages gave.

        Raises:
            ValueError: something is missing or of another shape.
        """
        for name, own in self.state().items():
            given = np.asarray(state.get(name, ()), dtype=np.float64)
            if given.shape != own.shape:
                raise ValueError(
                    f"{name} of shape {given.shape} where {own.shape} is expected: learn from the sessions"
                )
            own[...] = given
        self._spread = self._kept = None

    def _sums(self) -> tuple[Floats, ...]:
        return tuple(getattr(self, name) for name in LEARNED)


def _spread(events: Floats, weighted: Floats, by_machine: bool) -> tuple[float, float]:
    total = float(events.sum())
    base, shape = (total + 1.0) / (float(weighted.sum()) + 86_400.0), 1.0 if by_machine else ALIKE
    if not by_machine or total == 0.0:
        return base, shape
    for _ in range(ROUNDS):
        expected = base * weighted
        own = (shape + events) / (shape + expected)
        base = (total + 1.0) / (float((own * weighted).sum()) + 86_400.0)
        expected = base * weighted
        over = float(((events - expected) ** 2 - events).sum()) / max(float((expected**2).sum()), 1e-9)
        shape = 1.0 / min(max(over, 0.02), 4.0)
    return base, shape


def _by_day(sums: Floats) -> Floats:
    """Sums by group and hour of the week, added up by hour of a working day or of the weekend; shape (groups, 48)."""
    days = sums.reshape(-1, 7, 24)
    return np.concatenate([days[:, :5].sum(axis=1), days[:, 5:].sum(axis=1)], axis=1)


def _around_1(factor: Floats, weighted: Floats) -> Floats:
    """``factor`` over its mean by time at risk: the level is that of the base."""
    total = float(weighted.sum())
    return factor / (float((factor * weighted).sum()) / total) if total > 0.0 else factor
