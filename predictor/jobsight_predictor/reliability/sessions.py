"""Sessions of a machine: from when to when it was available to jobs, and what ended that.

A session runs from the machine's return, through the jobs that run on it, to its owner, a shutdown or silence. What is
known of a machine is one record of plain values, ``Presence``; each sighting makes the next record of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Literal

Ending = Literal["owner", "shutdown", "silence", "reinstall"]


@dataclass(frozen=True, slots=True)
class Session:
    """A machine was available from ``start_s`` to ``end_s``."""

    start_s: float
    end_s: float
    ending: Ending

    @property
    def is_event(self) -> bool:
        """Whether a job would have lost its machine. After a reinstallation it is another machine: no one knows."""
        return self.ending != "reinstall"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a machine reported at ``at_s``. What is not known is None.

    ``boot`` changes with each boot, ``installation`` (such as ``/etc/machine-id``) with each reinstallation; ``owner``
    is whether someone works at the machine.

    Raises:
        ValueError: ``at_s`` or ``uptime_s`` is not a time.
    """

    at_s: float
    boot: str | None = None
    uptime_s: float | None = None
    owner: bool | None = None
    installation: str | None = None

    def __post_init__(self) -> None:
        if not isfinite(self.at_s):
            raise ValueError(f"a sighting at {self.at_s!r}: give seconds since 1970")
        if self.uptime_s is not None and not 0.0 <= self.uptime_s < inf:
            raise ValueError(f"an uptime of {self.uptime_s!r} s: give seconds since the boot, or None")


@dataclass(frozen=True, slots=True)
class Presence:
    """What is known of a machine's presence. ``since_s`` is when its present session began, None without one."""

    seen_s: float | None = None
    since_s: float | None = None
    boot: str | None = None
    uptime_s: float | None = None
    owner: bool = False
    installation: str | None = None
    boots: int = 0
    clock_jumps: int = 0
    installations: int = 0


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Ours. ``silence_s`` without a sighting end a session; ``clock_slack_s`` is a tolerable error of a clock."""

    silence_s: float = 600.0
    clock_slack_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Step:
    """The next record, and the session that ended. ``forget`` is True if the name now means another machine."""

    presence: Presence
    ended: Session | None = None
    forget: bool = False


DEFAULTS = SessionSettings()


def seen(presence: Presence, sighting: Sighting, settings: SessionSettings = DEFAULTS) -> Step:
    """The machine reported. Sightings are given in the order in which they were made.

    A clock that jumps, known from the uptime or from going back, moves the present session along: it neither ends the
    session nor makes it longer.
    """
    if presence.seen_s is None:
        return Step(_returned(Presence(installations=1), sighting))
    if None not in (presence.installation, sighting.installation) and presence.installation != sighting.installation:
        fresh = Presence(installations=presence.installations + 1)
        return Step(_returned(fresh, sighting), _ended(presence, presence.seen_s, "reinstall"), forget=True)
    if None not in (presence.boot, sighting.boot) and presence.boot != sighting.boot:
        after = replace(presence, boots=presence.boots + 1)
        return Step(_returned(after, sighting), _ended(presence, presence.seen_s, "shutdown"))
    jump_s = _jump_s(presence, sighting, settings)
    if jump_s:
        since_s = None if presence.since_s is None else min(presence.since_s + jump_s, sighting.at_s)
        presence = replace(
            presence, seen_s=presence.seen_s + jump_s, since_s=since_s, clock_jumps=presence.clock_jumps + 1
        )
    assert presence.seen_s is not None
    if sighting.at_s - presence.seen_s > settings.silence_s:
        after = _returned(presence, replace(sighting, uptime_s=None))  # it was up, but out of reach of jobs
        return Step(replace(after, uptime_s=sighting.uptime_s), _ended(presence, presence.seen_s, "silence"))
    return _owner(Step(_noted(presence, sighting)), sighting)


def silent(presence: Presence, now_s: float, settings: SessionSettings = DEFAULTS) -> Step:
    """Nothing was reported up to ``now_s``: the session ended with the last sighting if that was long ago."""
    if presence.seen_s is None or presence.since_s is None or now_s - presence.seen_s <= settings.silence_s:
        return Step(presence)
    return Step(replace(presence, since_s=None), _ended(presence, presence.seen_s, "silence"))


def owner_state(presence: Presence, at_s: float, owner: bool) -> Step:
    """Someone reports that the owner came or left, in place of the agent."""
    return _owner(Step(presence), Sighting(at_s, owner=owner))


def _owner(step: Step, sighting: Sighting) -> Step:
    """``step`` with the owner's presence taken in."""
    before = step.presence
    owner = before.owner if sighting.owner is None else sighting.owner
    if owner == before.owner and (owner or before.since_s is not None):
        return step
    if not owner:
        return replace(step, presence=replace(before, owner=False, since_s=sighting.at_s))
    ended = step.ended or _ended(before, sighting.at_s, "owner")
    return replace(step, presence=replace(before, owner=True, since_s=None), ended=ended)


def _returned(before: Presence, sighting: Sighting) -> Presence:
    """A session begins, unless the owner is there: with the boot if that is known, but never before the last sighting.

    At the first sighting of a machine it begins with that: how long it was available before is not known.
    """
    noted = _noted(before, sighting)
    since_s = sighting.at_s
    if sighting.uptime_s is not None and before.seen_s is not None:
        since_s = min(max(sighting.at_s - sighting.uptime_s, before.seen_s), sighting.at_s)
    owner = before.owner if sighting.owner is None else sighting.owner
    return replace(noted, owner=owner, since_s=None if owner else since_s)


def _noted(before: Presence, sighting: Sighting) -> Presence:
    return replace(
        before,
        seen_s=sighting.at_s,
        boot=before.boot if sighting.boot is None else sighting.boot,
        uptime_s=sighting.uptime_s,
        installation=before.installation if sighting.installation is None else sighting.installation,
    )


def _ended(presence: Presence, end_s: float, ending: Ending) -> Session | None:
    if presence.since_s is None:
        return None
    return Session(presence.since_s, max(end_s, presence.since_s), ending)


def _jump_s(presence: Presence, sighting: Sighting, settings: SessionSettings) -> float:
    """By how much the clock jumped since the last sighting; 0 within the slack."""
    assert presence.seen_s is not None
    elapsed_s = sighting.at_s - presence.seen_s
    if presence.uptime_s is not None and sighting.uptime_s is not None and sighting.uptime_s >= presence.uptime_s:
        jump_s = elapsed_s - (sighting.uptime_s - presence.uptime_s)
        return jump_s if abs(jump_s) > settings.clock_slack_s else min(elapsed_s, 0.0)
    return min(elapsed_s, 0.0)
