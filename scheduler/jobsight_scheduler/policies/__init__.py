"""Which jobs start when: one policy per file, and a table of them by the names used in commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobsight_scheduler.prediction import PREDICTORS, RUN_TIME
from jobsight_scheduler.validator import Check
from jobsight_scheduler.validator.conservative import check_promises
from jobsight_scheduler.validator.queue_order import check_head_waits_for_room, check_order, check_shortest_first
from jobsight_scheduler.validator.reservation import check_reservation

from .base import NEVER, JobRequests, Policy, QueueTooLongError
from .conservative import Conservative
from .easy import Easy
from .easy_plus import EasyPlus
from .fcfs import Fcfs
from .sjf import Sjf


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """``make(requests)``, or ``make(requests, predictor)`` if run times are predicted.

    Every schedule keeps ``rules``, and those without a predictor ``request_rules`` as well; all keep capacity and the
    jobs' own times. ``default_predictor`` is used if no other is named.
    """

    make: Callable[..., Policy]
    rules: tuple[Check, ...] = ()
    request_rules: tuple[Check, ...] = ()
    takes_predictor: bool = False
    default_predictor: str | None = None


POLICIES: dict[str, PolicyEntry] = {
    "fcfs": PolicyEntry(Fcfs, rules=(check_order, check_head_waits_for_room)),
    "sjf": PolicyEntry(Sjf, request_rules=(check_shortest_first,), takes_predictor=True),
    "easy": PolicyEntry(Easy, rules=(check_head_waits_for_room, check_reservation)),
    # It promises no start: predictions are corrected.
    "easy++": PolicyEntry(
        EasyPlus, rules=(check_head_waits_for_room,), takes_predictor=True, default_predictor="last-two"
    ),
    "conservative": PolicyEntry(Conservative, rules=(check_promises,)),
}


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """A policy with its predictor, None if it uses requested times."""

    name: str
    predictor: str | None

    def make(self, requests: JobRequests) -> Policy:
        """The policy for these jobs."""
        entry = POLICIES[self.name]
        if self.predictor is None:
            return entry.make(requests)
        return entry.make(requests, PREDICTORS[self.predictor](requests.questions, RUN_TIME))

    @property
    def rules(self) -> tuple[Check, ...]:
        """The rules by which the validator checks its schedules."""
        entry = POLICIES[self.name]
        return entry.rules if self.predictor is not None else entry.rules + entry.request_rules


def choose_policy(name: str, predictor: str | None = None) -> ChosenPolicy:
    """Policy ``name``, with a run-time predictor if one is named or it always needs one.

    Raises:
        ValueError: unknown policy or predictor, or a policy that takes none.
    """
    if name not in POLICIES:
        raise ValueError(f"unknown policy {name!r}; choose from {', '.join(POLICIES)}")
    if predictor is not None and predictor not in PREDICTORS:
        raise ValueError(f"unknown predictor {predictor!r}; choose from {', '.join(PREDICTORS)}")
    if predictor is not None and not POLICIES[name].takes_predictor:
        predicting = " and ".join(other for other, entry in POLICIES.items() if entry.takes_predictor)
        raise ValueError(f"{name} uses requested times and takes no predictor; {predicting} do")
    return ChosenPolicy(name, predictor or POLICIES[name].default_predictor)


__all__ = [
    "NEVER",
    "POLICIES",
    "ChosenPolicy",
    "JobRequests",
    "Policy",
    "PolicyEntry",
    "QueueTooLongError",
    "choose_policy",
]
