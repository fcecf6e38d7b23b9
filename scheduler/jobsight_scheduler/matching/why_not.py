"""Why jobs are not matched: for each the first reason that applies, in tiers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .answer import Tier, Unmatched
from .columns import bound_to
from .eligibility import DependencyAt, Eligibility
from .packing import Packing, Placement
from .predicates import Node, Operation, names_in, text_of
from .problem import MatchJob
from .single import fits as fits_alone

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

HARDEST: tuple[Tier, ...] = ("type", "predicate", "never-fits", "policy", "held")
"""What keeps a job waiting longest comes first."""

_LISTED = 3
_KINDS_LISTED = 10


def why_not(
    eligibility: Eligibility, candidates: list[Integers], placed: Mapping[int, Placement]
) -> tuple[Unmatched, ...]:
    """A reason for each job that is not ``placed``."""
    empty = Packing(eligibility, candidates)
    full = Packing(eligibility, candidates, placed)
    jobs = eligibility.problem.jobs
    return tuple(
        why_alone(eligibility, empty, job, is_exact=True) or _beside(eligibility, full, job)
        for job in range(len(jobs))
        if job not in placed
    )


def why_alone(eligibility: Eligibility, empty: Packing, job: int, is_exact: bool = False) -> Unmatched | None:
    """Why ``job`` does not even fit by itself on what is free: of its dependencies the hardest reason; None if it fits.

    Whether dependencies that share resources fit together is tried; with ``is_exact``, it is decided.
    """
    of = eligibility.problem.jobs[job]
    found = [
        _alone(eligibility, of, eligibility.dependencies[number])
        for number in eligibility.numbers[job]
        if len(empty.candidates[number]) < eligibility.dependencies[number].of.count
    ]
    if found:
        return min(found, key=lambda one: HARDEST.index(one.tier))
    gang = _gang(eligibility, empty, job, is_exact)
    return Unmatched(of.name, "gang", gang) if gang else None


def _beside(eligibility: Eligibility, full: Packing, job: int) -> Unmatched:
    """Why a job that fits by itself is not matched beside those of ``full``."""
    of = eligibility.problem.jobs[job]
    for number in eligibility.numbers[job]:
        at = eligibility.dependencies[number]
        if len(full.open_to(number)) < at.of.count:
            eligible = len(full.candidates[number])
            return Unmatched(
                of.name,
                "outpriced",
                f"{at.of.name}: what {_amounts(at)} would take on any of {eligible} eligible {at.of.type} is worth "
                "at least as much to other jobs of the batch",
            )
    if full.place(job, None):
        full.remove(job)
        return Unmatched(of.name, "outpriced", "it fits, but matching it would add nothing to the objectives")
    return Unmatched(of.name, "outpriced", "each dependency fits, but all together only in place of other jobs")


def _alone(eligibility: Eligibility, job: MatchJob, at: DependencyAt) -> Unmatched:
    """Why too few resources are eligible for one dependency: the first tier that leaves fewer than it needs."""
    of = eligibility.types[at.of.type]
    count, name = at.of.count, at.of.name
    kind = f"{count} distinct {of.name}" if count > 1 else of.name
    if len(of.members) < count:
        have = f"there is no resource of type {of.name!r}" if not len(of.members) else f"there are {len(of.members)}"
        return Unmatched(job.name, "type", f"{name}: {have}" + (f", it needs {count}" if len(of.members) else ""))
    satisfying = eligibility.satisfying(at.of, job)
    if int(satisfying.sum()) < count:
        return Unmatched(job.name, "predicate", f"{name}: needs {kind}; {_removed(eligibility, job, at)}")
    idle = satisfying & eligibility.fitting(at, is_idle=True)
    if int(idle.sum()) < count:
        return Unmatched(job.name, "never-fits", f"{name}: {_too_small(eligibility, at, satisfying, idle)}")
    allowed, _ = eligibility.verdicts(of.name, job.job_class)
    if int((idle & allowed).sum()) < count:
        denied, usable = _denied(eligibility, at, idle & ~allowed, job), satisfying & allowed
        if int(usable.sum()) >= count:
            too_small = _too_small(eligibility, at, usable, idle & allowed)
            denied = f"{too_small}; it would fit on others, but not now ({denied})"
        return Unmatched(job.name, "policy", f"{name}: {denied}")
    return Unmatched(
        job.name, "held", f"{name}: {_holders(eligibility, at, idle & allowed & ~eligibility.fitting(at))}"
    )


def _removed(eligibility: Eligibility, job: MatchJob, at: DependencyAt) -> str:
    """Which part of the predicate removes how many resources, the part that removes most first."""
    of = eligibility.types[at.of.type]
    where = at.of.predicate
    parts = where.operands if isinstance(where, Operation) and where.operator == "and" else (where,)
    removes = []
    for part in parts:
        if part is not None:
            gone = len(of.members) - int(of.columns.satisfied(bound_to(part, job)).sum())
            removes.append((gone, f"{text_of(part)} removes {gone}{_unknown(eligibility, at, part)}"))
    removes.sort(key=lambda entry: -entry[0])
    shown = [text for gone, text in removes if gone][:_LISTED]
    left = int(eligibility.satisfying(at.of, job).sum())
    return f"of {len(of.members)}, {'; '.join(shown)}; {left} left"


def _unknown(eligibility: Eligibility, at: DependencyAt, part: Node) -> str:
    columns = eligibility.types[at.of.type].columns
    unknown = sorted(name for name in names_in(part) if not name.startswith("job.") and not columns.has(name))
    return f" (no {at.of.type} has {', '.join(unknown[:_LISTED])})" if unknown else ""


def _denied(eligibility: Eligibility, at: DependencyAt, denied: Flags, job: MatchJob) -> str:
    of = eligibility.types[at.of.type]
    resources = [eligibility.problem.resources[of.members[position]] for position in np.flatnonzero(denied)]
    stale = [resource for resource in resources if resource.unavailable is not None]
    parts = [f"{resource.name}: {resource.unavailable}" for resource in stale[:_LISTED]]
    by_policy = len(resources) - len(stale)
    if by_policy:
        of_class = f"class {job.job_class!r}" if job.job_class else "jobs without a class"
        parts.append(f"policies of {by_policy} {of.name} deny {of_class} now")
    more = len(stale) - _LISTED
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")


def _too_small(eligibility: Eligibility, at: DependencyAt, usable: Flags, idle: Flags) -> str:
    """Which amount is more than even an idle resource has, or that none has any of it."""
    of = eligibility.types[at.of.type]
    largest = ""
    for column, kind in enumerate(of.kinds):
        amount = at.of.amounts.get(kind, 0.0)
        has = of.idle[:, column] >= 0
        if amount and not has.any():
            capacities = (eligibility.problem.resources[position].capacities for position in of.members)
            others = sorted({name for found in capacities for name in found})
            return f"no {of.name} has {kind} (it has {', '.join(others[:_KINDS_LISTED]) or 'no capacities'})"
        most = float(of.total[usable & has, column].max(initial=0.0))
        if amount > most and not largest:
            largest = f" (the largest has {kind} {most:g})" if (usable & has).any() else f" (none of these has {kind})"
    needed = f"; {at.of.count} are needed" if at.of.count > 1 else ""
    fits = f"{_amounts(at)} fits on {int(idle.sum())} of {int(usable.sum())} eligible {of.name} even when idle"
    return fits + largest + needed


def _holders(eligibility: Eligibility, at: DependencyAt, held: Flags) -> str:
    """Which resources would have the amounts if less were used, and who holds it until when."""
    of = eligibility.types[at.of.type]
    now = eligibility.problem.now_s
    texts = []
    for position in np.flatnonzero(held)[:_LISTED]:
        resource = eligibility.problem.resources[of.members[position]]
        kinds = [kind for kind, amount in at.of.amounts.items() if amount and amount > resource.capacities[kind].free]
        text = ", ".join(
            f"{kind} {resource.capacities[kind].free:g} of {resource.capacities[kind].total:g} free" for kind in kinds
        )
        holds = sorted(
            (hold for hold in resource.holds if any(hold.amounts.get(kind, 0.0) for kind in kinds)),
            key=lambda hold: hold.until_s,
        )
        by = ", ".join(
            f"{hold.job}{f' of {hold.user}' if hold.user else ''} for another {max(0.0, hold.until_s - now):,.0f} s"
            for hold in holds[:_LISTED]
        )
        texts.append(f"{resource.name} has {text}" + (f", held by {by}" if by else ""))
    more = int(held.sum()) - _LISTED
    return f"{_amounts(at)} does not fit now: " + "; ".join(texts) + (f"; and {more} more" if more > 0 else "")


def is_gang(eligibility: Eligibility, job: int) -> bool:
    """Whether dependencies of a job share resources or are related, so that each may fit without the others."""
    of = eligibility.problem.jobs[job]
    return bool(of.relations) or len({dependency.type for dependency in of.dependencies}) < len(of.dependencies)


def _gang(eligibility: Eligibility, empty: Packing, job: int, is_exact: bool) -> str:
    """Why the dependencies do not fit together though each does; nothing if they do."""
    of = eligibility.problem.jobs[job]
    numbers = eligibility.numbers[job]
    if not is_gang(eligibility, job):
        return ""
    if empty.place(job, None):
        empty.remove(job)
        return ""
    if is_exact and fits_alone(eligibility, empty.candidates, job):
        return ""
    names = [eligibility.dependencies[number].of.name for number in numbers]
    if of.relations:
        ends = "; ".join(
            f"{relation.between[0]} and {relation.between[1]}"
            + (f" in the same {relation.same}" if relation.same else " in allowed pairs")
            for relation in of.relations[:_LISTED]
        )
        return f"each of {', '.join(names)} fits, but not with {ends}"
    taken: list[tuple[int, Integers]] = []
    failing = names[-1]
    for name, number in zip(names, numbers, strict=True):
        fits = empty.open_to(number)
        count = eligibility.dependencies[number].of.count
        if len(fits) < count:
            failing = name
            break
        empty.take(number, fits[:count])
        taken.append((number, fits[:count]))
    for before, chosen in taken:
        empty.give(before, chosen)
    return f"{failing} does not fit beside {', '.join(name for name in names if name != failing)} on what is free"


def _amounts(at: DependencyAt) -> str:
    return ", ".join(f"{kind} {amount:g}" for kind, amount in at.of.amounts.items()) or "it"
