"""What pages poll is computed again only so often that it takes little of a processor."""

from __future__ import annotations

import time

import pytest
from flask import Flask, Request
from flask.testing import FlaskClient
from werkzeug.test import EnvironBuilder

from jobsight_server.forecasts.record import Record
from jobsight_server.web.kit.routes import COSTLY_S, NAME, KeptAnswers, Parameter, Route, register


class Counted(Record):
    """How often it was computed."""

    times: int


class Work:
    """A handler that takes ``cost_s`` of CPU time."""

    def __init__(self) -> None:
        self.times, self.cost_s = 0, 0.0

    def __call__(self) -> Counted:
        self.times += 1
        begin = time.thread_time()
        while time.thread_time() - begin < self.cost_s:
            pass
        return Counted(self.times)


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def asking(work: Work) -> FlaskClient:
    app = Flask(__name__)

    def handler() -> Counted:
        return work()

    register(app, [Route("/api/v1/counted", handler, "Counts", (Parameter("name", "a name", NAME),), roles=None)])
    return app.test_client()


def test_a_costly_answer_is_kept_for_polls_of_the_same_one_alone(asking: FlaskClient, work: Work) -> None:
    work.cost_s = 2 * COSTLY_S  # kept for 6 s
    first = asking.get("/api/v1/counted")
    polling = {"If-None-Match": first.headers["ETag"]}
    polls = [asking.get("/api/v1/counted", headers=polling) for _ in range(3)]
    assert [poll.status_code for poll in polls] == [304] * 3
    assert work.times == 1
    other = {**polling, "Authorization": "Bearer another"}
    assert asking.get("/api/v1/counted", headers=other).json == {"times": 2}
    assert asking.get("/api/v1/counted?name=x", headers=polling).json == {"times": 3}
    assert asking.get("/api/v1/counted").json == {"times": 4}
    later = asking.get("/api/v1/counted", headers=polling)
    assert (later.status_code, later.json) == (200, {"times": 4})
    assert work.times == 4


def test_a_cheap_answer_is_computed_each_time(asking: FlaskClient, work: Work) -> None:
    tag = asking.get("/api/v1/counted").headers["ETag"]
    assert asking.get("/api/v1/counted", headers={"If-None-Match": tag}).json == {"times": 2}


def test_an_answer_is_kept_for_150_times_its_cost_and_a_minute_at_most() -> None:
    now = 1000.0
    answers = KeptAnswers(lambda: now)
    request = Request(EnvironBuilder(path="/x", headers={"If-None-Match": '"t"'}).get_environ())
    for cost_s, kept_s in ((0.1, 15.0), (10.0, 60.0)):
        now = 1000.0
        answers.put(request, b"{}", "t", cost_s)
        now = 1000.0 + kept_s - 0.01
        assert answers.get(request) is not None
        now = 1000.0 + kept_s
        assert answers.get(request) is None


def test_what_is_kept_is_bounded_in_bytes_and_the_oldest_goes() -> None:
    answers = KeptAnswers(lambda: 1000.0)
    asked = [
        Request(EnvironBuilder(path=f"/{number}", headers={"If-None-Match": '"t"'}).get_environ())
        for number in range(20)
    ]
    for request in (*asked, *asked):
        answers.put(request, bytes(2**20), "t", 1.0)
    assert [answers.get(request) is not None for request in asked] == [False] * 4 + [True] * 16
