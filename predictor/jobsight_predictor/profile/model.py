"""Everything known about one metric on one cluster, in pieces that a database can store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jobsight_predictor.profile.probability import ExpertLosses, ExpertWeights, FadedLosses
from jobsight_predictor.profile.prospect import Shortfalls
from jobsight_predictor.profile.steps import RequestedLimits
from jobsight_predictor.question import MOMENTS, GroupKey, JobGroups, Limit, Moment, Objective, Question

from .age import Clock, Part
from .calibration import Calibration
from .facts import FactsHistory
from .group import CANDIDATES, SHARES, Group, Groups, JobKeys, job_keys
from .probability import TENTHS, Correction, HitProbability
from .reserve import Bounds

SITE: GroupKey = (0, ())
"""The group of all jobs."""

_encode = json.JSONEncoder(separators=(",", ":")).encode
_SITE_KEY = '["site"]'
_SHAPE = 17
"""Version of the stored state; state of another version is retrained."""


class Model:
    """Groups of jobs, the losses of experts, the calibration of bounds, and what has changed since it was stored.

    State is stored by key: the few ``state_keys`` of a question are enough to answer it and to learn such a job;
    ``changed_state`` is what to store.
    """

    def __init__(self, coverage: float, metric: str, objective: Objective, limit: Limit) -> None:
        self.job_groups = JobGroups()
        n = len(self.job_groups.groups)
        self.shares = range(n, n + len(SHARES))
        self.size = len(CANDIDATES) * self.shares.stop
        self.of_time = metric == "runtime"
        self.n = 0
        self.groups = Groups()
        self.clock = Clock()
        # Of the last burst: jobs learned when it began, and its jobs until now; and the last period in which it counts.
        self.kinds: dict[GroupKey, tuple[int, int, int]] = {}
        self.shortfalls = Shortfalls()
        self.facts: dict[GroupKey, FactsHistory] = {}
        self.experts = ExpertWeights(self.size)
        self.bounds = Bounds(coverage, objective, of_time=self.of_time)
        self.requests = RequestedLimits(metric, limit)
        self.hit_probability = HitProbability()
        self.near_limit = Correction(TENTHS)
        self.calibrations: dict[Moment, Calibration] = {moment: Calibration(coverage) for moment in MOMENTS}
        self.changed_facts: set[GroupKey] = set()
        self.changed_kinds: set[GroupKey] = set()
        self.changed_users: set[str | None] = set()
        self.is_site_changed = False

    def keys(self, question: Question) -> JobKeys:
        """Under which keys the like of this job is kept."""
        return job_keys(self.job_groups, question, self.requests.of(question))

    def state_keys(self, question: Question) -> list[str]:
        """Keys of the state that the answer to this question needs, and that learning such a job changes."""
        keys = self.keys(question)
        alone = [_SITE_KEY, _user(question.user), _named("kind", keys.kind), *self.shortfalls.state_keys(question)]
        if question.facts:
            alone.append(_named("facts", keys.kind))
        groups = [*[key for _, key in (*keys.groups, *keys.shares)], *keys.firsts]
        return [*alone, *[_named("group", key) for key in groups]]

    def advance(self, at: float) -> None:
        """Take note of the time of a job that is to be learned: what nothing was learned of for long goes."""
        self.is_site_changed = True
        if self.clock.advance(at):
            now = self.clock.period
            for key in [key for key, group in self.groups.items() if group.until < now]:
                del self.groups[key]
                self.groups.changed.discard(key)
            for key in [key for key, (_, _, until) in self.kinds.items() if until < now]:
                del self.kinds[key]
                self.changed_kinds.discard(key)
            for key in [key for key, history in self.facts.items() if history.until < now]:
                del self.facts[key]
                self.changed_facts.discard(key)
            self.shortfalls.drop_before(now)
        self.groups.period, self.shortfalls.until = self.clock.period, self.clock.until

    def changed_state(self) -> dict[str, Part]:
        """The state changed since the last call, by key."""
        found = {
            _named("group", key): Part(group.state(), group.until)
            for key, group in [(key, self.groups[key]) for key in self.groups.changed]
        }
        found |= self.shortfalls.changed_state()
        for key, history in [(key, self.facts[key]) for key in self.changed_facts]:
            found[_named("facts", key)] = Part(history.state(), history.until)
        for key, (began, burst, until) in [(key, self.kinds[key]) for key in self.changed_kinds]:
            found[_named("kind", key)] = Part([began, burst], until)
        found |= {_user(user): Part(self.experts.users[user].state(), None) for user in self.changed_users}
        if self.changed_users or self.is_site_changed:
            found[_SITE_KEY] = Part(self._site_state(), None)
        self.groups.changed.clear()
        self.changed_facts.clear()
        self.changed_kinds.clear()
        self.changed_users.clear()
        self.is_site_changed = False
        return dict(sorted(found.items()))

    def state(self) -> dict[str, Part]:
        """All state, by key."""
        self.groups.changed.update(self.groups)
        found = self.shortfalls.state()
        self.changed_facts.update(self.facts)
        self.changed_kinds.update(self.kinds)
        self.changed_users.update(self.experts.users)
        return dict(sorted((found | self.changed_state()).items()))

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Load parts from ``changed_state`` or ``state``, but those that are too old by now.

        Raises:
            ValueError: it has other job groups, another objective or another version.
        """
        if _SITE_KEY in state:  # decides whether the others can be read
            self._load_site(state[_SITE_KEY][0])
        for key, (piece, until) in state.items():
            kind, *what = json.loads(key)
            if kind == "user":
                self.experts.users[what[0]] = ExpertLosses.from_state(piece)
            elif kind == "site" or until < self.clock.period:
                continue
            elif kind == "group":
                group = self.groups[what[0], tuple(what[1:])] = Group.from_state(piece)
                group.until = until
            elif kind == "shortfall":
                self.shortfalls.load((what[0], what[1]), piece, until)
            elif kind == "facts":
                history = self.facts[what[0], tuple(what[1:])] = FactsHistory.from_state(piece)
                history.until = until
            elif kind == "kind":
                self.kinds[what[0], tuple(what[1:])] = piece[0], piece[1], until

    def _site_state(self) -> dict[str, Any]:
        return {
            "templates": [list(job_group) for job_group in self.job_groups.groups],
            "n": self.n,
            "clock": self.clock.state(),
            "losses": [self.experts.site[moment].state() for moment in MOMENTS],
            "shape": _SHAPE,
            "objective": self.bounds.objective,
            "mean_job": self.bounds.mean_job.state(),
            "calibrations": [self.calibrations[moment].state() for moment in MOMENTS],
            "requests": self.requests.state(),
            "hit_probability": self.hit_probability.state(),
            "near_limit": self.near_limit.state(),
        }

    def _load_site(self, state: Mapping[str, Any]) -> None:
        if state.get("shape") != _SHAPE or state["objective"] != self.bounds.objective:
            raise ValueError("this state comes from another version or objective: retrain on the finished jobs")
        job_groups = tuple(tuple(job_group) for job_group in state["templates"])
        if job_groups != self.job_groups.groups:
            raise ValueError("this state was learned with other job groups: retrain on the finished jobs")
        self.n = state["n"]
        self.clock.load(state["clock"])
        self.groups.period, self.shortfalls.until = self.clock.period, self.clock.until
        for moment, losses in zip(MOMENTS, state["losses"], strict=True):
            self.experts.site[moment] = FadedLosses.from_state(losses)
        self.bounds.mean_job.load(state["mean_job"])
        for moment, calibration in zip(MOMENTS, state["calibrations"], strict=True):
            self.calibrations[moment].load(calibration)
        self.requests.load(state["requests"])
        self.hit_probability = HitProbability.from_state(state["hit_probability"])
        self.near_limit.load(state["near_limit"])


def _named(kind: str, key: GroupKey) -> str:
    return _encode([kind, key[0], *key[1]])


def _user(user: str | None) -> str:
    return _encode(["user", user])
