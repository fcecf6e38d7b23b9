"""A number that is a link leads to a list of as many."""

from __future__ import annotations

import re
from html import unescape

import pytest
from sqlalchemy import insert, select
from tests.server.web.conftest import NOW, Served, add_job

from jobsight_server.savings.sums.add import count_marked, mark_all
from jobsight_server.storage import schema
from jobsight_server.storage.job_counts import count_all

# Not those to a list in another order, which shows the ones that a sum is of first.
LINK = re.compile(
    r'<a href="(/(?:jobs|nodes)\?(?!sort)[^"]*)"[^>]*>\s*(?:<span[^>]*>)?([0-9,]+)(?: late| queued| silent)?<'
)


@pytest.mark.parametrize(
    ("path", "at_least"),
    [
        ("/now", 5),
        ("/nodes", 1),
    ],
)
def test_numbers_lead_to_what_they_count(served: Served, path: str, at_least: int) -> None:
    with served.engine.begin() as connection:
        connection.execute(schema.jobs.update().where(schema.jobs.c.state == "ended").values(account="physics"))
        connection.execute(schema.jobs.update().where(schema.jobs.c.user == "ada").values(account="bio", queue="long"))
        add_job(connection, "alpha", "5", "ada", NOW - 500, profiled=False, on={"n1": 1})
        ended = connection.scalars(select(schema.jobs.c.id).where(schema.jobs.c.profiled)).all()
        cpu = [{"run_id": run, "metric": "cpu", "learn_seq": 100 + run, "value": 0.5} for run in ended]
        connection.execute(insert(schema.profiles), cpu)
        count_all(connection)
        mark_all(connection)
    count_marked(served.engine)
    client = served.person()
    found = [(unescape(href), int(number.replace(",", ""))) for href, number in LINK.findall(client.get(path).text)]
    assert len(found) >= at_least, found
    for href, number in found:
        assert served.client("admin").get(f"/api/v1{href}").get_json()["total"] == number, href
        assert client.get(href).status_code == 200
