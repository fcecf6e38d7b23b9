"""The groups that a job belongs to, what is kept about each, and for how long."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

from jobsight_predictor.forecasters import LARGEST, DecayedMode
from jobsight_predictor.question import GroupKey, JobGroups, Question

from .probability import Hits

if TYPE_CHECKING:
    from .forecast import FinishedJob

PERIOD_S = 365.25 * 86400.0 / 12.0
"""Length of a period, in which ages are counted: a month."""

STAYS = 12  # periods; what was learned within these stays, but a group of fewer jobs only one for each of them
AGREEING = 10  # jobs; that ended in a later period before it has begun


class Part(NamedTuple):
    """A part of the stored state, as JSON values, and the last period in which it counts; None: it always does."""

    state: Any
    until: int | None


class Clock:
    """The period that lately learned jobs ended in: the earliest of the last ``AGREEING`` jobs; it never goes back.

    So a few records with a wrong year drop nothing that is in use.
    """

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

    def state(self) -> list[Any]:
        """The whole state, as JSON values."""
        return [self.period, list(self._last)]

    def load(self, state: Sequence[Any]) -> None:
        """Take over ``state()``."""
        self.period = state[0]
        self._last = deque(state[1], maxlen=AGREEING)


class Ages(Protocol):
    """A part of the model that counts ``until`` a period."""

    until: int

    def state(self) -> list[Any]: ...

    @classmethod
    def from_state(cls, state: Any) -> Self: ...


PartT = TypeVar("PartT", bound=Ages)


class Parts(dict[GroupKey, PartT], Generic[PartT]):
    """Parts of one kind by key; ``changed`` has the keys of those that changed since they were last stored.

    ``period`` is the current one.
    """

    kind: type[PartT]

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[GroupKey] = set()
        self.period = 0

    def drop_old(self) -> None:
        """Drop the parts that count until an earlier period."""
        for key in [key for key, part in self.items() if part.until < self.period]:
            del self[key]
            self.changed.discard(key)

    def take_changed(self) -> Iterator[tuple[GroupKey, Part]]:
        """The parts changed since the last call, as stored."""
        for key in self.changed:
            yield key, Part(self[key].state(), self[key].until)
        self.changed.clear()

    def load(self, key: GroupKey, state: Any, until: int) -> None:
        """Take over the state of one part."""
        part = self[key] = self.kind.from_state(state)
        part.until = until


SHARES = (("user", "application"), ("user",), ())
"""Groups whose values are kept as shares of what the job requested."""

SHARE = 1 << 16
FIRST = 1 << 17
"""Bits besides those of the fields in a group's key: its values are shares; it has the first jobs of applications."""

USER, _APPLICATION = 1, 2


class JobKeys(NamedTuple):
    """The keys under which similar jobs are kept; made once, when the job is forecast.

    ``groups`` has the index of the job group with each key, from specific to general; ``shares`` likewise, with the
    index counted on in ``SHARES``, for a job with a ``request``. ``application`` is the user's application, or the user
    where no application is known: the jobs that a burst is made of. ``first_jobs`` hold the first job to end of each
    application: of the user, and of the site.
    """

    request: float | None
    groups: list[tuple[int, GroupKey]]
    shares: list[tuple[int, GroupKey]]
    application: GroupKey
    first_jobs: list[GroupKey]


def job_keys(job_groups: JobGroups, question: Question, request: float | None) -> JobKeys:
    """The keys of a job that requests this of the metric; None: nothing."""
    application = _application(question)
    of_user = question.user is not None
    shares: list[tuple[int, GroupKey]] = []
    if request is not None:
        first = len(job_groups.groups)
        if of_user and question.application is not None:
            shares.append((first, (SHARE | application[0], application[1])))
        if of_user:
            shares.append((first + 1, (SHARE | USER, (question.user,))))
        shares.append((first + 2, (SHARE, ())))
    flags = FIRST if request is None else FIRST | SHARE
    first_jobs: list[GroupKey] = [(flags | USER, (question.user,)), (flags, ())] if of_user else [(flags, ())]
    return JobKeys(request, job_groups.keys(question), shares, application, first_jobs)


def _application(question: Question) -> GroupKey:
    if question.application is None:
        return (0, ()) if question.user is None else (USER, (question.user,))
    if question.user is None:
        return _APPLICATION, (question.application,)
    return USER | _APPLICATION, (question.user, question.application)


class Burst:
    """The last burst of an application: how many jobs were learned when it ``began``, and its ``jobs`` until now.

    A burst is the jobs submitted before the first of them had ended: they share much of their fate.
    """

    __slots__ = ("began", "jobs", "until")

    def __init__(self, began: int = 0, jobs: int = 0) -> None:
        self.began = began
        self.jobs = jobs
        self.until = 0

    def state(self) -> list[Any]:
        """The whole state, as JSON values."""
        return [self.began, self.jobs]

    @classmethod
    def from_state(cls, state: Sequence[int]) -> Self:
        """The burst whose ``state()`` this was."""
        return cls(*state)


class Bursts(Parts[Burst]):
    """The last burst of each application."""

    kind = Burst

    def add(self, application: GroupKey, known: int, n: int) -> tuple[bool, bool, float]:
        """Add a job that was submitted when ``known`` jobs were learned, and is the ``n``-th.

        Return whether it begins a burst, whether it is the first of its application, and its weight: that of a burst
        grows with the square root of its jobs.
        """
        burst = self.get(application)
        is_first = burst is None
        if burst is None:
            burst = self[application] = Burst()
        begins = known >= burst.began
        if begins:
            burst.began, burst.jobs = n, 1
        else:
            burst.jobs += 1
        burst.until = self.period + STAYS
        self.changed.add(application)
        return begins, is_first, float(burst.jobs**-0.5)


CANDIDATES = ("mode-short", "mode-medium", "mode-long", "locality")
"""What a group forecasts: the mode of its values in three lengths of memory, and its last value."""

SHOWN = 5  # jobs; number of last values in an answer
BLOCKS = 32  # bursts; number of last ones whose largest value is kept; as many as jobs in the medium memory


class Group:
    """The modes of the group's values, the success of its forecasts, and its last values.

    Jobs submitted before any of them had ended may share whatever made the first of them large: together they are
    one piece of evidence. A job opens a new one when it was submitted after the job that opened the last one had
    ended, so ``evidence`` is the size of the largest set of the group's jobs no two of which were under way at once.
    ``blocks`` holds the largest value of each of the last pieces, ``top`` the largest of all.

    Groups of several job groups that contain the same jobs are one object, until a job belongs to only some of them:
    most of a site's groups contain one job each, and many users have only one application. ``keys`` is the number of
    names of the object; ``until`` the last period in which it counts.
    """

    __slots__ = (
        "_forecasts", "_mark", "_values", "blocks", "evidence", "hits", "keys", "mode", "recent", "top", "until",
    )  # fmt: skip

    def __init__(self, keys: int = 1) -> None:
        self.keys = keys
        self.mode = DecayedMode()
        self.hits = Hits()
        self.recent: deque[float] = deque(maxlen=SHOWN)
        self.blocks: deque[float] = deque(maxlen=BLOCKS)
        self.top = 0.0
        self.evidence = 0
        self.until = 0
        self._mark = 0
        self._forecasts: tuple[float, ...] | None = None
        self._values: tuple[list[tuple[float, float]], float] | None = None

    def learn(self, value: float, known: int, now: int, adds: bool | None = None) -> None:
        """Learn what one more job of the group used.

        ``known`` jobs of the site had been learned when it was submitted, ``now`` including it. ``adds``: whether it
        is a separate piece of evidence, if that is not for this group to decide.
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
        self.mode.learn(value)
        self.recent.append(value)
        self._forecasts = self._values = None

    def in_bursts(self) -> float:
        """Share of the last ``BLOCKS`` jobs that did not begin a burst, 0..1."""
        return 1.0 - len(self.blocks) / min(self.mode.n, BLOCKS)

    def forecasts(self) -> tuple[float, ...]:
        """The forecast of each of ``CANDIDATES`` for the next job.

        Raises:
            LookupError: nothing was learned yet.
        """
        if self._forecasts is None:
            self._forecasts = (*self.mode.best(), self.recent[-1])
        return self._forecasts

    def distribution(self) -> tuple[list[tuple[float, float]], float]:
        """As ``DecayedMode.distribution``, of the group's values; made once for all questions in between."""
        if self._values is None:
            self._values = self.mode.distribution()
        return self._values

    def split(self, keys: int) -> Group:
        """A copy of the group, for this many of its keys."""
        self.keys -= keys
        twin = Group(keys)
        twin.mode = self.mode.copy()
        twin.hits = Hits(self.hits.hits, self.hits.trials)
        twin.recent.extend(self.recent)
        twin.blocks.extend(self.blocks)
        twin.top, twin.evidence, twin._mark = self.top, self.evidence, self._mark
        twin.until = self.until
        return twin

    def state(self) -> list[Any]:
        """The whole state, as JSON values; of a group of few jobs, which most are, little more than their values."""
        if self.mode.n == 1:
            return [self.top, self.evidence, self._mark]
        if self.mode.n <= SHOWN:
            return [list(self.recent), self.hits.hits, self.hits.trials, self.evidence, self._mark, list(self.blocks)]
        kept = [self.top, self.evidence, self._mark, list(self.blocks)]
        return [self.mode.row(), self.hits.hits, self.hits.trials, list(self.recent), kept]

    @classmethod
    def from_state(cls, state: list[Any]) -> Self:
        """The group whose ``state()`` this was, exactly; takes over the lists in it."""
        restored = cls()
        if len(state) == 3:
            value, restored.evidence, restored._mark = state
            restored.top = value
            restored.mode.learn(value)
            restored.recent.append(value)
            restored.blocks.append(value)
            return restored
        if len(state) == 6:
            values, hits, trials, restored.evidence, restored._mark, blocks = state
            for value in values:
                restored.mode.learn(value)
            restored.hits = Hits(hits, trials)
            restored.recent.extend(values)
            restored.blocks.extend(blocks)
            restored.top = max(values)
            return restored
        mode, hits, trials, recent, (top, evidence, mark, blocks) = state
        restored.mode = DecayedMode.from_row(mode)
        restored.hits = Hits(hits, trials)
        restored.recent.extend(recent)
        restored.blocks.extend(blocks)
        restored.top, restored.evidence, restored._mark = top, evidence, mark
        return restored


class Groups(Parts[Group]):
    """The groups of a site; those that contain the same jobs are one object."""

    kind = Group

    def score(self, job: FinishedJob) -> None:
        """Add the job to its groups: by what it used, and by its share of the request."""
        keys, known = job.keys, job.forecast.known
        of_request = job.value if keys.request is None else min(job.value / keys.request, LARGEST)
        self.learn([key for _, key in keys.groups], job.value, job.hit, known, job.n, job.begins_burst)
        if keys.shares:
            self.learn([key for _, key in keys.shares], of_request, job.hit, known, job.n, job.begins_burst)
        if job.is_first:
            self.learn(keys.first_jobs, of_request, None, known, job.n, None)

    def learn(
        self, keys: Sequence[GroupKey], value: float, hit: bool | None, known: int, now: int, adds: bool | None
    ) -> None:
        """Add a job to the groups of these keys; those that contain the same jobs stay one object.

        ``hit``: whether its forecast was near; ``known`` and ``now``: number of jobs learned when it was submitted, and
        now; ``adds``: whether it is a separate piece of evidence, None: each group decides.
        """
        self.changed.update(keys)
        shared: dict[int, tuple[Group, list[GroupKey]]] = {}
        new: list[GroupKey] = []
        for key in keys:
            group = self.get(key)
            if group is None:
                new.append(key)
            elif id(group) in shared:
                shared[id(group)][1].append(key)
            else:
                shared[id(group)] = (group, [key])
        for group, its_keys in shared.values():
            if len(its_keys) < group.keys:
                group = group.split(len(its_keys))
                for key in its_keys:
                    self[key] = group
            if hit is not None:
                group.hits.score(hit)
            group.learn(value, known, now, adds)
            group.until = self.period + min(group.mode.n, STAYS)
        if new:
            group = Group(len(new))
            group.learn(value, known, now, adds)
            group.until = self.period + 1
            for key in new:
                self[key] = group
