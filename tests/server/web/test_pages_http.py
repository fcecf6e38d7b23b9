"""The pages without a browser: links that any name survives, their JSON, ETags, the login in front."""

from __future__ import annotations

import gzip
import html
import json
import math
import re
import time
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, insert
from tests import make
from tests.make import not_none
from tests.server.web.conftest import Served

from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.queries.rejected import REJECTIONS
from jobsight_server.storage import schema
from jobsight_server.storage.job_counts import count_all
from jobsight_server.web.kit.moved import MOVED
from jobsight_server.web.kit.pages import job_url, node_url, user_url

PATHS = ("/", "/waste", "/savings", "/accuracy", "/users", "/queue", "/jobs", "/nodes", "/now", "/network")

# What an accounting file can hold in UTF-8; NUL ends the address of a request.
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)
awkward = st.sampled_from(
    [".", "..", "/", "//", "a//b", "a/../b", "/a", "a/", "%2F", "a?b=c", "a#b", "a b", "\\", "\n"]
)


@pytest.mark.parametrize("path", PATHS)
def test_an_empty_site_has_pages_and_their_json(client: FlaskClient, path: str) -> None:
    page = client.get(path)
    assert page.status_code == 200
    link = not_none(re.search(r'<link rel="alternate" type="application/json" href="([^"]+)">', page.text))
    assert isinstance(client.get(link[1].replace("&amp;", "&")).get_json(), dict)
    menu = re.findall(r">(\w+)</(?:a|summary)>", page.text.partition('aria-label="Pages"')[2].partition("</nav>")[0])
    assert menu == ["Start", "Waste", "Savings", "Accuracy", "Users", "Queue", "Jobs", "Now", "Nodes", "Network"], (
        "no agents"
    )
    assert "Nodes up" not in page.text, "no row of zeros"


def test_no_page_has_inline_script_or_style(client: FlaskClient) -> None:
    for path in (*PATHS, "/login", "/nowhere"):
        page = client.get(path).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page), path
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page)), path


def test_an_unchanged_answer_is_not_sent_again(client: FlaskClient, sqlite_engine: Engine) -> None:
    first = client.get("/api/v1/rejected")
    again = client.get("/api/v1/rejected", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    make.execute(sqlite_engine, insert(schema.event_counts).values(name="batches_rejected", label="x", value=1))
    changed = client.get("/api/v1/rejected", headers={"If-None-Match": first.headers["ETag"]})
    assert changed.status_code == 200


def test_rejections_have_titles_and_examples_without_content(client: FlaskClient, sqlite_engine: Engine) -> None:
    example = {"received_at": 1.0, "cluster": "alhpa", "node": "n1", "reason": "not declared", "bytes": 0, "body": b""}
    with sqlite_engine.begin() as connection:
        for name in REJECTIONS:
            connection.execute(insert(schema.event_counts).values(name=name, label="x", value=1))
        connection.execute(insert(schema.quarantine).values(example))
    page = client.get("/nodes").text
    for title in REJECTIONS.values():
        assert f'<th scope="row">{title}</th>' in page
    assert '<td class="num">kept by its agent</td>' in page
    assert "restart it" not in page  # there is nothing to take in again
    make.execute(sqlite_engine, insert(schema.quarantine).values(example | {"bytes": 3, "body": b"abc"}))
    assert "restart it" in client.get("/nodes").text


@pytest.mark.parametrize(("missed", "marked"), [(0, False), (9, False), (10, True)])
def test_missed_readings_are_marked_from_a_hundredth_on(
    client: FlaskClient, sqlite_engine: Engine, missed: int, marked: bool
) -> None:
    with sqlite_engine.begin() as connection:
        make.node(connection, agent=json.dumps({"readings": 1000, "readings_missed": missed}))
    page = client.get("/nodes").text
    cell = re.search(r'<td class="num( warn)?" data-bind="agent.readings_missed"[^>]*data-warn="agent.readings">', page)
    assert cell is not None
    assert (cell[1] is not None) == marked


@settings(max_examples=100, deadline=None)
@given(cluster=names | awkward, name=names | awkward)
@example(cluster="0", name="0\n")
def test_every_name_survives_its_link(app: Flask, cluster: str, name: str) -> None:
    with app.test_request_context("/"):
        links = {"user": user_url(cluster, name), "job": job_url(cluster, name), "node": node_url(cluster, name)}
    for noun, link in links.items():
        assert not re.search(r"(^|/)\.\.?(/|$)|//", urlsplit(link).path), link
        with app.test_request_context(link) as context:
            found = {**context.request.args, **(context.request.view_args or {})}
            assert (context.request.endpoint or "").startswith(f"pages.{noun}")
            assert (found["cluster"], found["name"]) == (cluster, name)


def test_a_poll_of_a_thousand_nodes_gets_one_page(client: FlaskClient, sqlite_engine: Engine) -> None:
    row = {"cluster": "c", "agent": '{"version": "0.2"}', "interfaces": '[{"name": "eth0", "kind": "ethernet"}]'}
    with sqlite_engine.begin() as connection:
        for number in range(1000):
            make.node(connection, f"n{number:04}", **row, last_time=5.0, received_at=5.0)
    text = client.get("/nodes?search=n0&sort=name&order=desc").text
    assert text.count("data-row=") == 50
    assert 'href="/nodes?page=2&amp;search=n0&amp;sort=name&amp;order=desc"' in text
    poll = not_none(re.search(r'data-json="(/api/v1/nodes[^"]*)"', text))
    polled = client.get(html.unescape(poll[1]))
    assert [node["name"] for node in polled.get_json()["nodes"][:2]] == ["n0999", "n0998"]
    assert len(polled.data) < 30_000
    every = client.get("/api/v1/nodes?limit=1000")
    assert len(every.get_json()["nodes"]) == 1000
    assert every.headers.get("Content-Encoding") is None
    packed = client.get("/api/v1/nodes?limit=1000", headers={"Accept-Encoding": "br, gzip;q=0.5"})
    assert (packed.headers["Content-Encoding"], packed.headers["Vary"]) == ("gzip", "Accept-Encoding")
    assert json.loads(gzip.decompress(packed.data))["nodes"][7]["name"] == "n0007"
    assert len(packed.data) < len(every.data) / 10
    page = client.get("/nodes", headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(page.data) == client.get("/nodes").data
    # The login reflects what is asked for beside its form's secret.
    login = client.application.test_client().get("/login?once=" + "a" * 2000, headers={"Accept-Encoding": "gzip"})
    assert (login.status_code, len(login.data) > 2000, login.headers.get("Content-Encoding")) == (200, True, None)
    script = client.get("/assets/chart.js", headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(script.data) == client.get("/assets/chart.js").data


def test_hostile_names_are_text(client: FlaskClient, sqlite_engine: Engine) -> None:
    hostile = "\"'><script>alert(1)</script>&{{7*7}}"
    run = dict.fromkeys(("cluster", "user", "account", "name", "queue", "exec_host"), hostile)
    with sqlite_engine.begin() as connection:
        make.job(connection, hostile, on={hostile: 1}, **run)
        count_all(connection)
    query = {"cluster": hostile, "name": hostile}
    for path, arguments in (
        ("/now", {}),
        ("/users", {"search": hostile}),
        ("/jobs", {}),
        ("/user", query),
        ("/job", query),
    ):
        answer = client.get(path, query_string=arguments)
        assert answer.status_code == 200, path
        assert "<script>alert" not in answer.text
        assert "{{7*7}}" in answer.text


@pytest.mark.parametrize(
    ("failure", "status", "said"),
    [("memory", -27, "killed: memory"), ("time", 137, "killed: time"), (None, -11, "failed")],
)
def test_a_job_page_says_what_the_job_ran_out_of(
    client: FlaskClient, sqlite_engine: Engine, failure: str | None, status: int, said: str
) -> None:
    why = "a lower bound: the job ran out of it" if failure == "time" else None
    runtime = {"value": 8.0, "lower_bound": why is not None, "reason": why}
    with sqlite_engine.begin() as connection:
        make.job(connection, cluster="c", end=9.0, failure=failure, exit_status=status, used={"runtime": runtime})
    page = client.get("/job?cluster=c&name=1").text
    assert ("at least</span> 8 s" in page) == (why is not None)
    assert said in page.split("<dt>State</dt>")[1].split("</dd>")[0]
    assert (str(why) in page) == (why is not None)


def test_a_history_counts_lower_bounds_apart_from_shared_nodes(client: FlaskClient, sqlite_engine: Engine) -> None:
    with sqlite_engine.begin() as connection:
        for number, ran_out in enumerate((False, True, True)):
            runtime = {"value": 8.0, "lower_bound": ran_out, "shown_only": True}
            make.job(connection, str(number), cluster="c", user="u", end=9.0, used={"runtime": runtime})
        count_all(connection)
    found = client.get("/api/v1/user/history?name=u").get_json()["metrics"]["runtime"]
    assert (found["actual"], found["shown_only"], found["lower_bounds"]) == ([], 3, 2)


def test_a_page_without_its_cluster_is_found_where_one_knows_the_name(
    client: FlaskClient, sqlite_engine: Engine
) -> None:
    with sqlite_engine.begin() as connection:
        for job_id, user, cluster in (("7/1", "bob", "c"), ("12", "bob", "c"), ("7/1", "eve", "d")):
            make.job(connection, job_id, user=user, cluster=cluster)
        count_all(connection)
    for path in ("/user?name=bob", "/job?name=12"):
        assert client.get(path).status_code == 200
    assert "no user &#39;zoe&#39; in any cluster" in client.get("/user?name=zoe").text
    with sqlite_engine.begin() as connection:
        make.job(connection, "8", user="bob", cluster="d")
        count_all(connection)
    several = client.get("/user?name=bob")
    assert several.status_code == 400
    assert "several clusters know this user (c, d); add ?cluster=NAME" in several.text
    assert client.get("/user?name=bob&cluster=c").status_code == 200


def test_a_job_page_shows_the_page_cache_and_each_network(client: FlaskClient, sqlite_engine: Engine) -> None:
    both = '{"infiniband":8e6,"ethernet":4000.0}'
    with sqlite_engine.begin() as connection:
        memory = {"value": 2.0**30, "source": "cgroup", "cache": 5 * 2.0**30, "charged_peak": 7 * 2.0**30}
        bandwidth = {"value": 8e6, "source": "samples", "fabric": "infiniband", "fabrics": both}
        used = {"memory": memory, "bandwidth": bandwidth}
        how = {"attribution": "cgroup"}
        make.job(connection, cluster="c", end=9.0, used={metric: entry | how for metric, entry in used.items()})
    text = client.get("/job?cluster=c&name=1").text
    assert ">page cache 5.00 GiB<" in text
    assert ">charged at most 7.00 GiB<" in text
    assert re.search(r">infiniband</span> <span [^>]*>ethernet 4\.00 kbit/s<", text)


def test_a_running_job_is_marked_where_it_uses_more_than_its_bound(client: FlaskClient, sqlite_engine: Engine) -> None:
    """On the list and on its page, with the forecast and what it has used so far."""
    run = {"cluster": "c", "user": "u", "processors": 2}
    now, used = time.time(), {"runtime": 100.0, "memory": 2.0**20}
    with sqlite_engine.begin() as connection:
        for number in range(12):
            make.job(connection, f"old{number}", end=101.0 + number, used=used, **run)
        make.job(connection, "over", start=now - 5000, **run)
        make.job(connection, "within", start=now - 5, **run)
    rebuild(sqlite_engine)
    listed = client.get("/jobs").text
    assert listed.count("over run time bound") == 1
    page = client.get("/job?cluster=c&name=over").text
    assert "over run time bound" in page
    assert ">1 min 40 s</td>" in page, "the forecast"
    assert "over run time bound" not in client.get("/job?cluster=c&name=within").text


def test_a_job_that_waits_has_no_start(client: FlaskClient, sqlite_engine: Engine) -> None:
    run = {"cluster": "c", "user": "u", "processors": 2, "profiled": False}
    with sqlite_engine.begin() as connection:
        make.job(connection, start=math.inf, state="queued", queued=time.time() - 3600.0, submitted=5.0, **run)
        make.job(connection, start=100.0, end=400.0, suspended_s=120.0, queued=50.0, **run)
        count_all(connection)
    ended_run, queued_run = client.get("/api/v1/job?name=1&cluster=c").get_json()["runs"]
    assert (ended_run["start"], ended_run["suspended_s"]) == (100.0, 120.0)
    assert (queued_run["start"], queued_run["state"]) == (None, "queued")
    assert {entry["reason"] for entry in queued_run["profile"]} == {"the job waits"}
    page = client.get("/job?cluster=c&name=1").text
    assert "<p>Ended after 3 min; its memory and processor use is unknown.</p>" in page
    assert "<dt>Suspended</dt><dd>2 min" in page
    assert "<strong>Waiting for 2 processors.</strong>" in page
    assert "<dt>Waited</dt><dd>1 h" in page
    listed = client.get("/api/v1/jobs?state=queued").get_json()["jobs"]
    assert [(one["job_id"], one["start"]) for one in listed] == [("1", None)]
    assert client.get("/jobs?state=queued").status_code == 200
    jobs = client.get("/api/v1/now").get_json()["runs"]
    assert (jobs["queued"], jobs["ended"], jobs["waiting"]) == (1, 1, 1)
    (user,) = client.get("/api/v1/users").get_json()["users"]
    assert (user["jobs"], user["running"], user["waiting"]) == (1, 0, 1)


def test_old_addresses_lead_to_the_new_ones(planted: FlaskClient) -> None:
    for old, new in MOVED.items():
        answer = planted.get(f"{old}?cluster=alpha%26")
        assert (answer.status_code, answer.location) == (308, f"{new}?cluster=alpha%26")
        assert planted.get(new).status_code == 200


def test_each_request_gives_its_connection_back_also_if_it_fails(served: Served) -> None:
    reading: Any = served.app.extensions["jobsight"].read_engine
    clients = {"/api": served.client("admin"), "/": served.person()}
    for address, status in (
        ("/api/v1/users", 200),
        ("/api/v1/users?sort=size", 400),
        ("/api/v1/job?name=nothing", 404),
        ("/accuracy", 200),
        ("/node?name=nothing", 404),
        ("/nowhere", 404),
    ):
        answer = clients["/api" if address.startswith("/api") else "/"].get(address)
        assert (answer.status_code, reading.pool.checkedout()) == (status, 0), address
