"""What a scheduler asks before it places a job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from tests import make

from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.serve.app import create_app
from jobsight_server.storage.engine import open_engine

URL = "/api/v1/predictions"
HOSTILE = "<script>alert(1)</script>"
METRICS = ["bandwidth", "memory", "cpu", "runtime"]
NAMES = [
    HOSTILE,
    "'; DROP TABLE series; --",
    "x" * 10_000,
    "a/b//c/../d",
    "/",
    "..",
    "ünïcödé 用户 🎉",
    "line\nend",
    'quote"back\\slash',
    "%2F?&=#+ ",
]


def ask(served: Any, **arguments: str) -> Any:
    return make.answered(served.client("scheduler").get(URL, query_string=arguments))["predictions"]


def test_without_a_metric_all_are_answered_and_a_missing_one_says_why(served: Any) -> None:
    answers = ask(served, cluster="beta", user="ada")
    assert [answer["metric"] for answer in answers] == METRICS
    assert [answer["n"] for answer in answers] == [1, 0, 0, 0]
    assert answers[1]["value"] is None
    assert "no history" in answers[1]["reason"]


def test_others_jobs_answer_for_an_unknown_user(served: Any) -> None:
    [answer] = ask(served, cluster="beta", user="nobody", metric="bandwidth")
    assert answer["value"] in {7, 9}
    assert (answer["level"], answer["n"], answer["user_jobs"]) == ("site", 2, 0)
    assert set(answer["forecasts"].values()) == {None}
    assert answer["mean_error"] is None
    assert answer["reason"] is None


def test_a_batch_of_ten_thousand_is_answered_and_one_more_refused(served: Any) -> None:
    questions = [{"cluster": "alpha", "user": f"u{i % 700}", "metric": "cpu"} for i in range(10_001)]
    client = served.client("scheduler")
    answers = client.post(URL, json={"questions": questions[:-1]}).json["predictions"]
    assert [answer["user"] for answer in answers] == [question["user"] for question in questions[:-1]]
    refused = client.post(URL, json={"questions": questions})
    assert refused.status_code == 400
    assert "10001 questions; at most 10000" in refused.json["error"]


WRONG_BATCHES: list[tuple[bytes, str]] = [
    (b"{", "truncated"),
    (b"\xff\xfe", "malformed"),
    (b'{"questions": [1]}', "$.questions[0]"),
    (b'{"questions": [{"cluster": "a"}]}', "`user` - at `$.questions[0]`"),
    (b'{"questions": [{"cluster": "a", "user": 7}]}', "$.questions[0].user"),
    (b'{"questions": [{"cluster": "a", "user": "b", "metric": "disk"}]}', "questions[0].metric = 'disk'"),
    (b'{"questions": [{"cluster": "a", "user": ""}]}', "questions[0].user is empty"),
    (b'{"questions": ' + b"[" * 100_000, ""),
]


def test_a_wrong_batch_is_answered_400_with_place_and_remedy(served: Any) -> None:
    client = served.client("scheduler")
    for body, says in WRONG_BATCHES:
        answer = client.post(URL, data=body, content_type="application/json")
        assert answer.status_code == 400
        assert says in answer.json["error"]


def test_too_large_or_not_json_is_refused(served: Any) -> None:
    client = served.client("scheduler")
    assert client.post(URL, data=b"x" * (4 * 2**20 + 1), content_type="application/json").status_code == 413
    wrong = client.post(URL, data=b"a=b", content_type="application/x-www-form-urlencoded")
    assert wrong.status_code == 415
    assert "send application/json" in wrong.json["error"]


def test_a_batch_and_a_single_question_give_the_same_bytes(served: Any) -> None:
    client = served.client("scheduler")
    for name in NAMES:
        for more in ({}, {"metric": "bandwidth"}, {"metric": "bandwidth", "processors": 4}):
            single = client.get(URL, query_string={"cluster": "alpha", "user": name, **more})
            batch = client.post(URL, json={"questions": [{"cluster": "alpha", "user": name, **more}]})
            assert single.status_code == batch.status_code == 200
            assert single.data == batch.data, name


@pytest.fixture
def configured(served: Any, serve: Any, database_url: str) -> Iterator[Any]:
    """The same site, with another coverage."""
    settings = serve(coverage="0.8")
    reading = open_engine(database_url, "read")
    app = create_app(settings, reading, served.engine, served.clock)
    site = app.extensions["jobsight"]
    rebuild(served.engine, site.answers.config)
    yield replace(served, app=app)
    reading.dispose()


def test_every_answer_is_given_under_the_sites_configuration(configured: Any) -> None:
    client = configured.client("scheduler")
    found = {
        "stored": client.get(URL, query_string={"cluster": "alpha", "user": "ada", "metric": "bandwidth"}),
        "never used": client.get(URL, query_string={"cluster": "alpha", "user": "ada", "metric": "cpu"}),
        "computed": client.get(URL, query_string={"cluster": "alpha", "user": "ada", "processors": 4}),
        "unknown user": client.get(URL, query_string={"user": "nobody", "metric": "cpu"}),
        "unknown user here": client.get(URL, query_string={"cluster": "alpha", "user": "nobody"}),
        "batch": client.post(URL, json={"questions": [{"cluster": "alpha", "user": "nobody"}]}),
    }
    for name, answer in found.items():
        for entry in answer.json["predictions"]:
            assert entry["coverage"] == 0.8, name
            assert "retrained" not in (entry["reason"] or ""), name
    profile = client.get("/api/v1/user?name=ada&cluster=alpha").json
    assert [entry["coverage"] for entry in profile["metrics"]] == [0.8] * 4
    assert profile["metrics"][2]["reason"].startswith("no history"), "trained with these settings, so never retraining"


@settings(max_examples=60, deadline=None)
@given(query=st.text(alphabet="&=%;+/#cluseramtix0fF\u00fc", max_size=40), user=st.text(max_size=20))
def test_no_query_breaks_the_server(served: Any, query: str, user: str) -> None:
    client = served.client("scheduler")
    assert client.get(f"{URL}?{quote(query, safe='&=%;+/')}").status_code in {200, 400}
    answer = client.get(f"{URL}?cluster=alpha&user={quote(user, errors='replace')}&metric=cpu")
    assert answer.status_code == (200 if user and "\0" not in user else 400)
    if answer.status_code == 200:
        assert answer.json["predictions"][0]["user"] == user


@pytest.mark.storage
def test_an_answer_is_fresh_as_soon_as_it_is_committed(served: Any) -> None:
    before = ask(served, cluster="alpha", user="ada", metric="bandwidth")[0]["value"]
    with served.engine.begin() as connection:
        connection.execute(
            text("UPDATE series SET answer = replace(answer, '300.0', '301.0') WHERE metric = 'bandwidth'")
        )
    after = ask(served, cluster="alpha", user="ada", metric="bandwidth")[0]["value"]
    assert (before, after) == (300, 301)


def test_a_kept_connection_holds_no_old_snapshot(served: Any) -> None:
    """Otherwise the write-ahead log could not be emptied and would grow for ever."""
    if served.engine.dialect.name != "sqlite":
        pytest.skip("SQLite's write-ahead log")
    ask(served, cluster="alpha", user="ada", metric="bandwidth")
    make.execute(served.engine, "INSERT INTO event_counts VALUES ('x', '', 1)")
    raw = served.engine.raw_connection()
    busy, in_log, moved = raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    raw.close()
    assert (busy, in_log, moved) == (0, 0, 0)
