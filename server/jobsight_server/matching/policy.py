"""Policies in the database: a rule, and which resources it is for."""

from __future__ import annotations

from collections.abc import Sequence

from jobsight_scheduler.matching.policies import PolicyRule
from jobsight_scheduler.matching.records import InvalidProblemError, Name

MOST_POLICIES = 1000


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


def policies_for(name: str, kind: str, policies: Sequence[ResourcePolicy]) -> tuple[PolicyRule, ...]:
    """The rules for the resource ``name`` of type ``kind``, in their order."""
    return tuple(one for one in policies if one.resource in (None, name) and one.type in (None, kind))
