"""Policy rules of a resource: job classes, hours, conditions and preference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Meta

from jobsight_scheduler.matching.predicates import Constant, Name, Operation
from jobsight_scheduler.matching.records import BatchRecord, Hour, InvalidProblemError, Many, Share, Text, expression


class PolicyRule(BatchRecord, frozen=True, omit_defaults=True):
    """A rule for jobs of ``classes`` (all if empty), within ``hours`` and ``when`` its conditions hold.

    ``hours`` is (from, to) in local hours of the day and may pass midnight; ``to`` is not included. ``when`` is
    ``matches_running <= N``, ``used_share <= X`` or both with ``and``: at most N matches hold the resource, and at most
    X of its fullest capacity is used. ``preference`` belongs to the effect ``prefer``, from 0 (last) to 1 (as with
    ``allow``).
    """

    effect: Literal["allow", "deny", "prefer"]
    preference: Share | None = None
    classes: Annotated[tuple[Text, ...], Many] = ()
    hours: tuple[Hour, Hour] | None = None
    when: Annotated[str, Meta(max_length=200)] | None = None

    def __post_init__(self) -> None:
        if (self.effect == "prefer") != (self.preference is not None):
            raise InvalidProblemError(f"effect {self.effect!r}; give a preference with 'prefer', and only there")
        if self.hours is not None and self.hours[0] == self.hours[1]:
            raise InvalidProblemError(f".hours: {self.hours} is an empty span; leave it out for the whole day")
        if self.when is not None:
            _at_most(self.when)

    def applies(self, job_class: str, hour: float | None, matches_running: int, used_share: float) -> bool:
        """Return whether the rule applies to a job of ``job_class`` now; one with hours does not at an unknown hour."""
        if self.classes and job_class not in self.classes:
            return False
        if self.hours is not None:
            start, end = self.hours
            if hour is None or not (start <= hour < end if start <= end else hour >= start or hour < end):
                return False
        present = {"matches_running": matches_running, "used_share": used_share}
        return self.when is None or all(present[name] <= bound for name, bound in _at_most(self.when))


def verdict(
    rules: Sequence[PolicyRule], job_class: str, hour: float | None, matches_running: int, used_share: float
) -> float | None:
    """Return the preference, 0 to 1, of the first rule that applies; 1 if none does, None if it denies.

    If all rules have the effect ``allow``, jobs to which none applies are denied.
    """
    for rule in rules:
        if rule.applies(job_class, hour, matches_running, used_share):
            return None if rule.effect == "deny" else 1.0 if rule.preference is None else rule.preference
    return None if rules and all(rule.effect == "allow" for rule in rules) else 1.0


@lru_cache(maxsize=10_000)
def _at_most(when: str) -> tuple[tuple[str, float], ...]:
    """Parse the bounds of ``matches_running <= 3 and used_share <= 0.8``."""
    node = expression(".when", when)
    found: list[tuple[str, float]] = []
    for part in node.operands if isinstance(node, Operation) and node.operator == "and" else (node,):
        match part:
            case Operation("<=", (Name("matches_running" | "used_share" as name), Constant(float(bound), False))):
                found.append((name, bound))
            case _:
                raise InvalidProblemError(
                    ".when: a condition is 'matches_running <= N', 'used_share <= X' or both with 'and'"
                )
    return tuple(found)
