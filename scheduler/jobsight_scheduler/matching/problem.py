"""What is matched: a batch of jobs, the resources that they depend on, and what is to be optimised.

Source: V. K. Naik, C. Liu, L. Yang, J. Wagner, Online resource matching for heterogeneous grid environments (CCGrid
2005). Amounts are in whatever unit a site's capacities are in; a match compares, and converts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta, Struct

from .policies import PolicyRule
from .predicates import Node

Scalar = str | float | bool
AttributeValue = Scalar | tuple[Scalar, ...]


class InvalidProblemError(ValueError):
    """A batch, a resource or an objective that cannot be matched; the message has the place, the value, what to do."""


Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\A[^\0]*\Z")]
Amount = Annotated[float, Meta(ge=0)]


class Capacity(Struct, frozen=True, forbid_unknown_fields=True):
    """``total`` of one kind, and how much of it is ``used``: held by matches, or measured beyond what these explain."""

    total: Amount
    used: Amount = 0.0

    @property
    def free(self) -> float:
        """What a new match may take; never negative."""
        return max(0.0, self.total - self.used)


class Hold(Struct, frozen=True, forbid_unknown_fields=True):
    """A match that holds a part of a resource. ``until_s`` is on the clock of ``Problem.now_s``."""

    job: Name
    until_s: float
    amounts: dict[Name, Amount] = {}
    user: Name | None = None


@dataclass(frozen=True, slots=True)
class Resource:
    """An instance of ``type``. ``used`` of its capacities includes what ``holds`` hold.

    ``cost`` counts in the objective ``fewest``; ``is_held`` says that matches hold something of it, so that taking more
    of it adds no cost. ``unavailable`` is the reason why it takes no new match, None if it does.
    """

    name: str
    type: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    capacities: Mapping[str, Capacity] = field(default_factory=dict)
    cost: float = 1.0
    is_held: bool = False
    holds: tuple[Hold, ...] = ()
    policies: tuple[PolicyRule, ...] = ()
    matches_running: int = 0
    unavailable: str | None = None


@dataclass(frozen=True, slots=True)
class ValueOrder:
    """A preference by the values of one attribute: ``better`` lists pairs (better, worse) without a cycle."""

    attribute: str
    better: tuple[tuple[Scalar, Scalar], ...]


@dataclass(frozen=True, slots=True)
class Preference:
    """Which of the eligible resources a dependency prefers: the highest value of an expression, or the lowest."""

    by: Node | ValueOrder
    is_lowest: bool = False


@dataclass(frozen=True, slots=True)
class Dependency:
    """``count`` distinct instances of ``type`` that satisfy ``where``, with ``amounts`` of each."""

    name: str
    type: str
    where: Node | None = None
    amounts: Mapping[str, float] = field(default_factory=dict)
    count: int = 1
    prefer: Preference | None = None
    where_text: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """Every instance of ``first`` and every instance of ``second`` must be related.

    They are if their attribute ``same`` has equal values, or, where ``pairs`` is given, if (name of the instance of
    ``first``, name of the instance of ``second``) is one of them.
    """

    first: str
    second: str
    same: str | None = None
    pairs: frozenset[tuple[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class MatchJob:
    """A job. ``duration_s`` is how long its match holds what it gets, None if unknown.

    ``weight`` is what it counts in objectives where that is not its ``priority``, because it has waited.
    """

    name: str
    dependencies: tuple[Dependency, ...]
    user: str | None = None
    job_class: str = ""
    priority: float = 1.0
    duration_s: float | None = None
    relations: tuple[Relation, ...] = ()
    weight: float | None = None

    @property
    def counted(self) -> float:
        """The weight, which is the priority unless it was given."""
        return self.priority if self.weight is None else self.weight


@dataclass(frozen=True, slots=True)
class Objective:
    """One of ``OBJECTIVES``, or ``own``: linear in Z, X, S and F with ``coefficients`` from fields of job and resource.

    ``balance`` counts ``resources`` only, or those of ``type``; all where neither is given.
    """

    kind: str
    name: str
    is_max: bool = True
    coefficients: Mapping[str, Node] = field(default_factory=dict)
    resources: frozenset[str] | None = None
    type: str | None = None


OBJECTIVES = {
    "throughput": True,
    "priority": True,
    "preferences": True,
    "best-to-priority": True,
    "utilisation": True,
    "fewest": False,
    "balance": False,
}
"""The objectives that ship, and whether each is maximised."""

MATCH_NOTHING = ("fewest", "balance")
"""Alone, these are best when nothing is matched."""


def shipped(kind: str) -> Objective:
    """The objective of this name.

    Raises:
        KeyError: there is none.
    """
    return Objective(kind, kind, OBJECTIVES[kind])


@dataclass(frozen=True, slots=True)
class Problem:
    """A batch. Objectives in order of importance: the optimum of each is kept for those after it.

    ``hour`` is the local hour of day for policy rules (0 to 24; None: rules with hours do not apply), ``now_s`` the
    time for holds. ``warnings`` are from reading: what was ignored, and how often.
    """

    resources: tuple[Resource, ...]
    jobs: tuple[MatchJob, ...]
    objectives: tuple[Objective, ...] = (Objective("throughput", "throughput"),)
    hour: float | None = None
    now_s: float = 0.0
    warnings: tuple[str, ...] = ()
