"""Running jobs that will run out: on the page Now, on their own, in metrics and the mail, from the same outlooks."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, insert, select, update
from tests import make

from jobsight_server.forecasts import ForecastConfig
from jobsight_server.forecasts.outlooks import refresh_outlooks
from jobsight_server.learning.finished import profile_finished
from jobsight_server.queries.running import Foreseen, running_out
from jobsight_server.serve.app import create_app
from jobsight_server.settings.load import load_settings
from jobsight_server.storage import schema
from jobsight_server.storage.job_counts import count_all

NOW = 1_700_000_000.0
GIB = 2**30
HOUR = 3600.0


def job(number: int, user: str, start: float, end: float | None = None, **more: Any) -> dict[str, Any]:
    row = {"id": number, "user": user, "name": "solver", "start": start, "end": end, "submitted": start}
    row |= {"processors": 2, "requested_memory_bytes": 8 * GIB, "requested_walltime_s": 4 * HOUR, "profiled": False}
    return make.job_row(f"{number}.s", **row, exit_status=None if end is None else 0) | more


@pytest.fixture
def client(engine: Engine, database_url: str) -> FlaskClient:
    """Users whose jobs take the time and memory that they ask for, and one whose jobs take a tenth."""
    rows, n = [], 0
    for i in range(30):
        for user, hours, memory in (("full", 4.0, 7.9), ("tenth", 0.4, 0.8)):
            n += 1
            start = NOW - (200 - 5 * i) * HOUR
            used = {"used_memory_bytes": int(memory * GIB), "used_cpu_s": 100.0}
            rows.append(job(n, user, start, start + hours * HOUR - (i % 3) * 60 * (user == "tenth"), **used))
    running = [
        job(101, "full", NOW - 3.5 * HOUR),
        job(102, "tenth", NOW - 0.3 * HOUR),
        job(103, "full", NOW - 0.5 * HOUR, requested_memory_bytes=4 * GIB),
    ]
    with engine.begin() as connection:
        connection.execute(insert(schema.jobs), rows)
        connection.execute(insert(schema.jobs), running)
        make.follow(connection)
        used = [(101, 1 * GIB, 0.0), (102, 0.3 * GIB, 0.0), (103, 1.9 * GIB, 0.2 * GIB / HOUR)]
        names = ("run_id", "memory", "growth")
        more = {"until": NOW, "idle_bytes": 0.0}
        connection.execute(insert(schema.running_use), [dict(zip(names, each, strict=True)) | more for each in used])
        count_all(connection)
    profile_finished(engine, 0.0, lambda: NOW)
    assert refresh_outlooks(engine, ForecastConfig()) == 6
    app = create_app(load_settings(flags={"database": database_url}), engine, engine, lambda: NOW)
    return make.person(app, engine, NOW)


@pytest.mark.storage
def test_now_its_page_the_job_and_the_metrics_say_the_same(client: FlaskClient) -> None:
    found = client.get("/api/v1/now").get_json()
    out = {(each["job_id"], each["resource"]): each for each in found["running_out"]}
    assert set(out) == {("101.s", "time"), ("103.s", "memory")}
    assert found["at_risk"] == 2
    assert {each["job_id"]: each["risks"] for each in found["jobs"]} == {
        "101.s": ["time"],
        "102.s": [],
        "103.s": ["memory"],
    }
    late, full = out["101.s", "time"], out["103.s", "memory"]
    assert late["in_s"] == pytest.approx(0.5 * HOUR)
    assert (full["used"], full["limit"], full["in_s"]) == (3.8 * GIB, 4 * GIB, pytest.approx(0.5 * HOUR))
    assert min(late["soon"], full["soon"]) > 0.8
    page = " ".join(client.get("/now").text.split())
    table = page.split('id="running-out"')[1].split("</table>")[0]
    assert table.index("name=101.s") < table.index("name=103.s")
    assert "102.s" not in table
    [run] = client.get("/api/v1/job?name=103.s&cluster=alpha").get_json()["runs"]
    assert next(each for each in run["foreseen"] if each["resource"] == "memory") == full
    assert "Expected total" in client.get("/job?cluster=alpha&name=103.s").text
    lines = client.get("/metrics").text.splitlines()
    assert 'jobsight_jobs_running_out{cluster="alpha",resource="time"} 1.0' in lines
    lead = 'jobsight_jobs_running_out_lead_seconds{cluster="alpha",resource="memory"} '
    [seconds] = [float(line.removeprefix(lead)) for line in lines if line.startswith(lead)]
    assert seconds == pytest.approx(0.5 * HOUR)


def test_a_job_over_a_limit_that_nothing_enforces_is_over_for_some_time(client: FlaskClient, engine: Engine) -> None:
    make.execute(engine, insert(schema.jobs), [job(104, "full", NOW - 6 * HOUR)])
    for path in ("/now", "/job?cluster=alpha&name=104.s"):
        assert ">over for 2 h</td>" in client.get(path).text, path


@pytest.mark.storage
def test_outlooks_follow_what_is_learned_and_go_with_their_jobs(client: FlaskClient, engine: Engine) -> None:
    assert refresh_outlooks(engine, ForecastConfig()) == 0
    make.execute(engine, update(schema.jobs).where(schema.jobs.c.id == 102).values(state="ended", end=NOW))
    profile_finished(engine, 0.0, lambda: NOW)
    assert refresh_outlooks(engine, ForecastConfig()) == 0  # of the others' user, nothing new was learned
    make.execute(engine, insert(schema.jobs), [job(200, "full", NOW - HOUR, NOW - 60.0)])
    profile_finished(engine, 0.0, lambda: NOW)
    assert refresh_outlooks(engine, ForecastConfig()) == 2  # their run times; its memory is not known
    kept = make.rows(engine, select(schema.running_outlooks.c.run_id, schema.running_outlooks.c.metric))
    assert sorted(map(tuple, kept)) == [(run, metric) for run in (101, 103) for metric in ("memory", "runtime")]


@pytest.mark.storage
def test_what_was_found_with_the_outlook_hides_no_job_that_runs_out(client: FlaskClient, engine: Engine) -> None:
    """Compared with looking at every running job: users, limits and uses of all kinds, at several times."""
    chosen, rows, used = random.Random(2), [], []
    for number in range(300, 500):
        limit_s = chosen.choice([None, 0.0, HOUR, 4 * HOUR, 30 * HOUR])
        memory = chosen.choice([None, 0, GIB, 4 * GIB, 8 * GIB])
        start = NOW - chosen.random() * 1.3 * (limit_s or HOUR)
        more = {"requested_walltime_s": limit_s, "requested_memory_bytes": memory, "processors": chosen.choice([1, 2])}
        rows.append(job(number, chosen.choice(["full", "tenth", "new"]), start, **more))
        used.append(
            {"run_id": number, "until": NOW, "memory": chosen.random() * 5 * GIB, "growth": chosen.random() * 1e6}
        )
    make.execute(engine, insert(schema.jobs), rows)
    make.execute(engine, insert(schema.running_use), used[:150])
    assert refresh_outlooks(engine, ForecastConfig()) > 200
    make.execute(engine, update(schema.jobs).where(schema.jobs.c.id < 310).values(requested_memory_bytes=2 * GIB))
    make.execute(engine, update(schema.jobs).where(schema.jobs.c.id > 495).values(state="requeued"))

    def listed() -> list[list[Foreseen]]:
        with engine.connect() as connection:
            return [running_out(connection, NOW + later) for later in (0.0, HOUR, 3 * HOUR, 20 * HOUR)]

    found = listed()
    make.execute(engine, update(schema.running_outlooks).values(likely_from=0.0))
    assert found == listed()
    counts = Counter(each.resource for each in found[0])
    assert min(counts["memory"], counts["time"]) > 10
    assert {each.job_id for each in found[0]}.isdisjoint(f"{number}.s" for number in range(496, 500))
