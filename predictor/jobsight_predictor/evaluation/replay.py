"""Replays a trace: every job is forecast before it is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats, Indices
from jobsight_predictor.evaluation.baselines import BASELINES
from jobsight_predictor.evaluation.jobs import Jobs, Protocol, in_time, learning_order
from jobsight_predictor.forecasters import FORECASTERS
from jobsight_predictor.forecasters.published import UnclippedExponential
from jobsight_predictor.profile import PendingForecast, Profile
from jobsight_predictor.series import DEFAULT_PARAMETERS, NEAR, RECENT, FiveParameters, make_five

UNCLIPPED = "exponential-unclipped"
"""The exponential forecast before clipping, as published."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Jobsight's answers for each job, arrays (n,), NaN without an answer."""

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
    """Replay one forecaster, or ``UNCLIPPED``, per group of jobs: forecasts (n,), NaN where there was none.

    ``parameters`` are for the published five.
    """
    forecasts = np.full(len(jobs), np.nan)
    five = {**make_five(parameters), UNCLIPPED: UnclippedExponential(parameters.alpha)}
    forecaster = five.get(name) or FORECASTERS[name]()
    for group in groups:
        order, known = learning_order(jobs, group, protocol)
        # One extra value at the end: its forecast follows all others.
        after = forecaster.replay(np.append(jobs.values[group][order], 0.0))
        forecasts[group] = after[known]
    return forecasts


def replay_jobsight(
    jobs: Jobs,
    protocol: Protocol,
    coverage: float = 0.95,
) -> Replayed:
    """Replay Jobsight: its answer for each job, at the start under that protocol, otherwise at submission."""
    first, again = replay_both(jobs, protocol, coverage)
    return again if protocol == "start" else first


def replay_both(
    jobs: Jobs,
    protocol: Protocol = "start",
    coverage: float = 0.95,
) -> tuple[Replayed, Replayed]:
    """Replay Jobsight's answers for each job at submission, and again at its start.

    One model answers twice and learns as in the server: groups once, votes and calibrations of bounds separately for
    submission and start, so the answers at the start do not change those at submission. A job that did not wait has the
    same answer twice. Under protocols without starts the second is NaN.
    """
    n = len(jobs)
    profile = Profile("", coverage, metric=jobs.metric)
    first, second = np.full((3, n), np.nan), np.full((3, n), np.nan)
    values, seconds = jobs.values.tolist(), jobs.seconds.tolist()
    submitted, started = jobs.submitted.tolist(), jobs.started.tolist()
    pending: dict[int, PendingForecast] = {}
    at_start: dict[int, PendingForecast] = {}
    for event, i in in_time(jobs, protocol):
        if event == "submit":
            pending[i] = profile.forecast_job(jobs.questions[i])
            continue
        if event == "start":
            has_waited = started[i] > submitted[i]
            at_start[i] = profile.forecast_job(jobs.questions[i], "start") if has_waited else pending[i]
            continue
        forecast, kept = pending.pop(i), at_start.pop(i, None)
        profile.learn(jobs.questions[i], values[i], forecast, seconds[i], at_start=kept)
        _store(first, i, forecast)
        if kept is not None:
            _store(second, i, kept)
    return Replayed(first[0], first[1], first[2], profile), Replayed(second[0], second[1], second[2], profile)


def _store(answers: Floats, i: int, forecast: PendingForecast) -> None:
    """Keep forecast, bound and probability, the rows of ``answers``, (3, n)."""
    if forecast.value is not None:
        answers[0, i], answers[2, i] = forecast.value, forecast.probability
    if forecast.bound is not None:
        answers[1, i] = forecast.bound


def replay_baseline(name: str, jobs: Jobs, users: Sequence[Indices], protocol: Protocol) -> Floats:
    """Replay a baseline per user: its reservation for each job, (n,), NaN without one."""
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
    """Return (PQM, recent PQM) of the user's history at each job's forecast, each (n,), NaN below two values."""
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
