"""The list of jobs, narrowed: what each filter finds, and what is refused."""

from __future__ import annotations

import csv
import io

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, insert
from tests import make

from jobsight_server.queries.jobs import AMONG_LAST
from jobsight_server.storage import schema
from jobsight_server.storage.job_counts import count_all

RUN = {"cluster": "c", "user": "u", "start": 1.0, "end": 9.0, "state": "ended", "recorded_at": 9.0, "profiled": False}
PLANTED = (
    {"job_id": "4711_1", "queue": "long", "account": "a1", "exit_status": 0},
    {"job_id": "9001", "array_task": "4711_2", "queue": "short", "account": "a2", "exit_status": -11},
    {"job_id": "14711", "queue": "long", "name": "a;b=c", "exit_status": 1},
    {"job_id": "47110", "exit_status": 1, "name": "cfd_17", "application": "cfd"},
    {"job_id": "4711[3].head.example.org"},
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"job_id": "4711"}, {"4711_1", "9001", "4711[3].head.example.org"}),
        ({"job_id": "4711_2"}, {"9001"}),
        ({"queue": "long"}, {"4711_1", "14711"}),
        ({"queue": "long", "exit_status": "1"}, {"14711"}),
        ({"account": "a2"}, {"9001"}),
        ({"application": "a;b=c"}, {"14711"}),
        ({"application": "cfd"}, {"47110"}),
        ({"application": "cfd_17"}, {"47110"}),
        ({"application": "cfd_1"}, set()),
        ({"exit_status": "-11"}, {"9001"}),
        ({"node": "n1"}, {"14711"}),
        ({"node": "n"}, set()),
    ],
)
def test_filters_find_these_jobs(
    client: FlaskClient, sqlite_engine: Engine, query: dict[str, str], expected: set[str]
) -> None:
    with sqlite_engine.begin() as connection:
        for planted in PLANTED:
            make.job(connection, **RUN | planted, on={"n1": 1} if planted["job_id"] == "14711" else {})
    found = client.get("/api/v1/jobs", query_string=query).get_json()
    assert ({run["job_id"] for run in found["jobs"]}, found["total"]) == (expected, len(expected))
    assert client.get("/jobs", query_string=query).text.count("data-row=") == len(expected)


def test_the_list_as_csv_has_the_same_runs(client: FlaskClient, sqlite_engine: Engine) -> None:
    with sqlite_engine.begin() as connection:
        for number, name in enumerate(("=1+1", "plain")):
            row = RUN | {"name": name, "queue": "long", "exit_status": -number}
            make.job(connection, f"{number}.head", **row)
        make.job(connection, "other", queue="short", **RUN)
    answer = client.get("/jobs.csv", query_string={"queue": "long"})
    assert (answer.status_code, answer.mimetype) == (200, "text/csv")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="jobs.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    shown = [(row["job_id"], row["name"], row["exit_status"]) for row in rows]
    assert shown == [("1.head", "plain", "-1"), ("0.head", "'=1+1", "0")]
    first = {"start": "1970-01-01T00:00:01Z", "profiled": "false", "account": "", "over_bound": ""}
    assert first.items() <= rows[0].items()
    listed = client.get("/api/v1/jobs", query_string={"queue": "long"}).get_json()["jobs"]
    assert set(rows[0]) == set(listed[0])
    assert client.get("/jobs.csv?que=long").status_code == 400


def test_the_page_links_to_the_csv_of_what_it_shows(client: FlaskClient) -> None:
    assert 'href="/jobs.csv?queue=long"' in client.get("/jobs?queue=long&user=&page=2&limit=7").text


def test_the_csv_has_the_rows_of_all_pages(client: FlaskClient, sqlite_engine: Engine) -> None:
    with sqlite_engine.begin() as connection:
        for number in range(60):
            make.job(connection, f"{number}", queue="long", **RUN)
    rows = list(csv.DictReader(io.StringIO(client.get("/jobs.csv?queue=long&page=2").text, newline="")))
    assert sorted(int(row["job_id"]) for row in rows) == list(range(60))


def _plant_array(engine: Engine) -> None:
    """Array 4711 of 60 tasks, the first of which ran twice, among jobs that only look like it."""
    rows = [{"job_id": f"4711_{task}", "user": "ada", "exit_status": 0} for task in range(1, 61)]
    rows[0] |= {"state": "requeued", "exit_status": None}
    rows[6] |= {"exit_status": 137, "used_memory_bytes": 7_000, "used_cpu_s": 70.0}
    rows[7] |= {"start": 2.0, "end": 103.0, "suspended_s": 1.0, "used_memory_bytes": 8_000}
    rows[8] |= {"state": "running", "end": None, "exit_status": None}
    rows += [{"job_id": "4711_1", "user": "ada", "start": 5.0, "exit_status": 0}]
    rows += [{"job_id": "9001", "array_task": "4711_61", "user": "ada", "processors": 4, "exit_status": 0}]
    rows += [{"job_id": name, "user": "ada"} for name in ("14711", "47110", "4711")]
    rows += [{"job_id": "4711_1", "user": "bob", "start": 3.0}, {"job_id": "4711_2", "cluster": "d"}]
    rows[3] |= {"requested_memory_bytes": 16_000, "requested_walltime_s": 300.0}
    rows[4] |= {"requested_memory_bytes": 9_000, "asked_memory_bytes": 20_000, "asked_walltime_s": 60.0}
    with engine.begin() as connection:
        for planted in rows:
            used = {"memory": {"value": 2500.0, "source": "node"}} if planted["job_id"] == "9001" else {}
            make.job(connection, used=used, **RUN | planted)


def test_an_array_is_one_row_after_exact_ids(client: FlaskClient, sqlite_engine: Engine) -> None:
    _plant_array(sqlite_engine)
    found = client.get("/api/v1/jobs?job_id=4711").get_json()
    assert [run["job_id"] for run in found["jobs"][:2]] == ["4711", "9001"]
    assert (found["total"], found["pages"]) == (65, 2)
    expected = {
        "cluster": "c", "job_id": "4711", "user": "ada", "tasks": 61, "runs": 62, "failed": 1, "longest_s": 100.0,
        "states": [{"state": state, "runs": runs} for state, runs in (("running", 1), ("ended", 60), ("requeued", 1))],
        "largest_memory_bytes": 10_000.0, "largest_cpu_s": 70.0,
    }  # fmt: skip
    (array,) = found["arrays"]
    assert {name: array[name] for name in expected} == expected
    # Bytes and seconds: of the runs whose memory is known, and of all that have ended.
    used = 7000 * 8 + 8000 * 100 + 10_000 * 8
    assert array["total_memory_gib_hours"] == pytest.approx(used / 2**30 / 3600)
    assert (array["total_cpu_s"], array["total_s"]) == (70.0, 58 * 8 + 100 + 4 + 8)
    assert (array["requested_memory_bytes"], array["requested_walltime_s"]) == (20_000, 300.0)
    page = client.get("/jobs?job_id=4711").text
    assert (page.count("<details data-open="), page.count("data-row=")) == (1, 50)
    assert "61 tasks in 62 runs" in " ".join(page.split())
    assert "memory (19.5 KiB requested), 1 min 10 s of processor time, 1 min 40 s of run time (5 min requested)" in page
    assert page.index(">4711</a>") < page.index("<details data-open=")
    second = client.get("/jobs?job_id=4711&page=2").text
    assert (second.count("<details data-open="), second.count("data-row=")) == (0, 15)
    assert client.get("/api/v1/jobs?page=1").get_json()["arrays"] == []


def test_an_array_counts_only_what_the_other_filters_leave(client: FlaskClient, sqlite_engine: Engine) -> None:
    _plant_array(sqlite_engine)
    found = client.get("/api/v1/jobs?job_id=4711&exit_status=0").get_json()
    assert [(array["user"], array["tasks"], array["runs"]) for array in found["arrays"]] == [("ada", 59, 59)]
    assert client.get("/api/v1/jobs?job_id=4711&exit_status=137").get_json()["arrays"] == []
    assert client.get("/api/v1/jobs?job_id=4711&user=bob").get_json()["arrays"] == []


DAY_S = 86400.0
SPANS = [
    {"job_id": "early", "start": 0.5 * DAY_S, "end": 1.0 * DAY_S},
    {"job_id": "late", "start": 1.0 * DAY_S, "end": 2.5 * DAY_S, "suspended_s": DAY_S},
    {"job_id": "middle", "start": 0.1 * DAY_S, "end": 2.0 * DAY_S - 1},
    {"job_id": "runs", "start": 1.0, "end": None, "state": "running"},
]


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("since=1970-01-02", '"end" >= 86400'),
        ("until=1970-01-02", '"end" < 172800'),
        ("since=1970-01-02&until=1970-01-02", '"end" >= 86400 AND "end" < 172800'),
        ("since=86400.5&until=216000", '"end" >= 86400.5 AND "end" < 216000'),
        ("longer_than_s=43200", '"end" - start - coalesce(suspended_s, 0) > 43200'),
        ("longer_than_s=0&until=1970-01-02", '"end" < 172800'),
        ("user=u&cluster=c&since=1970-01-03", '"end" >= 172800'),
    ],
)
def test_spans_and_durations_find_what_sql_finds(
    client: FlaskClient, sqlite_engine: Engine, query: str, where: str
) -> None:
    with sqlite_engine.begin() as connection:
        connection.execute(insert(schema.jobs), [RUN | {"suspended_s": None} | planted for planted in SPANS])
        count_all(connection)
        order = '"end"' if "since" in query or "until" in query else "id"
        ids = connection.exec_driver_sql(f"SELECT job_id FROM jobs WHERE {where} ORDER BY {order} DESC").scalars().all()
    found = client.get(f"/api/v1/jobs?{query}").get_json()
    assert ([run["job_id"] for run in found["jobs"]], found["total"]) == (ids, len(ids))
    assert 0 < len(ids) < len(SPANS)


GIB = 2**30
USES = [  # peak per processor, and what was asked for of how many processors
    ({"job_id": "half"}, {"value": 1.0 * GIB}, {"requested_memory_bytes": 4 * GIB, "processors": 2}),
    ({"job_id": "third"}, {"value": 1.0 * GIB}, {"requested_memory_bytes": 6 * GIB, "processors": 2}),
    # Of 12 GiB that were given, for 1 of 4 processors, the user asked for 2.
    ({"job_id": "whole node"}, {"value": 1.5 * GIB}, {"asked_memory_bytes": 2 * GIB, "asked_processors": 1}),
    ({"job_id": "at least"}, {"value": 1.0 * GIB, "lower_bound": True}, {"requested_memory_bytes": 64 * GIB}),
    ({"job_id": "not measured"}, {"value": None}, {"requested_memory_bytes": 64 * GIB}),
    ({"job_id": "no request"}, {"value": 1.0 * GIB}, {}),
    ({"job_id": "waits", "profiled": False}, None, {"requested_memory_bytes": 64 * GIB}),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("used_below=50", {"third"}),
        ("used_below=50.5", {"half", "third"}),
        ("used_below=100", {"half", "third", "whole node"}),
        ("used_below=100&user=v", set()),
        ("used_below=50&job_id=third", {"third"}),
        ("profiled=no", {"waits"}),
        ("profiled=yes&used_below=34", {"third"}),
    ],
)
def test_jobs_that_used_little_of_their_memory(
    client: FlaskClient, sqlite_engine: Engine, query: str, expected: set[str]
) -> None:
    run = RUN | {"profiled": True, "processors": 4}
    with sqlite_engine.begin() as connection:
        for names, used, request in USES:
            given = {"requested_memory_bytes": None if names["job_id"] == "no request" else 12 * GIB}
            make.job(connection, **run | given | request | names, used={} if used is None else {"memory": used})
    found = client.get(f"/api/v1/jobs?{query}").get_json()
    assert ({run["job_id"] for run in found["jobs"]}, found["total"]) == (expected, len(expected))


def test_runs_are_sorted_by_their_end(client: FlaskClient, sqlite_engine: Engine) -> None:
    with sqlite_engine.begin() as connection:
        connection.execute(insert(schema.jobs), [RUN | {"suspended_s": None} | planted for planted in SPANS])
        count_all(connection)
    for order, expected in (("asc", "early middle late runs"), ("desc", "runs late middle early")):
        found = client.get(f"/api/v1/jobs?sort=end&order={order}").get_json()["jobs"]
        assert [run["job_id"] for run in found] == expected.split()


def test_a_filter_without_an_index_looks_at_the_last_runs_and_says_so(
    client: FlaskClient, sqlite_engine: Engine
) -> None:
    with sqlite_engine.begin() as connection:
        for number, job_id in ((1, "old"), (2, "first looked at"), (AMONG_LAST + 1, "newest")):
            named = {"name": "cfd_1", "application": "cfd"}
            make.job(connection, job_id, **RUN | named | {"id": number, "queue": "long", "end": 5.0})
        count_all(connection)
    for query, expected in (
        ("queue=long", ["newest", "first looked at"]),
        ("queue=long&since=1970-01-01", ["newest", "first looked at", "old"]),
        ("queue=long&user=u", ["newest", "first looked at", "old"]),
        ("application=cfd_1", ["newest", "first looked at", "old"]),
        ("longer_than_s=3", ["newest", "first looked at", "old"]),
    ):
        found = client.get(f"/api/v1/jobs?{query}").get_json()
        assert [run["job_id"] for run in found["jobs"]] == expected
        assert found["among_last"] == (AMONG_LAST if len(expected) == 2 else None)
    assert "2 runs of the last 100,000; choose a range of time for older ones" in client.get("/jobs?queue=long").text


def test_filters_by_outcome_find_old_runs_behind_any_number_of_newer_ones(
    client: FlaskClient, sqlite_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobsight_server.queries.jobs.AMONG_LAST", 3)
    with sqlite_engine.begin() as connection:
        for number in range(6):
            failure = {"failure": "time", "exit_status": 1} if number == 0 else {"exit_status": 0}
            make.job(connection, f"o{number}", cluster="beta", user="old", start=1.0, end=9.0, **failure)
        count_all(connection)
    for outcome, among, ids in (
        ("killed", None, ["o0"]),
        ("killed: time", None, ["o0"]),
        ("completed", None, [f"o{number}" for number in range(5, 0, -1)]),
    ):
        found = client.get(f"/api/v1/jobs?user=old&outcome={outcome}").json
        assert ([run["job_id"] for run in found["jobs"]], found["among_last"]) == (ids, among)
    found = client.get("/api/v1/jobs?outcome=killed: time&cluster=beta").json
    assert ("o0" in [run["job_id"] for run in found["jobs"]], found["among_last"]) == (True, None)
