"""Learning in rounds: forecasts stay as of submission, and learning again gives the same rows."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from sqlalchemy import update
from tests import make

from jobsight_predictor.profile import Profile
from jobsight_server.forecasts.request import job_question
from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.forecasts.stored_model import StateKey, state_of, stored_states
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.storage.schema import jobs, pending_at_start, pending_forecasts, profiles


def test_what_ended_while_a_job_waited_counts_at_its_start_and_not_before(site: Any) -> None:
    """Seen live, each start before the next end, or read from a log afterwards: the rows are the same."""
    known = [(f"{i}.s", 10.0 * i, 10.0 * i + 5.0) for i in range(1, 7)]
    longer = [(f"{i}.s", 100.0 * i, 100.0 * i + 80.0) for i in range(11, 31)]
    names = ("forecast", "start_forecast", "start_probability")
    for job_id, start, end in known:
        site.run(job_id, start, end, submitted=start, name="solver")
    waits = site.run("9.s", math.inf, None, submitted=100.0, name="solver", state="queued")
    for job_id, start, end in longer:
        site.run(job_id, start, end, submitted=start, name="solver")
        profile_finished(site.engine, 0.0, lambda: 1e9)
        assert site.dump(pending_at_start) == []
    make.execute(site.engine, update(jobs).where(jobs.c.id == waits).values(state="running", start=3500.0))
    site.run("31.s", 3600.0, 3680.0, submitted=3600.0, name="solver")
    profile_finished(site.engine, 0.0, lambda: 1e9)
    assert {row[:2] for row in site.dump(pending_at_start)} >= {(waits, "runtime")}
    rows = site.model()
    rebuild(site.engine)
    assert site.model() == rows
    make.execute(site.engine, update(jobs).where(jobs.c.id == waits).values(state="ended", end=3700.0))
    profile_finished(site.engine, 0.0, lambda: 1e9)
    live = {name: getattr(site.profile(waits)["runtime"], name) for name in names}
    assert (live["forecast"], live["start_forecast"]) == pytest.approx((5.0, 80.0), rel=0.2)
    assert site.dump(pending_at_start) == []

    for job_id, start, end in [*known, *longer, ("31.s", 3600.0, 3680.0)]:
        site.run(job_id, start, end, submitted=start, name="solver", cluster="beta")
    imported = site.run("9.s", 3500.0, 3700.0, submitted=100.0, name="solver", cluster="beta")
    profile_finished(site.engine, 0.0, lambda: 1e9)
    assert {name: getattr(site.profile(imported)["runtime"], name) for name in names} == live


@pytest.mark.storage
def test_pending_forecasts_of_runs_that_never_end_go(site: Any) -> None:
    site.run("1.s", 0, None, submitted=0.0)
    gone = site.run("2.s", 0, None, submitted=0.0)
    site.run("3.s", 5, 100, submitted=5.0)
    profile_finished(site.engine, 0.0, lambda: 1e9)
    assert {row[0] for row in site.dump(pending_forecasts)} == {1, 2}
    make.execute(site.engine, update(jobs).where(jobs.c.id == gone).values(state="requeued", end=50.0))
    site.run("4.s", 5, 100, submitted=5.0)
    profile_finished(site.engine, 0.0, lambda: 1e9)
    assert {row[0] for row in site.dump(pending_forecasts)} == {1}
    make.execute(site.engine, "DELETE FROM jobs WHERE id = 1")
    assert site.dump(pending_forecasts) == []


@pytest.mark.storage
def test_states_come_back_as_they_were_even_under_long_names(site: Any) -> None:
    """Keys hold job names; PostgreSQL's index entries end at 2,704 bytes."""
    values = [1e-300, 5e-324, 0.1 + 0.2, 1 / 3, 1e300, 123456789.123456789, 7.0]
    user = "\U0001f389" * 255
    with site.engine.begin() as connection:
        for i, value in enumerate(values):
            connection.execute(
                jobs.insert().values(
                    id=i + 1,
                    cluster="alpha",
                    job_id=f"{i}",
                    start=0.0,
                    end=1.0,
                    state="ended",
                    user=user,
                    name="n" * 5000,
                    recorded_at=0.0,
                    profiled=True,
                )
            )
            connection.execute(profiles.insert().values(run_id=i + 1, metric="memory", learn_seq=i + 1, value=value))
    rebuild(site.engine)
    question = job_question(user, "n" * 5000)
    expected = Profile("bytes per processor", metric="memory")
    for value in values:
        expected.learn(question, value, at=1.0)
    names = expected.state_keys(question)
    with site.engine.connect() as connection:
        found = state_of(
            stored_states(connection, [StateKey("alpha", "memory", name) for name in names])["alpha", "memory"]
        )
    assert found == {name: state for name, state in expected.state().items() if name in names}
    assert json.dumps(found, sort_keys=True) == json.dumps(expected.state(), sort_keys=True)


def test_what_is_learned_during_a_rebuild_is_caught_up_with(site: Any, plan: Any) -> None:
    planned = plan(9, 80)
    for job in planned[:50]:
        site.run(**job)
    profile_finished(site.engine, 0.0, lambda: 1e9)

    def go_on(_done: int, _all: int) -> None:
        for job in planned[50:]:
            site.run(**job)
        site.run("running.s", 100, None, submitted=50.0, user="a")
        profile_finished(site.engine, 0.0, lambda: 1e9, LearningOptions(limit=7))

    rebuild(site.engine, progress=go_on)
    rows = site.model()
    assert sum(row[3] for row in rows[0]) == 80  # their run time; nothing else is known
    assert len(rows[2]) == 4
    rebuild(site.engine)
    assert site.model() == rows
