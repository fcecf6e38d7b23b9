"""The connections of a process, and the order of dropping them when there are too many."""

from __future__ import annotations

import resource
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Protocol

CONNECTIONS = 1000
"""Connections of one process, unless its limit of descriptors is lower."""

_DESCRIPTORS_WANTED = 16384
_DESCRIPTORS_KEPT = 128  # for the database, logs and listening sockets


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Deadlines are totals: sending a byte now and then does not extend them."""

    held_bytes: int
    """Bytes of all requests in this process, from the first byte until the answer."""
    connections: int = CONNECTIONS
    header_bytes: int = 32 * 1024
    """Bytes of a request outside its body: request line, header, sizes and extensions of chunks, trailers. Chunks
    may add as many bytes as the body has."""
    header_fields: int = 100
    header_s: float = 10.0
    body_s: float = 20.0
    answer_s: float = 20.0
    slowest_bytes_per_s: float = 64 * 1024
    """Bodies and responses get another second for each of these bytes."""
    idle_s: float = 75.0
    """Time between two requests of one connection."""
    linger_s: float = 2.0
    """Time to read the response for a client that is still sending a refused request."""
    pipelined: int = 16


def process_limits(held_bytes: int, body_bytes: int) -> ConnectionLimits:
    """Return the limits of a process: of ``held_bytes``, or of two of the longest bodies if that is more.

    Raises this process's own limit of descriptors as far as allowed; as many connections as fit are accepted.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    fitting = _DESCRIPTORS_WANTED if soft == resource.RLIM_INFINITY else soft
    return ConnectionLimits(max(held_bytes, 2 * body_bytes), min(CONNECTIONS, fitting - _DESCRIPTORS_KEPT))


class Member(Protocol):
    """The interface of a connection to the table. ``deadline`` is a time of the event loop, ``held`` its bytes."""

    deadline: float
    held: int

    def expire(self) -> None: ...

    def drop(self) -> None: ...


class Table:
    """Connections by state.

    ``unfinished`` are still sending a request or have not read the response, oldest first. ``idle`` have had a response
    and may ask again: agents, proxies, browsers. Connections in progress are only counted: they end by themselves.

    When there are too many, the oldest unfinished one is dropped: a well-behaved client is done in milliseconds, so the
    oldest is one that drips or stalls. If all are idle, the one idle longest is dropped.
    """

    def __init__(self, at_most: int) -> None:
        self.at_most = at_most
        self.unfinished: OrderedDict[Member, None] = OrderedDict()
        self.idle: OrderedDict[Member, None] = OrderedDict()
        self.working: set[Member] = set()
        self.dropped: Counter[str] = Counter()
        self.held_bytes = 0
        self.draining = False

    def __len__(self) -> int:
        return len(self.unfinished) + len(self.idle) + len(self.working)

    def remove(self, member: Member) -> None:
        self.unfinished.pop(member, None)
        self.idle.pop(member, None)
        self.working.discard(member)

    def set_unfinished(self, member: Member) -> None:
        """Keep its place if it has one."""
        self.idle.pop(member, None)
        self.working.discard(member)
        self.unfinished[member] = None

    def set_idle(self, member: Member) -> None:
        self.remove(member)
        self.idle[member] = None

    def set_working(self, member: Member) -> None:
        self.remove(member)
        self.working.add(member)

    def make_place(self) -> bool:
        """Drop one connection if another would be too many; False if all are in progress, or the server stops."""
        if self.draining:
            return False
        if len(self) < self.at_most:
            return True
        victim = next(iter(self.unfinished), None) or next(iter(self.idle), None)
        if victim is None:
            self.dropped["too many connections"] += 1
            return False
        self._drop(victim, "too many connections")
        return True

    def make_room(self, held_bytes: int, asking: Member) -> bool:
        """Drop the oldest unfinished requests, but not ``asking``, until all together hold at most ``held_bytes``."""
        while self.held_bytes > held_bytes:
            victim = next((one for one in self.unfinished if one.held and one is not asking), None)
            if victim is None:
                self.dropped["too many bytes"] += 1
                return False
            self._drop(victim, "too many bytes")
        return True

    def expire(self, now: float) -> None:
        """Close connections past their deadline."""
        for member in [one for place in (self.unfinished, self.idle) for one in place if one.deadline < now]:
            member.expire()

    def _drop(self, victim: Member, reason: str) -> None:
        self.remove(victim)
        self.dropped[reason] += 1
        victim.drop()
