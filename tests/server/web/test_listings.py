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

from jobsight_server.savings.totals import count_marked, mark_all
from jobsight_server.storage.job_counts import count_all
from jobsight_server.storage.schema import jobs as jobs_table
from jobsight_server.web import jobs, network, nodes, now, trust, users, waste
from jobsight_server.web.kit.listing import Listing

LISTS: dict[str, tuple[Listing, str, str]] = {
    "jobs": (jobs.LISTING, "/jobs", "jobs"),
    "users": (users.USERS_LISTING, "/users", "users"),
    "nodes": (nodes.LISTING, "/nodes", "nodes"),
    "waste": (waste.LISTING, "/waste", "rows"),
    "trust": (trust.LISTING, "/trust", "rows"),
    "now": (now.LISTING, "/now", "jobs"),
    "applications": (network.LISTING, "/network", "applications"),
    "user/applications": (users.APPLICATIONS_LISTING, "/user", "applications"),
}
"""By the path in the API: what it can be asked, its page, and the field of its rows."""

OF_USER = {"user/applications": {"cluster": "beta", "name": "ada"}}
SPAN = {"since": "2023-10-01", "until": "2023-11-30"}
each_list = pytest.mark.parametrize("path", LISTS)


def ask(client: FlaskClient, path: str, status: int = 200, **query: str) -> Any:
    span = SPAN if any(each.name == "since" for each in LISTS[path][0].span) else {}
    answer = client.get(f"/api/v1/{path}", query_string={**OF_USER.get(path, {}), **span, **query})
    assert answer.status_code == status, (query, answer.text)
    return answer.get_json()


@pytest.fixture
def person(served: Served) -> FlaskClient:
    return served.person()


def rows(client: FlaskClient, path: str, **query: str) -> list[str]:
    return [repr(row) for row in ask(client, path, **query)[LISTS[path][2]]]


@each_list
def test_every_order_has_the_same_rows_and_the_declared_one_is_the_default(served: Served, path: str) -> None:
    listing, client = LISTS[path][0], served.client("admin")
    first = rows(client, path)
    for sort in listing.sorts:
        default = rows(client, path, sort=sort)
        both = {order: rows(client, path, sort=sort, order=order) for order in ("asc", "desc")}
        assert default == both["asc" if sort in listing.lowest_first else "desc"], sort
        assert sorted(first) == sorted(both["asc"]) == sorted(both["desc"])
    assert first == rows(client, path, sort=listing.sorts[0])


@each_list
def test_what_a_list_does_not_have_is_refused_with_the_value(served: Served, path: str) -> None:
    listing, client = LISTS[path][0], served.client("admin")
    refused = [
        (part, value)
        for part, at_most in (("page", 10**6), ("limit", 1000))
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
    listing, page, field = LISTS[path]
    client = served.client("admin")
    for sort in listing.sorts:
        all_of_them = ask(client, path, sort=sort, limit="1000")
        paged = [ask(client, path, sort=sort, limit="2", page=str(n + 1)) for n in range(all_of_them["total"] // 2 + 1)]
        assert [row for found in paged for row in found[field]] == all_of_them[field]
        assert {found["pages"] for found in paged} == {max(1, -(-len(all_of_them[field]) // 2))}
    assert ask(client, path, page="99")[field] == []
    answer = person.get(page, query_string={**OF_USER.get(path, {}), **(SPAN if listing.span else {}), "page": "99"})
    assert answer.status_code == 200
    assert "Last page" in answer.text


@pytest.mark.parametrize("path", [path for path, (listing, _, _) in LISTS.items() if listing.is_searched])
def test_a_search_takes_every_character_as_itself(served: Served, person: FlaskClient, path: str) -> None:
    page, field = LISTS[path][1:]
    for text in ("%", "_", "\\", "'", "A"):
        found = ask(served.client("admin"), path, search=text)[field]
        assert all(text.lower() in (row.get("user") or row.get("name")).lower() for row in found), text
    assert HOSTILE not in person.get(page, query_string={"search": HOSTILE}).text


@each_list
def test_links_of_a_page_keep_what_it_shows(person: FlaskClient, path: str) -> None:
    listing, page = LISTS[path][:2]
    kept = OF_USER.get(path, {"cluster": "alpha"} if listing.of_clusters else {})
    kept |= {"search": "a"} if listing.is_searched else {}
    text = person.get(page, query_string={**kept, **(SPAN if listing.span else {})}).text
    heads = [urlsplit(html.unescape(link)) for link in re.findall(r'<th scope="col"[^>]*><a href="([^"]+)"', text)]
    assert len(heads) >= (2 if path in ("users", "nodes", "waste", "trust") else 0)
    for link in heads:
        query = {name: values[0] for name, values in parse_qs(link.query).items()}
        assert link.path == page
        assert kept.items() <= query.items()
        assert query["sort"] in listing.sorts
        assert person.get(page, query_string=query).status_code == 200


STEADY = {
    "jobs": {"recorded", "end"},
    "users": {"user", "cluster"},
    "nodes": {"name", "cluster"},
    "waste": {"name"},
    "trust": {"name", "metric"},
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


KEY = ("cluster", "name", "user", "job_id", "start", "metric", "application")


def key(row: Any) -> tuple[Any, ...]:
    return tuple(row.get(field) for field in KEY)


@each_list
def test_a_walk_by_cursor_misses_and_doubles_nothing_while_jobs_arrive(served: Served, path: str) -> None:
    listing, _, field = LISTS[path]
    client, number = served.client("admin"), 3
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
