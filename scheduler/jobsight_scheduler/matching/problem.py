"""The matching problem: a batch of jobs, the resources that they depend on, and the objectives.

Source: V. K. Naik, C. Liu, L. Yang, J. Wagner, Online resource matching for heterogeneous grid environments (CCGrid
2005). Amounts are in the unit of the site's capacities; matching converts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import force_setattr

from jobsight_scheduler.matching.policies import PolicyRule, verdict
from jobsight_scheduler.matching.predicates import Node
from jobsight_scheduler.matching.records import (
    Amount,
    BatchRecord,
    Hour,
    InvalidProblemError,
    Many,
    Name,
    Scalar,
    Text,
    expression,
    once,
    shown,
)

_Kinds = Meta(max_length=32)

AttributeValue = bool | float | str | tuple[bool | float | str, ...]


class Capacity(BatchRecord, frozen=True):
    """``total`` of one kind, and its ``used`` part: held by matches, or measured beyond the holds."""

    total: Amount
    used: Amount = 0.0

    @property
    def free(self) -> float:
        """Return the capacity for new matches; never negative."""
        return max(0.0, self.total - self.used)


class Hold(BatchRecord, frozen=True):
    """A match that holds a part of a resource. ``until_s`` is on the clock of ``Problem.now_s``."""

    job: Name
    until_s: float
    amounts: dict[Name, Amount] = field(default_factory=dict)
    user: Name | None = None


if TYPE_CHECKING:
    CapacityOrTotal = Capacity
else:  # in JSON, the total alone is an unused capacity
    CapacityOrTotal = Capacity | Amount


class Resource(BatchRecord, frozen=True):
    """An instance of ``type``. ``used`` of its capacities includes its ``holds``.

    ``cost`` is for expressions. ``matches_running`` defaults to the number of holds. ``unavailable`` is the reason why
    it takes no new match, None if it does.
    """

    name: Name
    type: Name
    attributes: Annotated[dict[Name, Scalar | Annotated[tuple[Scalar, ...], Many] | None], Meta(max_length=200)] = (
        field(default_factory=dict)
    )
    capacities: Annotated[dict[Name, CapacityOrTotal], _Kinds] = field(default_factory=dict)
    cost: Annotated[float, Meta(ge=0, le=1e15)] = 1.0
    holds: Annotated[tuple[Hold, ...], Many] = ()
    policies: Annotated[tuple[PolicyRule, ...], Many] = ()
    matches_running: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    unavailable: Name | None = None

    def __post_init__(self) -> None:
        if any(not isinstance(capacity, Capacity) for capacity in self.capacities.values()):
            whole = {k: c if isinstance(c, Capacity) else Capacity(c) for k, c in self.capacities.items()}
            force_setattr(self, "capacities", whole)

    @property
    def running(self) -> int:
        """Return the number of matches that hold part of it."""
        return len(self.holds) if self.matches_running is None else self.matches_running

    def preference(self, job_class: str, hour: float | None) -> float | None:
        """Return its preference by policies, 0 to 1; None if they deny it."""
        if not self.policies:
            return 1.0
        shares = [min(1.0, capacity.used / capacity.total) for capacity in self.capacities.values() if capacity.total]
        return verdict(self.policies, job_class, hour, self.running, max(shares, default=0.0))


class Dependency(BatchRecord, frozen=True):
    """``count`` distinct instances of ``type`` that satisfy ``where``, with ``amounts`` of each.

    ``prefer`` is an expression, of which more is better, such as ``"speed / price"`` or ``"os == 'linux'"``.
    """

    name: Name
    type: Name
    where: str | None = None
    amounts: Annotated[dict[Name, Amount], _Kinds] = field(default_factory=dict)
    count: Annotated[int, Meta(ge=1, le=100_000)] = 1
    prefer: str | None = None

    def __post_init__(self) -> None:
        _ = self.predicate, self.preferred

    @property
    def predicate(self) -> Node | None:
        """Parse ``where``; None if all resources satisfy it."""
        return expression(".where", self.where) if self.where else None

    @property
    def preferred(self) -> Node | None:
        """Parse ``prefer``; None if all resources are alike."""
        return expression(".prefer", self.prefer) if self.prefer else None


class MatchJob(BatchRecord, frozen=True):
    """A job. ``duration_s`` is the duration of its match, None if unknown.

    ``executable`` and ``inputs`` are allowed and ignored.
    """

    name: Name
    dependencies: Annotated[tuple[Dependency, ...], Meta(max_length=64)]
    user: Name | None = None
    job_class: Text = field(default="", name="class")
    priority: Annotated[float, Meta(ge=0, le=1e12)] = 1.0
    duration_s: Annotated[float, Meta(ge=0, le=1e10)] | None = None
    executable: Any = None
    inputs: Any = None

    def __post_init__(self) -> None:
        once(".dependencies", [dependency.name for dependency in self.dependencies])

    @property
    def weight(self) -> float:
        """Return its weight in objectives."""
        return self.priority


class AgedJob(MatchJob, frozen=True):
    """A job that counts more than its priority because it has waited."""

    aged: float = 1.0
    """Factor of its priority."""

    @property
    def weight(self) -> float:
        """Return its weight in objectives."""
        return self.priority * self.aged


OBJECTIVES = ("throughput", "priority", "preferences", "best-to-priority", "utilisation")
"""The built-in objectives; all are maximised."""


class Objective(BatchRecord, frozen=True, rename={"z": "Z", "x": "X"}):
    """One of ``OBJECTIVES``, or an own one, linear in Z and X with coefficients from fields of job and resource."""

    name: Name
    sense: Literal["max", "min"] | None = None
    z: str | None = None
    x: str | None = None

    def __post_init__(self) -> None:
        if self.is_own and self.name in OBJECTIVES:
            raise InvalidProblemError(f".name: {self.name!r} is built in; give your own another name")
        if not self.is_own and self.name not in OBJECTIVES:
            raise InvalidProblemError(f": unknown objective {shown(self.name)}; known: {', '.join(OBJECTIVES)}")
        if self.sense is not None and not self.is_own:
            raise InvalidProblemError(": 'sense' belongs to an own objective, with Z or X")
        _ = self.coefficients

    @property
    def coefficients(self) -> dict[str, Node]:
        """Return the coefficients of Z and X of an own objective."""
        texts = {"Z": self.z, "X": self.x}
        return {name: expression(f".{name}", text) for name, text in texts.items() if text is not None}

    @property
    def is_own(self) -> bool:
        """Return whether it is not built in."""
        return (self.z, self.x) != (None, None)

    @property
    def is_max(self) -> bool:
        """Return whether it is maximised."""
        return self.sense != "min"


if TYPE_CHECKING:
    ObjectiveOrName = Objective
else:  # in JSON, the name alone is a built-in objective
    ObjectiveOrName = Objective | str

Objectives = Annotated[tuple[ObjectiveOrName, ...], Meta(min_length=1, max_length=10)]


class Problem(BatchRecord, frozen=True):
    """A batch. Objectives are in order of importance: later ones keep the optimum of earlier ones.

    ``hour`` is the local hour of day for policy rules (0 to 24; None: rules with hours do not apply), ``now_s`` the
    time for holds.
    """

    resources: Annotated[tuple[Resource, ...], Meta(max_length=20_000)]
    jobs: Annotated[tuple[MatchJob, ...], Meta(max_length=10_000)]
    objectives: Objectives = (Objective("throughput"),)
    hour: Hour | None = None
    now_s: float = 0.0

    def __post_init__(self) -> None:
        force_setattr(self, "objectives", named(self.objectives))


def named(objectives: Objectives, place: str = ".objectives") -> tuple[Objective, ...]:
    """Replace the names in ``objectives`` by records.

    Raises:
        InvalidProblemError: one is unknown, or is there twice.
    """
    found = []
    for index, entry in enumerate(objectives):
        try:
            found.append(entry if isinstance(entry, Objective) else Objective(entry))
        except InvalidProblemError as error:
            raise InvalidProblemError(f"{place}[{index}]{error}") from error
    once(place, [objective.name for objective in found])
    return tuple(found)
