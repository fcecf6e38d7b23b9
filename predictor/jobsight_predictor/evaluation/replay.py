"""The worth of forecasts and bounds on a trace: every job is forecast before it is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.forecasters import FORECASTERS, Floats, UnclippedExponential
from jobsight_predictor.forecasters.parameters import DEFAULT_PARAMETERS, FiveParameters, make_five
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import AtStart, PendingForecast
from jobsight_predictor.question import Objective
from jobsight_predictor.series import NEAR, RECENT

from .baselines import BASELINES
from .jobs import Indices, Jobs, Protocol, in_time, learning_order

UNCLIPPED = "exponential-unclipped"
"""The exponential forecast before clipping, as published."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Jobsight's answers for each job, arrays (n,), NaN where it had none."""

    forecasts: Floats
    bounds: Floats
    probabilities: Floats
    profile: Profile


def replay_forecaster(
    name: str,
    jobs: Jobs,
    groups: Sequence[Indices],
    protocol: Protocol,
    *,
    parameters: FiveParameters = DEFAULT_PARAMETERS,
) -> Floats:
    """Forecasts of one forecaster, or of ``UNCLIPPED``, per group of jobs, (n,), NaN where there was none.

    ``parameters`` are those of the five.
    """
    forecasts = np.full(len(jobs), np.nan)
    five = {**make_five(parameters), UNCLIPPED: UnclippedExponential(parameters.alpha)}
    forecaster = five.get(name) or FORECASTERS[name]()
    for group in groups:
        order, known = learning_order(jobs, group, protocol)
        # One extra value at the end: its forecast is the one after all were learned.
        after = forecaster.replay(np.append(jobs.values[group][order], 0.0))
        forecasts[group] = after[known]
    return forecasts


def replay_jobsight(
    jobs: Jobs,
    protocol: Protocol,
    coverage: float = 0.95,
    objective: Objective = "coverage",
) -> Replayed:
    """Return Jobsight's answer for each job: at its start under that protocol, otherwise at its submission."""
    first, again = replay_both(jobs, protocol, coverage, objective)
    return again if protocol == "start" else first


def replay_both(
    jobs: Jobs,
    protocol: Protocol = "start",
    coverage: float = 0.95,
    objective: Objective = "coverage",
) -> tuple[Replayed, Replayed]:
    """Return Jobsight's answers for each job at its submission, and again at its start.

    One model answers twice, and learns as the server's does: groups once; votes and calibrations of bounds by the
    answers at either moment, so asking again changes nothing of the first. A job that did not wait has the same answer
    twice. The second is NaN throughout under protocols without starts.
    """
    n = len(jobs)
    profile = Profile("", coverage, metric=jobs.metric, objective=objective)
    said, said_again = np.full((3, n), np.nan), np.full((3, n), np.nan)
    values, seconds = jobs.values.tolist(), jobs.seconds.tolist()
    submitted, started = jobs.submitted.tolist(), jobs.started.tolist()
    pending: dict[int, PendingForecast] = {}
    at_start: dict[int, AtStart] = {}
    for event, i in in_time(jobs, protocol):
        if event == "submit":
            pending[i] = profile.forecast_job(jobs.questions[i])
            continue
        if event == "start":
            has_waited = started[i] > submitted[i]
            again = profile.forecast_job(jobs.questions[i], "start") if has_waited else pending[i]
            at_start[i] = AtStart.of(again)
            continue
        forecast, kept = pending.pop(i), at_start.pop(i, None)
        profile.learn(jobs.questions[i], values[i], forecast, seconds[i], at_start=kept)
        _note(said, i, forecast)
        if kept is not None:
            _note(said_again, i, kept)
    return Replayed(said[0], said[1], said[2], profile), Replayed(said_again[0], said_again[1], said_again[2], profile)


def _note(said: Floats, i: int, forecast: PendingForecast | AtStart) -> None:
    """Keep forecast, bound and probability, the rows of ``said``, (3, n)."""
    if forecast.value is not None:
        said[0, i], said[2, i] = forecast.value, forecast.probability
    if forecast.bound is not None:
        said[1, i] = forecast.bound


def replay_baseline(name: str, jobs: Jobs, users: Sequence[Indices], protocol: Protocol) -> Floats:
    """Return a baseline's reservation for each job, (n,), NaN without an answer; per user."""
    reserved = np.full(len(jobs), np.nan)
    for group in users:
        order, known = learning_order(jobs, group, protocol)
        baseline = BASELINES[name]()
        values, seconds = jobs.values[group][order].tolist(), jobs.seconds[group][order].tolist()
        answers = np.full(len(group) + 1, np.nan)
        for k in range(len(group) + 1):
            answer = baseline.reserve()
            answers[k] = np.nan if answer is None else answer
            if k < len(group):
                baseline.learn(values[k], seconds[k])
        reserved[group] = answers[known]
    return reserved


def pqm_when_asked(jobs: Jobs, users: Sequence[Indices], protocol: Protocol) -> tuple[Floats, Floats]:
    """(PQM, recent PQM) of its user's history when each job was asked for, each (n,), NaN below two values."""
    whole, recent = np.full(len(jobs), np.nan), np.full(len(jobs), np.nan)
    for group in users:
        order, known = learning_order(jobs, group, protocol)
        values = jobs.values[group][order]
        near = _near(values, values[0])
        shares = np.full((2, len(group) + 1), np.nan)
        shares[0, 2:] = (np.cumsum(near) / np.arange(1, len(group) + 1))[1:]
        for k in range(2, len(group) + 1):
            last = values[max(0, k - RECENT) : k]
            shares[1, k] = _near(last, last[-1]).mean()
        whole[group], recent[group] = shares[0, known], shares[1, known]
    return whole, recent


def final_pqm(jobs: Jobs, user: Indices, protocol: Protocol) -> float:
    order = np.argsort((jobs.submitted if protocol == "submission" else jobs.ended)[user], kind="stable")
    values = jobs.values[user][order]
    return float(_near(values, values[0]).mean())


def _near(values: Floats, reference: float) -> NDArray[np.bool_]:
    near: NDArray[np.bool_] = np.abs(values - reference) < NEAR * reference if reference else values == 0.0
    return near
