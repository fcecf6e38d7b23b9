"""The policies by name, and one chosen with its run-time predictor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jobsight_scheduler.policies.base import JobRequests, Policy
from jobsight_scheduler.policies.conservative import Conservative
from jobsight_scheduler.policies.easy import Easy
from jobsight_scheduler.policies.easy_plus import EasyPlus
from jobsight_scheduler.prediction import PREDICTORS


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """``make(requests)``, or ``make(requests, predictor)`` if run times are predicted, by default by
    ``default_predictor``."""

    make: Callable[..., Policy]
    takes_predictor: bool = False
    default_predictor: str | None = None


POLICIES: dict[str, PolicyEntry] = {
    "easy": PolicyEntry(Easy),
    "easy++": PolicyEntry(EasyPlus, takes_predictor=True, default_predictor="last-two"),
    "conservative": PolicyEntry(Conservative),
}


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """A policy with its predictor, None if it uses requested times."""

    name: str
    predictor: str | None
    entry: PolicyEntry

    def make(self, requests: JobRequests) -> Policy:
        """Return the policy for these jobs."""
        if self.predictor is None:
            return self.entry.make(requests)
        return self.entry.make(requests, PREDICTORS[self.predictor](requests.questions))


def choose_policy(
    name: str, predictor: str | None = None, policies: Mapping[str, PolicyEntry] = POLICIES
) -> ChosenPolicy:
    """Return the one of ``policies`` called ``name``, with a run-time predictor if one is named or always needed.

    Raises:
        KeyError: unknown policy.
        ValueError: a predictor for a policy that takes none.
    """
    entry = policies[name]
    if predictor is not None and not entry.takes_predictor:
        predicting = " and ".join(other for other, entry in policies.items() if entry.takes_predictor)
        raise ValueError(f"{name} uses requested times and takes no predictor; {predicting} can take one")
    return ChosenPolicy(name, predictor or entry.default_predictor, entry)
