"""What is kept of jobs that are alike."""

from __future__ import annotations

from collections import deque
from typing import Any, Self

from .confidence import Hits
from .forecasters import Crowd

CANDIDATES = ("crowd-short", "crowd-medium", "crowd-long", "locality")
"""What a group forecasts: the best place of its crowd in three lengths of memory, and its last value."""

SHOWN = 5
"""Last values that an answer shows."""


class Group:
    """The crowd of the group's values, how its forecasts fared, and the last of the values.

    Groups of several templates that hold the very same jobs are one object, until a job comes that belongs to some
    of them only: most of a site's groups, in number, are of one job each, and many users have but one application.
    `keys` counts under how many names the object is kept.
    """

    __slots__ = ("_said", "crowd", "hits", "keys", "recent")

    def __init__(self, keys: int = 1) -> None:
        self.keys = keys
        self.crowd = Crowd()
        self.hits = Hits()
        self.recent: deque[float] = deque(maxlen=SHOWN)
        self._said: tuple[float, ...] | None = None

    def learn(self, value: float) -> None:
        """Take in what one more job of the group used."""
        self.crowd.learn(value)
        self.recent.append(value)
        self._said = None

    def forecasts(self) -> tuple[float, ...]:
        """What each of `CANDIDATES` says of the next job; LookupError before anything was learned."""
        said = self._said
        if said is None:
            said = self._said = (*self.crowd.best(), self.recent[-1])
        return said

    def split(self, keys: int) -> Group:
        """The same group once more, for so many of its keys."""
        self.keys -= keys
        twin = Group(keys)
        twin.crowd = self.crowd.copy()
        twin.hits = Hits(self.hits.hits, self.hits.trials)
        twin.recent.extend(self.recent)
        return twin

    def state(self) -> list[Any]:
        """Everything known, as values that JSON can carry."""
        return [self.crowd.row(), self.hits.hits, self.hits.trials, list(self.recent)]

    @classmethod
    def from_state(cls, state: list[Any]) -> Self:
        """The group whose `state()` this was, exactly; takes over the lists in it."""
        crowd, hits, trials, recent = state
        restored = cls()
        restored.crowd = Crowd.from_row(crowd)
        restored.hits = Hits(hits, trials)
        restored.recent.extend(recent)
        return restored
