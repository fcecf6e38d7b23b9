"""Which of the values that a job may need to reserve: the one of least expected cost, or a quantile."""

from __future__ import annotations

from math import inf
from operator import mul

from .prospect import Prospect
from .retries import RETRIED

SPREAD = ((1.0, 0.85), (1.02, 0.09), (1.12, 0.06))  # (factor, share); where jobs near a known place lie
FARTHEST = 4.0  # factor; a quantile is at most this many times the highest place
LEAST_FIT = 0.25  # share; steps into which fewer would fit are never the cheapest, and not worth computing
FAINT = 2e-3  # probability; places less likely than this are left out

Step = tuple[float, float]
"""A value that may be reserved, and the probability that the job needs exactly that."""


def steps_of(prospect: Prospect) -> list[Step]:
    """The values that may be needed, ascending."""
    steps = [
        (place * up, mass * share) for place, mass in prospect.places.items() if mass > FAINT for up, share in SPREAD
    ]
    steps.sort()
    return steps


def cheapest(
    steps: list[Step], prospect: Prospect, ceiling: float, price: float, *, of_time: bool
) -> tuple[float, float]:
    """(the value of least expected cost, the probability of exceeding it); nothing needs more than ``ceiling``.

    Of the candidates b, the one with the least

        E[b - y; y <= b] + E[RETRIED y - b; y > b] + P(y > b) price

    Waste and price are in value, or in value x value if values are times (``of_time``).
    """
    places, unexplained = prospect.places, prospect.beyond
    top = max(places)
    known = sum(places.values())
    value_held = sum(map(mul, places.values(), places))
    mean_spread = sum([up * share for up, share in SPREAD])
    # Mass x seconds, and that x value, of everything known and of what would fit: the waste depends on them.
    held = known if not of_time else mean_spread * value_held
    if of_time:
        mean_square_spread = sum([up * up * share for up, share in SPREAD])
        used = mean_square_spread * sum([mass * place * place for place, mass in places.items()])
    else:
        used = mean_spread * value_held
    least_share = LEAST_FIT * known
    fits = fits_held = fits_used = 0.0
    least = inf
    chosen = (steps[-1][0], unexplained)
    for step, mass in steps:
        fits += mass
        length = step if of_time else 1.0
        fits_held += mass * length
        fits_used += mass * length * step
        if fits < least_share:
            continue
        if step >= ceiling:  # nothing fails there
            if max(0.0, ceiling * held - used) < least:
                chosen = (ceiling, 0.0)
            break
        beyond = unexplained if step <= top else unexplained * top / step
        wasted = RETRIED * (used - fits_used) - step * (held - fits_held)
        cost = step * fits_held - fits_used + wasted + price * (beyond + known - fits)
        if cost < least:
            least = cost
            chosen = (step, beyond + known - fits)
    return chosen


def quantile(steps: list[Step], beyond: float, may_fail: float) -> tuple[float, float]:
    """The least step that no more than the share ``may_fail`` exceeds; beyond all if none is that safe.

    How far beyond: the mass above a place falls off at least as fast as the place grows.
    """
    exceeds = beyond
    if exceeds > may_fail:
        # After very many failures may_fail underflows to 0.
        farther = exceeds / may_fail if exceeds < FARTHEST * may_fail else FARTHEST
        return steps[-1][0] * farther, exceeds
    for step, mass in reversed(steps):
        if exceeds + mass > may_fail:
            return step, exceeds
        exceeds += mass
    return steps[0][0], exceeds
