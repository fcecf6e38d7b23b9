"""What a batch is answered with. Field names are those of ``jobsight match --json`` and of the API."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Tier = Literal[
    "type", "predicate", "never-fits", "policy", "held", "gang", "outpriced", "reserved", "turn", "predicted"
]
"""Why a job is not matched: of its dependencies in trouble, the one with the first of these.

``type``: there is no resource of a type that it depends on. ``predicate``: no resource satisfies what it asks for.
``never-fits``: not even an idle resource of those has the amounts. ``policy``: policies deny all that have, or their
state is too old. ``held``: it would fit if others held less. ``gang``: each dependency fits, all together do not.
``outpriced``: it fits alone; the batch is worth at least as much without it. ``reserved``: it fits, but not before the
start of a reservation for a job that was passed over too often. ``turn``: it fits, and is younger than those of the
round. ``predicted``: an amount was left to Jobsight, which knows nothing of it.
"""


class Match(Struct, frozen=True):
    """A whole match: the names of the instances for each dependency."""

    job: str
    resources: dict[str, tuple[str, ...]]


class Unmatched(Struct, frozen=True):
    """A job without a match, and why."""

    job: str
    tier: Tier
    reason: str


class ObjectiveValue(Struct, frozen=True):
    """The value of one objective, and the bound on it given the optima of those before; None where none is known."""

    name: str
    value: float
    bound: float | None
    gap: float | None


class Answer(Struct, frozen=True):
    """``objective``, ``bound`` and ``gap`` are those of the first objective; ``objectives`` has all.

    ``status`` is ``optimal`` where all of them are proven. ``rung`` is the step of the ladder that found the matches,
    ``rows`` and ``columns`` are those of the integer program, ``bound`` is at least (of a minimum: at most) the
    optimum, ``gap`` their difference over the larger magnitude. ``failed`` are rungs that failed, with the error.
    """

    status: Literal["optimal", "feasible"]
    rung: str
    objective: float
    bound: float | None
    gap: float | None
    cpu_s: float
    matches: tuple[Match, ...]
    unmatched: tuple[Unmatched, ...]
    rows: int = 0
    columns: int = 0
    objectives: tuple[ObjectiveValue, ...] = ()
    warnings: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
