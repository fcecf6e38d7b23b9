"""Matches through the API: whole or none, held until released or over, queued in rounds, and hostile batches."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event, text
from tests import make
from tests.held import over_capacity

from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.queries.node_states import Machines
from jobsight_server.systems.matching.periodic import MatchingRounds
from jobsight_server.systems.matching.service import Matcher
from jobsight_server.systems.matching.settings import MatchingSettings
from jobsight_server.systems.matching.store_matches import begin_change, delete_ended, expire_matches
from jobsight_server.web.kit.units import FORMATS

API = "/api/v1"


def server(slots: float, **attributes: Any) -> dict[str, Any]:
    capacities = {"slots": {"total": slots}, "memory_gib": {"total": 64}}
    return {"type": "compute", "attributes": attributes, "capacities": capacities, "static": True}


def files(space: float, **attributes: Any) -> dict[str, Any]:
    capacities = {"capacity_gb": {"total": space}}
    return {"type": "filesystem", "attributes": attributes, "capacities": capacities, "static": True}


def job(name: str, slots: float = 1, space: float = 0, count: int = 1, **more: Any) -> dict[str, Any]:
    found = make.to_match(name, slots, count=count, **more)
    if space:
        found["dependencies"].append({"name": "f", "type": "filesystem", "amounts": {"capacity_gb": space}})
    return found


@pytest.fixture
def admin(served: Any) -> Any:
    client = served.client("admin")
    for name, body in (("c1", server(4, site="x")), ("c2", server(4, site="y")), ("f1", files(100, site="x"))):
        assert client.put(f"{API}/resources/{name}", json=body).status_code == 200
    return client


def post(client: Any, *jobs: dict[str, Any], path: str = "matches", **more: Any) -> Any:
    return make.answered(client.post(f"{API}/{path}", json={"jobs": list(jobs), **more}))


@pytest.mark.storage
def test_a_match_is_whole_or_none_and_holds_until_it_is_released(served: Any, admin: Any) -> None:
    answer = post(admin, job("a", 4, 60), job("b", 4, 60))
    assert [match["resources"].keys() for match in answer["matches"]] == [{"c", "f"}]
    assert [entry["job"] for entry in answer["unmatched"]] == [{"a": "b", "b": "a"}[answer["matches"][0]["job"]]]
    assert admin.get(f"{API}/resources?type=filesystem").json["resources"][0]["capacities"]["capacity_gb"]["free"] == 40
    gang = post(admin, job("g", 1, count=2))
    assert gang["matches"] == []
    number = answer["matches"][0]["id"]
    assert answer["matches"][0]["until"] == served.clock.now + 900
    assert admin.delete(f"{API}/matches/{number}").json["state"] == "released"
    assert admin.delete(f"{API}/matches/{number}").json["state"] == "released"
    gang = post(admin, job("g", 1, count=2))
    assert sorted(gang["matches"][0]["resources"]["c"]) == ["c1", "c2"]
    assert over_capacity(served.engine, served.clock.now) == []


def test_a_dry_run_holds_nothing(served: Any, admin: Any) -> None:
    for _ in range(2):
        answer = post(admin, job("a", 4, 60), path="matches?dry_run=1")
        assert (answer["matches"][0]["id"], answer["matches"][0]["until"]) == (None, None)
    assert admin.get(f"{API}/matches").json["total"] == 0


@pytest.mark.storage
def test_holds_end_at_the_duration_and_can_be_renewed(served: Any, admin: Any) -> None:
    answer = post(admin, job("a", 4, duration_s=100), job("b", 4, duration_s=100))
    first, second = (match["id"] for match in answer["matches"])
    served.clock.now += 99
    assert post(admin, job("c"))["matches"] == []
    assert admin.put(f"{API}/matches/{first}", json={"duration_s": 50}).json["until"] == served.clock.now + 50
    served.clock.now += 1
    assert len(post(admin, job("c", 4), job("d", 4))["matches"]) == 1, "one was renewed"
    assert admin.get(f"{API}/matches/{second}").json["match"]["state"] == "expired"
    assert admin.put(f"{API}/matches/{second}", json={"duration_s": 50}).status_code == 409
    with served.engine.begin() as connection:
        expire_matches(connection, served.clock.now, begin_change(connection).version)
    assert make.counts(served.engine)["matches_ended", "expired"] == 1
    listed = admin.get(f"{API}/matches?state=expired").json
    assert [entry["id"] for entry in listed["matches"]] == [second]
    assert (listed["held"], listed["queued"]) == (2, 0)


@pytest.mark.storage
def test_the_oldest_ended_matches_are_deleted_and_others_still_know_what_is_free(served: Any, admin: Any) -> None:
    numbers = [post(admin, job(f"j{n}", 4))["matches"][0]["id"] for n in range(2)]
    assert post(admin, job("x", 4))["matches"] == []
    # Another process ends and deletes them before this one looks again.
    other = served.app.extensions["jobsight"].write_engine
    with other.begin() as connection:
        connection.execute(text("UPDATE matches SET state = 'released', version = 1000"))
        connection.execute(text("UPDATE matching_state SET version = 1000"))
    assert delete_ended(served.engine, 0) == 2
    assert admin.get(f"{API}/matches/{numbers[0]}").status_code == 404
    assert len(post(admin, job("x", 4), job("y", 4))["matches"]) == 2


def test_objectives_are_chosen_at_run_time(admin: Any) -> None:
    one = job("many", 4, count=2, priority=5), job("a", 4), job("b", 4)
    assert {match["job"] for match in post(admin, *one, path="matches?dry_run=1")["matches"]} == {"a", "b"}
    assert admin.put(f"{API}/objectives", json={"objectives": ["priority"]}).status_code == 200
    assert {match["job"] for match in post(admin, *one, path="matches?dry_run=1")["matches"]} == {"many"}
    for bad in ([], ["speed"], ["throughput", "throughput"], [{"name": "x", "Z": "import os"}], [{"name": "x"}]):
        answer = admin.put(f"{API}/objectives", json={"objectives": bad})
        assert answer.status_code == 400, bad
    assert admin.get(f"{API}/objectives").json["objectives"] == ["priority"]


def test_the_pages_show_definitions_and_change_none(served: Any, admin: Any) -> None:
    own = {"name": "<cheap>", "sense": "min", "X": "2 * job.priority"}
    rule = {"effect": "prefer", "preference": 0.5, "type": "compute", "classes": ["<b>"], "hours": [8, 18]}
    assert admin.put(f"{API}/objectives", json={"objectives": ["throughput", own]}).status_code == 200
    assert admin.put(f"{API}/policies", json={"policies": [rule]}).status_code == 200
    browser = served.person()
    page = browser.get("/matches").text
    assert ["throughput, then &lt;cheap&gt;" in page, ">Resources</a>" in page, ">Plan</a>" in page] == [
        True,
        True,
        False,
    ]
    shown = re.sub(r"\s+", " ", browser.get("/resources").text)
    assert ">prefer 0.5</th><td>compute</td>" in shown
    assert all(text in shown for text in ("&lt;b&gt;", "8 to 18"))


def test_predicted_amounts_are_the_bounds_of_the_users_job(served: Any, admin: Any) -> None:
    bound = admin.get(f"{API}/predictions?user=ada&cluster=alpha&metric=bandwidth&processors=2").json
    bound_bps = bound["predictions"][0]["bound"]
    need = {"name": "n", "type": "network", "amounts": {"bandwidth_mbps": "predicted"}}
    network = {"type": "network", "capacities": {"bandwidth_mbps": {"total": 1}}, "static": True}
    admin.put(f"{API}/resources/net", json=network)
    answer = post(admin, {"name": "a", "user": "ada", "cluster": "alpha", "processors": 2, "dependencies": [need]})
    [predicted] = answer["predicted"]
    assert predicted["amount"] == pytest.approx(2 * bound_bps / 1e6)
    assert (predicted["metric"], predicted["capacity"], predicted["processors"]) == ("bandwidth", "bandwidth_mbps", 2)
    held = admin.get(f"{API}/resources/net").json["capacities"]["bandwidth_mbps"]["held"]
    assert held == pytest.approx(2 * bound_bps / 1e6)
    for wrong, why in (
        ({"name": "b", "user": "ada", "dependencies": [need]}, "several clusters know user 'ada'"),
        ({"name": "b", "user": "zed", "dependencies": [need]}, "name the job's cluster, or give a number"),
    ):
        [entry] = post(admin, wrong)["unmatched"]
        assert (entry["tier"], why in entry["reason"]) == ("predicted", True), entry


def test_errors_name_the_job_as_it_was_sent(admin: Any) -> None:
    unknown = {"name": "u", "user": "zed", "dependencies": [{"name": "n", "type": "compute", "amounts": {}}]}
    unknown["dependencies"][0]["amounts"] = {"memory_gib": "predicted"}  # type: ignore[index]
    wrong = job("w")
    wrong["dependencies"][0]["where"] = "os = 1"
    answer = admin.post(f"{API}/matches", json={"jobs": [unknown, job("good"), wrong]})
    assert answer.status_code == 400
    assert answer.json["error"].startswith("jobs[2].dependencies[0].where")
    twice = admin.post(f"{API}/matches", json={"jobs": [unknown, job("u")]})
    assert (twice.status_code, "'u' is there more than once" in twice.json["error"]) == (400, True)


HOSTILE: list[tuple[Any, int]] = [
    (b'{"jobs": [' + b"[" * 50_000, 400),
    ({"jobs": [job("a", count=10**30)]}, 400),
    ({"jobs": [{"name": "a", "dependencies": [{"name": "c", "type": "nothing"}]}]}, 200),
    ({"jobs": [{"name": "a", "dependencies": [{"name": "c", "type": "database", "where": "__import__('os')"}]}]}, 400),
    ({"jobs": [job(str(n)) for n in range(20_000)]}, 400),
    ({"jobs": [job("<script>'; DROP TABLE matches; --")]}, 200),
    ({"jobs": [job("a", inputs="x" * 300_000)]}, 400),
]  # fmt: skip


@pytest.mark.parametrize("path", ["matches", "matches?dry_run=1", "matches/queue"])
def test_a_hostile_batch_is_refused_and_nothing_is_held(served: Any, admin: Any, path: str) -> None:
    for body, status in HOSTILE:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = admin.post(f"{API}/{path}", data=sent, content_type="application/json")
        assert answer.status_code == status, (sent[:100], answer.text[:300])
        if status == 400:
            assert 10 < len(answer.json["error"]) < 1000
            held = admin.get(f"{API}/matches?state=held").json["total"]
            assert held == 0 or path == "matches"
        for entry in admin.get(f"{API}/matches").json["matches"]:
            admin.delete(f"{API}/matches/{entry['id']}")
    assert admin.post(f"{API}/{path}", data="x").status_code == 415
    for number in (0, 10**30, 2**31, 2**31 - 1):
        assert admin.get(f"{API}/matches/{number}").status_code == 404
        assert admin.delete(f"{API}/matches/{number}").status_code == 404
        assert admin.put(f"{API}/matches/{number}", json={"duration_s": 5}).status_code == 404
    for body in ({"ids": [2**31]}, {"ids": [-1]}, {"ids": ["1"]}, {"ids": list(range(1, 20_000))}, {}):
        assert admin.post(f"{API}/matches/release", json=body).status_code == 400
    for duration in (0, -1, 1e30, "x"):
        assert admin.put(f"{API}/matches/1", json={"duration_s": duration}).status_code == 400


def test_several_matchers_never_hand_out_the_same_capacity(served: Any, admin: Any, another: Any) -> None:
    """Four matchers fight for 8 slots and 100 GB; each releases what it got, so that there is always something."""
    clients = [another() for _ in range(4)]  # as many processes, each with a cache of its own
    made = []
    stop = threading.Event()
    faults: list[str] = []

    def audit() -> None:
        while not stop.is_set():
            faults.extend(over_capacity(served.engine, served.clock.now))

    def fight(client: Any, start: int) -> int:
        mine: list[int] = []
        kept: list[int] = []
        for n in range(start, start + 12):
            jobs = [job(f"j{n}.{k}", 1 + (n + k) % 3, 10 * ((n + k) % 4), 1 + (n + k) % 2) for k in range(4)]
            found = [match["id"] for match in post(client, *jobs)["matches"]]
            mine += found
            kept += found
            if n % 2:
                assert client.post(f"{API}/matches/release", json={"ids": kept}).status_code == 200
                kept.clear()
        made.extend(mine)
        return len(mine)

    watching = threading.Thread(target=audit)
    watching.start()
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(fight, clients, range(0, 400, 100)))
    stop.set()
    watching.join()
    assert faults == []
    assert sum(done) >= 8, "there was something to fight for"
    assert len(set(made)) == len(made), "no number is given twice"


JOBS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 120), st.integers(1, 2), st.sampled_from([None, 10, 60])),
    min_size=1,
    max_size=6,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("match"), JOBS),
        st.tuples(st.just("queue"), JOBS),
        st.tuples(st.just("round"), st.none()),
        st.tuples(st.just("release"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.sampled_from([5, 50, 1000])),
        st.tuples(st.just("remove"), st.sampled_from(["c1", "f1"])),
        st.tuples(st.just("define"), st.sampled_from(["c1", "f1"])),
    ),
    min_size=3,
    max_size=12,
)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@settings(max_examples=25)
@given(steps=STEPS)
def test_whatever_happens_no_capacity_is_exceeded_and_gangs_are_whole(served: Any, admin: Any, steps: Any) -> None:
    rounds = rounds_of(served)
    for number, (step, what) in enumerate(steps):
        if step in ("match", "queue"):
            jobs = [job(f"j{number}.{n}", s, f, c, duration_s=d) for n, (s, f, c, d) in enumerate(what)]
            post(admin, *jobs, path="matches" if step == "match" else "matches/queue")
        elif step == "round":
            rounds.run()
        elif step == "release":
            admin.post(f"{API}/matches/release", json={"ids": [what + 1]})
        elif step == "wait":
            served.clock.now += what
        elif step == "remove":
            admin.delete(f"{API}/resources/{what}")
        else:
            admin.put(f"{API}/resources/{what}", json=server(4) if what == "c1" else files(100))
        assert over_capacity(served.engine, served.clock.now) == []


def rounds_of(served: Any, clock: Callable[[], float] | None = None, **config: Any) -> MatchingRounds:
    """The background's rounds, over the same database and clock; ``clock``: another one of the matcher."""
    here = served.app.extensions["jobsight"]
    answers = AnswerReader(forecast_config(here.settings))
    own, at = MatchingSettings(**config), clock or served.clock
    matcher = Matcher(here.read_engine, served.engine, own, answers, at, Machines())
    return MatchingRounds(matcher, served.engine, served.clock)


@pytest.mark.storage
def test_rounds_start_by_number_or_by_age(served: Any, admin: Any) -> None:
    rounds = rounds_of(served, round_jobs=3, round_s=0.5)
    assert rounds.run_if_due() is None
    queued = post(admin, job("a", 4), job("b", 4), path="matches/queue")["queued"]
    assert [entry["job"] for entry in queued] == ["a", "b"]
    assert rounds.run_if_due() is None
    served.clock.now += 0.6
    assert rounds.run_if_due() == 2
    assert admin.get(f"{API}/matches/{queued[0]['id']}").json["match"]["state"] == "held"
    served.clock.now += 0.1
    post(admin, job("c", 4), job("d", 4), job("e", 4), path="matches/queue")
    assert rounds.run_if_due() == 0, "three start a round at once"
    waiting = admin.get(f"{API}/matches?state=queued").json["matches"]
    assert [entry["rounds"] for entry in waiting] == [1, 1, 1]
    assert all(entry["tier"] for entry in waiting)
    assert rounds.run_if_due() is None
    admin.delete(f"{API}/matches/{waiting[0]['id']}")
    admin.delete(f"{API}/matches/{queued[0]['id']}")
    served.clock.now += 0.6
    assert rounds.run_if_due() == 1
    assert admin.get(f"{API}/matches/{waiting[0]['id']}").json["match"]["state"] == "cancelled"


def test_an_idle_server_looks_once_a_second_and_soon_where_jobs_were_queued(served: Any, admin: Any) -> None:
    """Counted in statements a minute of the clock, which the waits of the rounds move on."""

    class Minute(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            served.clock.now += timeout or 0.0
            return served.clock.now >= end

    rounds, looks = rounds_of(served, round_jobs=1), []
    event.listen(served.engine, "before_cursor_execute", lambda *given: looks.append(given[2]))
    found = []
    for _ in range(2):
        looks.clear()
        end = served.clock.now + 60.0
        rounds.run_until(Minute())
        found.append(len(looks))
        post(admin, job("a"), path="matches/queue")
    assert found[0] <= 60
    assert found[1] >= 20 * found[0]
    assert len(admin.get(f"{API}/matches?state=queued").json["matches"]) == 1, "queued after the last look"


def test_the_queue_is_bounded(admin: Any, served: Any, serve: Any) -> None:
    small = served.app_with(serve(sections={"matching": {"queued_at_most": 2}})).test_client()
    small.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {served.tokens['scheduler']}"
    post(small, job("a"), job("b"), path="matches/queue")
    full = small.post(f"{API}/matches/queue", json={"jobs": [job("c")]})
    assert (full.status_code, "2 jobs wait already" in full.json["error"]) == (409, True)


@pytest.mark.storage
def test_a_submission_with_a_key_can_be_sent_again(served: Any, admin: Any) -> None:
    jobs = job("a", 4), job("b", 4), job("c", 4)
    first = post(admin, *jobs, key="night-1")
    again = post(admin, *jobs, key="night-1")
    assert [match["id"] for match in again["matches"]] == [match["id"] for match in first["matches"]]
    assert [match["resources"] for match in again["matches"]] == [match["resources"] for match in first["matches"]]
    [left] = {one["name"] for one in jobs} - {match["job"] for match in first["matches"]}
    assert [entry["job"] for entry in again["unmatched"]] == [left]
    assert admin.get(f"{API}/matches").json["total"] == 2
    # What had no match gets one when there is room; what was released is not matched again.
    released = first["matches"][0]["id"]
    admin.delete(f"{API}/matches/{released}")
    third = post(admin, *jobs, key="night-1")
    assert {match["job"] for match in third["matches"]} == {"a", "b", "c"}
    assert released in {match["id"] for match in third["matches"]}
    assert admin.get(f"{API}/matches").json["total"] == 3
    assert "submission" not in admin.get(f"{API}/matches/{released}").json["document"]
    for bad in ("", "x" * 65, "a b", '"', 5):
        assert admin.post(f"{API}/matches", json={"jobs": [], "key": bad}).status_code == 400, bad


def test_a_queued_submission_with_a_key_is_queued_once(served: Any, admin: Any) -> None:
    sent = {"jobs": [job("a", 4), job("b", 9)], "key": "night_2"}
    first, again = (admin.post(f"{API}/matches/queue", json=sent).json for _ in range(2))
    assert again["queued"] == first["queued"]
    assert post(admin, job("a", 4), path="matches/queue", key="other")["queued"][0]["id"] not in {
        entry["id"] for entry in first["queued"]
    }
    assert post(admin, *sent["jobs"], key="night_2")["matches"] == []
    assert rounds_of(served).run() == 2
    assert admin.post(f"{API}/matches/queue", json=sent).json["queued"] == first["queued"]
    assert admin.get(f"{API}/matches").json["total"] == 3


def test_a_round_that_fails_is_counted_and_the_next_one_matches(served: Any, admin: Any) -> None:
    is_broken = True

    def clock() -> float:
        if is_broken:
            raise MemoryError
        return served.clock()

    rounds = rounds_of(served, clock, round_jobs=1)
    post(admin, job("a", 4), path="matches/queue")
    assert rounds.run_if_due() is None
    assert make.counts(served.engine)["match_rungs_failed", "round"] == 1
    is_broken = False
    served.clock.now += 1
    assert rounds.run_if_due() == 1


def test_the_page_shows_when_a_match_ended_not_until_when_it_could_have_held(served: Any, admin: Any) -> None:
    number = post(admin, job("a", duration_s=86_400))["matches"][0]["id"]
    browser = served.person()
    until = re.findall(r"<time[^>]*>([^<]*)</time>", browser.get("/matches").text)[-1]
    served.clock.now += 3600
    admin.delete(f"{API}/matches/{number}")
    shown = browser.get("/matches").text
    assert until not in shown
    ended = admin.get(f"{API}/matches/{number}").json["match"]["ended_at"]
    assert re.findall(r"<time[^>]*>([^<]*)</time>", shown)[-1] == FORMATS["utc"](ended)
    assert until not in browser.get(f"/matches/{number}").text
