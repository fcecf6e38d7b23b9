"""All policies by name, the rules that their schedules keep, and one chosen with its predictor and weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from jobsight_papers.schedules.multifactor import Multifactor, PriorityWeights
from jobsight_papers.schedules.sjf import Sjf
from jobsight_papers.schedules.validator import Check
from jobsight_papers.schedules.validator.promises import (
    check_head_waits_for_room,
    check_order,
    check_promises,
    check_reservation,
    check_room_is_used,
    check_shortest_first,
)
from jobsight_scheduler.policies import chosen
from jobsight_scheduler.policies.chosen import ChosenPolicy, PolicyEntry
from jobsight_scheduler.policies.fcfs import Fcfs

POLICIES: dict[str, PolicyEntry] = {
    "fcfs": PolicyEntry(Fcfs),
    "sjf": PolicyEntry(Sjf, takes_predictor=True),
    **chosen.POLICIES,
    "multifactor": PolicyEntry(Multifactor),
}

_RULES: dict[str, tuple[Check, ...]] = {
    "fcfs": (check_order, check_head_waits_for_room),
    "sjf": (check_shortest_first,),
    "easy": (check_head_waits_for_room, check_reservation),
    "easy++": (check_head_waits_for_room,),  # no promised starts: predictions are corrected
    "conservative": (check_promises,),
    "multifactor": (check_room_is_used,),  # no promised starts: priorities change while jobs wait
}
"""Besides these, every schedule keeps capacity and the jobs' own times."""


def choose_policy(name: str, predictor: str | None = None, weights: PriorityWeights | None = None) -> ChosenPolicy:
    """Return policy ``name``, with a run-time predictor if one is named or always needed; ``weights``: of multifactor.

    Raises:
        KeyError: unknown policy.
        ValueError: a predictor for a policy that takes none.
    """
    found = chosen.choose_policy(name, predictor, POLICIES)
    if name != "multifactor":
        return found
    return replace(found, entry=PolicyEntry(partial(Multifactor, weights=weights or PriorityWeights())))


def rules_of(policy: ChosenPolicy) -> tuple[Check, ...]:
    """Return the rules that schedules of ``policy`` keep; SJF's is by requested times."""
    return () if policy.name == "sjf" and policy.predictor is not None else _RULES[policy.name]
