"""What the next job may need: a distribution from the groups of similar jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import NamedTuple

from .group import Group

TAIL = 3.0  # index; values above all seen follow this Pareto law: of those beyond x, 1 in 8 is beyond 2 x
TIME_TAIL = 1.5  # index; the same of run times: of those beyond all seen, 34 to 44 % are beyond twice that
GATHERED = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0)  # factors; places above the largest seen that represent the tail


class Law(NamedTuple):
    """Shares of the values beyond all seen: ``places`` as multiples of the largest seen, ``rest`` beyond these."""

    places: tuple[tuple[float, float], ...]
    rest: float


@lru_cache(maxsize=4)
def pareto(index: float, at: tuple[float, ...]) -> Law:
    """The law that falls off with the power ``index``, concentrated at these places, ascending."""
    places = [(up, low**-index - up**-index) for low, up in zip((1.0, *at), at, strict=False)]
    return Law(tuple(places), at[-1] ** -index)


class Witness(NamedTuple):
    """A group that shows what a job may need; ``scale`` converts its values to the metric's unit.

    ``bursts``: a burst in it counts as a whole, by its largest value.
    """

    group: Group
    scale: float = 1.0
    bursts: bool = True


Level = Sequence[Witness]
"""Groups of the same jobs, or as specific: they share their weight."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """``places`` maps possible needs to probabilities; ``beyond`` is that of needing more than all of these."""

    places: dict[float, float]
    beyond: float


def prospect(levels: Sequence[Level], ceiling: float = inf, *, of_time: bool = False) -> Prospect:
    """The distribution of the next value, by ``levels`` from specific to general; nothing lies above ``ceiling``.

    ``of_time``: the values are run times.

    With m pieces of evidence, m parts of a level's next jobs are like those seen, one part lies above the largest of
    them, and one is like the wider level's: so the chance of exceeding everything seen is that of a new largest among
    m + 1. Of a group's jobs, those that are separate pieces of evidence count singly, the rest burst by burst.
    """
    places: dict[float, float] = {}
    tail = pareto(TIME_TAIL if of_time else TAIL, GATHERED)
    left, beyond = 1.0, 0.0
    for level in levels:
        evidence = max([1, *[witness.group.evidence for witness in level]])
        wider = level is not levels[-1]
        parts = evidence + 1 + wider
        weight = left / len(level) / parts
        for group, scale, bursts in level:
            beyond += weight * tail.rest
            top = group.top * scale
            for up, share in tail.places:
                place = top * up
                if place > ceiling:
                    place = ceiling
                places[place] = places.get(place, 0.0) + weight * share
            seen = evidence * weight
            in_bursts = group.in_bursts() if bursts else 0.0
            if in_bursts > 0.0:
                each = seen * in_bursts / len(group.blocks)
                for value in group.blocks:
                    place = value * scale
                    if place > ceiling:
                        place = ceiling
                    places[place] = places.get(place, 0.0) + each
            if in_bursts < 1.0:
                values, total = group.mode.distribution()
                each = seen * (1.0 - in_bursts) / total
                for value, share in values:
                    place = value * scale
                    if place > ceiling:
                        place = ceiling
                    places[place] = places.get(place, 0.0) + each * share
        left *= wider / parts
    return Prospect(places, beyond)
