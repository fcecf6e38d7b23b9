"""Learns from finished jobs, and forecasts the next one's use."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Protocol

from jobsight_predictor.forecasters.base import checked
from jobsight_predictor.question import MOMENTS, GroupKey, JobGroups, Limit, Moment, Objective, Question
from jobsight_predictor.series import NEAR

from .answer import JobForecast, MeanError, candidate_name, explain
from .calibration import NEARLY_ALL, Calibration, ExpertWeights, HitProbability, NearLimit
from .facts import FactsHistories, FactsHistory
from .forecast import AtStart, FinishedJob, PendingForecast, SimilarJobs, limit_of, similar_jobs, weigh
from .groups import SHARES, Burst, Clock, Group, Groups, JobKeys, Part, Parts, Stored, job_keys
from .prospect import Shortfall, Shortfalls
from .reserve import Bounds, RequestedLimits
from .running import Outlook

QUESTIONS_AT_MOST = 200
"""Cached forecasts; cleared whenever the model learns."""

_SITE_KEY = '["site"]'
_SHAPE = 23
"""Version of the stored state; state of another version is retrained."""


class Submodel(Protocol):
    """A submodel that learns from finished jobs."""

    def score(self, job: FinishedJob) -> None: ...


class Profile:
    """Learns from finished jobs of one metric on one cluster; forecasts the next one's use.

    Forecasts are scored as of submission, when the user had to decide: keep the result of ``forecast_job`` and pass it
    to ``learn`` when the job has ended. In a burst of a thousand jobs it differs much from a forecast after the first
    ones have ended. Without it, the job is scored on the forecast at its end.

    A job that waited may be forecast again as it starts. These forecasts have separate weights and calibration; the
    rest of the model learns from those at submission.

    State is stored by key: the few ``state_keys`` of a question are enough to answer it and to learn such a job.
    """

    def __init__(
        self,
        unit: str,
        coverage: float = 0.95,
        *,
        metric: str = "",
        objective: Objective = "coverage",
        limit: Limit = "auto",
    ) -> None:
        """``metric``: users may request memory and runtime; ``limit``: whether these requests are enforced."""
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
        self.bounds = Bounds(coverage, objective, of_time=self.of_time)
        self.requests = RequestedLimits(metric, self.bounds, limit)
        self.hit_probability = HitProbability()
        self.near_limit = NearLimit()
        self.calibrations = {moment: Calibration(coverage, moment) for moment in MOMENTS}
        # In order of learning: requests use bounds that have learned.
        self._learners: tuple[Submodel, ...] = (
            self.experts, self.bounds, self.hit_probability, *self.calibrations.values(), self.near_limit, self.groups,
            self.requests, self.shortfalls,
        )  # fmt: skip
        self._parts: dict[str, Parts[Any]] = {
            "user": self.experts.users, "kind": self.bursts, "shortfall": self.shortfalls, "facts": self.facts,
            "group": self.groups,
        }  # fmt: skip
        self._of_site: dict[str, Stored] = {
            "clock": self.clock, "losses": self.experts, "mean_job": self.bounds.mean_job,
            **{f"calibration at {moment}": calibration for moment, calibration in self.calibrations.items()},
            "requests": self.requests, "hit_probability": self.hit_probability, "near_limit": self.near_limit,
        }  # fmt: skip
        self._is_site_changed = False
        # Cleared whenever something is learned.
        self._latest: dict[Question, tuple[SimilarJobs, SimilarJobs, dict[tuple[Moment, bool], PendingForecast]]] = {}

    @property
    def are_limits(self) -> bool:
        """Return whether requests are enforced: hardly any job has used more than it requested."""
        return self.requests.are_limits

    def keys(self, question: Question) -> JobKeys:
        """Return the keys of similar jobs."""
        return job_keys(self.job_groups, question, self.requests.of(question))

    def answer(self, question: Question, moment: Moment = "submission") -> JobForecast:
        """Answer with the job's expected use, its reservation, their probabilities and basis. Changes nothing."""
        forecast = self.forecast_job(question, moment)
        return explain(self, forecast, self.need_of(question, forecast, moment), moment)

    def need_of(self, question: Question, forecast: PendingForecast, moment: Moment = "submission") -> PendingForecast:
        """Return this current ``forecast`` without the limit of the job's request. Changes nothing."""
        return self.forecast_job(question, moment, cut=False) if forecast.limit < inf else forecast

    def forecast_job(self, question: Question, moment: Moment = "submission", *, cut: bool = True) -> PendingForecast:
        """Forecast the job; score the result when it has ended. Changes nothing.

        ``cut``: limit it to the request, where requests are limits.

        Jobs of a burst with the same question share one forecast until something is learned. A forecast at start shares
        the parts that do not depend on the moment.
        """
        found = self._latest.get(question)
        if found is None:
            if len(self._latest) >= QUESTIONS_AT_MOST:
                self._latest.clear()
            whole = similar_jobs(self, question)
            limit = limit_of(self, whole.keys)
            found = self._latest[question] = whole, whole if limit is None else whole.held_to(limit), {}
        whole, held, forecasts = found
        similar = held if cut else whole
        forecast = forecasts.get((moment, similar is whole))
        if forecast is None:
            forecast = forecasts[moment, similar is whole] = weigh(self, question, similar, moment)
        return forecast

    def outlook(self, question: Question) -> Outlook:
        """Return the distribution of the job's total need, for when it runs. Changes nothing."""
        forecast = self.forecast_job(question, "start")
        return Outlook.of(forecast.prospect, self.near_limit.correction.shifts, of_time=self.of_time)

    def mean_error(self, user: str | None) -> MeanError | None:
        """Compare the answers with the user's best single candidate in hindsight; None for a user without jobs."""
        losses = self.experts.users.get(self.keys(Question(user)).user)
        if losses is None:
            return None
        accuracies = [accuracy for of_group in losses.accuracies for accuracy in of_group]
        best = max(range(len(accuracies)), key=accuracies.__getitem__)
        of_best = losses.jobs - accuracies[best]
        return MeanError(losses.jobs, losses.answered / losses.jobs, of_best / losses.jobs, candidate_name(self, best))

    def learn(
        self,
        question: Question,
        value: float,
        forecast: PendingForecast | None = None,
        seconds: float | None = None,
        *,
        lower_bound: bool = False,
        at: float | None = None,
        at_start: AtStart | None = None,
    ) -> None:
        """Score the forecast of the job, then learn its use, in ``seconds`` if known.

        ``at_start``: the forecast as it started; None: it did not wait, and ``forecast`` counts for both.
        ``lower_bound``: it needed more than ``value``, as it was killed or measured in part. ``at``: when it ended, in
        seconds, UTC; groups without jobs for a year are removed. Without it, none are.

        Raises:
            ValueError: the value, which is named, is not a measurement; nothing changes then.
        """
        checked(value)
        self._latest.clear()
        self._is_site_changed = True
        if at is not None:
            self._advance(at)
        if lower_bound:
            self._learn_lower_bound(question, value, forecast, at_start)
            return
        if forecast is None:
            forecast = self.forecast_job(question)
        self._latest.clear()
        self.n += 1
        keys = forecast.keys or self.keys(question)  # none with a forecast stored meanwhile
        burst = self.bursts.to_learn(keys.application).add(forecast.known, self.n)
        hit = None if forecast.value is None else abs(forecast.value - value) <= NEAR * value
        ran_s = seconds or question.requested_time_s or 1.0
        job = FinishedJob(question, value, ran_s, keys, forecast, at_start or forecast, hit, self.n, *burst)
        for submodel in self._learners:
            submodel.score(job)
        if question.facts:
            self.facts.score(job)

    def _learn_lower_bound(
        self, question: Question, value: float, forecast: PendingForecast | None, at_start: AtStart | None
    ) -> None:
        expected = self.forecast_job(question).value
        self._latest.clear()
        if expected is None or value >= expected:  # otherwise uninformative: such jobs need more anyway
            self.shortfalls.to_learn(self.keys(question).application).add(value)
        if forecast is not None:
            again = at_start or forecast
            self.near_limit.learn(self.requests.of(question), value, again.out_near_limit, NEARLY_ALL, 1.0)
            self.calibrations["submission"].score_lower_bound(forecast, value)
            self.calibrations["start"].score_lower_bound(again, value)

    def _advance(self, at: float) -> None:
        """Note the end of a job; drop expired parts."""
        has_moved = self.clock.advance(at)
        if self.groups.period != self.clock.period:
            for parts in self._parts.values():
                parts.period = self.clock.period
                if has_moved:
                    parts.drop_old()

    def too_old(self) -> int | None:
        """Return the current period if it began since the last call, else None.

        The caller, which stores ``changed_state``, deletes the expired parts.
        """
        has_moved, self.clock.has_moved = self.clock.has_moved, False
        return self.clock.period if has_moved else None

    def state_keys(self, question: Question) -> list[str]:
        """Return the keys of the state that this question needs, and that learning such a job changes."""
        keys = self.keys(question)
        needed: list[tuple[Parts[Any], list[GroupKey]]] = [
            (self.experts.users, [keys.user]),
            (self.bursts, [keys.application]),
            (self.shortfalls, [keys.application, keys.user]),
            (self.facts, [keys.application] if question.facts else []),
            (self.groups, [*[key for _, key in (*keys.values, *keys.shares)], *keys.first_jobs]),
        ]
        named = [parts.state_key(key) for parts, of_job in needed for key in dict.fromkeys(of_job)]
        return [_SITE_KEY, *named]

    def changed_state(self) -> dict[str, Part]:
        """Return the state changed since the last call, by key."""
        found: dict[str, Part] = {}
        for parts in self._parts.values():
            found |= parts.take_changed()
        if self._is_site_changed:
            site = {name: kept.state() for name, kept in self._of_site.items()}
            header = {"shape": _SHAPE, "objective": self.bounds.objective, "n": self.n}
            found[_SITE_KEY] = Part(header | site, None)
        self._is_site_changed = False
        return dict(sorted(found.items()))

    def state(self) -> dict[str, Part]:
        """Return all state, by key."""
        for parts in self._parts.values():
            parts.changed.update(parts)
        self._is_site_changed |= self.n > 0
        return self.changed_state()

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Load parts (state, until) from ``changed_state`` or ``state``, except expired ones.

        Raises:
            ValueError: it has another objective or another version.
        """
        self._latest.clear()
        if _SITE_KEY in state:  # first: decides whether the others can be read
            self._load_site(state[_SITE_KEY][0])
        for name, (piece, until) in state.items():
            kind, *key = json.loads(name)
            if kind in self._parts and until >= self.clock.period:
                self._parts[kind].load((key[0], tuple(key[1:])), piece, until)

    def _load_site(self, site: Mapping[str, Any]) -> None:
        if site.get("shape") != _SHAPE or site["objective"] != self.bounds.objective:
            raise ValueError("this state comes from another version or objective: retrain on the finished jobs")
        self.n = site["n"]
        for name, kept in self._of_site.items():
            kept.load(site[name])
        for parts in self._parts.values():
            parts.period = self.clock.period
