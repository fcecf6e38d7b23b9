"""Waiting jobs by HTTP: taken in from a scheduler, asked about again many at once, and how their answers moved."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import delete, select
from tests import make

from jobsight_predictor.metrics import metrics_of
from jobsight_server.advice.changes import ChangeWatch
from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.learning.finished import profile_finished
from jobsight_server.storage.schema import jobs

GIB = 2**30
NOW = 1_700_000_000.0
FAR = NOW - 1000.0


def waiting(job_id: str, **more: Any) -> dict[str, Any]:
    return {"job_id": job_id, "user": "ada", "application": "run_7.sh", "queue": "q", "submitted": FAR, **more}


def post(served: Any, *found: dict[str, Any], cluster: str = "alpha", role: str = "scheduler") -> Any:
    return served.client(role).post("/api/v1/jobs", json={"cluster": cluster, "jobs": list(found)})


def forecasts(client: Any, ids: list[str], **more: Any) -> Any:
    return client.post("/api/v1/forecasts", json={"ids": ids, **more}).json


def queued(served: Any) -> list[tuple[Any, ...]]:
    columns = (
        jobs.c.job_id,
        jobs.c.name,
        jobs.c.processors,
        jobs.c.requested_memory_bytes,
        jobs.c.requested_walltime_s,
    )
    with served.engine.connect() as connection:
        query = select(*columns).where(jobs.c.state == "queued", jobs.c.cluster == "alpha").order_by(jobs.c.id)
        return [tuple(row) for row in connection.execute(query)]


def test_each_list_replaces_the_last(served: Any) -> None:
    before = queued(served)
    big = waiting("w1", processors=4, memory_bytes="8gb", walltime_s="01:00:00", facts={"n": 2})
    assert post(served, big, waiting("w2")).json == {"waiting": 2, "gone": len(before)}
    assert queued(served) == [("w1", "run_7.sh", 4, 8 * GIB, 3600.0), ("w2", "run_7.sh", None, None, None)]
    assert post(served, waiting("w1", processors=4, memory_bytes=GIB)).json == {"waiting": 1, "gone": 1}
    assert queued(served) == [("w1", "run_7.sh", 4, GIB, 3600.0)]
    assert post(served, waiting("w3", submitted=NOW - 5)).json == {"waiting": 1, "gone": 1}
    assert post(served).json == {"waiting": 0, "gone": 0}, "w3 may have begun just now"
    served.clock.now += 100
    assert post(served).json == {"waiting": 0, "gone": 1}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"job_id": "x" * 256}, "jobs[1].job_id has 256 characters; at most 255"),
        ({"application": "x" * 5000}, "jobs[1].application has 5000 characters"),
        ({"processors": 1.5}, "jobs[1].processors = 1.5 is not a whole number"),
        ({"cluster": "beta"}, "cluster"),
        ({"job_id": "w1"}, "jobs[1].job_id = 'w1' is there twice"),
    ],
)
def test_one_bad_job_is_named_and_nothing_is_stored(served: Any, changed: dict[str, Any], why: str) -> None:
    before = queued(served)
    answer = post(served, waiting("w1"), {**waiting("w2"), **changed})
    assert (answer.status_code, queued(served)) == (400, before)
    assert why in answer.json["error"]


def test_who_may_and_how_much(served: Any, another: Any) -> None:
    assert [post(served, role=role).status_code for role in ("agent", "submitter", "scheduler")] == [403, 403, 200]
    assert post(served, cluster="unknown").status_code == 404
    many = [waiting(f"w{number}") for number in range(10_001)]
    assert "at most 10000" in post(served, *many).json["error"]
    ids = {"ids": ["x"] * 10_001}
    assert "at most 10000" in served.client("scheduler").post("/api/v1/forecasts", json=ids).json["error"]
    assert served.client("scheduler").get("/api/v1/changes?since=soon").status_code == 400


def test_many_are_answered_as_one_by_one(served: Any) -> None:
    post(served, waiting("w1", processors=4), waiting("w2", user="newcomer"))
    client = served.client("scheduler")
    found = client.post(
        "/api/v1/forecasts", json={"ids": ["w2", "none", "w1", "77.server", "w1"], "metrics": [*metrics_of(gpus=False)]}
    ).json
    assert [run["job_id"] for run in found["runs"]][:2] == ["w2", "w1"]
    assert found["others"] == ["none", *([] if len(found["runs"]) > 2 else ["77.server"])]
    for run in found["runs"]:
        more = {"cluster": run["cluster"], "metrics": [*metrics_of(gpus=False)]}
        assert run in forecasts(client, [run["job_id"]], **more)["runs"]
    assert client.post("/api/v1/forecasts", json={"ids": ["w1"], "metrics": ["speed"]}).status_code == 400
    of_alpha = forecasts(client, ["w2", "none", "w1"], cluster="alpha")
    assert [run["job_id"] for run in of_alpha["runs"]] == ["w2", "w1"]
    assert {answer["metric"] for answer in of_alpha["runs"][0]["forecasts"]} == {"memory", "runtime"}
    assert forecasts(client, ["w1"], cluster="beta")["others"] == ["w1"]


LOGGED = (
    "4711.head",
    "4711[3].head",
    "47110.head",
    "14711.head",
    "5.1",
    "5.2",
    "6",
    "7.head.example.org",
    "8_1",
    "8_2",
    "9",
    "9.head",
)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("4711.head", ["4711.head"]),
        ("4711", ["4711.head"]),
        ("4711.head.example.org", ["4711.head"]),
        ("4711.other", []),
        ("4711[3]", ["4711[3].head"]),
        ("7", ["7.head.example.org"]),
        ("7.head", ["7.head.example.org"]),
        ("5.1", ["5.1"]),  # a task of Grid Engine: 5 is the array, and no job
        ("5", []),
        ("6", ["6"]),
        ("8", []),
        ("471", []),
        ("9", ["9", "9.head"]),  # both an id in full and the beginning of another
    ],
)
def test_a_job_is_found_with_or_without_the_domain_of_its_server(served: Any, asked: str, wanted: list[str]) -> None:
    users = {job_id: f"of {job_id}" for job_id in LOGGED}
    post(served, *(waiting(job_id, user=user) for job_id, user in users.items()))
    client = served.client("scheduler")
    theirs = [users[job_id] for job_id in wanted]
    one = client.get("/api/v1/job", query_string={"name": asked, "cluster": "alpha"})
    assert one.status_code == (200 if wanted else 404)
    assert [run["user"] for run in one.json.get("runs", [])] == theirs
    assert [run["user"] for run in forecasts(client, [asked], cluster="alpha")["runs"]] == theirs
    many = client.post("/api/v1/forecasts", json={"ids": ["6", asked], "cluster": "alpha"}).json
    expected = [("6", "of 6"), *((asked, user) for user in theirs if asked != "6")]
    assert [(run["job_id"], run["user"]) for run in many["runs"]] == expected
    assert many["others"] == ([] if wanted else [asked])


def test_the_tasks_of_an_array_are_found_by_its_number(served: Any) -> None:
    post(served, *(waiting(job_id) for job_id in LOGGED))
    client = served.client("scheduler")
    for asked, wanted, arrays in (
        ("5", {"5.1", "5.2"}, ["5"]),
        ("8", {"8_1", "8_2"}, ["8"]),
        ("4711", {"4711.head", "4711[3].head"}, []),
    ):
        found = client.get(f"/api/v1/jobs?job_id={asked}&cluster=alpha").json
        assert {run["job_id"] for run in found["jobs"]} == wanted
        assert [array["job_id"] for array in found["arrays"]] == arrays


def ran(served: Any, number: int, seconds: float) -> None:
    """A job of ada's that has run, and is learned."""
    times = {"start": NOW + number * 1000, "end": NOW + number * 1000 + seconds, "submitted": NOW}
    with served.engine.begin() as connection:
        make.job(connection, f"ran{number}", name="run_7.sh", queue="q", processors=4, profiled=False, **times)
    served.clock.now = NOW + number * 1000 + seconds + 100
    profile_finished(served.engine, 0.0, served.clock)


def test_a_forecast_that_moves_is_an_event_with_old_and_new_and_stands_on_the_page(served: Any) -> None:
    for number in range(6):
        ran(served, number, 100.0)
    post(served, waiting("w1", processors=4, submitted=served.clock.now))
    served.clock.now += 10
    ran(served, 7, 100.0)
    watch = ChangeWatch(served.engine, AnswerReader(ForecastConfig()))
    client = served.client("scheduler")
    assert watch.look(served.clock.now) == 0
    first = client.get("/api/v1/changes").json
    assert first["changes"] == []
    for number in range(8, 20):
        ran(served, number, 900.0)
    count = watch.look(served.clock.now)
    found = client.get(f"/api/v1/changes?since={first['last']}").json
    assert len(found["changes"]) == count > 0
    moved = next(change for change in found["changes"] if change["metric"] == "runtime")
    assert (moved["job_id"], moved["user"], moved["cluster"], moved["unit"]) == ("w1", "ada", "alpha", "s")
    assert moved["old_forecast"] == pytest.approx(100.0, rel=0.05)
    assert moved["new_forecast"] == pytest.approx(900.0, rel=0.05)
    assert watch.look(served.clock.now) == 0
    assert client.get(f"/api/v1/changes?since={found['last']}").json["changes"] == []
    (run,) = client.get("/api/v1/job?name=w1&cluster=alpha").json["runs"]
    assert {change["metric"] for change in run["changes"]} == {change["metric"] for change in found["changes"]}
    now = forecasts(client, ["w1"])["runs"][0]["forecasts"]
    (answer,) = [one for one in now if one["metric"] == "runtime"]
    assert (answer["forecast"], answer["bound"]) == (moved["new_forecast"], moved["new_bound"])
    make.execute(served.engine, delete(jobs).where(jobs.c.job_id == "w1"))
    assert client.get("/api/v1/changes").json["changes"] == []
