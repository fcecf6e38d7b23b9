"""Everything known about one metric on one cluster, in pieces that a database can store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jobsight_predictor.templates import Key, Question, Template, Templates

from .bound import Objective
from .bounds import Bounds
from .expert_weights import ExpertLosses, ExpertWeights
from .failed import FailedReservations
from .group import CANDIDATES, Group, learn_groups
from .held import Held
from .hit_probability import HitProbability
from .kinds import SHARES, first_keys, kind_key, share_keys
from .requests import Limit, RequestedLimits

SITE: Key = (0, ())
"""The group of all jobs."""

_SITE_KEY = '["site"]'
_SHAPE = 5
"""Version of the stored state; state of another version is retrained."""


class Model:
    """Groups of jobs, the losses of experts, the calibration of bounds, and what has changed since it was stored.

    State is stored by key: the few ``state_keys`` of a question are enough to answer it and to learn such a job;
    ``changed_state`` is what to store.
    """

    def __init__(
        self, templates: Sequence[Template], coverage: float, metric: str, objective: Objective, limit: Limit
    ) -> None:
        self.templates = Templates(templates)
        n = len(self.templates.templates)
        self.shares = range(n, n + len(SHARES))
        self.size = len(CANDIDATES) * self.shares.stop
        self.of_time = metric == "runtime"
        self.n = 0
        self.groups: dict[Key, Group] = {}
        self.kinds: dict[Key, int] = {}
        self.failed = FailedReservations()
        self.experts = ExpertWeights(self.size)
        self.bounds = Bounds(coverage, objective, of_time=self.of_time)
        self.requests = RequestedLimits(metric, limit)
        self.held = Held()
        self.hit_probability = HitProbability()
        self.changed_kinds: set[Key] = set()
        self.changed_users: set[str | None] = set()
        self._changed_groups: set[Key] = set()

    def learn_groups(self, keys: list[Key], value: float, hit: bool | None, known: int, adds: bool | None) -> None:
        """Add a job to the groups of these keys, as ``group.learn_groups`` does."""
        learn_groups(self.groups, keys, value, hit, known, self.n, adds)
        self._changed_groups.update(keys)

    def state_keys(self, question: Question) -> list[str]:
        """Keys of the state that the answer to this question needs, and that learning such a job changes."""
        keys = [key for _, key in self.templates.keys(question)]
        alone = [_SITE_KEY, _user(question.user), _named("kind", kind_key(question)), *self.failed.state_keys(question)]
        asked = self.requests.of(question) is not None
        if asked:
            keys += [key for key in share_keys(question) if key is not None]
        keys += [*first_keys(question, asked), *([] if SITE in keys else [SITE])]  # the site's has the largest value
        return [*alone, *[_named("group", key) for key in keys]]

    def changed_state(self) -> dict[str, Any]:
        """The state changed since the last call, by key, as JSON values."""
        found: dict[str, Any] = {_named("group", key): self.groups[key].state() for key in self._changed_groups}
        found |= self.failed.changed_state()
        found |= {_named("kind", key): self.kinds[key] for key in self.changed_kinds}
        found |= {_user(user): self.experts.users[user].state() for user in self.changed_users}
        if self.changed_users:
            found[_SITE_KEY] = self._site_state()
        self._changed_groups.clear()
        self.changed_kinds.clear()
        self.changed_users.clear()
        return dict(sorted(found.items()))

    def state(self) -> dict[str, Any]:
        """All state, by key, as JSON values."""
        self._changed_groups.update(self.groups)
        found = self.failed.state()
        self.changed_kinds.update(self.kinds)
        self.changed_users.update(self.experts.users)
        return dict(sorted((found | self.changed_state()).items()))

    def load(self, state: Mapping[str, Any]) -> None:
        """Load state from ``changed_state`` or ``state``.

        Raises:
            ValueError: it has other templates, another objective or another version.
        """
        if _SITE_KEY in state:  # decides whether the others can be read
            self._load_site(state[_SITE_KEY])
        for key, piece in state.items():
            kind, *what = json.loads(key)
            if kind == "group":
                self.groups[what[0], tuple(what[1:])] = Group.from_state(piece)
            elif kind == "user":
                self.experts.users[what[0]] = ExpertLosses.from_state(piece)
            elif kind == "failed":
                self.failed.load((what[0], what[1]), piece)
            elif kind == "kind":
                self.kinds[what[0], tuple(what[1:])] = piece

    def _site_state(self) -> dict[str, Any]:
        return {
            "templates": [list(template) for template in self.templates.templates],
            "n": self.n,
            "losses": self.experts.site.state(),
            "shape": _SHAPE,
            "bounds": self.bounds.state(),
            "held": self.held.state(),
            "requests": [self.requests.asked, self.requests.beyond],
            "hit_probability": self.hit_probability.state(),
        }

    def _load_site(self, state: Mapping[str, Any]) -> None:
        if state.get("shape") != _SHAPE or state["bounds"]["objective"] != self.bounds.objective:
            raise ValueError("this state comes from another version or objective: retrain on the finished jobs")
        templates = tuple(tuple(template) for template in state["templates"])
        if templates != self.templates.templates:
            raise ValueError("this state was learned with other job groups: retrain on the finished jobs")
        self.n = state["n"]
        self.experts.site = ExpertLosses.from_state(state["losses"])
        self.bounds = Bounds.from_state(self.bounds.coverage, state["bounds"], of_time=self.of_time)
        self.held = Held.from_state(state["held"])
        self.requests.asked, self.requests.beyond = state["requests"]
        self.hit_probability = HitProbability.from_state(state["hit_probability"])


def _named(kind: str, key: Key) -> str:
    return json.dumps([kind, key[0], *key[1]], separators=(",", ":"))


def _user(user: str | None) -> str:
    return json.dumps(["user", user], separators=(",", ":"))
