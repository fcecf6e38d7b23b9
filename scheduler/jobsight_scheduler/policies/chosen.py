"""A policy as chosen for one simulation: its predictor, its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Self

from jobsight_scheduler.prediction import PREDICTORS
from jobsight_scheduler.validator import Check

from .base import JobRequests, Policy
from .entry import PolicyEntry
from .multifactor import Multifactor, PriorityWeights
from .table import POLICIES


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """A policy with its predictor, None if it uses requested times, and its weights, None if it has none.

    ``ask_again``: it goes by the forecasts of waiting jobs as of now, instead of those at their submission.
    """

    name: str
    predictor: str | None
    entry: PolicyEntry
    weights: PriorityWeights | None = None
    ask_again: bool = False

    def asking_again(self) -> Self:
        """The same policy with ``ask_again``.

        Raises:
            ValueError: it asks for no forecasts, or when it asks is its own matter.
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
        """The policy for these jobs."""
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
        """Whether it needs to know more about a job than its request."""
        return self.predictor is not None or self.entry.needs_questions

    @property
    def settings(self) -> Mapping[str, object]:
        """Everything that its schedule depends on besides the jobs and the machine, as JSON values."""
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
    """Policy ``name`` (of those that ship, or ``own``), with a run-time predictor if one is named or always needed.

    Raises:
        ValueError: unknown policy or predictor, a policy that takes none, or weights for one that has none.
    """
    if own is None and name not in POLICIES:
        raise ValueError(f"unknown policy {name!r}; choose from {', '.join(POLICIES)}")
    entry = own or POLICIES[name]
    if predictor is not None and predictor not in PREDICTORS:
        raise ValueError(f"unknown predictor {predictor!r}; choose from {', '.join(PREDICTORS)}")
    if predictor is not None and not entry.takes_predictor:
        predicting = " and ".join(other for other, entry in POLICIES.items() if entry.takes_predictor)
        raise ValueError(f"{name} uses requested times and takes no predictor; {predicting} do")
    weighted = entry.make is Multifactor
    if weights is not None and not weighted:
        raise ValueError(f"{name} has no priority weights; {Multifactor.name} has")
    chosen = (weights or PriorityWeights()) if weighted else None
    return ChosenPolicy(name, predictor or entry.default_predictor, entry, chosen)
