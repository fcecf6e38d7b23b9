"""A resource as it is stored, the policies that are for it, and what of it is free for new matches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from jobsight_scheduler.matching.policies import PolicyRule
from jobsight_scheduler.matching.problem import AttributeValue, Capacity, Hold, Resource
from jobsight_scheduler.matching.records import InvalidProblemError, Name

MOST_POLICIES = 1000

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


class ResourcePolicy(PolicyRule, frozen=True):
    """A rule for ``resource``, for all of ``type``, or for all where neither is given.

    It applies to jobs of ``classes`` (all where empty), from the first to before the second of ``hours`` (local to the
    server, may pass midnight), and while ``when`` holds: ``matches_running <= N``, ``used_share <= X``, or both with
    ``and``. The first rule that applies decides: ``preference`` is how much the resource is preferred. Where all rules
    of a resource allow and none applies, the job is denied.
    """

    resource: Name | None = None
    type: Name | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resource is not None and self.type is not None:
            raise InvalidProblemError("give resource or type, not both")


@dataclass(frozen=True, slots=True)
class HeldPart:
    """What a match holds of one resource, since ``since``."""

    match_id: int
    job: str
    user: str | None
    since: float
    until: float
    amounts: dict[str, float]


def present(resource: StoredResource, parts: Iterable[HeldPart], policies: Sequence[ResourcePolicy]) -> Resource:
    """The resource as the matcher sees it: used is what is held and the measured use that no held job explains.

    Of ``policies``, it has those that are for it.

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
        policies=tuple(
            one for one in policies if one.resource in (None, resource.name) and one.type in (None, resource.type)
        ),
        matches_running=len({part.match_id for part in parts}),
    )
