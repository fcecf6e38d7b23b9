"""Who starts when: one policy a file, and a table of them by the name that commands use."""

from __future__ import annotations

from collections.abc import Callable

from .base import NEVER, Policy, QueueTooLongError, Requests
from .conservative import Conservative
from .easy import Easy
from .easy_plus import EasyPlus
from .fcfs import Fcfs
from .runtimes import PREDICTORS, RunTimes
from .sjf import Sjf

POLICIES = ("fcfs", "sjf", "easy", "easy++", "conservative")
PREDICTING = ("sjf", "easy++")
"""Those that can ask a predictor of run times; easy++ always does."""

DEFAULT_PREDICTOR = "last-two"


def policy_maker(name: str, predictor: str | None = None) -> Callable[[Requests], Policy]:
    """Makes policy ``name`` from requests, with a predictor of run times where there is to be one.

    Raises:
        ValueError: no such policy or predictor, or a policy that asks none.
    """
    if predictor is not None and predictor not in PREDICTORS:
        raise ValueError(f"no predictor {predictor!r}; choose from {', '.join(PREDICTORS)}")
    if predictor is not None and name not in PREDICTING:
        raise ValueError(f"{name} goes by requested times and asks no predictor; {' and '.join(PREDICTING)} do")

    def run_times(requests: Requests) -> RunTimes:
        return PREDICTORS[predictor or DEFAULT_PREDICTOR](requests.questions)

    makers: dict[str, Callable[[Requests], Policy]] = {
        "fcfs": Fcfs,
        "sjf": lambda requests: Sjf(requests, None if predictor is None else run_times(requests)),
        "easy": Easy,
        "easy++": lambda requests: EasyPlus(requests, run_times(requests)),
        "conservative": Conservative,
    }
    if name not in makers:
        raise ValueError(f"no policy {name!r}; choose from {', '.join(POLICIES)}")
    return makers[name]


__all__ = [
    "DEFAULT_PREDICTOR",
    "NEVER",
    "POLICIES",
    "PREDICTING",
    "PREDICTORS",
    "Policy",
    "QueueTooLongError",
    "Requests",
    "policy_maker",
]
