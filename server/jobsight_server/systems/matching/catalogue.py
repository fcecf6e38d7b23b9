"""All resources and their holds, in the memory of one process, kept up to date by version.

A process that knows one version reads only rows that changed since. Under READ COMMITTED its statements may see
different commits; it reads a row again that it read too early, and checks a match again before storing it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, bindparam, select

from jobsight_scheduler.matching.policies import PolicyRule
from jobsight_scheduler.matching.problem import AttributeValue, Capacity, Hold, Resource
from jobsight_scheduler.matching.records import InvalidProblemError, Name
from jobsight_server.ground.answers import Record
from jobsight_server.storage.engine import fetch
from jobsight_server.systems.matching.tables import holds, matches, matching_state, resource_policies, resources

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
        """Return whether its last report is too old for a new match."""
        return not self.is_static and now - self.state_at > expiry_s


class ResourcePolicy(PolicyRule, frozen=True):
    """A rule for ``resource``, for all of ``type``, or for all where neither is given.

    It applies to jobs of ``classes`` (all where empty), from the first to before the second of ``hours`` (local to the
    server, may pass midnight), and while ``when`` holds: ``matches_running <= N``, ``used_share <= X``, or both with
    ``and``. The first rule that applies decides; ``preference`` ranks the resource. If all rules of a resource allow
    and none applies, the job is denied.
    """

    resource: Name | None = None
    type: Name | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resource is not None and self.type is not None:
            raise InvalidProblemError("give resource or type, not both")


class HeldPart(Record):
    """Capacities of a resource that a match holds since ``since``."""

    match: int
    job: str
    user: str | None
    since: float
    until: float
    amounts: dict[str, float]


def present(resource: StoredResource, parts: Iterable[HeldPart], policies: Sequence[ResourcePolicy]) -> Resource:
    """Return the resource as the matcher sees it, with those of ``policies`` that are for it.

    ``used`` is the sum of the holds and of the measured use that no held job explains.

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
        holds=tuple(Hold(part.job, part.until, part.amounts, part.user) for part in parts),
        policies=tuple(
            one for one in policies if one.resource in (None, resource.name) and one.type in (None, resource.type)
        ),
        matches_running=len({part.match for part in parts}),
    )


_STATE = select(matching_state)
_STORED = [resources.c[field.name] for field in fields(StoredResource)]
_RESOURCES = select(*_STORED).where(resources.c.version > bindparam("known")).order_by(resources.c.id)
_CHANGED = matches.c.version > bindparam("known")
_HELD = (
    select(*matches.c["id", "name", "user", "matched_at", "until"], *holds.c["resource_id", "amounts"])
    .join(holds, holds.c.match_id == matches.c.id)
    .where(matches.c.state == "held", _CHANGED)
)
_ENDED = select(matches.c.id).where(_CHANGED, matches.c.state.not_in(("held", "queued")))

DEFAULT_OBJECTIVES = ("throughput",)

_decode_policy = msgspec.json.Decoder(ResourcePolicy).decode


class Catalogue:
    """The state that matches are made from. Not thread-safe."""

    def __init__(self, expiry_s: float) -> None:
        self.version = 0
        self.definitions = 0
        self.objectives: list[Any] = list(DEFAULT_OBJECTIVES)
        self.policies: list[ResourcePolicy] = []
        self.resources: dict[int, StoredResource] = {}
        self.id_of: dict[str, int] = {}
        self._expiry_s = expiry_s
        self._by_type: dict[str, set[int]] = {}
        self._held: dict[int, dict[int, list[HeldPart]]] = {}
        self._holders: dict[int, tuple[int, ...]] = {}
        self._present: dict[int, tuple[Resource, float]] = {}
        """With the end of the first of its holds."""

    def refresh(self, connection: Connection, version: int | None = None) -> None:
        """Read the changes; ``version``: the newest committed one, if the caller holds a change open."""
        state = connection.execute(_STATE).one_or_none()
        if state is None:
            return
        newest = state.version if version is None else version
        if newest == self.version:
            return
        if state.removal_version > self.version > 0 or newest < self.version:
            self._forget()
        if state.definition_version > self.version or not self.version:
            self._read_definitions(connection, state.objectives)
        self._read_resources(connection)
        self._read_matches(connection)
        self.version = newest

    def resources_of(self, types: Collection[str], now: float) -> tuple[Resource, ...]:
        """Return all resources of these types at ``now``, in the order of their numbers."""
        wanted = sorted(number for kind in types for number in self._by_type.get(kind, ()))
        return tuple(self.resource(number, now) for number in wanted)

    def types(self) -> list[str]:
        """Return the types of which there are resources."""
        return sorted(kind for kind, numbers in self._by_type.items() if numbers)

    def parts_of(self, number: int, now: float) -> list[HeldPart]:
        """Return the holds on the resource at ``now``, the first to end first."""
        parts = [part for held in self._held.get(number, {}).values() for part in held if part.until > now]
        return sorted(parts, key=lambda part: (part.until, part.match))

    def resource(self, number: int, now: float) -> Resource:
        """Return one resource at ``now``."""
        stored = self.resources[number]
        found, until = self._present.get(number, (None, 0.0))
        if found is None or until <= now:
            parts = self.parts_of(number, now)
            found = present(stored, parts, self.policies)
            self._present[number] = found, parts[0].until if parts else math.inf
        if not stored.is_stale(now, self._expiry_s):
            return found
        return replace(
            found, unavailable=f"its state is {now - stored.state_at:.0f} s old, more than {self._expiry_s:g} s"
        )

    def _forget(self) -> None:
        """Discard everything: a deleted row, or a restored database, has no newer version."""
        self.version = 0
        self.resources, self.id_of, self._by_type, self._present = {}, {}, {}, {}
        self._held, self._holders = {}, {}

    def _read_definitions(self, connection: Connection, objectives: str | None) -> None:
        self.definitions += 1
        self.objectives = list(DEFAULT_OBJECTIVES) if objectives is None else msgspec.json.decode(objectives)
        rules = connection.scalars(select(resource_policies.c.rule).order_by(resource_policies.c.id))
        self.policies = [_decode_policy(rule) for rule in rules]
        self._present.clear()

    def _read_resources(self, connection: Connection) -> None:
        known = {"known": self.version}
        for number, name, kind, attributes, capacities, *rest in fetch(connection, _RESOURCES, known):
            before = self.resources.get(number)
            if before is not None and before.type != kind:
                self._by_type[before.type].discard(number)
            self.resources[number] = StoredResource(
                number, name, kind, decode_attributes(attributes), decode_capacities(capacities), *rest
            )
            self.id_of[name] = number
            self._by_type.setdefault(kind, set()).add(number)
            self._present.pop(number, None)

    def _read_matches(self, connection: Connection) -> None:
        if self.version:
            for ended in connection.scalars(_ENDED, {"known": self.version}):
                self._drop(ended)
        found: dict[int, list[tuple[int, HeldPart]]] = {}
        for number, job, user, since_s, until, resource, amounts in fetch(connection, _HELD, {"known": self.version}):
            part = HeldPart(number, job, user, since_s, until, decode_amounts(amounts))
            found.setdefault(number, []).append((resource, part))
        for number, parts in found.items():
            self._drop(number)
            self._add(number, parts)

    def _add(self, number: int, parts: Iterable[tuple[int, HeldPart]]) -> None:
        parts = list(parts)
        for resource, part in parts:
            self._held.setdefault(resource, {}).setdefault(number, []).append(part)
            self._present.pop(resource, None)
        self._holders[number] = tuple({resource for resource, _ in parts})

    def _drop(self, number: int) -> None:
        for resource in self._holders.pop(number, ()):
            self._held[resource].pop(number, None)
            self._present.pop(resource, None)
