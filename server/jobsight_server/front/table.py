"""Which connections a process has, and which of them goes first when there are too many."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Protocol


class Member(Protocol):
    """What the table needs of a connection. ``deadline`` is a time of the event loop."""

    deadline: float
    receiving_bytes: int

    def expire(self) -> None: ...

    def drop(self) -> None: ...

    def drain(self) -> None: ...


class Table:
    """Connections by what they wait for.

    ``unfinished`` still send a request or have not read their answer, oldest first. ``idle`` have had an answer and
    may ask again: agents, proxies, browsers. Those being worked on are only counted: they end by themselves.

    When there are too many, the oldest unfinished goes: a client that means well is done in milliseconds, so the
    oldest is one that drips or stalls. Only where all are idle goes the one that has been so longest.
    """

    def __init__(self, at_most: int) -> None:
        self.at_most = at_most
        self.unfinished: OrderedDict[Member, None] = OrderedDict()
        self.idle: OrderedDict[Member, None] = OrderedDict()
        self.working: set[Member] = set()
        self.dropped: Counter[str] = Counter()
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self.unfinished) + len(self.idle) + len(self.working)

    def remove(self, member: Member) -> None:
        self.unfinished.pop(member, None)
        self.idle.pop(member, None)
        self.working.discard(member)

    def set_unfinished(self, member: Member) -> None:
        """Keeps its place where it has one."""
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
        """Drops one connection where another would be too many; False where all are being worked on."""
        if len(self) < self.at_most:
            return True
        victim = next(iter(self.unfinished), None) or next(iter(self.idle), None)
        if victim is None:
            return False
        self._drop(victim, "too many connections")
        return True

    def make_room(self, held_bytes: int, asking: Member) -> bool:
        """Drops the oldest unfinished bodies until all together hold at most ``held_bytes``, but not ``asking``."""
        while self.held_bytes > held_bytes:
            victim = next((one for one in self.unfinished if one.receiving_bytes and one is not asking), None)
            if victim is None:
                return False
            self._drop(victim, "too many bytes of bodies")
        return True

    def expire(self, now: float) -> None:
        """Ends what is past its deadline."""
        for member in [one for place in (self.unfinished, self.idle) for one in place if one.deadline < now]:
            member.expire()

    def _drop(self, victim: Member, reason: str) -> None:
        self.remove(victim)
        self.dropped[reason] += 1
        victim.drop()
