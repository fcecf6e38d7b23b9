"""All that is known of one metric on one cluster: groups of jobs, whom to believe, how much to reserve."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Self

from .answer import Answer, RunnerUp
from .bounds import Bounds
from .confidence import Confidence
from .forecasters import Crowd, checked
from .quality import NEAR
from .selection import Regret, Tournament, elect
from .templates import DEFAULT_TEMPLATES, Key, Question, Template, Templates

CANDIDATES = ("locality", "crowd-short", "crowd-medium", "crowd-long")
"""What each group forecasts: its last value, and the best place of its crowd in three lengths of memory."""

SHOWN = 5
"""Last values that an answer shows."""

PENDING = 100_000
"""Submitted jobs remembered until they end; beyond, the oldest are forgotten and counted."""

_HIT_FADE = 0.9


class Hits:
    """A faded share of hits, leaning on a prior while there are few."""

    __slots__ = ("hits", "trials")

    def __init__(self, hits: float = 0.0, trials: float = 0.0) -> None:
        self.hits = hits
        self.trials = trials

    def score(self, hit: bool) -> None:
        self.hits = self.hits * _HIT_FADE + hit
        self.trials = self.trials * _HIT_FADE + 1.0

    def share(self, prior: float) -> float:
        return (self.hits + prior) / (self.trials + 1.0)


class Group:
    """What is kept of jobs that are alike. Groups of several templates that hold the very same jobs are one object,

    until a job comes that belongs to some of them only: most of a site's groups, in number, are of one job each, and
    many users have but one application.
    """

    __slots__ = ("crowd", "hits", "keys", "recent")

    def __init__(self, keys: int) -> None:
        self.keys = keys
        self.crowd = Crowd()
        self.hits = Hits()
        self.recent: deque[float] = deque(maxlen=SHOWN)

    def learn(self, value: float) -> None:
        self.crowd.learn(value)
        self.recent.append(value)

    def split(self, keys: int) -> Group:
        """The same group once more, for so many of its keys."""
        self.keys -= keys
        twin = Group(keys)
        twin.crowd = self.crowd.copy()
        twin.hits = Hits(self.hits.hits, self.hits.trials)
        twin.recent.extend(self.recent)
        return twin


class Ticket:
    """What was forecast for a job when it was submitted, kept until it has ended and can be scored."""

    __slots__ = ("bound", "exceeds", "features", "forecasts", "keys", "probability", "ranking", "value")

    def __init__(self, keys: list[tuple[int, Key]], forecasts: list[float | None]) -> None:
        self.keys = keys
        self.forecasts = forecasts
        self.ranking: list[tuple[float, float]] = []
        self.value: float | None = None
        self.bound: float | None = None
        self.exceeds: float | None = None
        self.probability = 0.0
        self.features: tuple[float, ...] = ()

    def state(self) -> list[Any]:
        return [self.keys, self.forecasts, self.value, self.bound, self.features, self.probability]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Self:
        keys, forecasts, value, bound, features, probability = state
        restored = cls([(index, (mask, tuple(values))) for index, (mask, values) in keys], forecasts)
        restored.value = value
        restored.bound = bound
        restored.features = tuple(features)
        restored.probability = probability
        return restored


class Profile:
    """Learns from finished jobs; answers what the next one will use.

    Tell it of a job twice, `submit` and `finish`, in the order of time: a forecast is then judged as it stood at
    submission, when whoever asked had to decide. In a burst of a thousand jobs that differs much from how it stands
    when the first of them have ended. A job finished without having been submitted is judged on the spot.
    """

    def __init__(self, unit: str, templates: Sequence[Template] = DEFAULT_TEMPLATES, coverage: float = 0.95) -> None:
        self.unit = unit
        self.forgotten = 0
        self._templates = Templates(templates)
        self._width = len(CANDIDATES)
        self._size = self._width * len(self._templates.templates)
        self._groups: dict[Key, Group] = {}
        self._tournament = Tournament(self._size)
        self._bounds = Bounds(coverage)
        self._confidence = Confidence()
        self._users: dict[str | None, Hits] = {}
        self._failed: dict[Key, float] = {}
        self._pending: dict[str, Ticket] = {}
        self._n = 0

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
        ticket = self._look(question)
        if ticket.value is None:
            reason = "no history: no job of this cluster with a value has ended yet"
            return Answer(None, self.unit, None, None, 0, None, None, None, self._bounds.coverage, None, (), reason)
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

    def submit(self, job: str, question: Question) -> float | None:
        """Remember what is forecast for the job now, to be judged when it ends; that forecast."""
        if len(self._pending) >= PENDING:
            del self._pending[next(iter(self._pending))]
            self.forgotten += 1
        ticket = self._pending[job] = self._look(question)
        return ticket.value

    def finish(self, job: str, question: Question, value: float) -> Ticket:
        """Score what was forecast for the job, then learn what it used; the ticket that was scored.

        ValueError, naming the value, when it is no measurement; the job then stays as it was.
        """
        checked(value)
        ticket = self._pending.pop(job, None) or self._look(question)
        hit = self._score(ticket, question, value)
        groups = self._groups
        shared: dict[int, tuple[Group, list[Key]]] = {}
        new: list[Key] = []
        for _, key in ticket.keys:
            group = groups.get(key)
            if group is None:
                new.append(key)
            elif id(group) in shared:
                shared[id(group)][1].append(key)
            else:
                shared[id(group)] = (group, [key])
        for group, keys in shared.values():
            if len(keys) < group.keys:
                group = group.split(len(keys))
                for key in keys:
                    groups[key] = group
            if hit is not None:
                group.hits.score(hit)
            group.learn(value)
        if new:
            group = Group(len(new))
            group.learn(value)
            for key in new:
                groups[key] = group
        self._n += 1
        return ticket

    def withdraw(self, job: str) -> None:
        """Forget a submitted job that will never run, or whose value will never be known."""
        self._pending.pop(job, None)

    def fail(self, question: Question, reserved: float) -> None:
        """Take in that a job ran out of what was reserved for it: the bound of its like stays above that."""
        key = self._templates.keys(question)[0][1]
        self._failed[key] = max(checked(reserved), self._failed.get(key, 0.0))

    def regret(self, user: str | None) -> tuple[Regret, str] | None:
        """How the answers did beside the user's best single candidate in hindsight, and its name; None if unknown."""
        regret = self._tournament.regret(user)
        if regret is None:
            return None
        template, candidate = divmod(regret.best_candidate, self._width)
        fields = self._templates.templates[template]
        return regret, f"{CANDIDATES[candidate]} by {' + '.join(fields) or 'site'}"

    def _look(self, question: Question) -> Ticket:
        keys = self._templates.keys(question)
        forecasts: list[float | None] = [None] * self._size
        ticket = Ticket(keys, forecasts)
        weights = self._tournament.weights(question.user)
        votes: dict[float, float] = {}
        present: list[tuple[Key, Group]] = []
        groups = self._groups
        heard = votes.get
        for index, key in keys:
            group = groups.get(key)
            if group is None:
                continue
            present.append((key, group))
            crowd = group.crowd
            i = 4 * index
            forecasts[i] = last = group.recent[-1]
            votes[last] = heard(last, 0.0) + weights[i]
            short, medium, long = crowd.best()
            forecasts[i + 1] = short
            votes[short] = heard(short, 0.0) + weights[i + 1]
            forecasts[i + 2] = medium
            votes[medium] = heard(medium, 0.0) + weights[i + 2]
            forecasts[i + 3] = long
            votes[long] = heard(long, 0.0) + weights[i + 3]
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
            if group.crowd is not crowds[-1]:
                crowds.append(group.crowd)
        reserved = self._bounds.reserve(crowds, _seconds(question), self._failed.get(keys[0][1], 0.0))
        if reserved is not None:
            ticket.bound, ticket.exceeds = reserved
        return ticket

    def _features(self, user: str | None, expected: float, value: float, group: Group) -> tuple[float, ...]:
        hits = self._users.get(user)
        user_share = hits.share(0.5) if hits else 0.5
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

    def _score(self, ticket: Ticket, question: Question, value: float) -> bool | None:
        """Judge the ticket by what the job used; whether the forecast was within 20 %, None if there was none."""
        user = question.user
        self._tournament.score(user, ticket.forecasts, ticket.value, value)
        self._bounds.score(ticket.bound, value, _seconds(question))
        if ticket.value is None:
            return None
        hit = abs(ticket.value - value) <= NEAR * value
        self._confidence.score(ticket.features, hit)
        self._users.setdefault(user, Hits()).score(hit)
        return hit

    def _source(self, ticket: Ticket, value: float, weights: list[float]) -> tuple[int, Key]:
        """The candidate of greatest weight that said `value`, and its group."""
        best, source = -1.0, -1
        for i, forecast in enumerate(ticket.forecasts):
            if forecast == value and weights[i] > best:
                best, source = weights[i], i
        template = source // self._width
        return source, next(key for index, key in ticket.keys if index == template)

    def state(self) -> dict[str, Any]:
        """Everything known, as values that JSON can carry."""
        shared: dict[int, tuple[Group, list[Key]]] = {}
        for key, group in self._groups.items():
            shared.setdefault(id(group), (group, []))[1].append(key)
        return {
            "unit": self.unit,
            "templates": self._templates.templates,
            "n": self._n,
            "forgotten": self.forgotten,
            "groups": [
                [keys, group.crowd.row(), group.hits.hits, group.hits.trials, list(group.recent)]
                for group, keys in shared.values()
            ],
            "tournament": self._tournament.state(),
            "bounds": self._bounds.state(),
            "confidence": self._confidence.state(),
            "users": [[user, hits.hits, hits.trials] for user, hits in self._users.items()],
            "failed": [[key, reserved] for key, reserved in self._failed.items()],
            "pending": [[job, ticket.state()] for job, ticket in self._pending.items()],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The profile whose `state()` this was, exactly."""
        templates = [tuple(template) for template in state["templates"]]
        restored = cls(state["unit"], templates, state["bounds"]["coverage"])
        restored._n = state["n"]
        restored.forgotten = state["forgotten"]
        for keys, crowd, hits, trials, recent in state["groups"]:
            group = Group(len(keys))
            group.crowd = Crowd.from_row(crowd)
            group.hits = Hits(hits, trials)
            group.recent.extend(recent)
            for mask, values in keys:
                restored._groups[mask, tuple(values)] = group
        restored._tournament = Tournament.from_state(state["tournament"])
        restored._bounds = Bounds.from_state(state["bounds"])
        restored._confidence = Confidence.from_state(state["confidence"])
        restored._users = {user: Hits(hits, trials) for user, hits, trials in state["users"]}
        restored._failed = {(mask, tuple(values)): reserved for (mask, values), reserved in state["failed"]}
        restored._pending = {job: Ticket.from_state(ticket) for job, ticket in state["pending"]}
        return restored


def _seconds(question: Question) -> float:
    return max(question.requested_time_s or 1.0, 1.0)
