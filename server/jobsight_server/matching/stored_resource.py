"""A resource as it is stored, and what of it is free for new matches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from jobsight_scheduler.matching.policies import PolicyRule
from jobsight_scheduler.matching.problem import AttributeValue, Capacity, Hold, Resource

_decode_attributes = msgspec.json.Decoder(dict[str, str | float | bool | list[str | float | bool]]).decode
_decode_capacities = msgspec.json.Decoder(dict[str, tuple[float, float]]).decode
_decode_amounts = msgspec.json.Decoder(dict[str, float]).decode


@dataclass(frozen=True, slots=True)
class StoredResource:
    """``capacities`` are pairs (total, measured use at ``state_at``)."""

    id: int
    name: str
    type: str
    attributes: Mapping[str, AttributeValue]
    capacities: Mapping[str, tuple[float, float]]
    cost: float
    is_static: bool
    state_at: float
    owner_present: bool | None
    source: str

    def is_stale(self, now: float, expiry_s: float) -> bool:
        """Whether its last report is so old that it takes no new match."""
        return not self.is_static and now - self.state_at > expiry_s


@dataclass(frozen=True, slots=True)
class HeldPart:
    """What a match holds of one resource, since ``since``."""

    match_id: int
    job: str
    user: str | None
    since: float
    until: float
    amounts: Mapping[str, float]


def attributes_of(text: str) -> dict[str, AttributeValue]:
    """The attributes in a row; lists become tuples."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in _decode_attributes(text).items()
    }


def capacities_of(text: str) -> dict[str, tuple[float, float]]:
    """The capacities in a row."""
    return _decode_capacities(text)


def amounts_of(text: str) -> dict[str, float]:
    """The amounts of a hold in its row."""
    return _decode_amounts(text)


def present(resource: StoredResource, parts: Iterable[HeldPart], policies: tuple[PolicyRule, ...]) -> Resource:
    """The resource as the matcher sees it: used is what is held and the measured use that no held job explains.

    A measurement can only include jobs whose match is older, so a newer hold explains none of it.
    """
    parts = tuple(parts)
    capacities = {
        name: Capacity(total, _used(name, measured, resource.state_at, parts))
        for name, (total, measured) in resource.capacities.items()
    }
    return Resource(
        name=resource.name,
        type=resource.type,
        attributes=resource.attributes,
        capacities=capacities,
        cost=resource.cost,
        is_held=bool(parts),
        holds=tuple(Hold(part.job, part.until, dict(part.amounts), part.user) for part in parts),
        policies=policies,
        matches_running=len({part.match_id for part in parts}),
    )


def _used(name: str, measured: float, measured_at: float, parts: tuple[HeldPart, ...]) -> float:
    held = explained = 0.0
    for part in parts:
        amount = part.amounts.get(name, 0.0)
        held += amount
        if part.since < measured_at:
            explained += amount
    return held + max(0.0, measured - explained)
