"""The need of the next job: a distribution from the groups of similar jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from jobsight_predictor.question import GroupKey

from .groups import APPLICATION, USER, Group, JobKeys
from .parts import Aging, Parts

if TYPE_CHECKING:
    from .forecast import FinishedJob

MOST = 5  # jobs; that needed more, and were not run again or came one after the other, at most
OVER = 0.03  # share; a shortfall that is less likely than this to concern the next job is forgotten
GROWTH_LEFT = 0.25  # share; of the sign of growth that is left after a job that needed no more
BELOW = 0.99  # factor; where need grows, the next job may need a little less than the last


class Shortfall(Aging):
    """``lower_bound`` was too little: for ``pending`` jobs that have not been run again with more, as far as known, in
    ``since`` jobs; and for ``grown`` jobs one after the other, of which each that needed no more leaves a share."""

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
        """Probability that the next such job needs more: it is one of those, run again, or need has grown.

        Both after Laplace's rule of succession.
        """
        again = self.pending / (self.pending + self.since + 1.0)
        grown = self.grown / (self.grown + 1.0)
        return 1.0 - (1.0 - again) * (1.0 - grown)

    def add(self, lower_bound: float) -> None:
        """Learn from a job that needed more than this. One that failed with less counts as the same job."""
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
    """Reservations that were too small lately, by user and application, whatever the jobs requested.

    A user whose job was killed for want of more runs it again, and where need has grown, it stays so. Where requests
    are lowered as recommended, the log has the lowered one, and the next question the user's. A job counts with those
    of its application, and with those of no known application.
    """

    def score(self, job: FinishedJob) -> None:
        """Learn from a job that had enough."""
        for key in {job.keys.application, job.keys.user}:
            if key in self and self[key].share > 0.0:
                self.to_learn(key).score(job.value)

    def of(self, keys: JobKeys) -> Shortfall:
        """The one that is likeliest to concern such a job; ``NONE`` if there is none."""
        return max([self.get(key, NONE) for key in (keys.application, keys.user)], key=lambda known: known.share)


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


def levels_of(values: Sequence[tuple[int, Group]], shares: Mapping[int, Witness]) -> list[Level]:
    """Of the groups of a job, by their fields: the most specific, one in between, the user's, the site's; shares beside
    these."""
    of_user = [group for fields, group in values if fields & USER]
    first_fields, first = values[0]
    chosen = (
        (values[len(values) // BETWEEN][1], USER | APPLICATION),
        (of_user[-1] if of_user else first, USER),
        (values[-1][1], 0),
    )
    levels: list[Level] = [[Witness(first, 1.0, bool(first_fields & USER))]]
    n, n_shares = first.mode.n, 0
    for group, fields in chosen:
        level, share = [], shares.get(fields)
        if group.mode.n > n:  # with no more jobs than the one before, it adds nothing
            level.append(Witness(group, 1.0, bool(fields and of_user)))
            n = group.mode.n
        if share is not None and share.group.mode.n > n_shares:
            level.append(share._replace(bursts=bool(fields and of_user)))
            n_shares = share.group.mode.n
        if level:
            levels.append(level)
    return levels


def first_jobs(groups: Mapping[GroupKey, Group], keys: JobKeys) -> list[Level]:
    """For a job of a new application: the first jobs of other applications, the user's and the site's.

    A thousand jobs of one application say little of what the user's next application will need.
    """
    levels: list[Level] = []
    n = 0
    for key in keys.first_jobs:
        group = groups.get(key)
        if group is not None and group.mode.n > n:
            levels.append([Witness(group, 1.0 if keys.request is None else max(keys.request, group.least))])
            n = group.mode.n
    return levels


SPREAD = ((1.0, 0.85), (1.02, 0.09), (1.12, 0.06))  # (factor, share); where jobs near a known place lie
FAINT = 2e-3  # probability; places less likely than this are left out

Step = tuple[float, float]
"""A value that may be reserved, and the probability that the job needs exactly that."""


class Prospect:
    """``places`` maps possible needs to probabilities; ``beyond`` is that of needing more than all of these."""

    __slots__ = ("_steps", "beyond", "places")

    def __init__(self, places: dict[float, float], beyond: float) -> None:
        self.places = places
        self.beyond = beyond
        self._steps: list[Step] | None = None

    @property
    def steps(self) -> list[Step]:
        """The values that may be needed, ascending; made once."""
        if self._steps is None:
            likely = [(place, mass) for place, mass in self.places.items() if mass > FAINT]
            self._steps = sorted([(place * up, mass * share) for up, share in SPREAD for place, mass in likely])
        return self._steps

    def cut(self, ceiling: float) -> Prospect:
        """The same where nothing needs more than ``ceiling``."""
        places = {place: mass for place, mass in self.places.items() if place < ceiling}
        if len(places) < len(self.places):
            places[ceiling] = sum([mass for place, mass in self.places.items() if place >= ceiling])
        return Prospect(places, self.beyond)


def prospect(levels: Sequence[Level], *, of_time: bool = False) -> Prospect:
    """The distribution of the next value, by ``levels`` from specific to general.

    With ``of_time`` the values are run times, of which fewer lie far above all seen.

    With m pieces of evidence, m parts of a level's next jobs are like those seen, ``PRIOR`` parts lie above the largest
    of them, and as many are like the wider level's. Of a group's jobs, those that are separate pieces of evidence count
    singly, the rest burst by burst.
    """
    places: dict[float, float] = {}
    tail = pareto(TIME_TAIL if of_time else TAIL, GATHERED)
    known = places.get
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
                places[place] = known(place, 0.0) + PRIOR * weight * share
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
        left *= PRIOR * wider / parts
    return Prospect(places, beyond)


def with_shortfall(by_groups: Prospect, shortfall: Shortfall, evidence: int) -> Prospect:
    """The distribution where jobs lately needed more than a lower bound: needing more is at least as likely as that.

    What such a job needs follows the ``evidence`` jobs above the lower bound, and the lower bound itself, which counts
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


NEAR_LIMIT = 0.9  # share; of jobs that need this share of their limit, it is learned how many run out of it


def stated_near_limit(prospect: Prospect, limit: float) -> float | None:
    """Of jobs that need nine tenths of their limit the share that needs all of it; None where it has none of these."""
    near, out = prospect.beyond, prospect.beyond
    for place, mass in prospect.places.items():
        if place >= NEAR_LIMIT * limit:
            near += mass
            if place >= limit:
                out += mass
    return out / near if near > 0.0 else None
