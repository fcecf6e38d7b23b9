"""What a submit filter asks and reports, through the application."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import func, select, update

from jobsight_predictor.estimators import ESTIMATORS
from jobsight_server.requirements.relearn import expire
from jobsight_server.settings.declared import RequirementsEstimator
from jobsight_server.storage import schema
from jobsight_server.storage.event_counts import read_event_counts

ASK, REPORT = "/api/v1/requirements", "/api/v1/outcomes"
GIB = 2**30
OF = {"cluster": "alpha", "user": "zoe"}
JOB = {"cluster": "alpha", "user": "zoe", "application": "cfd_17", "processors": 4, "memory_bytes": "32gb"}


@pytest.fixture
def post(served: Any) -> Callable[..., Any]:
    client = served.client("scheduler")
    return lambda path, **body: client.post(path, json=body)


def counts(served: Any) -> dict[tuple[str, str], int]:
    with served.engine.connect() as connection:
        found = read_event_counts(connection)
    return {key: value for key, value in found.items() if key[0].startswith("requirement")}


def test_what_a_job_used_is_what_the_next_one_needs(post: Any) -> None:
    first = post(ASK, **JOB)
    assert first.status_code == 200, first.text
    assert first.json == {
        "id": 1,
        "cluster": "alpha",
        "memory_bytes": 32 * GIB,
        "requested_bytes": 32 * GIB,
        "confidence": None,
        "reason": "No job of this user has ended yet, so it gets its request.",
    }
    taken = post(REPORT, **OF, requirement=1, value=6 * GIB)
    assert (taken.status_code, taken.json["status"]) == (200, "stored")
    second = post(ASK, **JOB).json
    assert 6 * GIB < second["memory_bytes"] < second["requested_bytes"] == 32 * GIB
    assert 0.5 < second["confidence"] < 1.0
    assert second["reason"].startswith("Of 1 job like it (user + application + processors")
    assert second["reason"].endswith("the last used 6,144 MiB to 6,144 MiB.")
    assert second["memory_bytes"] == pytest.approx(taken.json["prediction"]["bound"], abs=2**20)


def test_estimates_are_rounded_up_to_the_nodes(restarted: Any) -> None:
    post = restarted(memory_capacities="24G 32G", requirements_estimator="last-instance")
    for used, given in ((None, 32), (20, 24), (5, 24), (25, 32)):
        if used is not None:
            number = post(ASK, **JOB).json["id"]
            assert post(REPORT, **OF, requirement=number, value=f"{used}G").status_code == 200
        assert post(ASK, **JOB).json["memory_bytes"] == given * GIB


@pytest.mark.storage
def test_a_job_that_failed_gets_more_and_at_last_its_request(post: Any) -> None:
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
    [group] = served.client("scheduler").get(ASK).json["groups"]
    assert (group["asked"], group["finished"], group["failed"]) == (1, 1, 0)
    assert counts(served) == {
        ("requirement_outcomes", "finished"): 1,
        ("requirement_feedback_rejected", "contradictory"): 3,
    }


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "value is missing"),
        ({"requirement": "7"}, 400, "Expected `float | null`"),
        ({"requirement": 7.5}, 400, "requirement = 7.5 is not the id of an answer"),
        ({"requirement": -1}, 400, "whole number from 1"),
        ({"requirement": 7}, 404, "requirement = 7: unknown"),
        ({"requirement": 2**31}, 404, "unknown"),
        ({"requirement": 2**63}, 404, "unknown"),
        ({"requirement": 10**300}, 404, "unknown"),
        ({"requirement": 7, "metric": "runtime"}, 400, "a requirement is about memory"),
        ({"value": 0}, 400, "value = 0.0 is not above 0"),
        ({"value": -5}, 400, "value"),
        ({"value": 1e19}, 400, "value"),
        ({"value": "much"}, 400, "is not an amount of memory"),
        ({"value": "4gb", "metric": "cpu"}, 400, "give a number in the unit of the metric"),
        ({"value": 5, "metric": "disk"}, 400, "metric"),
        ({"value": 5, "more": 1}, 400, "unknown field"),
        ({"value": 5, "job_id": "x" * 3000}, 400, "no log has such a job"),
        ({"value": 5, "lower_bound": "yes"}, 400, "Expected `bool`"),
    ],
)
def test_wrong_feedback_is_refused_with_the_reason(post: Any, body: Any, status: int, words: str) -> None:
    answer = post(REPORT, **OF | body)
    assert (answer.status_code, words in answer.json["error"]) == (status, True), answer.text


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"cluster": "gamm"}, 404, "unknown cluster; known: a, alpha, beta, gamma, nowhere"),
        ({"memory_bytes": None}, 400, "memory_bytes"),
        ({"memory_bytes": 0}, 400, "memory_bytes = 0.0 is not above 0"),
        ({"memory_bytes": 0.5}, 400, "less than a byte"),
        ({"memory_bytes": 1e19}, 400, "memory_bytes"),
        ({"memory_bytes": "1e400"}, 400, "memory_bytes"),
        ({"user": ""}, 400, "user is empty"),
        ({"user": "a\0b"}, 400, "NUL"),
        ({"processors": 1.5}, 400, "processors = 1.5 is not a whole number"),
        ({"per": "job"}, 400, "unknown field `per`"),
        ({"user": "u" * 20_000}, 413, "more than 16384 bytes"),
    ],
)
def test_wrong_questions_are_refused_with_the_reason(post: Any, change: Any, status: int, words: str) -> None:
    answer = post(ASK, **JOB | change)
    assert (answer.status_code, words in answer.json["error"]) == (status, True), answer.text


def test_a_question_without_a_request_says_what_is_missing(served: Any, post: Any) -> None:
    answer = post(ASK, cluster="alpha", user="ada")
    assert (answer.status_code, "memory_bytes" in answer.json["error"]) == (400, True)
    for body in (b"NaN", b'{"requirement": NaN}', b'{"requirement": 1e999}', b"[" * 9000):
        for path in (ASK, REPORT):
            client = served.client("scheduler")
            assert client.post(path, data=body, content_type="application/json").status_code == 400


@pytest.mark.parametrize("amount", [1, 1.5, 10**18, "1e18", "0.8 eb"])
def test_any_amount_of_memory_is_answered_with_no_more(post: Any, amount: float | str) -> None:
    for used in (1, 10**18, "1e18", None):
        answer = post(ASK, **JOB | {"memory_bytes": amount})
        assert answer.status_code == 200, answer.text
        assert 1 <= answer.json["memory_bytes"] <= answer.json["requested_bytes"] <= 10**18
        taken = post(REPORT, **OF, requirement=answer.json["id"], value=used)
        assert taken.status_code == 200 or "check the unit" in taken.json["error"]


def test_names_of_any_kind_make_groups_of_their_own(served: Any, post: Any) -> None:
    names = [
        "<script>alert(1)</script>",
        "'; DROP TABLE requirements; --",
        "x" * 10_000,
        "x" * 9_999,
        "ü\n用户 🎉",
        ".",
    ]
    for name in names:
        number = post(ASK, **JOB | {"user": name}).json["id"]
        assert post(REPORT, **OF | {"user": name}, requirement=number).status_code == 200
    groups = served.client("scheduler").get(ASK).json["groups"]
    assert sorted(group["user"] for group in groups) == sorted(names)


@pytest.mark.storage
def test_feedback_that_comes_too_late_is_refused_and_counted(served: Any, restarted: Any) -> None:
    post = restarted(requirements_expiry_days=1.0)
    numbers = [post(ASK, **JOB).json["id"] for _ in range(3)]
    served.clock.now += 86401
    assert post(REPORT, **OF, requirement=numbers[0]).status_code == 410
    assert expire(served.engine, served.clock.now - 86400) == 3
    assert post(REPORT, **OF, requirement=numbers[1]).status_code == 410
    assert counts(served) == {
        ("requirement_outcomes", "expired"): 3,
        ("requirement_feedback_rejected", "expired"): 2,
    }
    page = served.client("admin").get("/api/v1/rejected").json["rejected"]
    assert {"name": "requirement_feedback_rejected", "label": "expired", "value": 2} in page
    again = post(ASK, **JOB | {"memory_bytes": "40gb"}, retry_of=numbers[2])
    assert again.json["memory_bytes"] == 40 * GIB


def test_the_table_stays_bounded(served: Any, restarted: Any) -> None:
    post = restarted(requirements_kept=10)
    first = post(ASK, **JOB).json["id"]
    with served.engine.begin() as connection:  # as if a thousand had been asked since
        connection.execute(update(schema.requirements).values(id=995))
        if served.engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SELECT setval('requirements_id_seq', 995)")
    last = [post(ASK, **JOB).json["id"] for _ in range(8)][-1]
    with served.engine.connect() as connection:
        ids = connection.execute(select(func.min(schema.requirements.c.id), func.max(schema.requirements.c.id))).one()
    assert tuple(ids) == (995, 1003)
    assert counts(served) == {}
    assert last == 1003
    assert first == 1
    assert post(REPORT, **OF, requirement=990).status_code == 410
    with served.engine.begin() as connection:
        connection.execute(update(schema.requirements).where(schema.requirements.c.id == 1003).values(id=1999))
        if served.engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SELECT setval('requirements_id_seq', 1999)")
    assert post(ASK, **JOB).json["id"] == 2000
    with served.engine.connect() as connection:
        assert connection.scalars(select(schema.requirements.c.id).order_by(schema.requirements.c.id)).all() == [
            1999,
            2000,
        ]
    assert counts(served)["requirement_outcomes", "expired"] == 8


@pytest.mark.storage
def test_a_group_goes_with_its_last_question_if_nothing_was_reported(served: Any, restarted: Any) -> None:
    post = restarted(requirements_kept=1)
    post(ASK, **JOB | {"user": "asked once"})
    post(REPORT, **OF, requirement=post(ASK, **JOB | {"user": "reported"}).json["id"])
    with served.engine.begin() as connection:
        connection.execute(update(schema.requirements).where(schema.requirements.c.id == 2).values(id=999))
        if served.engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SELECT setval('requirements_id_seq', 999)")
    assert post(ASK, **JOB).json["id"] == 1000
    groups = served.client("scheduler").get(ASK).json["groups"]
    assert sorted(group["user"] for group in groups) == ["reported", "zoe"]


def test_processes_that_answer_at_once_agree(served: Any, restarted: Any) -> None:
    """Of those who report the same job one is counted."""
    posts = [restarted(memory_capacities="24G 32G") for _ in range(4)]

    def at_once(path: str, bodies: list[Any]) -> list[Any]:
        with ThreadPoolExecutor(len(posts)) as pool:
            return list(pool.map(lambda post, body: post(path, **body).json, posts * 3, bodies))

    asked = at_once(ASK, [JOB] * 12)
    assert {answer["memory_bytes"] // GIB for answer in asked} == {32}
    assert len({answer["id"] for answer in asked}) == 12
    taken = at_once(REPORT, [OF | {"requirement": asked[0]["id"]}] * 12)
    assert sorted(answer["status"] for answer in taken) == ["duplicate"] * 11 + ["stored"]
    assert counts(served) == {("requirement_outcomes", "finished"): 1}


def test_the_groups_say_what_was_set_free(served: Any, post: Any) -> None:
    given: list[Any] = []
    for used in (6, 6, 7):
        given.append(post(ASK, **JOB).json)
        post(REPORT, **OF, requirement=given[-1]["id"], value=used * GIB)
    post(ASK, **JOB | {"user": "bob", "cluster": "beta"})
    found = served.client("scheduler").get(ASK).json
    group = found["groups"][0]
    assert (found["total"], found["asked"], found["finished"], found["failed"]) == (2, 4, 3, 0)
    assert (group["user"], group["application"], group["processors"]) == ("zoe", "cfd", None)
    assert (group["requested_bytes"], group["used_bytes"]) == (32 * GIB, 7 * GIB)
    assert group["given_bytes"] == post(ASK, **JOB).json["memory_bytes"] > 7 * GIB
    assert group["freed_bytes"] == found["freed_bytes"] == sum(32 * GIB - each["memory_bytes"] for each in given)
    of_beta = served.client("scheduler").get(f"{ASK}?cluster=beta").json
    assert [group["user"] for group in of_beta["groups"]] == ["bob"]
    assert served.client("scheduler").get(f"{ASK}?page=2").json["groups"] == []


def test_fields_of_a_group_are_a_setting(served: Any, restarted: Any) -> None:
    post = restarted(requirements_group=("queue", "processors"))
    post(ASK, **JOB | {"queue": "long"})
    post(ASK, **JOB | {"queue": "long", "user": "bob"})
    [group] = served.client("scheduler").get(ASK).json["groups"]
    assert (group["asked"], group["processors"]) == (2, None)  # this application groups by user and application


def test_the_settings_offer_every_estimator() -> None:
    assert set(RequirementsEstimator.__args__) == set(ESTIMATORS)  # type: ignore[attr-defined]
