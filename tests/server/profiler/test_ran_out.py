"""Runs that ran out of something by the log: a lower bound, learned once, reported or not."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, func, select
from tests import make
from tests.make import not_none

from jobsight_server.forecasts import AnswerReader, ForecastConfig, ForecastRequest
from jobsight_server.forecasts.events import Observation
from jobsight_server.forecasts.request import job_question
from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.forecasts.rounds import report as report_outcome
from jobsight_server.ground.event_counts import read_event_counts
from jobsight_server.learning.finished import profile_finished
from jobsight_server.storage.schema import model_state, outcomes, series

MIB = 2**20
ASKED = {"name": "cfd", "processors": 2, "requested_memory_bytes": 512 * MIB, "requested_walltime_s": 600.0}


def run(site: Any, job_id: str, start: float, **changes: Any) -> int:
    """A run of 60 s that used 100 MiB, asked for 512 MiB and ten minutes."""
    values = {**ASKED, "used_memory_bytes": 100 * MIB, "submitted": start, **changes}
    length = values.pop("length", 60.0)
    number: int = site.run(job_id, start, start + length, **values)
    return number


def learn(site: Any) -> int:
    return profile_finished(site.engine, 0.0, lambda: 1e6)


def ask(engine: Engine, metric: str, **known: Any) -> Any:
    question = job_question("u1", "cfd", None, 2, **known)
    request = ForecastRequest("alpha", question, metric)
    with engine.connect() as connection:
        (answer,) = AnswerReader(ForecastConfig()).answers(connection, [request])
    return answer


def report(
    site: Any, value: float, job_id: str | None = None, metric: str = "memory", *, lower: bool = True, **known: Any
) -> str:
    request = ForecastRequest("alpha", job_question("u1", "cfd", None, 2, **known), metric)
    reader = AnswerReader(ForecastConfig())
    with site.engine.begin() as connection:
        return report_outcome(connection, reader, request, Observation(value, lower), job_id, 1e6)


def counted(engine: Engine, metric: str = "memory") -> int:
    return make.counts(engine)["reservations_ran_out", metric]


def test_a_run_out_of_memory_raises_the_bound_above_its_request_and_is_no_value(site: Any) -> None:
    for number in range(12):
        run(site, f"{number}.s", 100.0 * number)
    learn(site)
    before = ask(site.engine, "memory", memory_bytes=512 * MIB)
    assert before.bound < 256 * MIB
    last = run(site, "99.s", 5000.0, failure="memory", used_memory_bytes=400 * MIB)
    learn(site)
    after = ask(site.engine, "memory", memory_bytes=512 * MIB)
    assert after.bound > 256 * MIB
    assert after.value == before.value
    assert after.user_jobs == before.user_jobs == 12
    row = not_none(site.profile(last)["memory"])
    assert (row.value, row.lower_bound, row.shown_only) == (200.0 * MIB, True, True)
    assert site.profile(last)["runtime"].lower_bound, "it would have run on"
    assert ask(site.engine, "memory").bound > 256 * MIB, "a job that does not say what it requests"
    assert ask(site.engine, "memory", memory_bytes=2048 * MIB).bound < 1024 * MIB, "another request is another job"


@pytest.mark.storage
def test_a_run_killed_at_its_time_limit_raises_the_bound_above_its_run_time(site: Any) -> None:
    for number in range(12):
        run(site, f"{number}.s", 100.0 * number)
    last = run(site, "99.s", 5000.0, failure="time", length=605.0)
    learn(site)
    answer = ask(site.engine, "runtime", walltime_s=600.0)
    assert answer.bound > 605.0
    assert answer.value == pytest.approx(60.0)
    assert site.profile(last)["runtime"].lower_bound
    assert site.profile(last)["memory"].lower_bound, "it did not complete"


@pytest.mark.parametrize(("used", "requested", "bound"), [(None, 512, 256), (800, 512, 400), (800, None, 400)])
def test_the_larger_of_request_and_use_is_what_was_too_little(
    sqlite_site: Any, used: int | None, requested: int | None, bound: int
) -> None:
    sizes = {"used_memory_bytes": used and used * MIB, "requested_memory_bytes": requested and requested * MIB}
    run(sqlite_site, "1.s", 0.0, failure="memory", **sizes)
    learn(sqlite_site)
    assert ask(sqlite_site.engine, "memory", memory_bytes=requested and requested * MIB).bound > bound * MIB


def test_a_failure_without_any_amount_is_counted(sqlite_site: Any) -> None:
    run(sqlite_site, "1.s", 0.0, failure="memory", used_memory_bytes=None, requested_memory_bytes=None)
    learn(sqlite_site)
    with sqlite_site.engine.connect() as connection:
        assert read_event_counts(connection)["logged_failures_without_amount", "memory"] == 1
        assert connection.scalar(select(func.count()).select_from(outcomes)) == 0


@pytest.mark.parametrize("job_id", ["1.s", None])
@pytest.mark.parametrize("first", ["log", "report"])
def test_a_reported_failure_of_the_same_run_counts_once(sqlite_site: Any, first: str, job_id: str | None) -> None:
    for number in range(12):
        run(sqlite_site, f"0{number}.s", 100.0 * number)
    learn(sqlite_site)

    def logged() -> None:
        run(sqlite_site, "1.s", 5000.0, failure="memory")
        learn(sqlite_site)

    def reported() -> None:
        report(sqlite_site, 256.5 * MIB, job_id, memory_bytes=512 * MIB)

    for step in [logged, reported] if first == "log" else [reported, logged]:
        step()
    assert counted(sqlite_site.engine) == 1
    reported()
    assert counted(sqlite_site.engine) == (1 if job_id else 2), "without a job, a second report is another one"
    run(sqlite_site, "2.s", 9000.0, failure="memory")
    learn(sqlite_site)
    assert counted(sqlite_site.engine) == 2


def test_each_failed_run_of_a_requeued_job_counts(sqlite_site: Any) -> None:
    for start in (0.0, 5000.0):
        run(sqlite_site, "1.s", start, failure="memory")
        learn(sqlite_site)
    assert counted(sqlite_site.engine) == 2
    report(sqlite_site, 256.0 * MIB, "1.s", memory_bytes=512 * MIB)
    assert counted(sqlite_site.engine) == 2


def test_a_report_with_another_amount_is_learned_too(sqlite_site: Any) -> None:
    run(sqlite_site, "1.s", 0.0, failure="memory")
    learn(sqlite_site)
    report(sqlite_site, 1000.0 * MIB, "1.s", memory_bytes=512 * MIB)
    assert ask(sqlite_site.engine, "memory", memory_bytes=512 * MIB).bound > 1000 * MIB
    assert counted(sqlite_site.engine) == 1


@pytest.mark.parametrize("first", ["log", "report"])
def test_a_reported_value_of_a_job_in_the_log_is_learned_once(site: Any, first: str) -> None:
    for number in range(5):
        run(site, f"0{number}.s", 100.0 * number)
    learn(site)

    def logged() -> None:
        run(site, "1.s", 5000.0)
        learn(site)

    steps = [logged, lambda: report(site, 51.0 * MIB, "1.s", lower=False)]
    for step in steps if first == "log" else reversed(steps):
        step()
    assert ask(site.engine, "memory").user_jobs == 6
    assert report(site, 51.0 * MIB, "1.s", lower=False) == "duplicate"
    assert report(site, 60.0 * MIB, "7.s", lower=False) == "stored"
    assert ask(site.engine, "memory").user_jobs == 7
    assert ask(site.engine, "memory").last_values[-1] == 60.0 * MIB
    before = site.dump(series), site.dump(model_state)
    rebuild(site.engine)
    assert (site.dump(series), site.dump(model_state)) == before


def test_a_run_that_ended_abnormally_is_a_lower_bound_of_its_run_time(sqlite_site: Any) -> None:
    """A job cancelled after two hours, where an hour was the longest, shows that an hour is not enough."""
    for number in range(30):
        run(sqlite_site, f"{number}.s", 4000.0 * number, length=3600.0, requested_walltime_s=36000.0)
    run(sqlite_site, "99.s", 200_000.0, length=7200.0, requested_walltime_s=36000.0, ended_abnormally=True)
    run(sqlite_site, "98.s", 210_000.0, length=5.0, requested_walltime_s=36000.0, ended_abnormally=True)
    before = ask(sqlite_site.engine, "runtime", walltime_s=36000.0)
    learn(sqlite_site)
    after = ask(sqlite_site.engine, "runtime", walltime_s=36000.0)
    assert before.bound is None or before.bound == 36000.0
    assert after.value == pytest.approx(3600.0)
    assert after.bound > 7200.0
