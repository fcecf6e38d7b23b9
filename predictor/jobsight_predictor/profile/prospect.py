"""The need of the next job: a distribution from the groups of similar jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from jobsight_predictor.profile.groups import Aging, Group, Parts
from jobsight_predictor.question import APPLICATION, USER, GroupKey, JobKeys

MOST = 5  # jobs; limit on jobs that needed more and were not repeated, or came one after the other
OVER = 0.03  # probability for the next job below which a shortfall is dropped
GROWTH_LEFT = 0.25  # share of the evidence of growth left after a job that needed no more
BELOW = 0.99  # factor; where need grows, the next job may need slightly less than the last


class Shortfall(Aging):
    """``lower_bound`` was too little for ``pending`` jobs, not repeated with more in ``since`` jobs as far as known,
    and for ``grown`` jobs in a row, which a job that needed no more reduces to a share."""

    __slots__ = kept = ("lower_bound", "pending", "since", "grown")

    def __init__(self) -> None:
        super().__init__()
        self._forget()

    def _forget(self) -> None:
        self.lower_bound = 0.0
        self.pending = self.since = 0
        self.grown = 0.0

    @property
    def share(self) -> float:
        """Return the probability that the next similar job needs more: it repeats one of those, or need has grown.

        Both by Laplace's rule of succession.
        """
        again = self.pending / (self.pending + self.since + 1.0)
        grown = self.grown / (self.grown + 1.0)
        return 1.0 - (1.0 - again) * (1.0 - grown)

    def add(self, lower_bound: float) -> None:
        """Learn from a job that needed more than this; one that failed with less counts as the same job."""
        if self.pending and lower_bound > self.lower_bound:
            self.lower_bound = lower_bound
        else:
            self.lower_bound = self.lower_bound if self.pending else lower_bound
            self.pending = min(self.pending + 1, MOST)
            self.grown = min(self.grown + 1.0, MOST)
        self.since = 0

    def score(self, value: float) -> None:
        """Learn from a job that used ``value`` and had enough."""
        if value <= self.lower_bound:
            self.since += 1
            self.grown *= GROWTH_LEFT
        elif self.pending:
            self.pending -= 1
        else:
            self.lower_bound = BELOW * value
            self.grown = min(self.grown + 1.0, MOST)
        if self.share < OVER:
            self._forget()


NONE = Shortfall()


class Shortfalls(Parts[Shortfall]):
    """Recent reservations that were too small, by user and application, whatever the request.

    A user whose job was killed for exceeding its limit runs it again, and grown need persists. Where requests are
    lowered as recommended, the log has the lowered one, and the next question the user's. A job counts for its
    application, and for those of unknown application.
    """

    def learn(self, keys: JobKeys, value: float) -> None:
        """Learn from a job that used ``value`` and had enough."""
        for key in {keys.application, keys.user}:
            if key in self and self[key].share > 0.0:
                self.to_learn(key).score(value)

    def of(self, keys: JobKeys) -> Shortfall:
        """Return the shortfall most likely to concern this job; ``NONE`` without one."""
        known = [self[key] for key in (keys.application, keys.user) if key in self]
        return max(known, key=lambda shortfall: shortfall.share, default=NONE)


TAIL = 3.0  # Pareto index of values above all seen: of those beyond x, 1 in 8 is beyond 2 x
TIME_TAIL = 5.0  # Pareto index of run times, whose waste grows with their square, so that far places weigh more
PRIOR = 0.5  # pieces of evidence; weight of unseen values, and of the wider level, each (Jeffreys)
BETWEEN = 3  # 1 / share; position of the middle group, from specific to general
LITTLE = 0.01  # share; wider levels that would have less than this together are left out
GATHERED = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0)  # factors on the largest value seen; places that represent the tail


class Law(NamedTuple):
    """Shares of values beyond all seen: ``places`` as multiples of the largest seen, ``rest`` beyond these."""

    places: tuple[tuple[float, float], ...]
    rest: float


@lru_cache(maxsize=4)
def pareto(index: float, at: tuple[float, ...]) -> Law:
    """Make the Pareto law of this ``index``, concentrated at these places, ascending."""
    places = [(up, low**-index - up**-index) for low, up in zip((1.0, *at), at, strict=False)]
    return Law(tuple(places), at[-1] ** -index)


class Witness(NamedTuple):
    """A group as evidence for a job's need; ``scale`` converts its values to the metric's unit.

    ``bursts``: a burst in it counts as a whole, by its largest value.
    """

    group: Group
    scale: float = 1.0
    bursts: bool = True


Level = Sequence[Witness]
"""Groups of the same jobs, or equally specific: they share their weight."""


def levels_of(values: Sequence[tuple[int, Group]], shares: Mapping[int, Witness]) -> list[Level]:
    """Choose levels from a job's groups: the most specific, a middle one, the user's and the site's, with shares beside
    them."""
    of_user = [group for fields, group in values if fields & USER]
    first_fields, first = values[0]
    chosen = (
        (values[len(values) // BETWEEN][1], USER | APPLICATION),
        (of_user[-1] if of_user else first, USER),
        (values[-1][1], 0),
    )
    levels: list[Level] = [[Witness(first, 1.0, bool(first_fields & USER))]]
    n, n_shares = first.n, 0
    for group, fields in chosen:
        level, share = [], shares.get(fields)
        if group.n > n:  # a group with no more jobs than the one before adds nothing
            level.append(Witness(group, 1.0, bool(fields and of_user)))
            n = group.n
        if share is not None and share.group.n > n_shares:
            level.append(share._replace(bursts=bool(fields and of_user)))
            n_shares = share.group.n
        if level:
            levels.append(level)
    return levels


def first_jobs(groups: Mapping[GroupKey, Group], keys: JobKeys) -> list[Level]:
    """Choose levels for a job of a new application: the first jobs of other applications, of the user and of the site.

    A thousand jobs of one application say little about the user's next application.
    """
    levels: list[Level] = []
    n = 0
    for key in keys.first_jobs:
        group = groups.get(key)
        if group is not None and group.n > n:
            levels.append([Witness(group, 1.0 if keys.request is None else max(keys.request, group.least))])
            n = group.n
    return levels


SPREAD = ((1.0, 0.85), (1.02, 0.09), (1.12, 0.06))  # (factor, share); spread of jobs near a known place
FAINT = 2e-3  # probability below which places are left out

Step = tuple[float, float]
"""A possible reservation, and the probability that the job needs exactly that."""


class Prospect:
    """Distribution of a need: ``places`` maps values to probabilities; ``beyond`` is the probability of more than
    all."""

    __slots__ = ("_steps", "beyond", "costs", "places")

    def __init__(self, places: dict[float, float], beyond: float) -> None:
        self.places = places
        self.beyond = beyond
        self.costs: Any = None
        """Kept here by ``Costs``: submission and start have different prices."""
        self._steps: list[Step] | None = None

    @property
    def steps(self) -> list[Step]:
        """Possible values, ascending; made once."""
        if self._steps is None:
            likely = [(place, mass) for place, mass in self.places.items() if mass > FAINT]
            self._steps = sorted([(place * up, mass * share) for up, share in SPREAD for place, mass in likely])
        return self._steps

    def cut(self, ceiling: float) -> Prospect:
        """Return the distribution limited to ``ceiling``."""
        over = [mass for place, mass in self.places.items() if place >= ceiling]
        if not over:
            return self
        places = {place: mass for place, mass in self.places.items() if place < ceiling}
        places[ceiling] = sum(over)
        return Prospect(places, self.beyond)


def prospect(levels: Sequence[Level], *, of_time: bool = False) -> Prospect:
    """Estimate the distribution of the next value from ``levels``, specific to general.

    With ``of_time`` the values are run times, which rarely lie far above all seen.

    With m pieces of evidence, m parts of a level's next jobs are like those seen, ``PRIOR`` parts lie above the
    largest, and as many follow the wider level, unless they are less than ``LITTLE`` of all. Jobs that are separate
    pieces of evidence count singly, the others burst by burst.
    """
    places: dict[float, float] = {}
    tail = pareto(TIME_TAIL if of_time else TAIL, GATHERED)
    known = places.get
    left, beyond = 1.0, 0.0
    for level in levels:
        evidence = max([1, *[witness.group.evidence for witness in level]])
        wider = level is not levels[-1] and left * PRIOR > LITTLE * (evidence + 2.0 * PRIOR)
        parts = evidence + PRIOR + PRIOR * wider
        weight = left / len(level) / parts
        for group, scale, bursts in level:
            above = PRIOR * weight
            beyond += above * tail.rest
            top = group.top * scale
            for up, share in tail.places:
                place = top * up
                places[place] = known(place, 0.0) + above * share
            seen = evidence * weight
            in_bursts = group.in_bursts() if bursts else 0.0
            if in_bursts > 0.0:
                each = seen * in_bursts / len(group.blocks)
                for value in group.blocks:
                    place = value * scale
                    places[place] = known(place, 0.0) + each
            if in_bursts < 1.0:
                values, total = group.distribution()
                each = seen * (1.0 - in_bursts) / total
                for value, share in values:
                    place = value * scale
                    places[place] = known(place, 0.0) + each * share
        if not wider:
            break
        left *= PRIOR / parts
    return Prospect(places, beyond)


def with_shortfall(by_groups: Prospect, shortfall: Shortfall, evidence: int) -> Prospect:
    """Return the distribution in which exceeding the shortfall's lower bound is at least as likely as its share.

    The need of such a job follows the ``evidence`` jobs above the lower bound, and the lower bound itself, which counts
    as one job with that value.
    """
    if shortfall.share <= 0.0:
        return by_groups
    lower_bound = shortfall.lower_bound
    above = [(place, mass) for place, mass in by_groups.places.items() if place > lower_bound]
    known = sum([mass for _, mass in above]) + by_groups.beyond if above else 0.0
    if shortfall.share <= known:
        return by_groups
    more = (shortfall.share - known) / (1.0 - known)
    places = {place: (1.0 - more) * mass for place, mass in by_groups.places.items()}
    beyond = (1.0 - more) * by_groups.beyond
    if known:
        by_known = more * evidence * known / (evidence * known + 1.0)
        more -= by_known
        for place, mass in above:
            places[place] += by_known * mass / known
        beyond += by_known * by_groups.beyond / known
    tail = pareto(TAIL, GATHERED)
    for up, part in tail.places:
        place = up * lower_bound
        places[place] = places.get(place, 0.0) + more * part
    return Prospect(places, beyond + more * tail.rest)


NEAR_LIMIT = 0.9  # share of the limit from which a job counts as near it


def stated_near_limit(prospect: Prospect, limit: float) -> float | None:
    """Return the share of jobs that need the whole limit among those that need nine tenths; None without any of
    these."""
    near = [(place, mass) for place, mass in prospect.places.items() if place >= NEAR_LIMIT * limit]
    out = prospect.beyond + sum([mass for place, mass in near if place >= limit])
    whole = prospect.beyond + sum([mass for _, mass in near])
    return out / whole if whole > 0.0 else None
