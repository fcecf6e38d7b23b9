"""The list of jobs, narrowed: what each filter finds, and what is refused."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, insert

from jobsight_server.storage import schema

RUN = {"cluster": "c", "user": "u", "start": 1.0, "end": 9.0, "state": "ended", "recorded_at": 9.0, "profiled": False}
NONE = dict.fromkeys(("queue", "account", "name", "exit_status", "array_task"))
PLANTED = (
    {"job_id": "4711_1", "queue": "long", "account": "a1", "exit_status": 0},
    {"job_id": "9001", "array_task": "4711_2", "queue": "short", "account": "a2", "exit_status": -11},
    {"job_id": "14711", "queue": "long", "name": "a;b=c", "exit_status": 1},
    {"job_id": "47110", "exit_status": 1},
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
            row = insert(schema.jobs).values(**RUN | NONE | planted).returning(schema.jobs.c.id)
            run_id = connection.scalar(row)
            if planted["job_id"] == "14711":
                connection.execute(insert(schema.job_nodes).values(run_id=run_id, node="n1", processors=1))
    found = client.get("/api/v1/jobs", query_string=query).get_json()
    assert ({run["job_id"] for run in found["jobs"]}, found["total"]) == (expected, len(expected))
    assert client.get("/jobs", query_string=query).text.count("data-row=") == len(expected)


@pytest.mark.parametrize("path", ["/jobs", "/api/v1/jobs"])
def test_unknown_and_malformed_filters_are_refused(client: FlaskClient, path: str) -> None:
    unknown = client.get(f"{path}?que=long")
    assert unknown.status_code == 400
    assert all(part in unknown.text for part in ("query parameter", "que", "is unknown; ", "exit_status", "queue"))
    malformed = client.get(f"{path}?exit_status=one")
    assert malformed.status_code == 400
    assert "is not a whole number; give one such as 0, 1 or -11" in malformed.text
