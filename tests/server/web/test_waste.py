"""The page Waste on planted jobs, checked against plain SQL: who wastes what, what it would save, who improved."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, insert, text
from tests import make

from jobsight_server.profiler.totals import count_marked
from jobsight_server.serve.app import create_app
from jobsight_server.settings import load_settings
from jobsight_server.storage import schema
from jobsight_server.storage.event_counts import mark_all
from jobsight_server.storage.job_counts import count_all

DAY_S = 86400.0
FIRST = 1_699_833_600.0  # 2023-11-13
DAYS = 60
GIB = 2**30
PROCESSORS = 4

# GiB requested of 4 used, share of the processors busy, hours of limit for one of run time.
USERS = {
    "mem": (40, 0.9, 1.5),
    "idle": (6, 0.1, 1.5),
    "slow": (6, 0.9, 24.0),
    "imp": (20, 0.9, 1.5),
    "fit": (5, 0.95, 1.1),
}


def planted() -> tuple[list[Any], list[Any]]:
    rng, jobs, profiles = random.Random(2), [], []
    for day in range(DAYS):
        for user, (gib, busy, limit_h) in USERS.items():
            if user == "imp" and day >= 30:
                gib = 5  # as was recommended
            run_id = len(jobs) + 1
            end = FIRST + day * DAY_S + 3600 * rng.randrange(2, 20)
            job = {"id": run_id, "cluster": "alpha", "job_id": f"{run_id}.s", "start": end - 3600, "end": end}
            job |= {"state": "ended", "user": user, "name": f"app-{user}", "queue": "long" if limit_h > 2 else "batch"}
            job |= {"processors": PROCESSORS, "recorded_at": end, "profiled": True, "submitted": end - 4000}
            job |= {"requested_memory_bytes": gib * GIB, "requested_walltime_s": limit_h * 3600}
            jobs.append(job | {"account": "astro" if user in ("mem", "imp") else None})
            used = {
                "memory": (4 * GIB / PROCESSORS, 4.5 * GIB / PROCESSORS),
                "runtime": (3600.0, 4000.0),
                "cpu": (busy, None),
            }
            for metric, (value, bound) in used.items():
                profile = {"run_id": run_id, "metric": metric, "learn_seq": run_id, "value": value}
                profiles.append(profile | {"forecast": value, "bound": bound, "source": "accounting"})
    return jobs, profiles


def fill(engine: Engine) -> None:
    jobs, profiles = planted()
    with engine.begin() as connection:
        connection.execute(insert(schema.jobs), jobs)
        connection.execute(insert(schema.profiles), profiles)
        mark_all(connection)
        count_all(connection)
    count_marked(engine)


@pytest.fixture
def client(engine: Engine, database_url: str, fill_once: Callable[..., None]) -> FlaskClient:
    fill_once(engine, fill)
    return make.person(create_app(load_settings(flags={"database": database_url}), engine, engine), engine)


def ask(client: FlaskClient, **query: Any) -> Any:
    answer = client.get("/api/v1/waste", query_string=query)
    assert answer.status_code == 200, answer.text
    return answer.get_json()


@pytest.mark.parametrize(
    ("sort", "worst"), [("memory", "mem"), ("processors", "idle"), ("runtime", "slow"), ("processors_share", "idle")]
)
def test_who_wastes_most_stands_first(client: FlaskClient, sort: str, worst: str) -> None:
    assert ask(client, sort=sort)["rows"][0]["name"] == worst
    page = " ".join(client.get(f"/waste?sort={sort}").text.split())
    assert f'/user?cluster=alpha&amp;name={worst}"' in page.split('id="answer"')[1].split("</p>")[0]


def test_who_improved_stands_first_with_what_it_is_worth(client: FlaskClient) -> None:
    first, *others = ask(client, sort="memory_improved")["rows"]
    assert first["name"] == "imp"
    memory = first["memory"]
    # 16 of 20 GiB unused before, 1 of 5 now: of 30 jobs of an hour that asked for 5.
    assert (memory["before_unused_share"], memory["unused_share"]) == (pytest.approx(0.8), pytest.approx(0.2))
    assert memory["improved_hours"] == pytest.approx(0.6 * 5 * 30)
    assert all(row["memory"]["improved_hours"] == pytest.approx(0) for row in others)
    page = " ".join(client.get("/waste?sort=memory_improved").text.split())
    assert "improved most: 80 % of the memory unused before, 20 % now, which is 90.0 GiB-hours less" in page
    assert "60.0 points less" in page
    # Beside days on which the request was the same, nothing has changed.
    same = ask(client, since="2023-12-20", until="2023-12-24", before="2023-12-14", sort="memory_improved")
    assert (same["before_first_day"], same["before_last_day"]) == ("2023-12-14", "2023-12-18")
    assert {round(row["memory"]["improved_hours"], 6) for row in same["rows"]} == {0}


def test_figures_are_those_of_sql(client: FlaskClient, engine: Engine) -> None:
    by_hand = text(
        'SELECT j."user", sum(j.requested_memory_bytes * (j."end" - j.start)) / 3600.0 / 1073741824.0, '
        'sum(m.value * j.processors * (j."end" - j.start)) / 3600.0 / 1073741824.0, '
        'sum((1 - c.value) * j.processors * (j."end" - j.start)) / 3600.0, '
        'sum((j.requested_walltime_s - (j."end" - j.start)) * j.processors) / 3600.0, count(*) FROM jobs j '
        "JOIN profiles m ON m.run_id = j.id AND m.metric = 'memory' "
        "JOIN profiles c ON c.run_id = j.id AND c.metric = 'cpu' "
        'WHERE j."end" >= :since AND j."end" < :until GROUP BY j."user"'
    )
    for query, since, until in (
        ({}, FIRST + 30 * DAY_S, FIRST + 60 * DAY_S),
        ({"range": "1y"}, FIRST, FIRST + 60 * DAY_S),
        ({"since": "2023-11-20", "until": "2023-11-26"}, FIRST + 7 * DAY_S, FIRST + 14 * DAY_S),
    ):
        found = ask(client, **query)
        with engine.connect() as connection:
            wanted = {name: row for name, *row in connection.execute(by_hand, {"since": since, "until": until})}
        assert {row["name"] for row in found["rows"]} == wanted.keys() == USERS.keys()
        for row in found["rows"]:
            requested, used, idle, long, jobs = map(float, wanted[row["name"]])
            assert row["memory"]["requested_hours"] == pytest.approx(requested, rel=1e-6)
            assert row["memory"]["unused_hours"] == pytest.approx(requested - used, rel=1e-6)
            assert row["processors"]["unused_hours"] == pytest.approx(idle, rel=1e-3)
            assert row["runtime"]["unused_hours"] == pytest.approx(long, rel=1e-6)
            assert row["jobs"] == row["memory"]["jobs"] == jobs
        for resource in ("memory", "processors", "runtime"):
            sums = sum(row[resource]["unused_hours"] for row in found["rows"])
            assert found[resource]["unused_hours"] == pytest.approx(sums)


def test_every_column_sorts_both_ways_and_every_noun_adds_up(client: FlaskClient) -> None:
    total = ask(client)["memory"]
    for by, names in (
        ("account", {"astro", ""}),
        ("queue", {"long", "batch"}),
        ("application", None),
        ("cluster", {"alpha"}),
    ):
        found = ask(client, by=by)
        assert found["memory"] == total
        assert names is None or {row["name"] for row in found["rows"]} == names
    for sort in ("memory", "processors_share", "runtime_improved", "jobs", "name"):
        resource, _, figure = sort.partition("_")
        field = {"share": "unused_share", "improved": "improved_hours", "": "unused_hours"}[figure]
        for order, reverse in (("asc", False), ("desc", True)):
            rows = ask(client, sort=sort, order=order)["rows"]
            values = [row[sort] if sort in ("jobs", "name") else row[resource][field] for row in rows]
            assert values == sorted(values, reverse=reverse)


def test_a_span_without_an_earlier_one_leads_to_one_that_has_it(client: FlaskClient) -> None:
    page = " ".join(client.get("/waste?range=1y&sort=memory_improved").text.split())
    assert "No job is counted before 2023-11-13, so there is nothing to compare with. Choose a shorter range" in page
    half = re.search(r'such as <a href="([^"]+)">2023-12-13 to 2024-01-11</a>', page)
    assert half is not None, page
    menu = re.search(r'href="([^"]+)"[^>]*>Who improved<', page)
    assert menu is not None
    for link in (half[1], menu[1]):
        assert "imp</a> improved most" in client.get(html.unescape(link)).text
    assert "since=" not in re.search(r'href="([^"]+)"[^>]*>Who improved<', client.get("/waste").text)[1]  # type: ignore[index]
