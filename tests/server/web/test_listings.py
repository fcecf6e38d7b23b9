"""What every list of pages and API keeps to, whatever it lists."""

from __future__ import annotations

import html
import json
import re
from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from flask.testing import FlaskClient
from sqlalchemy import select, update
from tests import make
from tests.server.web.conftest import HOSTILE, NOW, Served

from jobsight_server.ground.listing import ListPage
from jobsight_server.savings.sums.add import count_marked, mark_all
from jobsight_server.serve.app import ROUTES
from jobsight_server.storage.job_counts import count_all
from jobsight_server.storage.schema import jobs as jobs_table
from jobsight_server.systems.listed import systems

LISTS: dict[str, tuple[str, str]] = {
    "jobs": ("/jobs", "jobs"),
    "user/jobs": ("/mine", "jobs"),
    "users": ("/users", "users"),
    "nodes": ("/nodes", "nodes"),
    "waste": ("/waste", "rows"),
    "accuracy": ("/accuracy", "rows"),
    "now": ("/now", "jobs"),
    "network": ("/network", "applications"),
    "applications": ("/network", "applications"),
    "user/applications": ("/user", "applications"),
}
if systems():
    LISTS |= {"matches": ("/matches", "matches"), "resources": ("/resources", "resources"), "plan": ("/plan", "jobs")}
"""By the path in the API: its page, and the field of its rows."""

LISTINGS = {route.path.removeprefix("/api/v1/"): route.listing for route in ROUTES if route.listing is not None}
OF_USER = {
    "user/applications": {"cluster": "beta", "name": "ada"},
    "user/jobs": {"user": "ada"},
    "plan": {"cluster": "beta"},
}
SPAN = {"since": "2023-10-01", "until": "2023-11-30"}
each_list = pytest.mark.parametrize("path", LISTS)


def ask(client: FlaskClient, path: str, status: int = 200, **query: str) -> Any:
    span = SPAN if LISTINGS[path].span else {}
    answer = client.get(f"/api/v1/{path}", query_string={**OF_USER.get(path, {}), **span, **query})
    assert answer.status_code == status, (query, answer.text)
    found = answer.get_json()
    return found["jobs"] if path == "user/jobs" and status == 200 else found


@pytest.fixture
def served(served: Served, serve: Any) -> Served:
    """The site of all pages, with nodes to plan with, and some rows in the lists of the placing systems."""
    if not systems():
        return served
    nodes = {"nodes": ("beta=64",), "strategy": "release"}
    served.app = served.app_with(serve(sections={"offers": nodes}))
    for number in range(-3, 0):
        arrive_at_systems(served.client("admin"), number)
    return served


def arrive_at_systems(client: FlaskClient, number: int) -> None:
    """A resource, a job to match and one with a time slot, between the earlier ones and beyond them."""
    compute = {"type": "compute", "attributes": {}, "capacities": {"slots": 4}}
    make.answered(client.put(f"/api/v1/resources/r{number % 3}.{number}", json=compute))
    needs = {"name": "d", "type": "compute", "amounts": {"slots": 1}}
    job = {"name": f"job{number}", "user": f"user{number}", "dependencies": [needs]}
    make.answered(client.post("/api/v1/matches/queue", json={"jobs": [job]}))
    place = {"cluster": "beta", "user": "ada", "nodes": 1, "walltime_s": 60, "deadline": NOW + 36_000}
    offer = make.answered(client.post("/api/v1/offers", json={**place, "release": NOW + 600 * (number % 5)}))
    assert offer["accepted"], offer


@pytest.fixture
def person(served: Served) -> FlaskClient:
    return served.person()


def rows(client: FlaskClient, path: str, **query: str) -> list[str]:
    return [repr(row) for row in ask(client, path, **query)[LISTS[path][1]]]


def test_every_list_of_the_api_is_tested_here_and_has_pages_and_cursors() -> None:
    paged = {route.path for route in ROUTES if {"page", "limit", "cursor"} & {each.name for each in route.takes}}
    paged -= {"/api/v1/user/history", "/api/v1/resources/rank"}  # the last jobs and the best machines, no list to walk
    assert paged == {f"/api/v1/{path}" for path in LISTINGS} == {f"/api/v1/{path}" for path in LISTS}
    answers = {route.path: route.answer_type for route in ROUTES}
    assert {path for path, of in answers.items() if isinstance(of, type) and issubclass(of, ListPage)} <= paged
    assert all({"page", "limit", "cursor"} <= {each.name for each in of.parameters} for of in LISTINGS.values())


@each_list
def test_every_order_has_the_same_rows_and_the_declared_one_is_the_default(served: Served, path: str) -> None:
    listing, client = LISTINGS[path], served.client("admin")
    first = rows(client, path)
    for sort in listing.sorts:
        default = rows(client, path, sort=sort)
        both = {order: rows(client, path, sort=sort, order=order) for order in ("asc", "desc")}
        assert default == both["asc" if sort in listing.lowest_first else "desc"], sort
        assert sorted(first) == sorted(both["asc"]) == sorted(both["desc"])
    assert first == rows(client, path, sort=listing.sorts[0])


@each_list
def test_what_a_list_does_not_have_is_refused_with_the_value(served: Served, path: str) -> None:
    listing, client = LISTINGS[path], served.client("admin")
    refused = [
        (part, value)
        for part, at_most in (("page", 10**6), ("limit", listing.rows_at_most))
        for value in ("0", "-1", "1.5", "", "٣", str(at_most + 1), "1" + "0" * 30)
    ]
    refused += [
        ("sort", "size'--"),
        ("order", "up"),
        ("who", "1"),
        ("search", "\0"),
        ("cluster", "\0"),
        ("cursor", "é"),
    ]
    for name, value in refused:
        error = ask(client, path, 400, **{name: value})["error"]
        assert name in error
    if listing.of_clusters:
        assert "nowhere2" in ask(client, path, 404, cluster="nowhere2")["error"]
    assert client.get(f"/api/v1/{path}?page=1&page=2").status_code == 400, "given twice"


@each_list
def test_pages_by_number_have_each_row_once_and_one_beyond_the_end_is_empty(
    served: Served, person: FlaskClient, path: str
) -> None:
    listing, (page, field), client = LISTINGS[path], LISTS[path], served.client("admin")
    for sort in listing.sorts:
        all_of_them = ask(client, path, sort=sort, limit="1000")
        paged = [ask(client, path, sort=sort, limit="2", page=str(n + 1)) for n in range(all_of_them["total"] // 2 + 1)]
        assert [row for found in paged for row in found[field]] == all_of_them[field]
        assert {found["total"] for found in paged} == {len(all_of_them[field])}
        assert [len(found[field]) for found in paged[:-1]] == [2] * (len(paged) - 1)
        assert {found["pages"] for found in paged} == {max(1, -(-len(all_of_them[field]) // 2))}
    assert ask(client, path, page="99")[field] == []
    answer = person.get(page, query_string={**OF_USER.get(path, {}), **(SPAN if listing.span else {}), "page": "99"})
    assert answer.status_code == 200
    assert "Last page" in answer.text


@pytest.mark.parametrize("path", [path for path, of in LISTINGS.items() if of.is_searched])
def test_a_search_takes_every_character_as_itself(served: Served, person: FlaskClient, path: str) -> None:
    page, field = LISTS[path]
    for text in ("%", "_", "\\", "'", "A"):
        found = ask(served.client("admin"), path, search=text)[field]
        assert all(text.lower() in (row.get("user") or row.get("name")).lower() for row in found), text
    assert HOSTILE not in person.get(page, query_string={"search": HOSTILE}).text


@each_list
def test_links_of_a_page_keep_what_it_shows(person: FlaskClient, path: str) -> None:
    listing, page = LISTINGS[path], LISTS[path][0]
    kept = OF_USER.get(path, {"cluster": "alpha"} if listing.of_clusters else {})
    kept |= {"search": "a"} if listing.is_searched else {}
    text = person.get(page, query_string={**kept, **(SPAN if listing.span else {})}).text
    heads = [urlsplit(html.unescape(link)) for link in re.findall(r'<th scope="col"[^>]*><a href="([^"]+)"', text)]
    assert len(heads) >= (2 if path in ("users", "nodes", "waste", "accuracy") else 0)
    for link in heads:
        query = {name: values[0] for name, values in parse_qs(link.query).items()}
        assert link.path == page
        assert kept.items() <= query.items()
        assert query["sort"] in listing.sorts
        assert person.get(page, query_string=query).status_code == 200


STEADY = {
    "jobs": {"recorded", "end"},
    "user/jobs": {"recorded", "end"},
    "network": {"application"},
    "matches": {"submitted"},
    "resources": {"name"},
    "plan": {"start"},
    "users": {"user", "cluster"},
    "nodes": {"name", "cluster"},
    "waste": {"name"},
    "accuracy": {"name", "metric"},
    "now": {"started"},
    "applications": {"application"},
    "user/applications": {"name"},
}
"""The orders in which a list can be walked."""


def arrive(served: Served, number: int) -> None:
    """Jobs arrive and change: of new and of known users, with ends before and after all others; one that ran ends."""
    with served.engine.begin() as connection:
        for place, (user, end) in enumerate((("aaa", NOW - 9000), ("ada", NOW + number), ("zzz", None))):
            job_id, node = f"new{number}.{place}", f"{user}{number}"
            run = {
                "cluster": "beta",
                "user": "ada" if user == "ada" else node,
                "group": f"g{number}",
                "start": NOW - 9500,
            }
            run |= {"end": end, "name": f"app{number}", "application": f"app{number}", "processors": 4}
            run |= {"requested_memory_bytes": 10**9, "requested_walltime_s": 1e5}
            used = {metric: {"value": 1e6, "forecast": 2e6, "bound": 3e6} for metric in ("memory", "runtime")}
            make.job(connection, job_id, **run, on={node: 4}, used=used if end else {})
        under_way = connection.execute(select(jobs_table).where(jobs_table.c.state == "running")).all()
        if len(under_way) > 2:
            ended = {"state": "ended", "end": NOW - 4990 + number, "recorded_at": NOW + 60}
            connection.execute(update(jobs_table).where(jobs_table.c.id == under_way[number % 3].id).values(ended))
        count_all(connection)
        mark_all(connection)
    count_marked(served.engine)


KEY = ("id", "cluster", "name", "user", "job_id", "start", "metric", "application")


def key(row: Any) -> tuple[Any, ...]:
    return tuple(row.get(field) for field in KEY)


@each_list
def test_a_walk_by_cursor_misses_and_doubles_nothing_while_jobs_arrive(served: Served, path: str) -> None:
    listing, field, client, number = LISTINGS[path], LISTS[path][1], served.client("admin"), 3
    for some in range(number):
        arrive(served, some)
    for sort in listing.sorts:
        for order in ("asc", "desc"):
            before = ask(client, path, sort=sort, order=order, limit="1000")
            assert before["total"] > 1
            found = ask(client, path, sort=sort, order=order, limit="1")
            assert (found["next"] is not None) == (sort in STEADY[path]), sort
            walked = found[field]
            while found["next"] is not None:
                number += 1
                if path in ("matches", "resources", "plan"):
                    arrive_at_systems(client, number)
                else:
                    arrive(served, number)
                found = ask(client, path, cursor=found["next"], limit="8")
                walked += found[field]
            if sort in STEADY[path]:
                keys = [key(row) for row in walked]
                after = {key(row) for row in ask(client, path, sort=sort, limit="1000")[field]}
                assert len(set(keys)) == len(keys), "twice"
                assert {key(row) for row in before[field]} & after <= set(keys), "missed"


@each_list
def test_a_cursor_of_another_list_is_refused(served: Served, path: str) -> None:
    client = served.client("admin")
    arrive(served, 0)
    for parts in (
        [],
        ["x", True],
        ["name", False],
        ["recorded", True, "x"],
        ["end", True, 1, "x"],
        ["name", False, 5, 5],
        {},
    ):
        cursor = urlsafe_b64encode(json.dumps(parts).encode()).decode()
        assert "cursor" in ask(client, path, 400, cursor=cursor)["error"], parts
    assert "exclude each other" in ask(client, path, 400, cursor="x", page="1")["error"]


def test_the_tasks_of_an_array_are_walked_after_exact_ids(served: Served) -> None:
    client = served.client("admin")
    with served.engine.begin() as connection:
        for job_id in ("4711_1", "4711_2", "4711_3", "4711", "4711.head"):
            make.job(connection, job_id, cluster="beta", user="ada", end=NOW)
    whole = client.get("/api/v1/jobs?job_id=4711&limit=1000").json
    page, walked = client.get("/api/v1/jobs?job_id=4711&limit=2").json, []
    walked += page["jobs"]
    while page["next"] is not None:
        page = client.get(f"/api/v1/jobs?job_id=4711&limit=2&cursor={page['next']}").json
        assert (page["arrays"], page["total"]) == ([], 5)
        walked += page["jobs"]
    assert [run["job_id"] for run in walked] == [run["job_id"] for run in whole["jobs"]]
    assert {run["job_id"] for run in walked[:2]} == {"4711", "4711.head"}


@pytest.mark.systems
def test_the_earlier_name_of_the_limit_of_resources_means_the_same(served: Served) -> None:
    client = served.client("admin")
    assert ask(client, "resources", size="2") == ask(client, "resources", limit="2")
    assert ask(client, "resources", limit="20000")["total"] == 3
