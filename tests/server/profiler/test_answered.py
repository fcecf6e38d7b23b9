"""Forecast and use, of one job and over the last ones."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict
from sqlalchemy import update
from tests import make
from tests.make import not_none

from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.learning.finished import profile_finished
from jobsight_server.queries.job_detail import job_detail
from jobsight_server.queries.prometheus import exposition
from jobsight_server.storage.schema import jobs, profiles


def entry(site: Any, job_id: str) -> dict[str, Any]:
    with site.engine.connect() as connection:
        detail = job_detail(connection, AnswerReader(ForecastConfig()), "alpha", job_id, 1e6)
    return next(asdict(found) for found in not_none(detail).runs[0].profile if found.metric == "runtime")


def test_a_job_shows_what_was_forecast_at_its_submission(site: Any) -> None:
    site.run("1.s", 0, 100, submitted=0.0)
    running = site.run("2.s", 150, None, submitted=120.0)
    site.run("3.s", 200, 300, submitted=200.0)
    profile_finished(site.engine, 0.0, lambda: 1e9)
    first = entry(site, "1.s")
    assert (first["value"], first["forecast"], first["bound"], first["probability"]) == (100, None, None, None)
    now = entry(site, "2.s")
    assert (now["value"], now["forecast"], now["reason"]) == (None, 100, "the job still runs")
    make.execute(site.engine, update(jobs).where(jobs.c.id == running).values(end=1150.0, state="ended"))
    site.run("4.s", 400, 500, submitted=1.0)  # after it in the log, but submitted while nothing had ended
    profile_finished(site.engine, 0.0, lambda: 1e9)
    then = entry(site, "2.s")
    assert (then["value"], then["reason"]) == (1000, None)
    assert [then[key] for key in ("forecast", "bound", "probability")] == [
        now[key] for key in ("forecast", "bound", "probability")
    ]
    assert then["bound"] >= 100
    # Known too late to be judged as it stood at submission: three jobs of 100 s had ended when it was learned first.
    assert entry(site, "4.s")["forecast"] == 100


@pytest.mark.storage
def test_the_last_answers_are_judged_by_what_was_used(site: Any) -> None:
    used = [(100.0, None, None), (90.0, 100.0, 120.0), (200.0, 100.0, 150.0), (None, 100.0, 150.0)]
    for i, (value, forecast, bound) in enumerate(used):
        run = site.run(f"{i}.s", 0, 100 + i, profiled=True)
        row = {"run_id": run, "metric": "memory", "learn_seq": i + 1, "value": value}
        make.execute(site.engine, profiles.insert().values(**row, forecast=forecast, bound=bound))
    with site.engine.connect() as connection:
        lines = exposition(connection, 1e9).decode().splitlines()
    found = dict(line.removeprefix("jobsight_").split(" ", 1) for line in lines if "{metric=" in line)
    figures = {name: float(value) for name, value in found.items() if "memory" in name and "gpu" not in name}
    assert figures == {
        'forecast_jobs{metric="memory"}': 2,
        'forecast_accuracy_ratio{metric="memory"}': pytest.approx(((1 - 10 / 90) + 0.5) / 2),
        'forecast_within_20_percent_ratio{metric="memory"}': 0.5,
        'reservation_coverage_ratio{metric="memory"}': 0.5,
    }
    assert [name for name in found if "cpu" in name] == ['forecast_jobs{metric="cpu"}']
