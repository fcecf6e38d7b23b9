"""What a scheduler asks of the plan and reports to it, through the application."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import select
from tests import make
from tests.server.web.test_one_answer import T0, run

from jobsight_server.systems.offers import tables as offers_tables
from jobsight_server.systems.offers.outcome import follow_jobs
from jobsight_server.systems.offers.stored import STANDING, expire_all, nodes_of

NOW, HOUR = 1_700_000_000.0, 3600.0
OFFERS = "/api/v1/offers"
JOB = {"cluster": "alpha", "user": "ada", "nodes": 2, "walltime_s": "02:00:00"}
RELEASE = {"nodes": ("alpha=4",), "strategy": "release"}


class Scheduler:
    """A client of a process of its own, with settings of its own."""

    def __init__(self, client: FlaskClient) -> None:
        self._client = client

    def __call__(self, path: str, *, raw: Any = None, **body: Any) -> Any:
        return self._client.post(path, json=body if raw is None else raw)

    def plan(self) -> Any:
        return self._client.get("/api/v1/plan?cluster=alpha").json


@pytest.fixture
def restarted(another: Callable[..., FlaskClient]) -> Callable[..., Scheduler]:
    return lambda **offers: Scheduler(another(sections={"offers": offers}))


def place(**changed: Any) -> dict[str, Any]:
    return {**JOB, "deadline": NOW + 10 * HOUR, **changed}


def add_history(served: Any, user: str, ratios: list[float]) -> None:
    """Ended jobs that used these shares of what they requested."""
    with served.engine.begin() as connection:
        for i, share in enumerate(ratios):
            end = NOW - 90_000 + i
            row = {"start": end - share * 7200.0, "end": end, "requested_walltime_s": 7200.0}
            make.job(connection, f"{user}-{i}", user=user, **row)


def standing(served: Any) -> list[Any]:
    return [row for row in _all(served) if row.state in STANDING]


def assert_nothing_is_sold_twice(rows: list[Any]) -> None:
    on_nodes: dict[int, list[tuple[float, float, int]]] = {}
    for row in rows:
        assert row.release <= row.planned_start < row.planned_end <= row.deadline
        for node in nodes_of(row.places):
            on_nodes.setdefault(node, []).append((row.planned_start, row.planned_end, row.id))
    for spans in on_nodes.values():
        for (_, end, first), (start, _, second) in pairwise(sorted(spans)):
            assert start >= end - 1e-3, (first, second)


def test_an_offer_from_question_to_end(restarted: Any, served: Any) -> None:
    post = restarted(**RELEASE)
    answer = make.answered(post(OFFERS, **place(application="cfd_17", queue="batch")))
    offer = answer["offer"]
    assert (answer["accepted"], answer["reason"]) == (True, None)
    assert (offer["id"], offer["state"], offer["user"], offer["application"]) == (1, "offered", "ada", "cfd")
    assert offer["places"] == [[0, 1]]
    assert (offer["earliest_start"], offer["latest_start"], offer["latest_end"]) == (NOW, NOW, NOW + 2 * HOUR)
    # Two nodes for two hours, with all of the requested time: only the nodes may fail.
    rate = 6.8943e-5
    assert offer["p_available"] == pytest.approx((1 + rate / 0.08333) ** -2)
    assert offer["p_success"] == pytest.approx(2.718281828459045 ** (-rate * 2 * 2))
    assert (offer["p_executable"], offer["charge_h"], offer["penalty_h"]) == (1.0, 2.0, 2.0)
    assert offer["pos"] == pytest.approx(offer["p_available"] * offer["p_success"])
    assert offer["expected_charge_h"] == pytest.approx(2 * offer["pos"])
    assert offer["expected_penalty_h"] == pytest.approx(2 * (1 - offer["pos"]))
    # Beside it, and after it.
    assert post(OFFERS, **place()).json["offer"]["places"] == [[2, 3]]
    third = post(OFFERS, **place(nodes=4)).json["offer"]
    assert (third["places"], third["latest_start"]) == ([[0, 3]], NOW + 2 * HOUR)
    assert third["earliest_start"] == NOW, "the jobs before it may end at once"
    for number in (1, 1):  # sent again, it counts once
        assert post(f"{OFFERS}/{number}/confirm", job_id="17.server").json["state"] == "confirmed"
    assert post(f"{OFFERS}/2/confirm", job_id="17.server").status_code == 409
    assert post(f"{OFFERS}/1/started").json["started"] == NOW
    assert post(f"{OFFERS}/1/started", time=NOW - 5).status_code == 409
    served.clock.now = NOW + HOUR
    ended = post(f"{OFFERS}/1/ended", outcome="finished").json
    assert (ended["state"], ended["ended"], ended["pos_now"]) == ("finished", NOW + HOUR, None)
    assert post(f"{OFFERS}/1/ended", outcome="finished").status_code == 200
    assert post(f"{OFFERS}/1/ended", outcome="killed").status_code == 409
    assert post(f"{OFFERS}/1/cancel").status_code == 409


@pytest.mark.storage
def test_unconfirmed_offers_expire(restarted: Any, served: Any) -> None:
    post = restarted(hold_s=300.0, **RELEASE)
    post(OFFERS, **place(nodes=4))
    post(OFFERS, **place(nodes=4))
    post(f"{OFFERS}/2/confirm")
    served.clock.now = NOW + 301
    again = post(OFFERS, **place(nodes=4)).json["offer"]
    assert again["latest_end"] == pytest.approx(NOW + 10 * HOUR) or again["latest_start"] == NOW + 4 * HOUR
    gone = post(f"{OFFERS}/1/confirm")
    assert (gone.status_code, "expired" in gone.json["error"]) == (410, True)
    served.clock.now = NOW + 30 * HOUR
    assert expire_all(served.engine, served.clock.now, 100) == 2, "one was not confirmed, one had no report"
    states = {row.id: row.state for row in _all(served)}
    assert states == {1: "expired", 2: "unknown", 3: "expired"}
    # A report that comes late is taken all the same.
    assert post(f"{OFFERS}/2/ended", outcome="finished", time=NOW + 5 * HOUR).status_code == 200
    expire_all(served.engine, served.clock.now, 1)
    assert [row.id for row in _all(served)] == [3], "the oldest ended ones are deleted"


def _all(served: Any) -> list[Any]:
    return list(make.rows(served.engine, select(offers_tables.offers).order_by(offers_tables.offers.c.id)))


def test_a_cancelled_place_is_free_and_a_smaller_cluster_sells_what_it_has(restarted: Any) -> None:
    post = restarted(**RELEASE)
    assert post(OFFERS, **place(nodes=4)).json["offer"]["latest_start"] == NOW
    assert post(f"{OFFERS}/1/cancel").json["state"] == "cancelled"
    assert post(f"{OFFERS}/1/cancel").status_code == 200
    assert post(OFFERS, **place(nodes=4)).json["offer"]["latest_start"] == NOW
    smaller = restarted(**{**RELEASE, "nodes": ("alpha=3",)})
    assert smaller(OFFERS, **place(nodes=4)).json["reason"] == "wider than the machine"
    assert smaller(OFFERS, **place(nodes=3)).json["offer"]["latest_start"] == NOW + 2 * HOUR
    # Without the setting, the nodes are those that agents run on: one here.
    one = restarted(strategy="release")
    assert one(OFFERS, **place(nodes=2)).json["reason"] == "wider than the machine"


@pytest.mark.parametrize("strategy", ["release", "jobsight"])
def test_nothing_is_sold_twice_when_many_ask_at_once(restarted: Any, served: Any, strategy: str) -> None:
    add_history(served, "bob", [0.2, 0.3, 0.9] * 20)
    settings = {"nodes": ("alpha=6",), "strategy": strategy, "max_failure": 0.4}
    posts = [restarted(**settings) for _ in range(4)]  # as many processes, each with its own copy of the plan

    def ask(number: int) -> int:
        rng = random.Random(number)
        post = posts[number % 4]
        release = NOW + rng.choice([0, 0, 1, 3]) * HOUR
        job = place(user=rng.choice(["ada", "bob"]), nodes=rng.randint(1, 6), release=release)
        job |= {"walltime_s": rng.choice([1800, 3600, 7200]), "deadline": release + rng.choice([1, 2, 6]) * HOUR}
        answer = make.answered(post(OFFERS, **job))
        if not answer["accepted"]:
            return 0
        offer = answer["offer"]
        if strategy != "release":
            assert 1 - offer["p_executable"] < 0.4
        if rng.random() < 0.5:
            assert post(f"{OFFERS}/{offer['id']}/confirm").status_code == 200
            if rng.random() < 0.4:
                assert post(f"{OFFERS}/{offer['id']}/cancel").status_code == 200
                return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        accepted = sum(pool.map(ask, range(40)))
    rows = standing(served)
    assert len(rows) == accepted > 4
    assert_nothing_is_sold_twice(rows)
    served.clock.now = NOW + HOUR / 2
    plans = [post.plan()["jobs"] for post in (restarted(**settings), *posts)]
    assert all(plan == plans[0] for plan in plans), "what a process keeps of its plan is what a new one finds"


@pytest.mark.storage
def test_starts_and_ends_come_from_the_accounting_log(restarted: Any, served: Any) -> None:
    post = restarted(**RELEASE)
    for number in range(1, 7):
        post(OFFERS, **place(nodes=1, job_id=f"{number}.s"))
        post(f"{OFFERS}/{number}/confirm")
    starts = {row.id: row.planned_start for row in standing(served)}
    rows = [
        (1, "running", None, None),
        (2, "ended", 1800.0, 1),  # by itself, whatever its exit status
        (3, "ended", 7200.0, 271),  # used all that it requested
        (4, "ended", 1800.0, 271),  # stopped, long before its place was over
        (5, "requeued", 60.0, None),
        (6, "deleted", 60.0, None),
    ]
    with served.engine.begin() as connection:
        for number, state, length, status in rows:
            start = starts[number]
            row = {"start": start, "state": state, "end": None if length is None else start + length}
            make.job(connection, f"{number}.s", exit_status=status, recorded_at=NOW, profiled=False, **row)
        # An earlier job of the same number, whose end was never logged, says nothing.
        make.job(connection, "1.s", user="x", start=NOW - 1e6, recorded_at=NOW)
    served.clock.now = NOW + 6 * HOUR
    assert follow_jobs(served.engine, served.clock.now) == 6
    found = {row.id: (row.state, row.started) for row in _all(served)}
    ended = ("running", "finished", "finished", "failed", "failed", "cancelled")
    assert {number: state for number, (state, _) in found.items()} == dict(enumerate(ended, 1))
    assert found[1][1] == starts[1]
    assert follow_jobs(served.engine, served.clock.now) == 0
    total = post.plan()["promised"]
    assert (total["jobs"], total["failed"]) == (4, 2)


def test_promises_that_are_broken_more_often_than_said_are_corrected(restarted: Any, served: Any) -> None:
    add_history(served, "bob", [0.2] * 93 + [1.0] * 7)
    post = restarted(nodes=("alpha=1",), strategy="jobsight", max_failure=0.5)
    gap = {**JOB, "user": "bob", "nodes": 1, "hours": 1}
    before = post("/api/v1/risk", **gap).json
    assert before["p_executable"] == before["p_executable_predicted"] > 0.85
    for number in range(40):
        served.clock.now += 20 * HOUR
        now = served.clock.now
        blocker = post(OFFERS, **place(nodes=1, release=now + HOUR, deadline=now + 3 * HOUR)).json["offer"]
        offer = post(OFFERS, **place(user="bob", nodes=1, deadline=now + HOUR)).json["offer"]
        post(f"{OFFERS}/{blocker['id']}/cancel")
        outcome = {"outcome": ("killed", "finished")[number % 2]}
        for action, body in (("confirm", {}), ("started", {}), ("ended", outcome)):
            assert post(f"{OFFERS}/{offer['id']}/{action}", **body).status_code == 200
    after = post("/api/v1/risk", **gap).json
    assert after["p_executable_predicted"] == pytest.approx(before["p_executable_predicted"], abs=0.02)
    assert 0.15 < 1 - after["p_executable"] < 0.6
    promised = post.plan()["promised"]
    assert (promised["jobs"], promised["failed"], promised["observed"]) == (40, 20, 0.5)


REFUSED: tuple[tuple[str, Any], ...] = (
    ("", {**place(), "deadline": NOW - 1}),
    ("", {**place(), "release": NOW + 20 * HOUR}),
    ("", {**place(), "cluster": "nosuch"}),
    ("/1/ended", {"outcome": "finished", "time": NOW + 1e6}),
    (f"/{2**31}/confirm", {}),
)


def test_nonsense_is_refused_and_nothing_is_held(restarted: Any, served: Any) -> None:
    post = restarted(nodes=("alpha=4",))
    post(OFFERS, **place())
    for path, body in REFUSED:
        answer = post(OFFERS + path, raw=body)
        assert 400 <= answer.status_code < 500, (path, str(body)[:100], answer.status_code)
        assert answer.json["error"]
    for body in ({"end": NOW - 1}, {"end": NOW + 1, "hours": 1}, {}):
        assert post("/api/v1/risk", raw={**JOB, **body}).status_code == 400, body
    assert [row.id for row in standing(served)] == [1]


@pytest.mark.storage
def test_risk_by_its_three_factors(restarted: Any, served: Any) -> None:
    add_history(served, "bob", [i * 37 % 100 / 100 + 0.01 for i in range(100)])
    post = restarted(max_failure=0.35)
    wide = post("/api/v1/risk", cluster="alpha", user="bob", nodes=128, walltime_s=18 * HOUR, hours=18).json
    assert wide["p_available"] == pytest.approx(0.8996, abs=5e-5)
    # During the run, half of the requested time on average; in all of it, they stay up with .8531.
    assert wide["p_success"] == pytest.approx(0.8531**0.5, abs=5e-3)
    assert wide["p_executable"] == pytest.approx(1.0)
    assert wide["pos"] == pytest.approx(0.8996 * wide["p_success"], abs=1e-4)
    assert (wide["verdict"], wide["charge_h"]) == ("accept", 18.0)
    # Jobs that use anything between nothing and all: half of them end in half of the time.
    half = post("/api/v1/risk", cluster="alpha", user="bob", nodes=1, walltime_s=2 * HOUR, hours=1).json
    assert half["p_executable"] == pytest.approx(0.5, abs=0.03)
    assert half["verdict"] == "reject"
    assert half["reason"].startswith("Too risky: the estimated probability that it does not end in time is 5")
    assert half["run_times"]["known_user"] is True
    # Of those that have run for three quarters of it, nearly half end within the next eighth.
    late = post(
        "/api/v1/risk", cluster="alpha", user="bob", nodes=1, walltime_s=2 * HOUR, hours=0.25, elapsed_s=1.5 * HOUR
    ).json
    assert late["p_executable"] == pytest.approx(0.125 / 0.25, abs=0.1)
    assert late["p_available"] == 1.0
    # An unknown user: the others' jobs answer.
    other = post("/api/v1/risk", cluster="alpha", user="nobody", nodes=1, walltime_s=2 * HOUR, hours=1).json
    assert other["run_times"]["known_user"] is False
    assert other["p_executable"] == pytest.approx(0.5, abs=0.05)
    # And on a cluster without any finished job, all that is requested may be used.
    empty = post("/api/v1/risk", cluster="gamma", user="bob", nodes=1, walltime_s=2 * HOUR, hours=1).json
    assert (empty["p_executable"], empty["run_times"]["group"], empty["run_times"]["jobs"]) == (0.0, "no history", 0)


def test_what_was_offered_and_rejected_is_counted(restarted: Any, served: Any) -> None:
    post = restarted(**RELEASE)
    post(OFFERS, **place(nodes=4))
    post(OFFERS, **place(nodes=5))
    post(OFFERS, **place(nodes=4, deadline=NOW + 3 * HOUR))
    counts = make.counts(served.engine)
    assert counts["offer_outcomes", "offered"] == 1
    assert counts["offers_rejected", "wider than the machine"] == 1
    assert counts["offers_rejected", "no room before the deadline"] == 1
    metrics = served.client("scheduler").get("/metrics").text
    assert 'jobsight_offers_rejected_total{reason="wider than the machine"} 1.0' in metrics


def test_jobs_on_whole_nodes_are_known_by_the_processors_that_they_asked_for(restarted: Any, served: Any) -> None:
    """Questions have these: jobs of one processor end early, those of eight do not."""
    with served.engine.begin() as connection:
        for number in range(60):
            one = number % 2
            asked = {"processors": 8, "asked_processors": 1 if one else None}
            end = T0 + 7200 * number + (360 if one else 3600)
            run(connection, number, **asked, requested_walltime_s=3600.0, end=end)
    post = restarted()
    job = {"cluster": "gamma", "user": "kim", "application": "solve", "nodes": 1, "walltime_s": HOUR, "hours": 0.5}
    found = {count: post("/api/v1/risk", **job, processors=count).json for count in (1, 8)}
    assert found[1]["p_executable"] > 0.8
    assert found[8]["p_executable"] < 0.2
    assert found[1]["run_times"]["group"].startswith("user + application + processors")
