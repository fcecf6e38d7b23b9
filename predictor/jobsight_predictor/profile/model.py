"""Everything known about one metric on one cluster, in pieces that a database can store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import exp, log
from typing import TYPE_CHECKING, Any, Protocol, Self

from jobsight_predictor.forecasters import LARGEST
from jobsight_predictor.question import MOMENTS, GroupKey, JobGroups, Limit, Moment, Objective, Question

from .facts import FactsHistories
from .groups import CANDIDATES, SHARES, Bursts, Clock, Groups, JobKeys, Part, Parts, job_keys
from .probability import SCARCE, TENTHS, Correction, ExpertLosses, ExpertWeights, FadedLosses, HitProbability
from .prospect import NEAR_LIMIT, Shortfalls
from .reserve import Bounds, RequestedLimits

if TYPE_CHECKING:
    from .forecast import FinishedJob

FIRST_PRICE = 1.5  # log price; where the price starts for USUAL failures
STEEPNESS = 2.0  # log price; how much higher it starts for each e-th of these failures
LOWEST = -4.0  # log price; lower limit: below it, the price has no effect and takes long to recover
HIGHEST = 8.0  # log price; upper limit
PACE = 0.008  # log price a failure; how fast the price follows failures: slowly, since they come in bursts
HASTE = 5.7  # factor; the first jobs move the price up to 1 + HASTE times faster
SETTLED = 200.0  # jobs; after this many, half of the haste is gone
SURPLUS = 5.0  # jobs; the price falls faster while more failures than this are missing
FALL = 5.0  # factor; how much faster
USUAL = 0.05  # share; of jobs that fail, to which FIRST_PRICE applies


class FailurePrice:
    """A price per failed job in units of the site's mean job.

    It rises a little with every failure and falls with every success, so that in the long run failures are the chosen
    share, spent where waiting for certainty would waste the most.
    """

    def __init__(self, coverage: float) -> None:
        self._coverage = coverage
        self._log_price = _first_price(coverage)
        self._reserved = 0
        self._covered = 0

    def mean_jobs(self) -> float:
        """The price, in mean jobs."""
        return exp(self._log_price)

    def score(self, *, failed: bool) -> None:
        """Learn whether a reservation failed."""
        self._reserved += 1
        self._covered += not failed
        pace = PACE * (1.0 + HASTE / (1.0 + self._reserved / SETTLED))
        if self._coverage * self._reserved - self._covered < -SURPLUS:
            pace *= FALL
        self._log_price += pace * (failed - (1.0 - self._coverage))
        self._log_price = min(HIGHEST, max(LOWEST, self._log_price))

    def state(self) -> list[float]:
        """The whole state, as JSON values."""
        return [self._coverage, self._log_price, self._reserved, self._covered]

    def load(self, state: Sequence[float]) -> None:
        """Take over ``state()``; if the coverage has been changed since, with a price for the new one."""
        coverage, self._log_price, reserved, covered = state
        if coverage != self._coverage:
            self._log_price += _first_price(self._coverage) - _first_price(coverage)
        self._reserved, self._covered = int(reserved), int(covered)


def _first_price(coverage: float) -> float:
    return FIRST_PRICE + STEEPNESS * log(USUAL / (1.0 - coverage))


class Held:
    """Both coverages of the jobs that had a bound.

    Bounds that let expensive jobs fail look good by jobs and bad by value x seconds, and both matter.
    """

    def __init__(self) -> None:
        self.jobs = 0
        self.held = 0
        self.used = 0.0  # value x seconds
        self.used_held = 0.0

    def score(self, bound: float | None, value: float, seconds: float) -> None:
        """Count what a job used for ``seconds``; one without a bound does not count."""
        if bound is None:
            return
        used = min(value * seconds, LARGEST)
        self.jobs += 1
        self.used = min(self.used + used, LARGEST)
        if value <= bound:
            self.held += 1
            self.used_held = min(self.used_held + used, LARGEST)

    @property
    def coverage(self) -> float | None:
        """Share of jobs within their bound; None before the first."""
        return self.held / self.jobs if self.jobs else None

    @property
    def cost_coverage(self) -> float | None:
        """The same weighted by value x seconds; None while nothing was used."""
        return self.used_held / self.used if self.used else None

    def state(self) -> list[Any]:
        """The whole state, as JSON values."""
        return [self.jobs, self.held, self.used, self.used_held]

    @classmethod
    def from_state(cls, state: list[Any]) -> Self:
        """Restores exactly the one whose ``state()`` this was."""
        restored = cls()
        restored.jobs, restored.held, restored.used, restored.used_held = state
        return restored


class Reserved(Protocol):
    """What was recommended: the bound, and the probability of needing more by the distribution alone; or None."""

    @property
    def bound(self) -> float | None: ...

    @property
    def stated_exceed(self) -> float | None: ...


class Calibration:
    """The price of failures, the correction of probabilities and the shares held, of answers at one moment.

    A job's start has a calibration of its own: what was learned while the job waited makes answers better, and the
    price that held the chosen share at submission would hold more than that. Every job is judged at both moments, so
    neither has less evidence than the other.
    """

    def __init__(self, coverage: float, moment: Moment) -> None:
        self._moment = moment
        self.price = FailurePrice(coverage)
        self.exceeding = Correction(SCARCE)
        self.held = Held()

    def score(self, job: FinishedJob) -> None:
        """Learn what the job used, beside what was recommended at this moment."""
        reserved: Reserved = job.forecast if self._moment == "submission" else job.at_start
        if reserved.bound is None:
            return
        failed = job.value > reserved.bound
        self.price.score(failed=failed)
        self.held.score(reserved.bound, job.value, job.seconds)
        if reserved.stated_exceed is not None:
            self.exceeding.score(reserved.stated_exceed, failed, job.weight)

    def score_lower_bound(self, reserved: Reserved, value: float) -> None:
        """Learn that a job needed more than ``value``: of a bound above that it is not known whether it holds."""
        if reserved.bound is not None and value >= reserved.bound:
            self.price.score(failed=True)
            if reserved.stated_exceed is not None:
                self.exceeding.score(reserved.stated_exceed, True, 1.0)

    def state(self) -> list[Any]:
        """The whole state, as JSON values."""
        return [self.price.state(), self.exceeding.state(), self.held.state()]

    def load(self, state: Sequence[Any]) -> None:
        """Take over ``state()``."""
        price, exceeding, held = state
        self.price.load(price)
        self.exceeding.load(exceeding)
        self.held = Held.from_state(held)


NEARLY_ALL = 0.97  # share; of its limit that a job was last seen to hold that was killed for want of more


class NearLimit:
    """Corrects the stated share of jobs that run out, of those that came near their limit."""

    def __init__(self) -> None:
        self.correction = Correction(TENTHS)

    def score(self, job: FinishedJob) -> None:
        """Learn whether a job that came near its limit ran out of it."""
        self.learn(job.keys.request, job.value, job.at_start.out_near_limit, 1.0, job.weight)

    def learn(self, request: float | None, value: float, stated: float | None, all_of: float, weight: float) -> None:
        """Learn from a job that used ``value``; from the share ``all_of`` of its request on, it ran out."""
        if request is not None and stated is not None and value >= NEAR_LIMIT * request:
            self.correction.score(stated, value >= all_of * request, weight)


_encode = json.JSONEncoder(separators=(",", ":")).encode
_SITE_KEY = '["site"]'
_SHAPE = 17
"""Version of the stored state; state of another version is retrained."""


class Learner(Protocol):
    """A submodel that learns from finished jobs."""

    def score(self, job: FinishedJob) -> None: ...


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
        self.clock = Clock()
        self.groups = Groups()
        self.bursts = Bursts()
        self.facts = FactsHistories()
        self.shortfalls = Shortfalls()
        self.experts = ExpertWeights(self.size)
        self.bounds = Bounds(coverage, objective, of_time=self.of_time)
        self.requests = RequestedLimits(metric, self.bounds, limit)
        self.hit_probability = HitProbability()
        self.near_limit = NearLimit()
        self.calibrations: dict[Moment, Calibration] = {moment: Calibration(coverage, moment) for moment in MOMENTS}
        self.is_site_changed = False

    @property
    def learners(self) -> tuple[Learner, ...]:
        """The submodels, in the order in which they learn from a job: requests go by bounds that have."""
        return (
            self.experts, self.bounds, self.hit_probability, *self.calibrations.values(), self.near_limit, self.groups,
            self.requests, self.shortfalls, self.facts,
        )  # fmt: skip

    def keys(self, question: Question) -> JobKeys:
        """The keys under which jobs similar to this one are kept."""
        return job_keys(self.job_groups, question, self.requests.of(question))

    def state_keys(self, question: Question) -> list[str]:
        """Keys of the state that the answer to this question needs, and that learning such a job changes."""
        keys = self.keys(question)
        alone = [_SITE_KEY, _user(question.user), _named("kind", keys.application)]
        alone += self.shortfalls.state_keys(question)
        if question.facts:
            alone.append(_named("facts", keys.application))
        groups = [*[key for _, key in (*keys.groups, *keys.shares)], *keys.first_jobs]
        return [*alone, *[_named("group", key) for key in groups]]

    @property
    def _parts(self) -> dict[str, Parts[Any]]:
        """What is stored by group, under the name that begins its keys."""
        return {"group": self.groups, "kind": self.bursts, "facts": self.facts}

    def advance(self, at: float) -> None:
        """Take note of the end of a job that is to be learned; drop what nothing was learned of for long."""
        self.is_site_changed = True
        has_moved = self.clock.advance(at)
        self._set_period()
        if has_moved:
            self.shortfalls.drop_old()
            for parts in self._parts.values():
                parts.drop_old()

    def _set_period(self) -> None:
        self.shortfalls.period = self.clock.period
        for parts in self._parts.values():
            parts.period = self.clock.period

    def changed_state(self) -> dict[str, Part]:
        """The state changed since the last call, by key."""
        found = self.shortfalls.changed_state()
        for name, parts in self._parts.items():
            found |= {_named(name, key): part for key, part in parts.take_changed()}
        found |= {_user(user): Part(self.experts.users[user].state(), None) for user in self.experts.changed}
        if self.experts.changed or self.is_site_changed:
            found[_SITE_KEY] = Part(self._site_state(), None)
        self.experts.changed.clear()
        self.is_site_changed = False
        return dict(sorted(found.items()))

    def state(self) -> dict[str, Part]:
        """All state, by key."""
        for parts in self._parts.values():
            parts.changed.update(parts)
        self.experts.changed.update(self.experts.users)
        return dict(sorted((self.shortfalls.state() | self.changed_state()).items()))

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Load parts from ``changed_state`` or ``state``, but those that are too old by now.

        Raises:
            ValueError: it has other job groups, another objective or another version.
        """
        if _SITE_KEY in state:  # decides whether the others can be read
            self._load_site(state[_SITE_KEY][0])
        for key, (piece, until) in state.items():
            name, *of = json.loads(key)
            if name == "user":
                self.experts.users[of[0]] = ExpertLosses.from_state(piece)
            elif name == "site" or until < self.clock.period:
                continue
            elif name == "shortfall":
                self.shortfalls.load((of[0], of[1]), piece, until)
            else:
                self._parts[name].load((of[0], tuple(of[1:])), piece, until)

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
            "near_limit": self.near_limit.correction.state(),
        }

    def _load_site(self, state: Mapping[str, Any]) -> None:
        if state.get("shape") != _SHAPE or state["objective"] != self.bounds.objective:
            raise ValueError("this state comes from another version or objective: retrain on the finished jobs")
        job_groups = tuple(tuple(job_group) for job_group in state["templates"])
        if job_groups != self.job_groups.groups:
            raise ValueError("this state was learned with other job groups: retrain on the finished jobs")
        self.n = state["n"]
        self.clock.load(state["clock"])
        self._set_period()
        for moment, losses in zip(MOMENTS, state["losses"], strict=True):
            self.experts.site[moment] = FadedLosses.from_state(losses)
        self.bounds.mean_job.load(state["mean_job"])
        for moment, calibration in zip(MOMENTS, state["calibrations"], strict=True):
            self.calibrations[moment].load(calibration)
        self.requests.load(state["requests"])
        self.hit_probability = HitProbability.from_state(state["hit_probability"])
        self.near_limit.correction.load(state["near_limit"])


def _named(name: str, key: GroupKey) -> str:
    return _encode([name, key[0], *key[1]])


def _user(user: str | None) -> str:
    return _encode(["user", user])
