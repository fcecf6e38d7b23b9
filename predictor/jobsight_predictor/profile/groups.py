"""What is kept of each group of similar jobs, and how a model's parts are stored and expire."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from jobsight_predictor.forecasters.base import LARGEST
from jobsight_predictor.forecasters.decayed_mode import DecayedMode
from jobsight_predictor.question import GroupKey, JobKeys

PERIOD_S = 365.25 * 86400.0 / 12.0
"""Length of a period, the unit of ages: a month."""

STAYS = 12  # periods that parts are kept; a group of fewer jobs only one period for each job
AGREEING = 10  # jobs that end in a later period before it begins

_encode = json.JSONEncoder(separators=(",", ":")).encode


@lru_cache(maxsize=10_000)
def state_key(name: str, key: GroupKey) -> str:
    """Return the key under which the part of this name and group is stored."""
    return _encode([name, key[0], *key[1]])


class StoredPart(NamedTuple):
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
        self.name = name
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

    def take_changed(self) -> dict[str, StoredPart]:
        """Return the parts changed since the last call, as stored."""
        name = self.name
        found = {state_key(name, key): StoredPart(self[key].state(), self[key].until) for key in self.changed}
        self.changed.clear()
        return found

    def load(self, key: GroupKey, state: Any, until: int) -> None:
        """Restore the state of one part."""
        part = self[key] = self._make()
        part.load(state)
        part.until = until


class Burst(Aging):
    """The last burst of an application: number of learned jobs when it ``began``, and its ``jobs`` so far.

    A burst is the jobs submitted before the first of them had ended: their outcomes are correlated.
    """

    __slots__ = kept = ("began", "jobs")

    def __init__(self) -> None:
        super().__init__()
        self.began = 0
        self.jobs = 0

    def add(self, known: int, n: int) -> tuple[bool, bool, float]:
        """Add a job that was submitted when ``known`` jobs were learned, and is the ``n``-th.

        Return whether it begins a burst, whether it is the first of its application, and its weight: that of a burst
        grows with the square root of its jobs.
        """
        is_first = not self.jobs
        begins = known >= self.began
        if begins:
            self.began, self.jobs = n, 1
        else:
            self.jobs += 1
        return begins, is_first, float(self.jobs**-0.5)


HIT_FADE = 0.9  # share of a hit's or miss's weight left one job later


class Hits(Stored):
    """A decaying share of forecasts within 20 %, close to a prior while there are few."""

    __slots__ = kept = ("hits", "trials")

    def __init__(self) -> None:
        self.hits = 0.0
        self.trials = 0.0

    def score(self, hit: bool) -> None:
        """Learn whether one more forecast was within 20 %."""
        self.hits = self.hits * HIT_FADE + hit
        self.trials = self.trials * HIT_FADE + 1.0

    def share(self, prior: float) -> float:
        """Return the share, 0..1; ``prior`` weighs as much as one trial."""
        return (self.hits + prior) / (self.trials + 1.0)


CANDIDATES = ("mode-short", "mode-medium", "mode-long", "locality")
"""Forecasts of a group: the mode of its values in three lengths of memory, and its last value."""

SHOWN = 5  # jobs; last values in an answer
BLOCKS = 32  # bursts whose largest value is kept; as many as jobs in the medium memory


class Group(Aging):
    """The modes of the values of the group's ``n`` jobs, the success of its forecasts, and its last values.

    Jobs submitted before any of them had ended are correlated, so together they are one piece of evidence. A job opens
    a new piece if it was submitted after the job that opened the last one had ended: ``evidence`` is the size of the
    largest set of the group's jobs of which no two were under way at once. ``blocks`` holds the largest value of each
    of the last pieces, ``top`` the largest of all. ``least`` is the smallest request that shares were learned from,
    below which they reserve nothing; 0 if values are no shares.

    Groups of the same jobs are one object with this many ``names``, until a job belongs to only some of them.
    """

    __slots__ = (
        "_forecasts", "_mark", "_values", "blocks", "evidence", "hits", "least", "mode", "n", "names", "recent", "top",
    )  # fmt: skip
    kept = ("top", "evidence", "_mark", "least", "hits", "recent", "blocks")

    def __init__(self) -> None:
        super().__init__()
        self.n = 0
        self.names = 1
        self.mode = DecayedMode()
        self.hits = Hits()
        self.recent: deque[float] = deque(maxlen=SHOWN)
        self.blocks: deque[float] = deque(maxlen=BLOCKS)
        self.top = 0.0
        self.least = 0.0
        self.evidence = 0
        self._mark = 0
        self._forecasts: tuple[float, ...] | None = None
        self._values: tuple[list[tuple[float, float]], float] | None = None

    def learn(self, value: float, known: int, now: int, adds: bool | None = None) -> None:
        """Learn the use of one more job of the group.

        ``known`` jobs of the site had been learned when it was submitted, ``now`` including it. ``adds``: whether it is
        a separate piece of evidence; None: the group decides.
        """
        opens = known >= self._mark
        if opens:
            self._mark = now
            self.blocks.append(value)
        elif value > self.blocks[-1]:
            self.blocks[-1] = value
        self.evidence += opens if adds is None else adds
        if value > self.top:
            self.top = value
        self.n += 1
        self.mode.learn(value)
        self.recent.append(value)
        self._forecasts = self._values = None

    def in_bursts(self) -> float:
        """Return the share of the last ``BLOCKS`` jobs that did not begin a burst, 0..1."""
        return 1.0 - len(self.blocks) / min(self.n, BLOCKS)

    def forecasts(self) -> tuple[float, ...]:
        """Return the forecast of each of ``CANDIDATES`` for the next job."""
        if self._forecasts is None:
            self._forecasts = (*self.mode.best(), self.recent[-1])
        return self._forecasts

    def distribution(self) -> tuple[list[tuple[float, float]], float]:
        """Return ``DecayedMode.distribution`` of the group's values; cached until a job is learned."""
        if self._values is None:
            self._values = self.mode.distribution()
        return self._values

    def split(self, names: int) -> Group:
        """Copy the group; the copy takes over this many of its names."""
        twin = Group()
        twin.load(self.state())
        twin.names, twin.until = names, self.until
        self.names -= names
        return twin

    def state(self) -> list[Any]:
        """Return the whole state as JSON values; for few jobs, each with a block, their values instead of the mode."""
        if self.n == len(self.blocks):
            return [list(self.blocks), self.evidence, self._mark, self.least, *self.hits.state()]
        return [self.mode.state(), *super().state()]

    def load(self, state: Sequence[Any]) -> None:
        """Restore ``state()`` exactly."""
        if len(state) <= len(self.kept):  # the values of few jobs: learned again, they give the same mode
            values = state[0]
            self.mode.learn_all(values)
            self.recent.extend(values)
            self.blocks.extend(values)
            self.n, self.top = len(values), max([0.0, *values])
            _, self.evidence, self._mark, self.least, self.hits.hits, self.hits.trials = state
        else:
            self.mode = DecayedMode.from_state(state[0])
            self.n = self.mode.n
            super().load(state[1:])


class Groups(Parts[Group]):
    """The groups of a site."""

    def learn(
        self, keys: JobKeys, value: float, hit: bool | None, *, known: int, now: int, begins_burst: bool, is_first: bool
    ) -> None:
        """Add a job to its groups: by its use, and by its share of the request.

        ``hit``: its forecast was within 20 %; ``known`` and ``now`` as in ``Group.learn``; ``is_first``: it is the
        first of its application.
        """
        unit = 0.0 if keys.request is None else keys.request or 1.0
        self._add([key for _, key in keys.values], value, 0.0, hit, known, now, begins_burst)
        self._add([key for _, key in keys.shares], value, unit, hit, known, now, begins_burst)
        if is_first:
            self._add(keys.first_jobs, value, unit, None, known, now, None)

    def _add(
        self, keys: list[GroupKey], value: float, unit: float, hit: bool | None, known: int, now: int, adds: bool | None
    ) -> None:
        """Add the job to the groups of these keys, once to groups of the same jobs; in shares of ``unit``, unless 0."""
        if unit:
            value = min(value / unit, LARGEST)
        self.changed.update(keys)
        found: dict[Group | None, list[GroupKey]] = {}
        for key in keys:
            found.setdefault(self.get(key), []).append(key)
        for group, its_keys in found.items():
            if group is None or len(its_keys) < group.names:
                group = Group() if group is None else group.split(len(its_keys))
                group.names = len(its_keys)
                for key in its_keys:
                    self[key] = group
            if unit:
                group.least = min(group.least or unit, unit)
            if hit is not None and group.n:
                group.hits.score(hit)
            group.learn(value, known, now, adds)
            group.until = self.period + min(group.n, STAYS)
