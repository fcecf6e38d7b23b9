"""What is learned of the jobs of one metric on one cluster: the parts of a model, and how they are stored.

One of them is how far runs get with their limits.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobsight_predictor.profile.calibration import Calibration, ExpertWeights, HitProbability, NearLimit
from jobsight_predictor.profile.facts import FactsHistories, FactsHistory
from jobsight_predictor.profile.groups import Aging, Burst, Clock, Group, Groups, Parts, Stored, StoredPart, state_key
from jobsight_predictor.profile.prospect import Shortfall, Shortfalls
from jobsight_predictor.profile.reserve import Bounds, RequestedLimits
from jobsight_predictor.question import MOMENTS, SHARES, GroupKey, JobGroups, JobKeys, Question, job_keys

_SITE_KEY = '["site"]'
_SHAPE = 26
"""Version of the stored state; state of another version is retrained."""


STEPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)  # shares of the limit; where runs are counted
LEAST = 20  # runs of the site that got as far, needed to state a chance
SITE = 2.0  # runs; weight of the site's share beside the user's own runs


class TimesUsed(Aging):
    """How many runs ended on each step of their limit, the last those that reached it."""

    __slots__ = kept = ("ended",)

    def __init__(self) -> None:
        super().__init__()
        self.ended = [0] * (len(STEPS) + 2)

    def chances(self, site: TimesUsed) -> tuple[float | None, ...]:
        """Return for a run on each step the share of these runs that reached the limit of those that got as far.

        The share of the ``site`` stands beside it; None if its runs are too few.
        """
        found: list[float | None] = []
        for step in range(len(STEPS) + 1):
            of_site, own = sum(site.ended[step:]), sum(self.ended[step:])
            share = site.ended[-1] / of_site if of_site >= LEAST else None
            found.append(None if share is None else (self.ended[-1] + SITE * share) / (own + SITE))
        return tuple(found)


OF_SITE: GroupKey = (0, ())
_NONE = TimesUsed()


class LimitsReached(Parts[TimesUsed]):
    """How far the runs of each user, and of the site, got with their time limits."""

    def __init__(self) -> None:
        super().__init__("limit", TimesUsed)

    def learn(self, user: GroupKey, limit: float | None, ran: float, all_of: float) -> None:
        """Count a run, which reached its limit if it ran for the share ``all_of`` of that."""
        if limit:
            share = ran / limit
            step = len(STEPS) + 1 if share >= all_of else bisect_right(STEPS, share)
            for key in {user, OF_SITE}:
                self.to_learn(key).ended[step] += 1

    def chances(self, user: GroupKey) -> tuple[float | None, ...]:
        """Return a user's chances on each step."""
        return self.get(user, _NONE).chances(self.get(OF_SITE, _NONE))


class Model:
    """The parts of a model, which learn from finished jobs, and are stored by key.

    The few ``state_keys`` of a question are enough to answer it and to learn such a job.
    """

    def __init__(self, unit: str, coverage: float = 0.95, *, metric: str = "") -> None:
        """``metric``: users may request memory and runtime."""
        self.unit = unit
        self.n = 0
        """Number of jobs learned."""
        self.job_groups = JobGroups()
        self.of_time = metric == "runtime"
        self.clock = Clock()
        self.groups = Groups("group", Group)
        self.bursts = Parts("kind", Burst)
        self.facts = FactsHistories("facts", FactsHistory)
        self.shortfalls = Shortfalls("shortfall", Shortfall)
        self.experts = ExpertWeights(len(self.job_groups.groups) + len(SHARES))
        self.bounds = Bounds(coverage, of_time=self.of_time)
        self.requests = RequestedLimits(metric, self.bounds)
        self.hit_probability = HitProbability()
        self.limits = LimitsReached()
        self.near_limit = NearLimit()
        self.calibrations = {moment: Calibration(coverage) for moment in MOMENTS}
        self._by_key: list[Parts[Any]] = [
            self.experts.users,
            self.bursts,
            self.shortfalls,
            self.facts,
            self.groups,
            self.limits,
        ]
        self._of_site: dict[str, Stored] = {
            "clock": self.clock, "losses": self.experts, "mean_job": self.bounds.mean_job,
            **{f"calibration at {moment}": calibration for moment, calibration in self.calibrations.items()},
            "requests": self.requests, "hit_probability": self.hit_probability, "near_limit": self.near_limit,
        }  # fmt: skip
        self._parts = {parts.name: parts for parts in self._by_key}
        self._is_site_changed = False

    @property
    def are_limits(self) -> bool:
        """Return whether requests are enforced: hardly any job has used more than it requested."""
        return self.requests.are_limits

    def keys(self, question: Question) -> JobKeys:
        """Return the keys of similar jobs."""
        return job_keys(self.job_groups, question, self.requests.of(question))

    def state_keys(self, question: Question) -> list[str]:
        """Return the keys of the state that this question needs, and that learning such a job changes."""
        keys = self.keys(question)
        of_limits = (keys.user, OF_SITE) if self.of_time else ()
        users, applications, both = (keys.user,), (keys.application,), (keys.application, keys.user)
        concerned = zip(self._by_key, (users, applications, both, keys.facts, keys.groups, of_limits), strict=True)
        return [_SITE_KEY, *dict.fromkeys([state_key(parts.name, key) for parts, its in concerned for key in its])]

    def changed_state(self) -> dict[str, StoredPart]:
        """Return the state changed since the last call, by key."""
        found: dict[str, StoredPart] = {}
        for parts in self._by_key:
            found |= parts.take_changed()
        if self._is_site_changed:
            header = {"shape": _SHAPE, "n": self.n}
            found[_SITE_KEY] = StoredPart(header | {name: part.state() for name, part in self._of_site.items()}, None)
        self._is_site_changed = False
        return dict(sorted(found.items()))

    def state(self) -> dict[str, StoredPart]:
        """Return all state, by key."""
        for parts in self._by_key:
            parts.changed.update(parts)
        self._is_site_changed |= self.n > 0
        return self.changed_state()

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Load parts (state, until) from ``changed_state`` or ``state``, except expired ones.

        Raises:
            ValueError: it is of another version.
        """
        if _SITE_KEY in state:  # first: decides whether the others can be read
            self._load_site(state[_SITE_KEY][0])
        for name, (piece, until) in state.items():
            kind, *key = json.loads(name)
            parts = self._parts.get(kind)
            if parts is not None and until >= self.clock.period:
                parts.load((key[0], tuple(key[1:])), piece, until)

    def forget(self, names: Iterable[str]) -> None:
        """Drop parts by key, which ``load`` can take in again."""
        for name in names:
            kind, *key = json.loads(name)
            if key:
                self._parts[kind].pop((key[0], tuple(key[1:])), None)

    def too_old(self) -> int | None:
        """Return the current period if it began since the last call, else None.

        The caller, which stores ``changed_state``, deletes the expired parts.
        """
        has_moved, self.clock.has_moved = self.clock.has_moved, False
        return self.clock.period if has_moved else None

    def _advance(self, at: float) -> None:
        """Note the end of a job; drop expired parts."""
        has_moved = self.clock.advance(at)
        if self.groups.period != self.clock.period:
            for parts in self._by_key:
                parts.period = self.clock.period
                if has_moved:
                    parts.drop_old()

    def _load_site(self, site: Mapping[str, Any]) -> None:
        if site.get("shape") != _SHAPE:
            raise ValueError("this state comes from another version: retrain on the finished jobs")
        self.n = site["n"]
        for name, part in self._of_site.items():
            part.load(site[name])
        for parts in self._by_key:
            parts.period = self.clock.period
