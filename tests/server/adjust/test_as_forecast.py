"""What adjust plans for a job that waits is what every answer about it says."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from sqlalchemy import insert, select
from tests import make
from tests.server.adjust.conftest import GIB, NOW
from tests.walk import entering

from jobsight_server.advice.changes import ChangeWatch
from jobsight_server.advice.recommendation import predictions
from jobsight_server.auth.tokens import create_token
from jobsight_server.forecasts import AnswerReader, ForecastConfig, ForecastRequest
from jobsight_server.forecasts.request import job_question
from jobsight_server.serve.app import create_app
from jobsight_server.settings.load import load_settings
from jobsight_server.storage.schema import jobs

STEP = {"memory": 2**20, "runtime": 60}


def ran_after_waiting(site: Any, numbers: range) -> None:
    """Jobs of ann's that waited while many such jobs ended, each of which needed a little more than those before it."""
    draw, rows = random.Random(7), list[dict[str, Any]]()
    for number in numbers:
        submitted = NOW - 169_500 + 1000.0 * number
        rows.append(make.job_row(
            f"{5000 + number}.srv", user="ann", name="cfd", queue="q", submitted=submitted,
            start=submitted + 20_000.0, end=submitted + 20_900.0, processors=4, requested_memory_bytes=64 * GIB,
            requested_walltime_s=36000.0, used_memory_bytes=int((1.0 + number / 10 + draw.random()) * GIB),
            profiled=False, exit_status=0,
        ))  # fmt: skip
    site.now = rows[-1]["end"] + 1000.0
    make.execute(site.engine, insert(jobs), rows)
    site.learn()


def bounds(site: Any, moment: Any, asked_bytes: float | None = 64 * GIB) -> list[float | None]:
    reader = AnswerReader(ForecastConfig())
    question = job_question("ann", "cfd", "q", 4, asked_bytes, 36000.0)
    asked = [ForecastRequest("alpha", question, metric, "job", moment) for metric in STEP]
    with site.engine.connect() as connection:
        return [answer.bound for answer in predictions(connection, reader, asked)]


def client_of(site: Any, database_url: str) -> Any:
    with site.engine.begin() as connection:
        token = create_token(connection, "scheduler", "", NOW)[1]
    client = create_app(load_settings(flags={"database": database_url}), site.engine, site.engine).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return client


def test_a_waiting_job_is_planned_by_what_every_answer_about_it_says(site: Any, database_url: str) -> None:
    site.pbs.submit("101.srv", resources={"mem": "64gb"})
    site.follow()
    ran_after_waiting(site, range(150))
    ran_after_waiting(site, range(150, 300))
    planned = {one.change.resource: one.change for one in site.adjuster(keep_share=0.01).dry_run().proposed}
    assert {resource: change.reason for resource, change in planned.items()} == {"memory": "recommended"}
    assert ChangeWatch(site.engine, AnswerReader(ForecastConfig())).look(site.now) > 0
    client = client_of(site, database_url)
    (alone,) = client.post("/api/v1/forecasts", json={"ids": ["101.srv"]}).json["runs"]
    (among,) = client.post("/api/v1/forecasts", json={"ids": ["101.srv"], "metrics": [*STEP]}).json["runs"]
    moved = {one["metric"]: one["new_bound"] for one in client.get("/api/v1/changes").json["changes"]}
    assert "memory" in moved
    for metric, processors, now in zip(STEP, (4, 1), bounds(site, "start"), strict=True):
        of_one = {one["metric"]: one for one in alone["forecasts"]}[metric]
        assert {one["metric"]: one for one in among["forecasts"]}[metric] == of_one
        assert moved.get(metric, of_one["bound"]) == of_one["bound"] == pytest.approx(now / processors)
        assert of_one["at_submission"]["provisional"] is False
        if metric == "memory":
            assert planned[metric].new == math.ceil(now / STEP[metric]) * STEP[metric]
            assert of_one["at_submission"]["bound"] < 0.7 * of_one["bound"], "else nothing is tested"
        else:
            assert now == 36000.0, "a shorter limit is only for the user to choose"


def test_until_the_past_is_learned_the_answer_at_submission_is_that_of_submission(site: Any, database_url: str) -> None:
    """A job without a request gets the forecast, which differs between the two."""
    ran_after_waiting(site, range(150))
    site.pbs.submit("101.srv", resources={"mem": None})
    site.follow()
    client = client_of(site, database_url)
    (run,) = client.post("/api/v1/forecasts", json={"ids": ["101.srv"]}).json["runs"]
    of_page = client.get("/api/v1/job?name=101.srv&cluster=alpha").json["runs"][0]["profile"]
    (memory,) = [one for one in run["forecasts"] if one["metric"] == "memory"]
    submission, start = bounds(site, "submission", None)[0], bounds(site, "start", None)[0]
    assert submission is not None
    assert start is not None
    assert submission != start
    assert (memory["bound"], memory["at_submission"]["bound"]) == pytest.approx((start / 4, submission / 4))
    assert memory["at_submission"]["provisional"] is True
    assert next(one for one in of_page if one["metric"] == "memory")["bound"] == memory["at_submission"]["bound"]


def test_a_job_whose_processors_are_not_known_counts_as_one(site: Any) -> None:
    for number in range(30, 50):
        site.ran(number)
    site.learn()
    site.pbs.submit("101.srv", resources={"ncpus": None})
    site.follow()
    with site.engine.connect() as connection:
        assert connection.scalar(select(jobs.c.processors).where(jobs.c.job_id == "101.srv")) is None
    found = site.adjuster().dry_run()
    assert (found.proposed, [*found.left]) == ([], ["no change is recommended"])


def test_the_adjustment_of_a_waiting_job_enters_few_modules(site: Any) -> None:
    site.pbs.submit("101.srv")
    site.follow()
    adjuster = site.adjuster()
    with entering() as entered:
        assert adjuster.dry_run().proposed
    assert len(entered) <= 28, "\n".join(entered)
