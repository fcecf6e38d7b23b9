"""Policies in the database: a rule, and which resources it is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from jobsight_scheduler.matching.policies import PolicyRule
from jobsight_scheduler.matching.problem import InvalidProblemError
from jobsight_scheduler.matching.read import rule_of as rule_from
from jobsight_server.matching.resource_types import LONGEST_NAME, ResourceError
from jobsight_server.matching.stored_resource import StoredResource
from jobsight_server.record import Record, Share

MOST_POLICIES = 1000

Hour = Annotated[float, Meta(ge=0, le=24)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]


class ResourcePolicy(Record, omit_defaults=True):
    """A rule for ``resource``, for all of ``type``, or for all where neither is given.

    It applies to jobs of ``classes`` (all where empty), from the first to before the second of ``hours`` (local to the
    server, may pass midnight), and while ``when`` holds: ``matches_running <= N``, ``used_share <= X``, or both with
    ``and``. The first rule that applies decides: ``preference`` is how much the resource is preferred. Where all rules
    of a resource allow and none applies, the job is denied.
    """

    effect: Literal["allow", "deny", "prefer"]
    resource: Name | None = None
    type: Name | None = None
    classes: Annotated[list[Name], Meta(max_length=100)] = field(default_factory=list)
    hours: tuple[Hour, Hour] | None = None
    when: Annotated[str, Meta(max_length=200)] | None = None
    preference: Share | None = None


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """A policy as sent, and as the matcher applies it."""

    body: ResourcePolicy
    rule: PolicyRule


def rule_of(body: ResourcePolicy, place: str) -> PolicyRule:
    """The rule as the matcher applies it.

    Raises:
        ResourceError: an effect without what it needs, a condition that does not parse, or two selectors.
    """
    if body.resource is not None and body.type is not None:
        raise ResourceError(f"{place}: give resource or type, not both")
    if body.hours is not None and body.hours[0] == body.hours[1]:
        raise ResourceError(f"{place}.hours = {list(body.hours)} is no time at all; leave it out for the whole day")
    try:
        return rule_from(body.effect, body.preference, body.classes, body.hours, body.when, place)
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error


def stored_policy(text: str) -> StoredPolicy:
    """The policy in a row."""
    body = msgspec.json.decode(text, type=ResourcePolicy)
    return StoredPolicy(body, rule_of(body, "policy"))


def policies_for(resource: StoredResource, policies: Sequence[StoredPolicy]) -> tuple[PolicyRule, ...]:
    """The rules for one resource, in their order."""
    return tuple(
        policy.rule
        for policy in policies
        if policy.body.resource in (None, resource.name) and policy.body.type in (None, resource.type)
    )
