"""Sessions of a machine: when it was available to jobs, and what ended each session.

A session runs from the machine's return, through the jobs that run on it, until its owner comes, it shuts down or it
falls silent. ``Presence`` holds a machine's state in plain values; each sighting makes the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Ending = Literal["owner", "shutdown", "silence", "reinstall"]


@dataclass(frozen=True, slots=True)
class Session:
    """A period from ``start_s`` to ``end_s`` in which a machine was available."""

    start_s: float
    end_s: float
    ending: Ending

    @property
    def is_event(self) -> bool:
        """Return whether a job would have lost its machine; unknown once reinstalled, as another machine."""
        return self.ending != "reinstall"


@dataclass(frozen=True, slots=True)
class Sighting:
    """A machine's report at ``at_s``; None is unknown.

    ``boot`` changes with each boot, ``installation`` (such as ``/etc/machine-id``) with each reinstallation; ``owner``:
    someone works at the machine.
    """

    at_s: float
    boot: str | None = None
    uptime_s: float | None = None
    owner: bool | None = None
    installation: str | None = None


@dataclass(frozen=True, slots=True)
class Presence:
    """A machine's state. ``since_s`` is the begin of the current session, None without one."""

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
    """``silence_s`` without a sighting end a session; ``clock_slack_s`` is a tolerable clock error. The values are
    ours."""

    silence_s: float = 600.0
    clock_slack_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Step:
    """The next state, and the session that ended. ``forget``: the name now means another machine."""

    presence: Presence
    ended: Session | None = None
    forget: bool = False


DEFAULTS = SessionSettings()


def seen(presence: Presence, sighting: Sighting, settings: SessionSettings = DEFAULTS) -> Step:
    """Process a sighting; they must come in order.

    A clock jump, seen in the uptime or as a step back, shifts the current session: it neither ends nor lengthens it.
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
        after = _returned(presence, replace(sighting, uptime_s=None))  # up, but out of reach of jobs
        return Step(replace(after, uptime_s=sighting.uptime_s), _ended(presence, presence.seen_s, "silence"))
    return _owner(Step(_noted(presence, sighting)), sighting)


def silent(presence: Presence, now_s: float, settings: SessionSettings = DEFAULTS) -> Step:
    """Process silence up to ``now_s``: if the last sighting is long ago, the session ended with it."""
    if presence.seen_s is None or presence.since_s is None or now_s - presence.seen_s <= settings.silence_s:
        return Step(presence)
    return Step(replace(presence, since_s=None), _ended(presence, presence.seen_s, "silence"))


def owner_state(presence: Presence, at_s: float, owner: bool) -> Step:
    """Process a report, not by the agent, that the owner came or left."""
    return _owner(Step(presence), Sighting(at_s, owner=owner))


def _owner(step: Step, sighting: Sighting) -> Step:
    """Apply the owner's presence to ``step``."""
    before = step.presence
    owner = before.owner if sighting.owner is None else sighting.owner
    if owner == before.owner and (owner or before.since_s is not None):
        return step
    if not owner:
        return replace(step, presence=replace(before, owner=False, since_s=sighting.at_s))
    ended = step.ended or _ended(before, sighting.at_s, "owner")
    return replace(step, presence=replace(before, owner=True, since_s=None), ended=ended)


def _returned(before: Presence, sighting: Sighting) -> Presence:
    """Begin a session, unless the owner is there: at the boot if known, but never before the last sighting.

    The first session begins with the first sighting: the time before is unknown.
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
    """Return the clock's jump since the last sighting; 0 within the slack."""
    assert presence.seen_s is not None
    elapsed_s = sighting.at_s - presence.seen_s
    if presence.uptime_s is not None and sighting.uptime_s is not None and sighting.uptime_s >= presence.uptime_s:
        jump_s = elapsed_s - (sighting.uptime_s - presence.uptime_s)
        return jump_s if abs(jump_s) > settings.clock_slack_s else min(elapsed_s, 0.0)
    return min(elapsed_s, 0.0)
