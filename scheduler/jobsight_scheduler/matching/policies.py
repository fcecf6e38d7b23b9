"""Policy rules of a resource: which job classes may use it, when, and how much they prefer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Effect = Literal["allow", "deny", "prefer"]


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Applies to jobs of ``classes`` (all where empty), within ``hours`` and under its conditions on the present.

    ``hours`` is (from, to) in local hours of the day and may pass midnight; ``to`` is not included. The conditions
    hold where at most ``matches_running_at_most`` matches hold the resource, and where at most ``used_share_at_most``
    of its fullest capacity is used. ``preference`` is how much the resource is preferred where the effect is
    ``prefer``, from 0 (last) to 1 (as where it is allowed).
    """

    effect: Effect
    preference: float = 1.0
    classes: frozenset[str] = frozenset()
    hours: tuple[float, float] | None = None
    matches_running_at_most: int | None = None
    used_share_at_most: float | None = None

    def applies(self, job_class: str, hour: float | None, matches_running: int, used_share: float) -> bool:
        """Whether the rule decides for a job of ``job_class`` now. Without a known hour, rules with hours do not."""
        if self.classes and job_class not in self.classes:
            return False
        if self.hours is not None and (hour is None or not _is_within(hour, *self.hours)):
            return False
        if self.matches_running_at_most is not None and matches_running > self.matches_running_at_most:
            return False
        return self.used_share_at_most is None or used_share <= self.used_share_at_most


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a job may use a resource, and how much it is preferred, 0 to 1."""

    allowed: bool
    preference: float = 1.0


def verdict(
    rules: Sequence[PolicyRule], job_class: str, hour: float | None, matches_running: int, used_share: float
) -> Verdict:
    """The effect of the first rule that applies; allowed where none does.

    Where all rules are of the effect ``allow``, jobs to which none applies are denied: to allow some is to deny others.
    """
    for rule in rules:
        if rule.applies(job_class, hour, matches_running, used_share):
            return Verdict(rule.effect != "deny", rule.preference if rule.effect == "prefer" else 1.0)
    return Verdict(not rules or any(rule.effect != "allow" for rule in rules))


def _is_within(hour: float, start: float, end: float) -> bool:
    return start <= hour < end if start <= end else hour >= start or hour < end
