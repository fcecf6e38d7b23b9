"""The groups that a job belongs to, and what is kept about each."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from jobsight_predictor.forecasters import DecayedMode
from jobsight_predictor.question import GroupKey, JobGroups, Question

from .age import STAYS
from .probability import Hits

SHARES = (("user", "application"), ("user",), ())
"""Groups whose values are kept as shares of what the job requested."""

SHARE = 1 << 16
FIRST = 1 << 17
"""Bits besides those of the fields in a group's key: its values are shares; it contains first jobs of a kind."""

USER, _APPLICATION = 1, 2


class JobKeys(NamedTuple):
    """Under which keys the like of a job is kept; made once, when the job is forecast.

    ``groups`` has the index of the job group with each key, from specific to general; ``shares`` likewise, with the
    index counted on in ``SHARES``, for a job with a ``request``. ``kind`` is the user's application, or the user where
    no application is known: the jobs that a burst is made of. ``firsts`` hold the first job to end of each kind: of
    the user, and of the site.
    """

    request: float | None
    groups: list[tuple[int, GroupKey]]
    shares: list[tuple[int, GroupKey]]
    kind: GroupKey
    firsts: list[GroupKey]


def job_keys(job_groups: JobGroups, question: Question, request: float | None) -> JobKeys:
    """The keys of a job that requests this of the metric; None: nothing."""
    kind = _kind(question)
    of_user = question.user is not None
    shares: list[tuple[int, GroupKey]] = []
    if request is not None:
        of_kind, of_users, of_site = range(len(job_groups.groups), len(job_groups.groups) + len(SHARES))
        if of_user and question.application is not None:
            shares.append((of_kind, (SHARE | kind[0], kind[1])))
        if of_user:
            shares.append((of_users, (SHARE | USER, (question.user,))))
        shares.append((of_site, (SHARE, ())))
    bits = FIRST if request is None else FIRST | SHARE
    firsts: list[GroupKey] = [(bits | USER, (question.user,)), (bits, ())] if of_user else [(bits, ())]
    return JobKeys(request, job_groups.keys(question), shares, kind, firsts)


def _kind(question: Question) -> GroupKey:
    if question.application is None:
        return (0, ()) if question.user is None else (USER, (question.user,))
    if question.user is None:
        return _APPLICATION, (question.application,)
    return USER | _APPLICATION, (question.user, question.application)


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

    __slots__ = ("_mark", "_said", "_values", "blocks", "evidence", "hits", "keys", "mode", "recent", "top", "until")

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
        self._said: tuple[float, ...] | None = None
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
        self._said = self._values = None

    def in_bursts(self) -> float:
        """Share of the last ``BLOCKS`` jobs that did not begin a burst, 0..1."""
        return 1.0 - len(self.blocks) / min(self.mode.n, BLOCKS)

    def forecasts(self) -> tuple[float, ...]:
        """The forecast of each of ``CANDIDATES`` for the next job.

        Raises:
            LookupError: nothing was learned yet.
        """
        said = self._said
        if said is None:
            said = self._said = (*self.mode.best(), self.recent[-1])
        return said

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


class Groups(dict[GroupKey, Group]):
    """The groups of a site, and in ``changed`` the keys of those that have learned since they were last stored.

    ``period`` is the current one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[GroupKey] = set()
        self.period = 0

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
