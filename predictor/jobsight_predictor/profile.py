"""All that is known of one metric on one cluster: groups of jobs, whom to believe, how much to reserve."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from .answer import Answer, RunnerUp
from .bounds import SPREAD, Bounds, Case, Objective
from .confidence import Confidence
from .failed import FailedReservations
from .forecasters import LARGEST, checked
from .group import CANDIDATES, Group, learn_groups
from .held import Held
from .kinds import SHARE, SHARES, first_keys, kind_key, share_keys
from .levels import firsts, levels_of
from .prospect import PARETO, PARETO_OF_TIME, Level, Prospect, prospect
from .quality import NEAR
from .requests import Limit, Requests
from .selection import Ledger, Regret, Tournament, elect
from .templates import DEFAULT_TEMPLATES, Key, Question, Template, Templates, label
from .ticket import Forecasts, Ticket

NO_HISTORY = "no history: no job of this cluster with a value has ended yet"

_SITE = '["site"]'
_SHAPE = 3
"""Of the stored parts; those of another shape are learned again."""


class Profile:
    """Learns from finished jobs; answers what the next one will use.

    A forecast is judged as it stood when the job was submitted and whoever asked had to decide: take a ticket by
    `look` then, and hand it back to `learn` when the job has ended. In a burst of a thousand jobs that differs much
    from how the forecast stands when the first of them have ended. Without a ticket a job is judged on the spot.

    All that is known is kept in named parts (groups, users, the site), so that a database can hold it: the few
    `parts` that a question touches are enough to answer it, and to learn a job; `changes` hands out those to store.
    """

    def __init__(
        self,
        unit: str,
        templates: Sequence[Template] = DEFAULT_TEMPLATES,
        coverage: float = 0.95,
        *,
        metric: str = "",
        objective: Objective = "cost",
        limit: Limit = "auto",
    ) -> None:
        """`metric` names the one that users may request, memory or runtime; `limit` whether requests are enforced."""
        self.unit = unit
        self._templates = Templates(templates)
        self._width = len(CANDIDATES)
        self._shares = range(len(self._templates.templates), len(self._templates.templates) + len(SHARES))
        self._size = self._width * self._shares.stop
        self._groups: dict[Key, Group] = {}
        self._kinds: dict[Key, int] = {}
        self._failed = FailedReservations()
        self._tournament = Tournament(self._size)
        self._of_time = metric == "runtime"
        self._bounds = Bounds(coverage, objective, of_time=self._of_time)
        self._requests = Requests(metric, limit)
        self._held = Held()
        self._confidence = Confidence()
        self._n = 0
        self._last_look: tuple[Question, Ticket] | None = None  # none since anything was learned
        self._changed_groups: set[Key] = set()
        self._changed_kinds: set[Key] = set()
        self._changed_users: set[str | None] = set()

    @property
    def n(self) -> int:
        """How many jobs were learned."""
        return self._n

    @property
    def observed_coverage(self) -> float | None:
        """Share of finished jobs that would have fitted into what had been their bound; None before any."""
        return self._held.coverage

    @property
    def observed_cost_coverage(self) -> float | None:
        """The same, each job weighted by what it used times its seconds; None before any."""
        return self._held.cost_coverage

    def answer(self, question: Question) -> Answer:
        """What the job will use, how much to reserve, how sure that is, and on what it rests. Changes nothing."""
        ticket = self.look(question)
        if ticket.value is None:
            return Answer(
                value=None,
                unit=self.unit,
                forecaster=None,
                level=None,
                n=0,
                probability=None,
                bound=ticket.bound,
                bound_basis=ticket.basis,
                exceeds=ticket.exceeds,
                coverage=self._bounds.coverage,
                observed_coverage=self.observed_coverage,
                observed_cost_coverage=self.observed_cost_coverage,
                runner_up=None,
                last_values=(),
                reason=NO_HISTORY,
            )
        weights = self._tournament.weights(question.user)
        index, key, scale = self._source(ticket, ticket.value, weights)
        group = self._groups[key]
        runner_up = None
        for _, other in ticket.ranking[1:]:
            if abs(other - ticket.value) > 0.01 * ticket.value:
                other_index, other_key, _ = self._source(ticket, other, weights)
                runner_up = RunnerUp(other, CANDIDATES[other_index % self._width], self._level(other_key))
                break
        return Answer(
            value=ticket.value,
            unit=self.unit,
            forecaster=CANDIDATES[index % self._width],
            level=self._level(key),
            n=group.crowd.n,
            probability=ticket.probability,
            bound=ticket.bound,
            bound_basis=ticket.basis,
            exceeds=ticket.exceeds,
            coverage=self._bounds.coverage,
            observed_coverage=self.observed_coverage,
            observed_cost_coverage=self.observed_cost_coverage,
            runner_up=runner_up,
            last_values=tuple(value * scale for value in group.recent),
            reason=None,
        )

    def look(self, question: Question) -> Ticket:
        """What is forecast for the job now, to be judged when it has ended. Changes nothing.

        Jobs of a burst that ask the same before anything new is learned share one ticket.
        """
        last = self._last_look
        if last is None or last[0] != question:
            last = self._last_look = question, self._look(question)
        return last[1]

    def _look(self, question: Question) -> Ticket:
        keys = self._templates.keys(question)
        forecasts: Forecasts = [None] * self._size
        ticket = Ticket(forecasts, keys, self._n, kind_key(question) not in self._kinds)
        request = self._requests.of(question)
        is_limit = request is not None and self._requests.are_limits(self._bounds.coverage)
        ceiling = request if request is not None and is_limit else LARGEST
        weights = self._tournament.weights(question.user)
        votes: dict[float, float] = {}
        present: list[tuple[Key, Group]] = []
        groups = self._groups
        width = self._width
        for index, key in keys:
            group = groups.get(key)
            if group is None:
                continue
            present.append((key, group))
            said = group.forecasts()
            if is_limit:
                said = tuple([forecast if forecast < ceiling else ceiling for forecast in said])
            i = index * width
            forecasts[i : i + width] = said
            for forecast in said:
                votes[forecast] = votes.get(forecast, 0.0) + weights[i]
                i += 1
        shares: list[Group | None] = [None] * len(SHARES)
        if request is not None:
            ticket.request = request
            for k, share_key in enumerate(share_keys(question)):
                shares[k] = group = None if share_key is None else groups.get(share_key)
                if share_key is None or group is None:
                    continue
                ticket.keys.append((self._shares[k], share_key))
                said = tuple([min(share * request, ceiling) for share in group.forecasts()])
                i = self._shares[k] * width
                forecasts[i : i + width] = said
                for forecast in said:
                    votes[forecast] = votes.get(forecast, 0.0) + weights[i]
                    i += 1
        if not votes:
            if request is not None:
                self._reserve(ticket, question, Prospect({}, 1.0), None, 0, request, is_limit)
            return ticket
        ticket.ranking = elect(votes)
        expected, value = ticket.ranking[0]
        ticket.value = value
        narrow = present[0][1]
        ticket.features = self._features(question.user, expected, value, narrow)
        ticket.probability = self._confidence.probability(ticket.features)
        levels = firsts(groups, question, request) if ticket.is_new else []
        levels = levels or levels_of(present, shares, request)
        own = [group for key, group in present if key[0] & 1 or question.user is None]
        evidence = own[-1].evidence if own else 0
        found = prospect(levels, ceiling, PARETO_OF_TIME if self._of_time else PARETO)
        self._reserve(ticket, question, found, levels[0], evidence, request, is_limit)
        return ticket

    def _reserve(
        self,
        ticket: Ticket,
        question: Question,
        found: Prospect,
        level: Level | None,
        own: int,
        request: float | None,
        is_limit: bool,
    ) -> None:
        site = self._groups.get((0, ()))
        ledger = self._tournament.users.get(question.user)
        case = Case(
            seconds=question.requested_time_s,
            above=self._failed.above(question),
            request=request,
            is_limit=is_limit,
            own=own,
            is_new=ticket.is_new,
            largest=max([group.top * scale for group, scale, _ in level]) * SPREAD[-1][0] if level else 0.0,
            largest_of_all=site.top if site is not None else 0.0,
            owed=ledger.debt if ledger else 0.0,
            forecast=ticket.value,
        )
        ticket.bound, ticket.exceeds, ticket.basis, ticket.learned = self._bounds.reserve(found, case)

    def learn(
        self, question: Question, value: float, ticket: Ticket | None = None, seconds: float | None = None
    ) -> None:
        """Score what was forecast for the job, then take in what it used, in `seconds` where known.

        ValueError, naming the value, when it is no measurement; nothing changes then.
        """
        checked(value)
        if ticket is None:
            ticket = self.look(question)
        self._last_look = None
        request = self._requests.of(question)
        hit = self._tournament.score(question.user, ticket.forecasts, ticket.value, value)
        self._bounds.score(
            ticket.bound,
            value,
            question.requested_time_s,
            ticket.value,
            learned=ticket.learned,
            request=request,
        )
        self._held.score(ticket.bound, value, seconds or question.requested_time_s or 1.0)
        if ticket.bound is not None:
            ledger = self._tournament.users[question.user]
            ledger.debt = self._bounds.owed(ledger.debt, value > ticket.bound)
        if hit is not None:
            self._confidence.score(ticket.features, hit)
        self._n += 1
        kind = kind_key(question)
        adds = ticket.known >= self._kinds.get(kind, 0)
        is_first = kind not in self._kinds
        if adds:
            self._kinds[kind] = self._n
            self._changed_kinds.add(kind)
        self._learn_groups([key for _, key in self._templates.keys(question)], value, hit, ticket.known, adds)
        if request is not None:
            own = [key for key in share_keys(question) if key is not None]
            self._learn_groups(own, min(value / request, LARGEST), hit, ticket.known, adds)
        if is_first:
            of_request = value if request is None else min(value / request, LARGEST)
            self._learn_groups(first_keys(question, request is not None), of_request, None, ticket.known, None)
        self._requests.score(request, value)
        self._changed_users.add(question.user)

    def fail(self, question: Question, reserved: float) -> None:
        """Take in that a job ran out of what was reserved for it: the bound of its like stays above that.

        Alike are the jobs with the same value in every field of `question`, whatever else is known of them. 1 % above,
        since reservations are rounded before they are made and reported.
        """
        self._last_look = None
        self._failed.add(question, 1.01 * checked(reserved))

    def regret(self, user: str | None) -> tuple[Regret, str] | None:
        """How the answers did beside the user's best single candidate in hindsight, and its name; None if unknown."""
        regret = self._tournament.regret(user)
        if regret is None:
            return None
        template, candidate = divmod(regret.best_candidate, self._width)
        if template in self._shares:
            group = f"{label(SHARES[template - self._shares.start])}, share of request"
        else:
            group = label(self._templates.templates[template])
        return regret, f"{CANDIDATES[candidate]} by {group}"

    def parts(self, question: Question) -> list[str]:
        """Names of the parts on which the answer to this question rests, and which learning such a job changes."""
        keys = [key for _, key in self._templates.keys(question)]
        alone = [_SITE, _user(question.user), _named("kind", kind_key(question)), *self._failed.parts(question)]
        asked = self._requests.of(question) is not None
        if asked:
            keys += [key for key in share_keys(question) if key is not None]
        site: Key = (0, ())  # the largest value seen
        keys += [*first_keys(question, asked), *([] if site in keys else [site])]
        return [*alone, *[_named("group", key) for key in keys]]

    def changes(self) -> dict[str, Any]:
        """Name and state of each part that has changed since this was last asked, as values that JSON can carry."""
        found: dict[str, Any] = {_named("group", key): self._groups[key].state() for key in self._changed_groups}
        found |= self._failed.changes()
        found |= {_named("kind", key): self._kinds[key] for key in self._changed_kinds}
        found |= {_user(user): self._tournament.users[user].state() for user in self._changed_users}
        if self._changed_users:
            found[_SITE] = self._site_state()
        self._changed_groups.clear()
        self._changed_kinds.clear()
        self._changed_users.clear()
        return dict(sorted(found.items()))

    def load(self, parts: Mapping[str, Any]) -> None:
        """Take over parts as `changes` and `state` hand them out; ValueError for those of other templates."""
        self._last_look = None
        if _SITE in parts:  # says whether the others can be read
            self._load_site(parts[_SITE])
        for name, state in parts.items():
            kind, *what = json.loads(name)
            if kind == "group":
                self._groups[what[0], tuple(what[1:])] = Group.from_state(state)
            elif kind == "user":
                self._tournament.users[what[0]] = Ledger.from_state(state)
            elif kind == "failed":
                self._failed.load((what[0], what[1]), state)
            elif kind == "kind":
                self._kinds[what[0], tuple(what[1:])] = state

    def state(self) -> dict[str, Any]:
        """Every part by its name, as values that JSON can carry."""
        self._changed_groups.update(self._groups)
        found = self._failed.state()
        self._changed_kinds.update(self._kinds)
        self._changed_users.update(self._tournament.users)
        return dict(sorted((found | self.changes()).items()))

    @classmethod
    def from_state(
        cls,
        unit: str,
        parts: Mapping[str, Any],
        templates: Sequence[Template] = DEFAULT_TEMPLATES,
        coverage: float = 0.95,
        *,
        metric: str = "",
        objective: Objective = "cost",
        limit: Limit = "auto",
    ) -> Self:
        """The profile whose `state()` this was, exactly; ValueError if it was made by other templates or objective."""
        restored = cls(unit, templates, coverage, metric=metric, objective=objective, limit=limit)
        restored.load(parts)
        return restored

    def _learn_groups(self, keys: list[Key], value: float, hit: bool | None, known: int, adds: bool | None) -> None:
        learn_groups(self._groups, keys, value, hit, known, self._n, adds)
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

    def _level(self, key: Key) -> str:
        return self._templates.level(key) + (", share of request" if key[0] & SHARE else "")

    def _source(self, ticket: Ticket, value: float, weights: list[float]) -> tuple[int, Key, float]:
        """The most specific group that said `value`, whose candidate it was, the one of greatest weight, and the

        factor that turns what the group holds into the unit.
        """
        width = self._width
        for index, key in ticket.keys:
            candidates = range(index * width, (index + 1) * width)
            said = [i for i in candidates if ticket.forecasts[i] == value]
            if said:
                return max(said, key=weights.__getitem__), key, ticket.request if key[0] & SHARE else 1.0
        raise LookupError(f"no candidate said {value!r}")

    def _site_state(self) -> dict[str, Any]:
        return {
            "templates": [list(template) for template in self._templates.templates],
            "n": self._n,
            "ledger": self._tournament.site.state(),
            "shape": _SHAPE,
            "bounds": self._bounds.state(),
            "held": self._held.state(),
            "requests": [self._requests.asked, self._requests.beyond],
            "confidence": self._confidence.state(),
        }

    def _load_site(self, state: Mapping[str, Any]) -> None:
        if state.get("shape") != _SHAPE or state["bounds"]["objective"] != self._bounds.objective:
            raise ValueError("this was learned by another version or for another objective: learn the jobs again")
        templates = tuple(tuple(template) for template in state["templates"])
        if templates != self._templates.templates:
            raise ValueError("this was learned by other templates: learn the finished jobs anew")
        self._n = state["n"]
        self._tournament.site = Ledger.from_state(state["ledger"])
        self._bounds = Bounds.from_state(self._bounds.coverage, state["bounds"], of_time=self._of_time)
        self._held = Held.from_state(state["held"])
        self._requests.asked, self._requests.beyond = state["requests"]
        self._confidence = Confidence.from_state(state["confidence"])


def _named(kind: str, key: Key) -> str:
    return json.dumps([kind, key[0], *key[1]], separators=(",", ":"))


def _user(user: str | None) -> str:
    return json.dumps(["user", user], separators=(",", ":"))
