"""All that is known of one metric on one cluster: groups of jobs, whom to believe, how much to reserve."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from .answer import Answer, RunnerUp
from .bounds import Bounds
from .confidence import Confidence
from .forecasters import checked
from .group import CANDIDATES, Group
from .quality import NEAR
from .selection import Ledger, Regret, Tournament, elect
from .templates import DEFAULT_TEMPLATES, Key, Question, Template, Templates, label
from .ticket import Forecasts, Ticket

NO_HISTORY = "no history: no job of this cluster with a value has ended yet"

_SITE = '["site"]'


class Profile:
    """Learns from finished jobs; answers what the next one will use.

    A forecast is judged as it stood when the job was submitted and whoever asked had to decide: take a ticket by
    `look` then, and hand it back to `learn` when the job has ended. In a burst of a thousand jobs that differs much
    from how the forecast stands when the first of them have ended. Without a ticket a job is judged on the spot.

    All that is known is kept in named parts (groups, users, the site), so that a database can hold it: the few
    `parts` that a question touches are enough to answer it, and to learn a job; `changes` hands out those to store.
    """

    def __init__(self, unit: str, templates: Sequence[Template] = DEFAULT_TEMPLATES, coverage: float = 0.95) -> None:
        self.unit = unit
        self._templates = Templates(templates)
        self._width = len(CANDIDATES)
        self._size = self._width * len(self._templates.templates)
        self._groups: dict[Key, Group] = {}
        self._failed: dict[Key, float] = {}
        self._tournament = Tournament(self._size)
        self._bounds = Bounds(coverage)
        self._confidence = Confidence()
        self._n = 0
        self._changed_groups: set[Key] = set()
        self._changed_users: set[str | None] = set()
        self._changed_failed: set[Key] = set()

    @property
    def n(self) -> int:
        """How many jobs were learned."""
        return self._n

    @property
    def observed_coverage(self) -> float | None:
        """Share of finished jobs that would have fitted into what had been their bound; None before any."""
        return self._bounds.observed_coverage

    def answer(self, question: Question) -> Answer:
        """What the job will use, how much to reserve, how sure that is, and on what it rests. Changes nothing."""
        ticket = self.look(question)
        if ticket.value is None:
            return Answer(None, self.unit, None, None, 0, None, None, None, self._bounds.coverage, None, (), NO_HISTORY)
        weights = self._tournament.weights(question.user)
        index, key = self._source(ticket, ticket.value, weights)
        group = self._groups[key]
        runner_up = None
        for _, other in ticket.ranking[1:]:
            if abs(other - ticket.value) > 0.01 * ticket.value:
                other_index, other_key = self._source(ticket, other, weights)
                runner_up = RunnerUp(other, CANDIDATES[other_index % self._width], self._templates.level(other_key))
                break
        return Answer(
            value=ticket.value,
            unit=self.unit,
            forecaster=CANDIDATES[index % self._width],
            level=self._templates.level(key),
            n=group.crowd.n,
            probability=ticket.probability,
            bound=ticket.bound,
            exceeds=ticket.exceeds,
            coverage=self._bounds.coverage,
            runner_up=runner_up,
            last_values=tuple(group.recent),
            reason=None,
        )

    def look(self, question: Question) -> Ticket:
        """What is forecast for the job now, to be judged when it has ended. Changes nothing."""
        keys = self._templates.keys(question)
        forecasts: Forecasts = [None] * self._size
        ticket = Ticket(forecasts, keys)
        weights = self._tournament.weights(question.user)
        votes: dict[float, float] = {}
        present: list[tuple[Key, Group]] = []
        groups = self._groups
        heard = votes.get
        width = self._width
        for index, key in keys:
            group = groups.get(key)
            if group is None:
                continue
            present.append((key, group))
            said = group.forecasts()
            i = index * width
            forecasts[i : i + width] = said
            for forecast in said:
                votes[forecast] = heard(forecast, 0.0) + weights[i]
                i += 1
        if not votes:
            return ticket
        ticket.ranking = elect(votes)
        expected, value = ticket.ranking[0]
        ticket.value = value
        narrow = present[0][1]
        ticket.features = self._features(question.user, expected, value, narrow)
        ticket.probability = self._confidence.probability(ticket.features)
        wide = next((group for key, group in reversed(present) if key[0] & 1), present[-1][1])
        crowds = [narrow.crowd]
        for group in (present[len(present) // 3][1], wide):
            if group.crowd.n > crowds[-1].n:  # of no more jobs than the one before, it tells nothing new
                crowds.append(group.crowd)
        reserved = self._bounds.reserve(crowds, question.requested_time_s, self._failed.get(keys[0][1], 0.0))
        if reserved is not None:
            ticket.bound, ticket.exceeds = reserved
        return ticket

    def learn(self, question: Question, value: float, ticket: Ticket | None = None) -> None:
        """Score what was forecast for the job, then take in what it used.

        ValueError, naming the value, when it is no measurement; nothing changes then.
        """
        checked(value)
        if ticket is None:
            ticket = self.look(question)
        keys = ticket.keys or self._templates.keys(question)
        hit = self._tournament.score(question.user, ticket.forecasts, ticket.value, value)
        self._bounds.score(ticket.bound, value, question.requested_time_s)
        if hit is not None:
            self._confidence.score(ticket.features, hit)
        self._learn_groups([key for _, key in keys], value, hit)
        self._n += 1
        self._changed_users.add(question.user)

    def fail(self, question: Question, reserved: float) -> None:
        """Take in that a job ran out of what was reserved for it: the bound of its like stays above that.

        1 % above, since reservations are rounded before they are made and told.
        """
        key = self._templates.keys(question)[0][1]
        self._failed[key] = max(1.01 * checked(reserved), self._failed.get(key, 0.0))
        self._changed_failed.add(key)

    def regret(self, user: str | None) -> tuple[Regret, str] | None:
        """How the answers did beside the user's best single candidate in hindsight, and its name; None if unknown."""
        regret = self._tournament.regret(user)
        if regret is None:
            return None
        template, candidate = divmod(regret.best_candidate, self._width)
        return regret, f"{CANDIDATES[candidate]} by {label(self._templates.templates[template])}"

    def parts(self, question: Question) -> list[str]:
        """Names of the parts on which the answer to this question rests, and which learning such a job changes."""
        keys = [key for _, key in self._templates.keys(question)]
        return [_SITE, _user(question.user), _named("failed", keys[0]), *[_named("group", key) for key in keys]]

    def changes(self) -> dict[str, Any]:
        """Name and state of each part that has changed since this was last asked, as values that JSON can carry."""
        found: dict[str, Any] = {_named("group", key): self._groups[key].state() for key in self._changed_groups}
        found |= {_named("failed", key): self._failed[key] for key in self._changed_failed}
        found |= {_user(user): self._tournament.users[user].state() for user in self._changed_users}
        if self._changed_users:
            found[_SITE] = self._site_state()
        self._changed_groups.clear()
        self._changed_failed.clear()
        self._changed_users.clear()
        return dict(sorted(found.items()))

    def load(self, parts: Mapping[str, Any]) -> None:
        """Take over parts as `changes` and `state` hand them out; ValueError for those of other templates."""
        for name, state in parts.items():
            kind, *what = json.loads(name)
            if kind == "group":
                self._groups[what[0], tuple(what[1:])] = Group.from_state(state)
            elif kind == "user":
                self._tournament.users[what[0]] = Ledger.from_state(state)
            elif kind == "failed":
                self._failed[what[0], tuple(what[1:])] = state
            else:
                self._load_site(state)

    def state(self) -> dict[str, Any]:
        """Every part by its name, as values that JSON can carry."""
        self._changed_groups.update(self._groups)
        self._changed_failed.update(self._failed)
        self._changed_users.update(self._tournament.users)
        return self.changes()

    @classmethod
    def from_state(
        cls,
        unit: str,
        parts: Mapping[str, Any],
        templates: Sequence[Template] = DEFAULT_TEMPLATES,
        coverage: float = 0.95,
    ) -> Self:
        """The profile whose `state()` this was, exactly; ValueError if it was made by other templates."""
        restored = cls(unit, templates, coverage)
        restored.load(parts)
        return restored

    def _learn_groups(self, keys: list[Key], value: float, hit: bool | None) -> None:
        groups = self._groups
        shared: dict[int, tuple[Group, list[Key]]] = {}
        new: list[Key] = []
        for key in keys:
            group = groups.get(key)
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
                    groups[key] = group
            if hit is not None:
                group.hits.score(hit)
            group.learn(value)
        if new:
            group = Group(len(new))
            group.learn(value)
            for key in new:
                groups[key] = group
        self._changed_groups.update(keys)

    def _features(self, user: str | None, expected: float, value: float, group: Group) -> tuple[float, ...]:
        ledger = self._tournament.users.get(user)
        user_share = ledger.hits.share(0.5) if ledger else 0.5
        places, total = group.crowd.crowd()
        low, high = value / (1.0 + NEAR), value / (1.0 - NEAR)
        near = sum([weight for place, weight in places if low <= place <= high])
        return (
            expected,
            user_share,
            group.hits.share(user_share),
            near / (total + 1.0),
            min(group.crowd.n, 20) / 20.0,
        )

    def _source(self, ticket: Ticket, value: float, weights: list[float]) -> tuple[int, Key]:
        """The most specific group that said `value`, and whose candidate it was, the one of greatest weight."""
        width = self._width
        for index, key in ticket.keys:
            candidates = range(index * width, (index + 1) * width)
            said = [i for i in candidates if ticket.forecasts[i] == value]
            if said:
                return max(said, key=weights.__getitem__), key
        raise LookupError(f"no candidate said {value!r}")

    def _site_state(self) -> dict[str, Any]:
        return {
            "templates": [list(template) for template in self._templates.templates],
            "n": self._n,
            "ledger": self._tournament.site.state(),
            "bounds": self._bounds.state(),
            "confidence": self._confidence.state(),
        }

    def _load_site(self, state: Mapping[str, Any]) -> None:
        templates = tuple(tuple(template) for template in state["templates"])
        if templates != self._templates.templates:
            raise ValueError("this was learned by other templates: learn the finished jobs anew")
        self._n = state["n"]
        self._tournament.site = Ledger.from_state(state["ledger"])
        self._bounds = Bounds.from_state(self._bounds.coverage, state["bounds"])
        self._confidence = Confidence.from_state(state["confidence"])


def _named(kind: str, key: Key) -> str:
    return json.dumps([kind, key[0], *key[1]], separators=(",", ":"))


def _user(user: str | None) -> str:
    return json.dumps(["user", user], separators=(",", ":"))
