"""A resource as it is stored, and what of it is free for new matches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from jobsight_scheduler.matching.policies import PolicyRule
from jobsight_scheduler.matching.problem import AttributeValue, Capacity, Hold, Resource

decode_attributes = msgspec.json.Decoder(dict[str, AttributeValue | None]).decode
decode_capacities = msgspec.json.Decoder(dict[str, tuple[float, float]]).decode
decode_amounts = msgspec.json.Decoder(dict[str, float]).decode


@dataclass(frozen=True, slots=True)
class StoredResource:
    """``capacities`` are pairs (total, measured use at ``state_at``)."""

    id: int
    name: str
    type: str
    attributes: dict[str, AttributeValue | None]
    capacities: dict[str, tuple[float, float]]
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
    amounts: dict[str, float]


def present(resource: StoredResource, parts: Iterable[HeldPart], policies: tuple[PolicyRule, ...]) -> Resource:
    """The resource as the matcher sees it: used is what is held and the measured use that no held job explains.

    A measurement can only include jobs whose match is older, so a newer hold explains none of it.
    """
    parts = tuple(parts)
    capacities = {}
    for name, (total, measured) in resource.capacities.items():
        held = sum(part.amounts.get(name, 0.0) for part in parts)
        explained = sum(part.amounts.get(name, 0.0) for part in parts if part.since < resource.state_at)
        capacities[name] = Capacity(total, held + max(0.0, measured - explained))
    return Resource(
        resource.name,
        resource.type,
        resource.attributes,
        capacities,
        resource.cost,
        held=bool(parts),
        holds=tuple(Hold(part.job, part.until, part.amounts, part.user) for part in parts),
        policies=policies,
        matches_running=len({part.match_id for part in parts}),
    )
