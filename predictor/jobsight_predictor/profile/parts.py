"""The parts of a model as they are stored, and their expiry."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from jobsight_predictor.question import GroupKey

PERIOD_S = 365.25 * 86400.0 / 12.0
"""Length of a period, the unit of ages: a month."""

STAYS = 12  # periods that parts are kept; a group of fewer jobs only one period for each job
AGREEING = 10  # jobs that end in a later period before it begins

_encode = json.JSONEncoder(separators=(",", ":")).encode


class Part(NamedTuple):
    """A part of the stored state, as JSON values, and the last period in which it counts; None: no expiry."""

    state: Any
    until: int | None


class Stored:
    """Base of stored objects: the state is the attributes in ``kept``, in this order, as JSON values."""

    __slots__ = ()
    kept: ClassVar[tuple[str, ...]] = ()

    def state(self) -> list[Any]:
        """Return the whole state as JSON values."""
        return [_plain(getattr(self, name)) for name in self.kept]

    def load(self, state: Sequence[Any]) -> None:
        """Restore ``state()`` exactly."""
        for name, value in zip(self.kept, state, strict=True):
            setattr(self, name, _restored(getattr(self, name), value))


def _plain(value: Any) -> Any:
    if isinstance(value, Stored):
        return value.state()
    if isinstance(value, dict):
        return [_plain(each) for each in value.values()]
    return list(value) if isinstance(value, (list, deque, tuple)) else value


def _restored(now: Any, value: Any) -> Any:
    """Convert ``value`` to the type of the attribute's current value, ``now``."""
    if isinstance(now, Stored):
        now.load(value)
        return now
    if isinstance(now, dict):
        return {key: _restored(each, of) for (key, each), of in zip(now.items(), value, strict=True)}
    return deque(value, now.maxlen) if isinstance(now, deque) else value


class Clock(Stored):
    """The current period: the earliest end among the last ``AGREEING`` jobs; it never goes back.

    A few records with a wrong year therefore drop nothing in use.
    """

    kept = ("period", "_last")

    def __init__(self) -> None:
        self.period = 0
        self.has_moved = False
        """Whether a period has begun since this was set to False: stored parts may have expired."""
        self._last: deque[int] = deque(maxlen=AGREEING)

    def advance(self, at: float) -> bool:
        """Note a job that ended ``at``, in seconds, UTC; return whether parts may have expired."""
        self._last.append(int(at // PERIOD_S))
        least = min(self._last)
        if len(self._last) < AGREEING:
            self.period = least
        elif least > self.period:
            self.period = least
            self.has_moved = True
            return True
        return False


class Aging(Stored):
    """A part of the model that counts ``until`` a period."""

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until = 0


AgingT = TypeVar("AgingT", bound=Aging)


class Parts(dict[GroupKey, AgingT], Generic[AgingT]):
    """Parts of one kind by key, stored under ``name``.

    ``changed`` has the keys of parts that changed since they were last stored, ``period`` is the current one.
    """

    def __init__(self, name: str, make: Callable[[], AgingT]) -> None:
        super().__init__()
        self._name = name
        self._make = make
        self.changed: set[GroupKey] = set()
        self.period = 0

    def to_learn(self, key: GroupKey) -> AgingT:
        """Return the part for learning, or a new one; it counts for a year from now."""
        part = self.get(key)
        if part is None:
            part = self[key] = self._make()
        part.until = self.period + STAYS
        self.changed.add(key)
        return part

    def drop_old(self) -> None:
        """Drop the parts that have expired."""
        for key in [key for key, part in self.items() if part.until < self.period]:
            del self[key]
            self.changed.discard(key)

    def state_key(self, key: GroupKey) -> str:
        """Return the key under which a part is stored."""
        return _encode([self._name, key[0], *key[1]])

    def take_changed(self) -> dict[str, Part]:
        """Return the parts changed since the last call, as stored."""
        found = {self.state_key(key): Part(self[key].state(), self[key].until) for key in self.changed}
        self.changed.clear()
        return found

    def load(self, key: GroupKey, state: Any, until: int) -> None:
        """Restore the state of one part."""
        part = self[key] = self._make()
        part.load(state)
        part.until = until
