"""My jobs: what was killed with the lines to paste, waste, waiting and running jobs, and the list by state and use."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from tests import make
from tests.server.web.conftest import NOW

from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.ground.job_names import application
from jobsight_server.queries.my_jobs import WEEK_S
from jobsight_server.storage.job_counts import count_all

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

GIB = 2**30
SCRIPT = "<script>alert(1)</script>"
ENDED: list[dict[str, Any]] = [
    # Of 4 GiB for 2 processors and of 1,000 s, with the state that the page has to show.
    {"job_id": "oom1", "name": "cfd_1", "failure": "memory", "share": 1.2, "outcome": "killed: memory"},
    {"job_id": "oom2", "name": "cfd_2", "failure": "memory", "share": 1.1, "outcome": "killed: memory"},
    {"job_id": "late", "failure": "time", "share": 0.5, "ran_s": 1000.0, "outcome": "killed: time", "cluster": "delta"},
    {"job_id": "old", "failure": "memory", "share": 1.0, "end": NOW - WEEK_S - 1, "outcome": "killed: memory"},
    {"job_id": "bad", "exit_status": 2, "share": 0.2, "outcome": "failed"},
    {"job_id": "abnormal", "exit_status": 0, "ended_abnormally": True, "share": None, "outcome": "failed"},
    {"job_id": "qdel", "exit_status": 271, "share": 0.3, "ran_s": 40.0, "outcome": "cancelled"},
    {"job_id": "scancel", "ended_abnormally": True, "share": None, "outcome": "cancelled"},
    {"job_id": "gone", "state": "deleted", "share": None, "outcome": "cancelled"},
    {"job_id": "fine", "exit_status": 0, "share": 0.9, "name": SCRIPT, "outcome": "completed"},
    {"job_id": "silent", "share": None, "outcome": "ended"},
]
# Similar to those that ran out, so that something can be recommended.
ENDED += [
    {"job_id": f"c{n}", "name": f"cfd_{n}", "end": NOW - 9000 * n, "exit_status": 0, "share": 0.8 + n / 100}
    | {"outcome": "completed"}
    for n in range(4, 10)
]


@pytest.fixture
def kim(served: Any) -> Any:
    """Kim's jobs on two clusters, of which one runs and one waits, and one of another user."""
    request = {"requested_memory_bytes": 4 * GIB, "requested_walltime_s": 1000.0, "processors": 2}
    common = {"cluster": "gamma", "user": "kim", "profiled": True, "recorded_at": NOW} | request
    with served.engine.begin() as connection:
        for planted in ENDED:
            row = {name: value for name, value in planted.items() if name not in ("share", "outcome", "ran_s")}
            row = {"end": NOW - 9.0} | row
            row["start"] = row["end"] - planted.get("ran_s", 500.0)
            used = {} if planted["share"] is None else {"memory": planted["share"] * 2 * GIB, "runtime": 500.0}
            row["application"] = row.get("name") and application(row["name"])
            make.job(connection, **common | row, used=used)
        open_run = common | {"end": None, "profiled": False}
        make.job(connection, "runs", **open_run | {"state": "running", "start": NOW - 250.0})
        make.job(connection, "waits", **open_run | {"state": "queued", "start": inf, "queued": NOW - 60.0})
        make.job(connection, "others", **common | {"user": "lee", "start": 1.0, "end": NOW - 5.0, "failure": "memory"})
        count_all(connection)
    return served


def test_the_start_page_of_a_user_says_what_was_killed_and_what_to_paste(kim: Any) -> None:
    rebuild(kim.engine)
    found = kim.client("scheduler").get("/api/v1/user/jobs?user=kim").json
    assert (found["clusters"], found["killed_jobs"]) == (["delta", "gamma"], 3)
    killed = {(of["last"]["job_id"], of["jobs"], of["last"]["failure"]) for of in found["killed"]}
    assert killed == {("oom2", 2, "memory"), ("late", 1, "time")}
    here = kim.client("scheduler").get("/api/v1/user/jobs?user=kim&cluster=delta").json
    assert (here["clusters"], here["killed_jobs"], len(here["waste"])) == (["delta"], 1, 1)
    assert [here[name]["total"] for name in ("running", "waiting", "jobs")] == [0, 0, 1]
    of_job = kim.client("scheduler").get("/api/v1/job?name=oom2").json["runs"][0]
    advised = next(of for of in found["killed"] if of["last"]["job_id"] == "oom2")
    assert [advised[name] for name in ("advice", "ask_lines")] == [of_job[name] for name in ("advice", "ask_lines")]
    assert "--mem=" in advised["ask_lines"][0]["text"]
    listed = {name: [run["job_id"] for run in found[name]["jobs"]] for name in ("running", "waiting")}
    assert listed == {"running": ["runs"], "waiting": ["waits"]}
    assert found["running"]["jobs"][0]["time_share"] == 0.25
    person = make.person(kim.app, kim.engine, NOW, "kim")
    page = person.get("/", follow_redirects=True)
    assert page.request.path == "/mine"
    text = " ".join(page.text.split())
    assert "3 jobs were killed</a> in the last seven days" in text
    assert advised["ask_lines"][0]["text"] in page.text
    assert "others" not in text
    assert SCRIPT not in text
    assert kim.person().get("/mine", follow_redirects=True).request.path == "/users", "of staff, who choose one"
    for name in ("user=lee", "user=kim&user=lee"):
        assert person.get(f"/mine?{name}").status_code == 403


@pytest.mark.parametrize("outcome", sorted({planted["outcome"] for planted in ENDED} | {"running", "waiting"}))
def test_each_state_in_words_is_shown_and_finds_its_jobs(kim: Any, outcome: str) -> None:
    expected = {planted["job_id"] for planted in ENDED if planted["outcome"] == outcome}
    expected |= {"running": {"runs"}, "waiting": {"waits"}}.get(outcome, set())
    query = {"user": "kim", "outcome": outcome}
    found = kim.client("scheduler").get("/api/v1/jobs", query_string=query).json
    assert ({run["job_id"] for run in found["jobs"]}, found["total"]) == (expected, len(expected))
    assert {run["outcome"] for run in found["jobs"]} == {outcome}
    page = kim.person().get("/mine", query_string=query).text.partition('id="list"')[2]
    assert (page.count("data-row="), page.count(f">{outcome}</span>")) == (len(expected), len(expected))


def test_jobs_are_sorted_and_found_by_their_use_of_the_request(kim: Any) -> None:
    client = kim.client("scheduler")

    def ids(query: str) -> list[str]:
        return [run["job_id"] for run in client.get(f"/api/v1/jobs?user=kim&{query}").json["jobs"]]

    shares = {planted["job_id"]: planted["share"] for planted in ENDED if planted["share"] is not None}
    assert ids("sort=memory")[: len(shares)] == sorted(shares, key=lambda name: -shares[name])
    assert ids("sort=memory&order=asc")[0] == "bad", "those without a value are last in either order"
    assert ids("sort=time")[0] == "late"
    assert set(ids("time_below=30")) == {"qdel", "runs"}
    assert set(ids("outcome=killed")) == {"oom1", "oom2", "late", "old"}
    assert ids("sort=outcome&order=asc")[:3] == ["qdel", "scancel", "gone"]
