"""Questions about a job of which more is known than its user, and reservations that ran out."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
import pytest
from sqlalchemy import select, update
from tests import make

from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.storage import schema

URL = "/api/v1/predictions"
OUTCOMES = "/api/v1/outcomes"
BIG, SMALL = {"application": "big_07.sh", "processors": 8}, {"application": "small", "processors": 1}


@pytest.fixture
def two_applications(served: Any) -> Any:
    """User `eve` runs two applications in turn; each uses much the same each time."""
    with served.engine.begin() as connection:
        for i in range(40):
            given = BIG if i % 2 else SMALL
            name = f"big_{i}.sh" if i % 2 else "small"
            run = {"cluster": "gamma", "user": "eve", "name": name, "queue": "q", "processors": given["processors"]}
            run["requested_memory_bytes"] = given["processors"] * 2**30
            make.job(connection, f"e{i}", id=1000 + i, end=100.0 + i, used={"memory": value_of(i)}, **run)
    rebuild(served.engine)
    return served


def value_of(i: int) -> float:
    return (8e8 if i % 2 else 1e6) * (1.0 + 0.01 * (i % 3))


def ask(served: Any, **arguments: Any) -> Any:
    query = {"cluster": "gamma", "user": "eve", "metric": "memory", **arguments}
    [found] = make.answered(served.client("scheduler").get(URL, query_string=query))["predictions"]
    return found


def test_without_a_cluster_the_users_own_clusters_answer(two_applications: Any) -> None:
    client = two_applications.client("scheduler")
    answers = client.get(URL, query_string={"user": "ada", "metric": "bandwidth", "processors": 4}).json["predictions"]
    assert [answer["cluster"] for answer in answers] == ["alpha", "beta"]
    [answer] = client.get(URL, query_string={"user": "nobody", "metric": "cpu", "queue": "q"}).json["predictions"]
    assert (answer["cluster"], answer["value"]) == (None, None)
    assert answer["reason"].startswith("no history: no cluster knows this user")


WRONG: list[tuple[str, Any, str, str]] = [
    ("processors", "many", "processors='many'", "$.questions[0].processors"),
    ("memory_bytes", 0, "memory_bytes = 0.0 is not above 0", "questions[0].memory_bytes = 0.0"),
    ("memory_bytes", "4 apples", "memory_bytes = '4 apples'", "questions[0].memory_bytes = '4 apples' is not"),
    ("walltime_s", "1_000", "walltime_s = '1_000' is not a time; give seconds such as 3600", "01:00:00 or 2-12:00:00"),
    ("per", "job", "per = 'job': values per job need the number of processors", "questions[0].per = 'job'"),
    ("walltime_s", 1e12, "at most 1e+11; leave it out", "at most 1e+11; leave it out"),
    ("application", "", "query parameter application is empty", "questions[0].application is empty"),
    ("queue", "a\0b", "NUL", "NUL"),
]


def test_a_wrong_field_is_answered_400_with_value_place_and_remedy(served: Any) -> None:
    client = served.client("scheduler")
    for name, value, in_query, in_body in WRONG:
        answer = client.get(URL, query_string={"cluster": "alpha", "user": "ada", name: value})
        assert (answer.status_code, in_query in answer.json["error"]) == (400, True), answer.text
        answer = client.post(URL, json={"questions": [{"cluster": "alpha", "user": "ada", name: value}]})
        assert (answer.status_code, in_body in answer.json["error"]) == (400, True), answer.text


def test_values_may_be_asked_for_the_whole_job(two_applications: Any) -> None:
    one, whole = ask(two_applications, **BIG), ask(two_applications, **BIG, per="job")
    assert (one["per"], one["unit"]) == ("processor", "bytes per processor")
    assert (whole["per"], whole["unit"]) == ("job", "bytes")
    for field in ("value", "bound"):
        assert whole[field] == 8 * one[field]
    assert whole["last_values"] == [8 * value for value in one["last_values"]]
    assert whole["forecasts"] == {name: 8 * value for name, value in one["forecasts"].items()}


def test_a_reservation_of_the_whole_job_may_be_reported(two_applications: Any) -> None:
    answer = report(two_applications, per="job", value=8 * 3e9)
    assert answer.json["prediction"]["per"] == "job"
    assert answer.json["prediction"]["bound"] > 8 * 3e9
    assert ask(two_applications, **BIG)["bound"] == pytest.approx(answer.json["prediction"]["bound"] / 8)
    refused = report(two_applications, per="job", processors=None)
    assert (refused.status_code, "need the number of processors" in refused.json["error"]) == (400, True)


@pytest.mark.storage
def test_a_model_of_another_version_answers_with_a_reason(two_applications: Any) -> None:
    with two_applications.engine.begin() as connection:
        for row in connection.execute(select(schema.model_state)).all():
            plain = zlib.decompress(row.state) if row.state[:1] == b"x" else row.state
            begin, shape, rest = plain.partition(msgspec.msgpack.encode("shape"))
            state = begin + shape + (b"\0" + rest[1:] if shape else b"")  # of version 0
            connection.execute(update(schema.model_state).where(schema.model_state.c.id == row.id).values(state=state))
    answer = ask(two_applications, **BIG)
    assert answer["value"] is None
    assert "being retrained" in answer["reason"]
    assert answer["user_jobs"] == 40
    assert ask(two_applications)["value"] is not None


def report(served: Any, **changes: Any) -> Any:
    too_little = {"metric": "memory", "value": 3e9, "lower_bound": True}
    body = {"cluster": "gamma", "user": "eve", **BIG, **too_little, **changes}
    return served.client("scheduler").post(OUTCOMES, json=body)


def test_a_bound_is_above_what_ran_out(two_applications: Any) -> None:
    before, other = ask(two_applications, **BIG), ask(two_applications, **SMALL)
    assert before["bound"] < 3e9
    answer = report(two_applications)
    assert answer.status_code == 200
    assert answer.json["prediction"] == ask(two_applications, **BIG)
    assert answer.json["prediction"]["bound"] > 3e9
    assert answer.json["prediction"]["value"] == before["value"]
    assert ask(two_applications, **SMALL)["bound"] == other["bound"] < 3e9
    report(two_applications, value=1e9)
    assert ask(two_applications, **BIG)["bound"] > 3e9
    assert make.counts(two_applications.engine)["reservations_ran_out", "memory"] == 2


@pytest.mark.storage
def test_a_report_that_names_its_job_counts_once(two_applications: Any) -> None:
    first = report(two_applications, job_id="e1")
    assert first.status_code == 200
    again = report(two_applications, job_id="e1").json
    assert (first.json["status"], again["status"]) == ("stored", "duplicate")
    assert again["prediction"] == first.json["prediction"]
    assert make.counts(two_applications.engine)["reservations_ran_out", "memory"] == 1
    assert report(two_applications, job_id="").status_code == 400
    assert report(two_applications, job_id="x" * 300).status_code == 400


def test_a_failure_with_fewer_fields_raises_the_bounds_of_questions_with_more(two_applications: Any) -> None:
    more = {**BIG, "queue": "long", "memory_bytes": 8e10, "walltime_s": 3600}
    other = ask(two_applications, **SMALL)
    assert ask(two_applications, **more)["need"] < 3e9
    assert report(two_applications, processors=None).status_code == 200
    assert ask(two_applications, **BIG)["bound"] > 3e9
    assert ask(two_applications, **more)["need"] > 3e9
    assert ask(two_applications, **SMALL) == other
    given = ask(two_applications, **more)
    rebuild(two_applications.engine)
    assert ask(two_applications, **more) == given


def test_a_failure_of_an_unknown_user_is_kept(two_applications: Any) -> None:
    answer = report(two_applications, user="new")
    assert answer.json["prediction"]["bound"] > 3e9
    assert report(two_applications, cluster="nowhere").json["prediction"]["value"] is None


@pytest.mark.parametrize("value", [1e15, 1])
def test_what_was_hardly_reserved_is_refused(two_applications: Any, value: float) -> None:
    before = ask(two_applications, **BIG)
    refused = report(two_applications, value=value)
    assert refused.status_code == 400
    assert "bytes per processor is recommended: check the unit" in refused.json["error"]
    assert ask(two_applications, **BIG) == before
