"""A backlog is learned in rounds, and the model written once for many of them: whatever happens in between."""

from __future__ import annotations

import random
from typing import Any

import pytest
from sqlalchemy import delete, update

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile.groups import PERIOD_S, state_key
from jobsight_server.forecasts import AnswerReader, ForecastConfig, ForecastRequest
from jobsight_server.forecasts.events import Observation, last_event, read_learned_until
from jobsight_server.forecasts.rounds import catch_up, lock_learning, rebuild, rebuild_if_outdated, report
from jobsight_server.forecasts.stored_model import StateKey
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.storage.schema import jobs, learned_until, profiles, series


class Killed(BaseException):
    """Ends a process between two commits."""


def killed_after(site: Any, rounds: int, limit: int) -> None:
    """Learn these many rounds of a backlog, and end without writing the model."""
    left = rounds

    def clock() -> float:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return 1e9

    with pytest.raises(Killed):
        profile_finished(site.engine, 0.0, clock, LearningOptions(limit=limit))


def lags(site: Any) -> bool:
    with site.engine.connect() as connection:
        return read_learned_until(connection) != last_event(connection)


def test_what_is_withdrawn_during_a_backlog_ends_it_and_the_rest_is_retrained(site: Any, plan: Any) -> None:
    for job in plan(7, 60):
        site.run(**job)
    profile_finished(site.engine, 0.0, lambda: 1e9, LearningOptions(limit=30))
    for job in plan(8, 60):
        site.run(**{**job, "job_id": f"later {job['job_id']}"})
    rounds = 0

    def clock() -> float:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            with site.engine.begin() as connection:  # as `jobsight import --forget` does
                connection.execute(delete(jobs).where(jobs.c.id <= 20))
                connection.execute(delete(series))
                connection.execute(delete(learned_until))
        return 1e9

    with pytest.raises(ValueError, match="retrain on all jobs"):
        profile_finished(site.engine, 0.0, clock, LearningOptions(limit=10))
    assert rebuild_if_outdated(site.engine, ForecastConfig())
    assert profile_finished(site.engine, 0.0, lambda: 1e9, LearningOptions(limit=10)) > 0
    rows = site.model()
    assert {row[3] for row in rows[0]} != {0}
    rebuild(site.engine)
    assert site.model() == rows


def ids_of_kind(site: Any, job: Any) -> list[int]:
    """Ids under which the model of each metric has what it knows of the job's application."""
    found = []
    for metric in METRICS:
        profile = ForecastConfig().profile(metric)
        key = state_key(profile.bursts.name, profile.keys(site.question(job)).application)
        found.append(StateKey("alpha", metric, key).id)
    return found


@pytest.mark.exhaustive
@pytest.mark.storage
def test_what_nothing_was_learned_of_for_a_year_goes_however_it_was_learned(site: Any, plan: Any) -> None:
    """Three years, in rounds as a server learns them, in one import, and retrained."""
    planned = sorted(plan(11, 240, failing=True), key=lambda job: job["end"])
    for number, job in enumerate(planned):
        later = (300.0 + number / 6.0) * PERIOD_S
        times = {name: job[name] + later for name in ("submitted", "start", "end")}
        site.run(**{**job, **times, "name": f"app{chr(97 + number // 20)}"})
    for _ in range(4):
        killed_after(site, 2, limit=23)
        with site.engine.begin() as connection:
            lock_learning(connection)
            catch_up(connection, ForecastConfig())
    profile_finished(site.engine, 0.0, lambda: 1e9, LearningOptions(limit=7))
    rows = site.model()
    ids = {row[0] for row in rows[1]}
    of_kinds = {
        name: {number for job in planned for number in ids_of_kind(site, {**job, "name": name})} & ids
        for name in (f"app{chr(97 + number)}" for number in range(12))
    }
    kept = {name for name, found in of_kinds.items() if found}
    assert kept == {"appi", "appj", "appk", "appl"}, "the last 13 months of 40, six jobs a month"
    rebuild(site.engine)
    assert site.model() == rows
    with site.engine.begin() as connection:
        connection.execute(update(jobs).values(profiled=False, forecast_seq=None, start_seq=None))
        connection.execute(profiles.delete())
    site.forget_model()
    profile_finished(site.engine, 0.0, lambda: 1e9)
    assert site.model()[1] == rows[1]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.storage
def test_whoever_learns_or_is_killed_the_model_is_that_of_the_stored_rows(site: Any, plan: Any, seed: int) -> None:
    """Two processes take turns at one backlog, each with what it holds in memory; some are killed, some get reports."""
    rng = random.Random(seed)
    planned = plan(seed, 200, failing=True)
    reader = AnswerReader(ForecastConfig())
    depth = 0

    def between_rounds() -> float:
        nonlocal depth
        for _ in range(rng.randrange(12)):
            if planned:
                site.run(**planned.pop())
        chance = rng.random()
        if chance < 0.1:
            raise Killed
        if chance < 0.3 and depth < 2:
            learn()
        elif chance < 0.4:
            job = rng.choice(plan(seed, 50))
            request = ForecastRequest("alpha", site.question(job), "memory")
            with site.engine.begin() as connection:
                report(connection, reader, request, Observation(rng.choice([1e9, 2e9])), f"{rng.random()}.r", 5.0)
        return 1e9

    def learn() -> None:
        nonlocal depth
        depth += 1
        try:
            profile_finished(site.engine, 0.0, between_rounds, LearningOptions(limit=rng.choice([3, 20])))
        except Killed:
            pass
        finally:
            depth -= 1

    while planned:
        site.run(**planned.pop())
        learn()
    profile_finished(site.engine, 0.0, lambda: 1e9)
    assert not lags(site)
    rows = site.model()
    rebuild(site.engine)
    assert site.model() == rows
