"""What the next job may need: a distribution from the groups of similar jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import NamedTuple

from jobsight_predictor.job_groups import GroupKey

from .group import Group, JobKeys
from .shortfall import Shortfall

TAIL = 3.0  # index; values above all seen follow this Pareto law: of those beyond x, 1 in 8 is beyond 2 x
TIME_TAIL = 5.0  # index; the same for run times, whose waste grows with their square, so that far places weigh more
PRIOR = 0.5  # pieces of evidence; for what was never seen, and for what the wider level knows, each (Jeffreys)
BETWEEN = 3  # 1 / share; position of the group in between, from specific to general
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


def levels_of(
    present: Sequence[tuple[GroupKey, Group]], shares: Sequence[Group | None], request: float | None
) -> list[Level]:
    """Of the groups of jobs like this one: the most specific, one in between, the user's, the site's."""
    by_user = [group for key, group in present if key[0] & 1]
    chosen = [present[len(present) // BETWEEN][1], by_user[-1] if by_user else None, present[-1][1]]
    levels: list[Level] = [[Witness(present[0][1], 1.0, present[0][0][0] & 1 == 1)]]
    n, n_shares = present[0][1].mode.n, 0
    for place, (group, share) in enumerate(zip(chosen, shares, strict=True)):
        level = []
        bursts = place < len(chosen) - 1 and bool(by_user)
        if group is not None and group.mode.n > n:  # with no more jobs than the one before, it adds nothing
            level.append(Witness(group, 1.0, bursts))
            n = group.mode.n
        if request is not None and share is not None and share.mode.n > n_shares:
            level.append(Witness(share, request, bursts))
            n_shares = share.mode.n
        if level:
            levels.append(level)
    return levels


def firsts(groups: Mapping[GroupKey, Group], keys: JobKeys) -> list[Level]:
    """For a job of a new kind: the first jobs of other kinds, the user's and the site's.

    A thousand jobs of one application tell little about what the user's next application will need.
    """
    levels: list[Level] = []
    n = 0
    for key in keys.firsts:
        group = groups.get(key)
        if group is not None and group.mode.n > n:
            levels.append([Witness(group, 1.0 if keys.request is None else keys.request)])
            n = group.mode.n
    return levels


@dataclass(frozen=True, slots=True)
class Prospect:
    """``places`` maps possible needs to probabilities; ``beyond`` is that of needing more than all of these."""

    places: dict[float, float]
    beyond: float


def prospect(levels: Sequence[Level], ceiling: float = inf, *, of_time: bool = False) -> Prospect:
    """The distribution of the next value, by ``levels`` from specific to general; nothing lies above ``ceiling``.

    With ``of_time`` the values are run times, of which fewer lie far above all seen.

    With m pieces of evidence, m parts of a level's next jobs are like those seen, ``PRIOR`` parts lie above the largest
    of them, and as many are like the wider level's. Of a group's jobs, those that are separate pieces of evidence count
    singly, the rest burst by burst.
    """
    places: dict[float, float] = {}
    tail = pareto(TIME_TAIL if of_time else TAIL, GATHERED)
    left, beyond = 1.0, 0.0
    for level in levels:
        evidence = max([1, *[witness.group.evidence for witness in level]])
        wider = level is not levels[-1]
        parts = evidence + PRIOR + PRIOR * wider
        weight = left / len(level) / parts
        for group, scale, bursts in level:
            beyond += PRIOR * weight * tail.rest
            top = group.top * scale
            for up, share in tail.places:
                place = top * up
                if place > ceiling:
                    place = ceiling
                places[place] = places.get(place, 0.0) + PRIOR * weight * share
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
        left *= PRIOR * wider / parts
    return Prospect(places, beyond)


def with_shortfall(found: Prospect, shortfall: Shortfall, evidence: int, ceiling: float = inf) -> Prospect:
    """The distribution where jobs lately needed more than a lower bound: as likely as they did, if it is not already.

    Of a job that does, two things are known: what else is known above the lower bound, of ``evidence`` jobs, and the
    lower bound itself, like one job with that value. Nothing lies above ``ceiling``.
    """
    lower_bound = shortfall.lower_bound
    above = [(place, mass) for place, mass in found.places.items() if place > lower_bound]
    known = sum([mass for _, mass in above]) + found.beyond if above else 0.0
    if shortfall.share <= known:
        return found
    more = (shortfall.share - known) / (1.0 - known)
    places = {place: (1.0 - more) * mass for place, mass in found.places.items()}
    beyond = (1.0 - more) * found.beyond
    if known:
        by_known = more * evidence * known / (evidence * known + 1.0)
        more -= by_known
        for place, mass in above:
            places[place] += by_known * mass / known
        beyond += by_known * found.beyond / known
    tail = pareto(TAIL, GATHERED)
    for up, part in tail.places:
        place = min(up * lower_bound, ceiling)
        places[place] = places.get(place, 0.0) + more * part
    return Prospect(places, beyond + more * tail.rest)
