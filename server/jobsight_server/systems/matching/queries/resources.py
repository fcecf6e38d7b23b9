"""Resources as the API and the pages show them: capacities, what is free, who holds what."""

from __future__ import annotations

from typing import Any

from jobsight_server.record import Record, pages_of
from jobsight_server.systems.matching.catalogue import Catalogue, ResourcePolicy
from jobsight_server.systems.matching.resource_types import ResourceType

HOLDS_LISTED = 100


class CapacityState(Record):
    """``used`` is what is ``held`` and the measured use that no held job explains; ``free`` the rest of ``total``."""

    total: float
    used: float
    measured: float
    held: float
    free: float


class HeldShare(Record):
    """What a match holds of a resource."""

    match: int
    job: str
    user: str | None
    until: float
    amounts: dict[str, float]


class ResourceDetail(Record):
    """An instance. ``stale``: its state is so old that it takes no new match, unless it is ``static``.

    ``holds`` has the first hundred to end; ``matches_running`` counts all.
    """

    name: str
    type: str
    attributes: dict[str, Any]
    capacities: dict[str, CapacityState]
    cost: float
    static: bool
    stale: bool
    age_s: float
    state_at: float
    owner_present: bool | None
    source: str
    policies: int
    matches_running: int
    holds: list[HeldShare]


class ResourceList(Record):
    """One page of resources in the order of their names, and the version of the state that they are from."""

    page: int
    pages: int
    total: int
    version: int
    now: float
    resources: list[ResourceDetail]


class ResourceTypes(Record):
    """The types of resources, built-in ones first."""

    types: list[ResourceType]


class Removed(Record):
    """What was removed, and how many matches were lost with it."""

    name: str
    lost_matches: int


class ResourcePolicies(Record):
    """The policies, in the order in which they apply."""

    policies: list[ResourcePolicy]


class ChosenObjectives(Record):
    """The objectives, in order of importance, and the names of the built-in ones."""

    objectives: list[Any]
    shipped: list[str]


def resource_list(
    catalogue: Catalogue, now: float, kind: str | None = None, page: int = 1, size: int = 50
) -> ResourceList:
    """One page of the resources of one type, or of all."""
    names = sorted(
        name for name, number in catalogue.id_of.items() if kind is None or catalogue.resources[number].type == kind
    )
    shown = names[(page - 1) * size : page * size]
    details = [resource_detail(catalogue, name, now) for name in shown]
    pages = max(1, -(-len(names) // size)) if size != 50 else pages_of(len(names))
    return ResourceList(
        page, pages, len(names), catalogue.version, now, [detail for detail in details if detail is not None]
    )


def resource_detail(catalogue: Catalogue, name: str, now: float) -> ResourceDetail | None:
    """One resource; None if there is none of this name."""
    number = catalogue.id_of.get(name)
    if number is None:
        return None
    stored, present = catalogue.resources[number], catalogue.resource(number, now)
    parts = catalogue.parts_of(number, now)
    capacities = {
        kind: CapacityState(
            total=capacity.total,
            used=capacity.used,
            measured=stored.capacities[kind][1],
            held=sum(part.amounts.get(kind, 0.0) for part in parts),
            free=capacity.free,
        )
        for kind, capacity in present.capacities.items()
    }
    return ResourceDetail(
        name=stored.name,
        type=stored.type,
        attributes={
            key: list(value) if isinstance(value, tuple) else value for key, value in stored.attributes.items()
        },
        capacities=capacities,
        cost=stored.cost,
        static=stored.is_static,
        stale=present.unavailable is not None,
        age_s=max(0.0, now - stored.state_at),
        state_at=stored.state_at,
        owner_present=stored.owner_present,
        source=stored.source,
        policies=len(present.policies),
        matches_running=present.running,
        holds=[
            HeldShare(part.match_id, part.job, part.user, part.until, dict(part.amounts))
            for part in parts[:HOLDS_LISTED]
        ],
    )
