"""The built-in policies by name, and a policy chosen with its predictor and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from jobsight_scheduler.policies.base import JobRequests, Policy
from jobsight_scheduler.policies.conservative import Conservative
from jobsight_scheduler.policies.easy import Easy
from jobsight_scheduler.policies.easy_plus import EasyPlus
from jobsight_scheduler.policies.fcfs import Fcfs
from jobsight_scheduler.policies.multifactor import Multifactor, PriorityWeights
from jobsight_scheduler.policies.sjf import Sjf
from jobsight_scheduler.prediction import PREDICTORS
from jobsight_scheduler.validator import Check
from jobsight_scheduler.validator.promises import (
    check_head_waits_for_room,
    check_order,
    check_promises,
    check_reservation,
    check_room_is_used,
    check_shortest_first,
)


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """``make(requests)``, or ``make(requests, predictor)`` if run times are predicted.

    Every schedule keeps ``rules``, and those without a predictor ``request_rules`` as well; all keep capacity and the
    jobs' own times. ``default_predictor`` applies if no other is named. ``needs_questions``: it needs a job's
    user or other fields even without a predictor.
    """

    make: Callable[..., Policy]
    rules: tuple[Check, ...] = ()
    request_rules: tuple[Check, ...] = ()
    takes_predictor: bool = False
    default_predictor: str | None = None
    needs_questions: bool = False

    @property
    def has_weights(self) -> bool:
        """Whether ``make`` takes priority weights."""
        return self.make is Multifactor


POLICIES: dict[str, PolicyEntry] = {
    "fcfs": PolicyEntry(Fcfs, rules=(check_order, check_head_waits_for_room)),
    "sjf": PolicyEntry(Sjf, request_rules=(check_shortest_first,), takes_predictor=True),
    "easy": PolicyEntry(Easy, rules=(check_head_waits_for_room, check_reservation)),
    # No promised starts: predictions are corrected.
    "easy++": PolicyEntry(
        EasyPlus, rules=(check_head_waits_for_room,), takes_predictor=True, default_predictor="last-two"
    ),
    "conservative": PolicyEntry(Conservative, rules=(check_promises,)),
    # No promised starts: priorities change while jobs wait.
    "multifactor": PolicyEntry(Multifactor, rules=(check_room_is_used,), needs_questions=True),
}


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """A policy with its predictor, None if it uses requested times, and its weights, None if it has none."""

    name: str
    predictor: str | None
    entry: PolicyEntry
    weights: PriorityWeights | None = None

    def make(self, requests: JobRequests) -> Policy:
        """Return the policy for these jobs."""
        if self.weights is not None:
            return self.entry.make(requests, self.weights)
        if self.predictor is None:
            return self.entry.make(requests)
        return self.entry.make(requests, PREDICTORS[self.predictor](requests.questions))

    @property
    def rules(self) -> tuple[Check, ...]:
        """The rules by which the validator checks its schedules."""
        return self.entry.rules if self.predictor is not None else self.entry.rules + self.entry.request_rules

    @property
    def asks(self) -> bool:
        """Whether it needs more fields of a job than its request."""
        return self.predictor is not None or self.entry.needs_questions

    @property
    def settings(self) -> Mapping[str, object]:
        """Everything else that determines its schedule, besides the jobs and the machine, as JSON values."""
        found: dict[str, object] = {"policy": self.name, "predictor": self.predictor}
        return found if self.weights is None else found | {"priority": asdict(self.weights)}


def choose_policy(
    name: str,
    predictor: str | None = None,
    own: PolicyEntry | None = None,
    weights: PriorityWeights | None = None,
) -> ChosenPolicy:
    """Return policy ``name`` (built in, or ``own``), with a run-time predictor if one is named or always needed,
    and with ``weights`` if it has some.

    Raises:
        KeyError: unknown policy.
        ValueError: a predictor for a policy that takes none.
    """
    entry = own or POLICIES[name]
    if predictor is not None and not entry.takes_predictor:
        predicting = " and ".join(other for other, entry in POLICIES.items() if entry.takes_predictor)
        raise ValueError(f"{name} uses requested times and takes no predictor; {predicting} do")
    chosen = (weights or PriorityWeights()) if entry.has_weights else None
    return ChosenPolicy(name, predictor or entry.default_predictor, entry, chosen)
