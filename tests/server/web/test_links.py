"""A number that is a link opens a list of that number, on every page of a planted site."""

from __future__ import annotations

import html
import re

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, delete
from tests.server.web.planted import DAY_S, FIRST, NOW

from jobsight_server.savings.sums.add import count_again
from jobsight_server.storage import schema

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

LINK = re.compile(r'<a [^>]*?href="(/(?:jobs|nodes)\?[^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
NUMBER = re.compile(r"([0-9][0-9,]*)(?: (?!min)[a-z]{3,})?")
PAGES = [
    "/", "/now", "/waste", "/waste?by=queue", "/waste?by=application", "/waste?range=1y", "/savings", "/accuracy",
    "/accuracy?by=cluster", "/queue", "/users", "/user?cluster=alpha&name=memo", "/mine?user=memo", "/jobs",
    "/jobs?user=memo", "/nodes", "/node?cluster=alpha&name=n1", "/network",
]  # fmt: skip


def test_a_number_opens_a_list_of_that_number(planted: FlaskClient, engine: Engine) -> None:
    # Of some jobs nothing was measured: they are in no figure of accuracy or of memory.
    with engine.begin() as connection:
        connection.execute(delete(schema.profiles).where(schema.profiles.c.run_id % 7 == 0))
        count_again(connection, range(int(FIRST // DAY_S), int(NOW // DAY_S) + 1))
    found, wrong = {}, []
    for page in PAGES:
        text = planted.get(page, follow_redirects=True).text
        for href, shown in LINK.findall(text):
            words = " ".join(re.sub(r"<[^>]+>", "", shown).split())
            if (number := NUMBER.fullmatch(words)) is not None:
                found[page, html.unescape(href)] = int(number[1].replace(",", ""))
    for (page, href), number in found.items():
        total = planted.get(f"/api/v1{href.partition('#')[0]}").get_json()["total"]
        if total != number:
            wrong.append((page, href, number, total))
    assert not wrong, "\n".join(map(str, wrong))
    assert len(found) > 5
