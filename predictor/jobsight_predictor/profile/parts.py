"""The parts of a model as they are stored, and for how long they count."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from jobsight_predictor.question import GroupKey

PERIOD_S = 365.25 * 86400.0 / 12.0
"""Length of a period, in which ages are counted: a month."""

STAYS = 12  # periods; what was learned within these stays, but a group of fewer jobs only one for each of them
AGREEING = 10  # jobs; that ended in a later period before it has begun

_encode = json.JSONEncoder(separators=(",", ":")).encode


class Part(NamedTuple):
    """A part of the stored state, as JSON values, and the last period in which it counts; None: it always does."""

    state: Any
    until: int | None


class Stored:
    """Its state is the attributes in ``kept``, in this order, as JSON values."""

    __slots__ = ()
    kept: ClassVar[tuple[str, ...]] = ()

    def state(self) -> list[Any]:
        """The whole state, as JSON values."""
        return [_plain(getattr(self, name)) for name in self.kept]

    def load(self, state: Sequence[Any]) -> None:
        """Take over ``state()``, exactly."""
        for name, value in zip(self.kept, state, strict=True):
            setattr(self, name, _restored(getattr(self, name), value))


def _plain(value: Any) -> Any:
    if isinstance(value, Stored):
        return value.state()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return [_plain(each) for each in value.values()]
    return list(value) if isinstance(value, (list, deque, tuple)) else value


def _restored(now: Any, value: Any) -> Any:
    """``value`` in the type that the attribute has ``now``."""
    if isinstance(now, Stored):
        now.load(value)
        return now
    if isinstance(now, np.ndarray):
        return np.array(value, dtype=np.float64)
    if isinstance(now, dict):
        return {key: _restored(each, of) for (key, each), of in zip(now.items(), value, strict=True)}
    return deque(value, now.maxlen) if isinstance(now, deque) else value


class Clock(Stored):
    """The period that lately learned jobs ended in: the earliest of the last ``AGREEING`` jobs; it never goes back.

    So a few records with a wrong year drop nothing that is in use.
    """

    kept = ("period", "_last")

    def __init__(self) -> None:
        self.period = 0
        self.has_moved = False
        """Whether a period has begun since this was set to False: stored parts may have become too old."""
        self._last: deque[int] = deque(maxlen=AGREEING)

    def advance(self, at: float) -> bool:
        """Take note of a job that ended ``at``, in seconds, UTC; return whether parts may have become too old."""
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

    ``changed`` has the keys of those that changed since they were last stored, ``period`` is the current one.
    """

    def __init__(self, name: str, make: Callable[[], AgingT]) -> None:
        super().__init__()
        self._name = name
        self._make = make
        self.changed: set[GroupKey] = set()
        self.period = 0

    def to_learn(self, key: GroupKey) -> AgingT:
        """The part, which is about to learn, and counts for a year from now; a new one where there is none."""
        part = self.get(key)
        if part is None:
            part = self[key] = self._make()
        part.until = self.period + STAYS
        self.changed.add(key)
        return part

    def drop_old(self) -> None:
        """Drop the parts that count until an earlier period."""
        for key in [key for key, part in self.items() if part.until < self.period]:
            del self[key]
            self.changed.discard(key)

    def state_key(self, key: GroupKey) -> str:
        """The key under which a part is stored."""
        return _encode([self._name, key[0], *key[1]])

    def take_changed(self) -> dict[str, Part]:
        """The parts changed since the last call, as stored."""
        found = {self.state_key(key): Part(self[key].state(), self[key].until) for key in self.changed}
        self.changed.clear()
        return found

    def load(self, key: GroupKey, state: Any, until: int) -> None:
        """Take over the state of one part."""
        part = self[key] = self._make()
        part.load(state)
        part.until = until
