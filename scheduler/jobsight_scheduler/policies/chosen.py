"""The built-in policies by name, and a policy chosen with its predictor and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Self

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
    jobs' own times. ``default_predictor`` applies if no other is named. ``asks_again``: ``make(requests, predictor,
    ask_again=True)`` uses forecasts as of now while jobs wait. ``needs_questions``: it needs a job's user or other
    fields even without a predictor.
    """

    make: Callable[..., Policy]
    rules: tuple[Check, ...] = ()
    request_rules: tuple[Check, ...] = ()
    takes_predictor: bool = False
    default_predictor: str | None = None
    needs_questions: bool = False
    asks_again: bool = False

    @property
    def has_weights(self) -> bool:
        """Whether ``make`` takes priority weights."""
        return self.make is Multifactor


POLICIES: dict[str, PolicyEntry] = {
    "fcfs": PolicyEntry(Fcfs, rules=(check_order, check_head_waits_for_room)),
    "sjf": PolicyEntry(Sjf, request_rules=(check_shortest_first,), takes_predictor=True, asks_again=True),
    "easy": PolicyEntry(Easy, rules=(check_head_waits_for_room, check_reservation)),
    # No promised starts: predictions are corrected.
    "easy++": PolicyEntry(
        EasyPlus,
        rules=(check_head_waits_for_room,),
        takes_predictor=True,
        default_predictor="last-two",
        asks_again=True,
    ),
    "conservative": PolicyEntry(Conservative, rules=(check_promises,)),
    # No promised starts: priorities change while jobs wait.
    "multifactor": PolicyEntry(Multifactor, rules=(check_room_is_used,), needs_questions=True),
}


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """A policy with its predictor, None if it uses requested times, and its weights, None if it has none.

    ``ask_again``: it uses forecasts of waiting jobs as of now, not as of their submission.
    """

    name: str
    predictor: str | None
    entry: PolicyEntry
    weights: PriorityWeights | None = None
    ask_again: bool = False

    def asking_again(self) -> Self:
        """Return the same policy with ``ask_again``.

        Raises:
            ValueError: it uses no forecasts, or decides itself when to repeat them.
        """
        if not self.entry.asks_again:
            can = " and ".join(name for name, entry in POLICIES.items() if entry.asks_again)
            own = self.entry.takes_predictor
            reason = "decides itself when to call again() of its predictor" if own else "asks for no forecasts"
            raise ValueError(f"{self.name} {reason}; {can} can be made to ask again")
        if self.predictor is None:
            raise ValueError(
                f"{self.name} asks for no forecasts without a predictor: name one of {', '.join(PREDICTORS)}"
            )
        return replace(self, ask_again=True)

    def make(self, requests: JobRequests) -> Policy:
        """Return the policy for these jobs."""
        if self.weights is not None:
            return self.entry.make(requests, self.weights)
        if self.predictor is None:
            return self.entry.make(requests)
        predictor = PREDICTORS[self.predictor](requests.questions)
        return self.entry.make(requests, predictor, **({"ask_again": True} if self.ask_again else {}))

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
        if self.ask_again:
            found["ask_again"] = True
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
