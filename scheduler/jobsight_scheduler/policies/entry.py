"""What is known of a policy that can be chosen by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobsight_scheduler.validator import Check

from .base import Policy


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """``make(requests)``, or ``make(requests, predictor)`` if run times are predicted.

    Every schedule keeps ``rules``, and those without a predictor ``request_rules`` as well; all keep capacity and the
    jobs' own times. ``default_predictor`` is used if no other is named. ``asks_again``: ``make(requests, predictor,
    ask_again=True)`` goes by forecasts as of now while jobs wait. ``needs_questions``: it asks who submitted a
    job, or what else is known about it, also without a predictor.
    """

    make: Callable[..., Policy]
    rules: tuple[Check, ...] = ()
    request_rules: tuple[Check, ...] = ()
    takes_predictor: bool = False
    default_predictor: str | None = None
    needs_questions: bool = False
    asks_again: bool = False
