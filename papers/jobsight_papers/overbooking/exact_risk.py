"""Start and end of a planned job as distributions on a grid of hours; the exact form, by convolution.

A job starts after its release and the ends of the jobs before it on its processors (its predecessors), at its planned
start at the latest. Predecessors count as independent, although those with a common predecessor are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor

import numpy as np

from jobsight_predictor.arrays import Floats
from jobsight_predictor.runtime.accuracy import RuntimeAccuracy
from jobsight_scheduler.overbooking.plan import Booking, BookingPlan, JobOffer
from jobsight_scheduler.overbooking.risk import NEGLIGIBLE, STEP_H, PlanRisk


@dataclass(frozen=True, slots=True)
class StartTime:
    """A start at ``times_h[j]`` has probability ``mass[j]``, both of shape (points,), times ascending."""

    times_h: Floats
    mass: Floats

    @property
    def earliest_h(self) -> float:
        """First possible start."""
        return float(self.times_h[0])


@dataclass(frozen=True, slots=True)
class FinishTime:
    """``cdf[k]`` is the probability that the job has ended at ``(first + k) * step_h``; ``end_h`` is its last instant.

    The probability missing from the last value is that of being killed (or of ending) at ``end_h``.
    """

    first: int
    cdf: Floats
    end_h: float
    step_h: float

    def by(self, time_h: float) -> float:
        """Return the probability that the job has ended at ``time_h``."""
        if time_h >= self.end_h:
            return 1.0
        place = time_h / self.step_h - self.first
        if place < 0.0 or not len(self.cdf):
            return 0.0
        below = int(place)
        if below + 1 >= len(self.cdf):
            return float(self.cdf[-1])
        part = place - below
        return float(self.cdf[below] * (1.0 - part) + self.cdf[below + 1] * part)

    def multiply_into(self, product: Floats, first: int) -> None:
        """Multiply ``product``, the values at ``(first + k) * step_h``, by those of this distribution."""
        skip = self.first - first
        if skip >= len(product):
            product[:] = 0.0
            return
        if skip > 0:
            product[:skip] = 0.0
            values = self.cdf
        else:
            skip, values = 0, self.cdf[-skip:]
        ended = max(ceil(self.end_h / self.step_h - 1e-9) - first, 0)
        count = min(len(values), len(product) - skip, max(ended - skip, 0))
        product[skip : skip + count] *= values[:count]


def start_time(
    earliest_h: float, planned_h: float, predecessors: Iterable[FinishTime], step_h: float = STEP_H
) -> StartTime:
    """Return the start of a job that may start from ``earliest_h`` on (released, and not in the past).

    F(t) = product of the predecessors' F_i(t) from ``earliest_h`` on, and 1 at ``planned_h``.
    """
    pending = [finish for finish in predecessors if finish.end_h > earliest_h]
    if not pending or planned_h <= earliest_h:
        return StartTime(np.array([earliest_h if not pending else planned_h]), np.ones(1))
    first = floor(earliest_h / step_h) + 1
    count = max(ceil(planned_h / step_h) - first, 0)
    edges = np.empty(count + 2)
    product = edges[1:-1]
    product[:] = 1.0
    at_once = 1.0
    for finish in pending:
        finish.multiply_into(product, first)
        at_once *= finish.by(earliest_h)
    edges[0], edges[-1] = at_once, 1.0
    times = np.empty(count + 2)
    times[0], times[-1] = earliest_h, planned_h
    if count:
        times[1:-1] = (np.arange(first, first + count) - 0.5) * step_h
        times[1] = 0.5 * (earliest_h + first * step_h)
    mass = np.empty(count + 2)
    mass[0] = at_once
    np.subtract(edges[1:], edges[:-1], out=mass[1:])
    return StartTime(times, np.maximum(mass, 0.0))


def run_lags(requested_h: float, accuracy: RuntimeAccuracy, step_h: float = STEP_H) -> Floats:
    """Return the CDF of the run time on the grid, from 0 until it is 1."""
    return accuracy.within(np.arange(ceil(requested_h / step_h) + 1.0) * (step_h / requested_h))


def finish_of_waiting(start: StartTime, lags: Floats, end_h: float, step_h: float = STEP_H) -> FinishTime:
    """Return the end of a job that starts at ``start`` and is killed at ``end_h``: start and run time convolved.

    ``lags`` is the run time from ``run_lags``.
    """
    places = start.times_h / step_h
    below = np.floor(places).astype(np.int64)
    upper = places - below
    first = int(below[0])
    length = int(below[-1]) - first + 2
    starts = np.bincount(below - first, start.mass * (1.0 - upper), minlength=length)
    starts[1:] += np.bincount(below - first, start.mass * upper, minlength=length)[:-1]
    known = max(ceil(end_h / step_h - 1e-9) - first, 0)  # values before the end
    # The convolution stops where the lags do; past them, every run that began at least that long ago has ended.
    cdf = np.convolve(starts, lags)[:known]
    if known > len(lags):
        cdf[len(lags) :] += np.cumsum(starts)[: known - len(lags)][: len(cdf) - len(lags)]
    return FinishTime(first, np.minimum(cdf, 1.0), end_h, step_h)


def finish_of_running(
    started_h: float, requested_h: float, end_h: float, now_h: float, accuracy: RuntimeAccuracy, step_h: float = STEP_H
) -> FinishTime:
    """Return the end of a job that started at ``started_h`` and still runs at ``now_h``; ``end_h`` as before."""
    rest = accuracy.after((now_h - started_h) / requested_h)
    first = floor(now_h / step_h)
    known = max(ceil(end_h / step_h - 1e-9) - first, 0)
    times = np.arange(float(first), first + known) * step_h
    return FinishTime(first, rest.within((times - started_h) / requested_h), end_h, step_h)


def executable(start: StartTime, window_end_h: float, requested_h: float, accuracy: RuntimeAccuracy) -> float:
    """Return P_executable: the probability that a job ends by itself before ``window_end_h``: sum p(t) G((w - t) /
    requested).

    ``window_end_h`` is the first of the next start booked on its processors, its deadline, and its planned start plus
    its requested time.
    """
    fractions = (window_end_h - start.times_h) / requested_h
    return min(1.0, float(start.mass @ accuracy.within(fractions)))


class ExactRisk(PlanRisk[StartTime, FinishTime]):
    """Risk by convolution on a grid of ``step_h``."""

    def __init__(self, plan: BookingPlan, now_h: float, step_h: float = STEP_H) -> None:
        super().__init__(plan, now_h)
        self._step_h = step_h

    def _starts_after(self, earliest_h: float, planned_h: float, ends: list[FinishTime]) -> StartTime:
        return start_time(earliest_h, planned_h, ends, self._step_h)

    def _ends_running(self, booking: Booking, started_h: float) -> FinishTime:
        offer = booking.offer
        return finish_of_running(started_h, offer.requested_h, booking.end_h, self.now_h, offer.accuracy, self._step_h)

    def _ends_waiting(self, offer: JobOffer, starts: StartTime, end_h: float) -> FinishTime:
        lags = self._plan.run_times.get((offer.job, self._step_h))
        if lags is None:
            lags = run_lags(offer.requested_h, offer.accuracy, self._step_h)
            if offer.job in self._plan.bookings:
                self._plan.run_times[offer.job, self._step_h] = lags
        return finish_of_waiting(starts, lags, end_h, self._step_h)

    def _differ(self, one: FinishTime, other: FinishTime) -> bool:
        first = max(one.first, other.first)
        a, b = one.cdf[first - one.first :], other.cdf[first - other.first :]
        count = min(len(a), len(b))
        outside = max(
            float(x.cdf[min(first - x.first, len(x.cdf)) - 1]) if x.first < first else 0.0 for x in (one, other)
        )
        return outside > NEGLIGIBLE or (count > 0 and float(np.abs(a[:count] - b[:count]).max()) > NEGLIGIBLE)

    def _executable(self, starts: StartTime, offer: JobOffer, end_h: float) -> float:
        return executable(starts, end_h, offer.requested_h, offer.accuracy)
