"""What the model knows of jobs like one that is asked about, at whichever moment of its life."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from statistics import median_low

from jobsight_predictor.forecasters import LARGEST
from jobsight_predictor.profile.probability import Forecasts
from jobsight_predictor.question import GroupKey, Question

from .group import CANDIDATES, SHARE, SHARES, Group, JobKeys
from .model import Model
from .prospect import Prospect, firsts, levels_of, prospect, with_shortfall
from .reserve import Case
from .running import stated_near_limit

BEYOND = 1.01  # share of the request; more than this is no matter of rounding
ROUNDED = 1.01  # factor; a lower bound may have been this much larger than reported (rounding)


@dataclass(slots=True)
class Findings:
    """``votes`` has the index and the value of each candidate's forecast, ``forecasts`` the values of all candidates.

    ``closest`` is the most specific group, None if there are no votes; ``by_facts`` what jobs with similar facts say;
    ``out_near_limit`` see ``stated_near_limit``. ``is_new``: no job of its kind has ended.
    """

    keys: JobKeys
    is_new: bool
    forecasts: Forecasts
    votes: list[tuple[int, float]]
    closest: Group | None
    prospect: Prospect
    case: Case
    by_facts: tuple[Prospect, Case] | None = None
    facts_are_better: bool = False
    out_near_limit: float | None = None


def gather(model: Model, question: Question) -> Findings:
    """What is known of jobs like this one; changes nothing."""
    keys = model.keys(question)
    request, kind = keys.request, keys.kind
    shortfall = model.shortfalls.of(question)
    is_limit = (
        request is not None
        and request > ROUNDED * shortfall.lower_bound
        and model.requests.are_limits(model.bounds.coverage)
        and not _beyond(model, keys)
    )
    ceiling = request if request is not None and is_limit else LARGEST
    is_new = kind not in model.kinds and not _left_out(model, question)
    forecasts: Forecasts = [None] * model.size
    votes: list[tuple[int, float]] = []
    present: list[tuple[GroupKey, Group]] = []
    groups = model.groups
    width = len(CANDIDATES)
    for index, key in keys.groups:
        group = groups.get(key)
        if group is None:
            continue
        present.append((key, group))
        said = group.forecasts()
        if is_limit and max(said) > ceiling:
            said = tuple([value if value < ceiling else ceiling for value in said])
        i = index * width
        forecasts[i : i + width] = said
        votes += enumerate(said, i)
    shares: list[Group | None] = [None] * len(SHARES)
    if request is not None:
        for index, key in keys.shares:
            group = groups.get(key)
            if group is None:
                continue
            shares[index - model.shares.start] = group
            said = tuple([share * request for share in group.forecasts()])
            if max(said) > ceiling:
                said = tuple([value if value < ceiling else ceiling for value in said])
            i = index * width
            forecasts[i : i + width] = said
            votes += enumerate(said, i)

    def case(explained: bool, largest: float, own: int = 0, ended: int = 0) -> Case:
        missed = 0.0 if explained else shortfall.share
        return Case(question.requested_time_s, request, is_limit, ended, own, missed, largest)

    if not votes:
        found = with_shortfall(Prospect({}, 0.0), shortfall, 0, ceiling)
        return Findings(keys, is_new, forecasts, votes, None, found, case(False, 0.0))
    levels = firsts(groups, keys) if is_new else []
    levels = levels or levels_of(present, shares, request)
    own = [group for key, group in present if key[0] & 1 or question.user is None]
    evidence = own[-1].evidence if own else 0
    bits = kind[0]
    ended = max([group.mode.n for key, group in present if key[0] & bits == bits], default=0)
    usual = prospect(levels, ceiling, of_time=model.of_time)
    found = with_shortfall(usual, shortfall, ended, ceiling)
    largest = max([group.top * scale for group, scale, _ in levels[0]])
    of_groups = case(found is usual, largest, evidence, ended)
    findings = Findings(keys, is_new, forecasts, votes, present[0][1], found, of_groups)
    history = model.facts.get(kind) if question.facts else None
    usual_near = None if history is None else history.prospect(question.facts, ceiling)
    decides = found
    if history is not None and usual_near is not None:
        near = with_shortfall(usual_near, shortfall, ended, ceiling)
        findings.by_facts = near, case(near is usual_near, inf, evidence, ended)
        findings.facts_are_better = history.is_better
        decides = near if history.is_better else found
    if request is not None:
        findings.out_near_limit = stated_near_limit(decides, request)
    return findings


def _beyond(model: Model, keys: JobKeys) -> bool:
    """Whether most of the last jobs of this kind used more than they requested: then nothing holds this one to it."""
    of_kind = model.groups.get((SHARE | keys.kind[0], keys.kind[1]))
    return of_kind is not None and median_low(of_kind.recent) > BEYOND


def _left_out(model: Model, question: Question) -> bool:
    """Whether the question leaves out the kind of the job, rather than naming a new one: others of the user are known.

    A log without applications has none for its first jobs either, but then their user is new too.
    """
    known = model.n > 0 if question.user is None else question.user in model.experts.users
    return question.application is None and known
