"""What a submit filter asks and reports, through the application."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select
from tests import make

from jobsight_server.advice.requirements import KEPT
from jobsight_server.storage import schema

ASK, REPORT = "/api/v1/requirements", "/api/v1/outcomes"
GIB = 2**30
OF = {"cluster": "alpha", "user": "zoe"}
JOB = {"cluster": "alpha", "user": "zoe", "application": "cfd_17", "processors": 4, "memory_bytes": "32gb"}


@pytest.fixture
def post(served: Any) -> Callable[..., Any]:
    """A function that posts a minute after the last time: jobs run one after the other."""
    client = served.client("scheduler")

    def send(path: str, **body: Any) -> Any:
        served.clock.now += 60.0
        return client.post(path, json=body)

    return send


def counts(served: Any) -> dict[tuple[str, str], int]:
    return {key: value for key, value in make.counts(served.engine).items() if key[0].startswith("requirement")}


def test_what_a_job_used_is_what_the_next_one_needs(post: Any) -> None:
    assert make.answered(post(ASK, **JOB)) == {
        "id": 1,
        "cluster": "alpha",
        "memory_bytes": 32 * GIB,
        "requested_bytes": 32 * GIB,
        "confidence": None,
        "similar_jobs": 0,
        "reason": "No similar job has been measured, so the request stays.",
    }
    for number in range(1, 6):
        taken = post(REPORT, **OF, requirement=number, value=6 * GIB)
        assert (taken.status_code, taken.json["status"]) == (200, "stored")
        second = post(ASK, **JOB).json
        assert (second["memory_bytes"] < 32 * GIB) == (number >= 3), "not by fewer than three jobs"
        assert (second["confidence"] is None) == (number < 5), "no share by fewer than five jobs"
    assert 6 * GIB < second["memory_bytes"] < second["requested_bytes"] == 32 * GIB
    assert 0.5 < second["confidence"] < 1.0
    assert second["reason"] == "From 5 similar jobs, which used 6,144 MiB to 6,144 MiB."
    asked = {"questions": [JOB | {"metric": "memory", "per": "job"}]}
    (predicted,) = post("/api/v1/predictions", **asked).json["predictions"]
    assert (predicted["bound"], predicted["bound_basis"]) == (second["memory_bytes"], "similar jobs")
    assert predicted["exceed_probability"] == pytest.approx(1.0 - second["confidence"])


def test_without_measured_use_a_group_tries_less_once_a_job_of_it_has_ended(post: Any) -> None:
    """Half, three quarters, all: whatever fails is not tried again in the group, and other groups learn from it."""

    def given(**changed: Any) -> tuple[int, str]:
        answer = post(ASK, **JOB | {"cluster": "nowhere"} | changed).json
        ended = {"cluster": "nowhere", "user": changed.get("user", JOB["user"]), "requirement": answer["id"]}
        need = 20 if changed.get("application") == "mesh" else 6
        report = post(REPORT, **ended, lower_bound=need * GIB > answer["memory_bytes"])
        assert (report.status_code, answer["confidence"]) == (200, None)
        return answer["memory_bytes"] // GIB, answer["reason"]

    first = "No similar job has been measured, so the request stays."
    assert given() == (32, first)
    assert given() == (16, "No similar job has been measured; by their outcomes, 50% may be enough.")
    assert [given()[0] for _ in range(3)] == [16, 16, 16]
    assert [given(application="mesh")[0] for _ in range(4)] == [32, 16, 24, 24]
    assert given()[0] == 16
    assert given(user="bob") == (32, first)
    assert given(memory_bytes=1) == (0, first)


def test_what_was_learned_before_use_was_measured_no_longer_counts(post: Any) -> None:
    job, of = JOB | {"cluster": "nowhere"}, OF | {"cluster": "nowhere"}
    for _ in range(2):
        post(REPORT, **of, requirement=post(ASK, **job).json["id"])
    assert post(ASK, **job).json["memory_bytes"] == 16 * GIB
    for _ in range(5):
        post(REPORT, **of, requirement=post(ASK, **job).json["id"], value=6 * GIB)
    after = post(ASK, **job).json
    assert (6 * GIB < after["memory_bytes"] < 32 * GIB, after["reason"][:19]) == (True, "From 5 similar jobs")


@pytest.mark.storage
def test_a_job_that_failed_gets_more_and_at_last_its_request(post: Any) -> None:
    for _ in range(5):
        post(REPORT, **OF, requirement=post(ASK, **JOB).json["id"], value=6 * GIB)
    tried = post(ASK, **JOB).json
    assert tried["memory_bytes"] < 32 * GIB
    again = tried
    while again["memory_bytes"] < 32 * GIB:
        assert post(REPORT, **OF, requirement=again["id"], lower_bound=True).status_code == 200
        before, again = again, post(ASK, **JOB, retry_of=again["id"]).json
        assert before["memory_bytes"] < again["memory_bytes"] <= 32 * GIB
        assert again["confidence"] is None
        assert again["reason"].startswith(f"Attempt {before['id']} failed with ")
    post(REPORT, **OF, requirement=again["id"], lower_bound=True, value=32 * GIB)
    same = post(ASK, **JOB, retry_of=again["id"])
    assert same.status_code == 409
    assert "request more" in same.json["error"]
    more = post(ASK, **JOB | {"memory_bytes": "40gb"}, retry_of=again["id"]).json
    assert more["memory_bytes"] == 40 * GIB
    post(REPORT, **OF, requirement=more["id"])
    for number, status in ((more["id"], 409), (999, 404), (2**31, 404), (10**30, 404), (0, 400), (1.5, 400)):
        assert post(ASK, **JOB, retry_of=number).status_code == status, number
    assert post(ASK, **JOB | {"cluster": "beta"}, retry_of=tried["id"]).status_code == 409


def test_feedback_counts_once(served: Any, post: Any) -> None:
    number = post(ASK, **JOB).json["id"]
    for status in ("stored", "duplicate", "duplicate"):
        taken = post(REPORT, **OF, requirement=number, value="6gb")
        assert (taken.status_code, taken.json["status"]) == (200, status)
    for other in ({"lower_bound": True}, {}, {"value": 5}):
        assert post(REPORT, **OF, requirement=number, **other).status_code == 409
    assert counts(served) == {
        ("requirement_outcomes", "finished"): 1,
        ("requirement_feedback_rejected", "contradictory"): 3,
    }


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "value is missing"),
        ({"requirement": 7.5}, 400, "requirement = 7.5 is not the id of an answer"),
        ({"requirement": 7}, 404, "requirement = 7: unknown"),
        ({"requirement": 10**300}, 404, "unknown"),
        ({"requirement": 7, "metric": "runtime"}, 400, "a requirement is about memory"),
        ({"value": "much"}, 400, "is not an amount of memory"),
        ({"value": "4gb", "metric": "cpu"}, 400, "give a number in the unit of the metric"),
        ({"value": 5, "metric": "disk"}, 400, "metric"),
        ({"value": 5, "job_id": "x" * 3000}, 400, "no log has such a job"),
    ],
)
def test_wrong_feedback_is_refused_with_the_reason(post: Any, body: Any, status: int, words: str) -> None:
    answer = post(REPORT, **OF | body)
    assert (answer.status_code, words in answer.json["error"]) == (status, True), answer.text


@pytest.mark.storage
def test_the_oldest_requirements_are_deleted_and_those_open_are_counted(served: Any, post: Any) -> None:
    open_one, reported = (post(ASK, **JOB).json["id"] for _ in range(2))
    post(REPORT, **OF, requirement=reported)
    with served.engine.begin() as connection:  # as if so many had been asked since
        row = select(schema.requirements).where(schema.requirements.c.id == open_one)
        newest = dict(connection.execute(row).mappings().one()) | {"id": KEPT + 999}
        connection.execute(insert(schema.requirements).values(newest))
        if served.engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT setval('requirements_id_seq', {KEPT + 999})")
    assert post(ASK, **JOB).json["id"] == KEPT + 1000
    with served.engine.connect() as connection:
        ids = connection.scalars(select(schema.requirements.c.id).order_by(schema.requirements.c.id)).all()
    assert ids == [KEPT + 999, KEPT + 1000]
    assert post(REPORT, **OF, requirement=open_one).status_code == 410
    assert post(ASK, **JOB, retry_of=reported).status_code == 410
    assert counts(served) == {
        ("requirement_outcomes", "finished"): 1,
        ("requirement_outcomes", "expired"): 1,
        ("requirement_feedback_rejected", "expired"): 1,
    }
    listed = served.client("admin").get("/api/v1/rejected").json["rejected"]
    assert {"name": "requirement_feedback_rejected", "label": "expired", "value": 1} in listed


def test_processes_that_answer_at_once_agree(served: Any, restarted: Any) -> None:
    """Of those who report the same job one is counted."""
    posts = [restarted() for _ in range(4)]

    def at_once(path: str, bodies: list[Any]) -> list[Any]:
        with ThreadPoolExecutor(len(posts)) as pool:
            return list(pool.map(lambda post, body: post(path, **body).json, posts * 3, bodies))

    asked = at_once(ASK, [JOB] * 12)
    assert {answer["memory_bytes"] // GIB for answer in asked} == {32}
    assert len({answer["id"] for answer in asked}) == 12
    taken = at_once(REPORT, [OF | {"requirement": asked[0]["id"]}] * 12)
    assert sorted(answer["status"] for answer in taken) == ["duplicate"] * 11 + ["stored"]
    assert counts(served) == {("requirement_outcomes", "finished"): 1}


class Scheduler:
    """Submits jobs, runs them with what they get, reports each end twice, and submits what failed again."""

    def __init__(self, post: Callable[..., Any]) -> None:
        self._post = post
        self._under_way: list[tuple[dict[str, Any], int, bool, dict[str, Any], list[int]]] = []
        self.finished = 0

    def submit(self, job: dict[str, Any], need: int, reports_use: bool, failed: list[int]) -> None:
        got = self._post(ASK, **job).json
        assert 0 < got["memory_bytes"] <= got["requested_bytes"] == job["memory_bytes"]
        assert all(got["memory_bytes"] > before for before in failed), "given again what failed"
        self._under_way.append((job, need, reports_use, got, failed))

    def end(self, place: int) -> None:
        """A job ends; one that had too little is submitted again."""
        job, need, reports_use, got, failed = self._under_way.pop(place % len(self._under_way))
        given = got["memory_bytes"]
        is_short = need > given
        feedback = {"cluster": job["cluster"], "user": job["user"], "requirement": got["id"], "lower_bound": is_short}
        if reports_use:
            feedback["value"] = min(need, given)
        assert [self._post(REPORT, **feedback).json["status"] for _ in range(2)] == ["stored", "duplicate"]
        if is_short:
            assert len(failed) < 9, "the ladder ends at the request"
            if given == job["memory_bytes"]:
                job = job | {"memory_bytes": 2 * given}
            self.submit(job | {"retry_of": got["id"]}, need, reports_use, [*failed, given])
        else:
            self.finished += 1

    def drain(self) -> None:
        """All jobs end, oldest first."""
        while self._under_way:
            self.end(0)


JOBS = st.lists(
    st.tuples(
        st.sampled_from("ab"),  # user
        st.sampled_from([None, "x"]),  # application
        st.sampled_from([5, 24, 32, 100]),  # request, MiB
        st.floats(0.01, 1.5),  # need, of the request
        st.integers(0, 3),  # which of the jobs under way ends before the next is submitted
    ),
    min_size=1,
    max_size=14,
)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("reports_use", [True, False])
@settings(max_examples=10)
@given(jobs=JOBS, number=st.integers(0, 10**9))
def test_every_job_completes_with_no_more_than_its_request_and_never_what_failed(
    post: Any, reports_use: bool, jobs: list[tuple[str, str | None, int, float, int]], number: int
) -> None:
    scheduler = Scheduler(post)
    for user, application, requested, share, ends in jobs:
        job = {"cluster": "nowhere", "user": f"{user}{number}{reports_use}", "application": application}
        need = max(1, int(share * requested * 2**20))
        scheduler.submit(job | {"memory_bytes": requested * 2**20}, need, reports_use, [])
        if ends:
            scheduler.end(ends)
    scheduler.drain()
    assert scheduler.finished == len(jobs)
