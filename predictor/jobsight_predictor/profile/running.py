"""Outlook of a running job: the distribution of its need, given its use so far."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, inf
from typing import Any, NamedTuple, Self

from jobsight_predictor.profile.calibration import TENTHS
from jobsight_predictor.profile.model import STEPS
from jobsight_predictor.profile.prospect import NEAR_LIMIT, TAIL, TIME_TAIL, Prospect

GROWTH_S = 600.0  # seconds; memory length of the growth of a job's use
HELD_WITHIN = 1.1  # factor; a use above the limit by more than this shows that it is not enforced


@dataclass(frozen=True, slots=True)
class Outlook:
    """Distribution of a job's total need, in the unit of the metric.

    ``places`` ascending, ``at_least`` the probability of needing each or more, both (n,), with n 0 without evidence.
    Needs beyond the last, of probability ``beyond``, follow a Pareto law with this ``index``. ``shifts`` correct the
    predicted share of jobs near their limit that run out, by tenths (``Correction.shifts``); of run times instead
    ``chances`` to reach the limit on each of ``STEPS``.
    """

    places: tuple[float, ...] = ()
    at_least: tuple[float, ...] = ()
    beyond: float = 1.0
    index: float = TAIL
    shifts: tuple[float, ...] = ()
    chances: tuple[float | None, ...] = ()

    @classmethod
    def of(cls, prospect: Prospect | None, shifts: Sequence[float] = (), chances: Sequence[float | None] = ()) -> Self:
        """Make the outlook from a distribution, of run times if there are ``chances``."""
        index = TIME_TAIL if chances else TAIL
        steps = [] if prospect is None else prospect.steps
        if prospect is None or not steps:
            return cls(index=index, shifts=tuple(shifts), chances=tuple(chances))
        sums = list(accumulate([prospect.beyond, *[mass for _, mass in reversed(steps)]]))
        at_least = [each / sums[-1] for each in reversed(sums)]
        places = tuple([place for place, _ in steps])
        return cls(places, tuple(at_least[:-1]), at_least[-1], index, tuple(shifts), tuple(chances))

    def needs(self, value: float) -> float:
        """Return the probability, 0..1, that the job needs ``value`` or more."""
        k = bisect_left(self.places, value)
        if k < len(self.places):
            return self.at_least[k]
        return float(self.beyond * (self.places[-1] / value) ** self.index) if self.places else 1.0

    def exceeds(self, limit: float, so_far: float) -> float:
        """Return the probability, 0..1, that a job that has used ``so_far`` needs ``limit`` or more.

        The product of the probability of coming near the limit, from the distribution, and the share of jobs near it
        that run out, corrected by outcomes.
        """
        if so_far >= limit:
            return 1.0
        near = NEAR_LIMIT * limit
        stated = self._given(near, limit)
        out = stated
        if self.shifts:
            out = min(1.0, max(0.0, stated + self.shifts[bisect_left(TENTHS, stated)]))
        if so_far <= near:
            return out * self._given(so_far, near)
        # Share of those near it that need this much, without those that run out.
        left = (
            (self._given(near, so_far) - stated) / (1.0 - stated) if stated < 1.0 else (limit - so_far) / (limit - near)
        )
        others = (1.0 - out) * left
        return out / (out + others) if out > 0.0 else 0.0

    def _given(self, so_far: float, value: float) -> float:
        """Return the probability that a job that needs ``so_far`` needs ``value``, from the distribution alone."""
        if not self.places or so_far > self.places[-1]:
            return float((so_far / value) ** self.index)
        return self.needs(value) / self.needs(so_far)

    def final(self, so_far: float) -> float:
        """Return the median total need of a job that has used ``so_far``."""
        if not self.places or so_far > self.places[-1]:
            return float(so_far * 2.0 ** (1.0 / self.index))
        half = 0.5 * self.needs(so_far)
        if half < self.beyond:
            return float(self.places[-1] * (self.beyond / half) ** (1.0 / self.index))
        k = bisect_right(self.at_least, -half, key=lambda share: -share)  # half of the mass is above these
        return max(so_far, self.places[k - 1])

    def state(self) -> list[Any]:
        """Return the whole state as JSON values."""
        return [self.places, self.at_least, self.beyond, self.index, self.shifts, self.chances]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Self:
        """Restore an outlook from its ``state()``."""
        places, at_least, beyond, index, shifts, chances = state
        return cls(tuple(places), tuple(at_least), beyond, index, tuple(shifts), tuple(chances))


class RunsOut(NamedTuple):
    """Probability ``chance`` that a running job exceeds its limit, 0..1, and that it does so ``soon``, within a
    horizon, both None where too little is known; ``due_s``: seconds until then, if it does."""

    chance: float | None
    soon: float | None
    due_s: float


def time_runs_out(outlook: Outlook, elapsed_s: float, limit_s: float, within_s: float) -> RunsOut | None:
    """Estimate whether a job that has run for ``elapsed_s`` reaches its time limit; None without an enforced limit.

    The chance is the share of earlier runs that got as far and reached theirs.
    """
    if limit_s <= 0.0 or elapsed_s > HELD_WITHIN * limit_s:
        return None
    due_s = max(0.0, limit_s - elapsed_s)
    chance = outlook.chances[bisect_right(STEPS, elapsed_s / limit_s)] if outlook.chances else None
    if chance is not None and due_s == 0.0:
        chance = 1.0
    return RunsOut(chance, chance if chance is None or due_s <= within_s else 0.0, due_s)


def memory_runs_out(
    outlook: Outlook, peak: float, growth: float, limit: float, elapsed_s: float, left_s: float, within_s: float
) -> RunsOut | None:
    """Estimate whether a job with this ``peak`` so far exceeds its memory limit; None without an enforced limit.

    The distribution gives the probability. The time follows from ``growth``, per second, if that reaches the limit
    before the job ends. Otherwise every moment of its run, ``elapsed_s`` past and ``left_s`` to come, is equally
    likely, so the probability falls with time.
    """
    if limit <= 0.0 or peak > HELD_WITHIN * limit:
        return None
    if not outlook.places:
        return RunsOut(None, None, left_s)
    chance = outlook.exceeds(limit, peak)
    by_growth_s = 0.0 if peak >= limit else (limit - peak) / growth if growth > 0.0 else inf
    if by_growth_s <= left_s:
        return RunsOut(chance, chance if by_growth_s <= within_s else 0.0, by_growth_s)
    gone = elapsed_s / (elapsed_s + left_s)
    chance *= (1.0 - gone) / (1.0 - chance * gone)
    soon = chance * (within_s / left_s if left_s > within_s else 1.0)
    return RunsOut(chance, soon, 0.5 * left_s)


LIKELY = 0.5
"""A job is listed as running out from this chance on."""
MEMORY_NEAR = 0.9
"""A job without an outlook is listed as running out from this share of its requested memory on."""

_HALVINGS = 12
_HAIR = 1.0 - 1e-9  # factor; rounding must not hide one


def time_likely_from(outlook: Outlook, limit_s: float) -> float:
    """Return the run time below which the limit is surely not ``LIKELY`` to be reached."""
    for share, chance in zip((0.0, *STEPS), outlook.chances, strict=False):
        if chance is None or chance >= LIKELY:
            return share * limit_s * _HAIR
    return limit_s * _HAIR if outlook.chances else 0.0


def memory_likely_from(outlook: Outlook, limit: float) -> float:
    """Return a peak below which the limit is surely not ``LIKELY`` to be exceeded: the chance rises with the peak."""
    if not outlook.places:
        return MEMORY_NEAR * limit * _HAIR
    low, high = 0.0, limit
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if outlook.exceeds(limit, middle) >= LIKELY else (middle, high)
    return low * _HAIR


def grown(growth: float, before: float, peak: float, seconds: float) -> float:
    """Update the growth of a peak, per second, after it went from ``before`` to ``peak`` in ``seconds``: a decaying
    mean over about the last ten minutes."""
    if seconds <= 0.0:
        return growth
    kept = exp(-seconds / GROWTH_S)
    return kept * growth + (1.0 - kept) * (peak - before) / seconds
