"""At a site of a million jobs, no route reads a whole table that grows with jobs or readings (SQLite).

``statistics.json`` is what ANALYZE said of such a database (``benchmarks/site.py make``): with it, SQLite plans on the
few rows of a test as it would there.
"""

from __future__ import annotations

import json
import re
import sqlite3
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import event
from tests import make
from tests.server.web.test_openapi import requests
from tests.server.web.test_roles import address, rules

from jobsight_server.savings.sums.add import count_marked, mark_all
from jobsight_server.serve.app import create_app
from jobsight_server.storage.engine import open_engine

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

STATISTICS = json.loads((Path(__file__).parent / "statistics.json").read_text())
ALONE = {
    "queue": "q", "account": "a", "application": "cfd", "exit_status": "1", "node": "n1", "longer_than_s": "60",
    "used_below": "50", "profiled": "yes", "outcome": "failed", "time_below": "5", "job_id": "77", "sort": "end",
    "user": "ada", "search": "ad", "by": "queue", "range": "30d", "until": "2023-11-01", "since": "2023-11-01",
    "metric": "memory", "status": "silent",
}  # fmt: skip
QUERIES: tuple[dict[str, str], ...] = (
    {},
    {"cluster": "alpha", "user": "ada", "range": "1y"},
    {"user": "ada", "sort": "end", "order": "asc", "page": "2"},
    {"user": "ada", "sort": "memory", "outcome": "killed"},
    {"sort": "memory", "page": "3"},
    {"sort": "time", "order": "asc", "cluster": "alpha"},
    {"sort": "outcome", "user": "ada"},
    {"state": "running", "search": "a", "q": "a"},
    {"application": "cfd", "since": "2023-11-01", "until": "2023-11-14"},
    {"used_below": "50", "longer_than_s": "60", "profiled": "no"},
    {"cluster": "alpha", "sort": "end", "order": "desc"},
    {"sort": "end", "order": "asc"},
    {"cluster": "alpha", "state": "ended", "used_below": "50"},
    *({name: value} for name, value in ALONE.items()),
    {"cursor": urlsafe_b64encode(b'["recorded",true,5]').decode()},
    {"cursor": urlsafe_b64encode(b'["end",true,1700000000.0,5]').decode(), "state": "ended", "user": "ada"},
    {"cursor": urlsafe_b64encode(b'["end",false,1700000000.0,5]').decode(), "range": "1y"},
)
LARGE = {"jobs", "readings", "sample_summaries", "profiles", "job_nodes", "job_samples"}


class Statement(NamedTuple):
    parameters: Any
    routes: set[str]


@pytest.fixture
def statements(served: Any, serve: Any, database_url: str) -> Iterator[dict[str, Statement]]:
    """Statements that the routes run: of the API, and of pages with and without filters.

    As they are run, with parameters, of which SQLite's plans do not know the values. Look-ups on connections of the
    driver are noted with the values in their place.
    """
    found: dict[str, Statement] = {}
    asked = ""

    def note(statement: str, parameters: Any = ()) -> None:
        if re.match(r"\s*(SELECT|WITH|UPDATE|DELETE)\b", statement):
            found.setdefault(statement, Statement(parameters, set())).routes.add(asked)

    def listen(connection: sqlite3.Connection, _record: Any) -> None:
        # SQLite writes infinity, the start of a waiting job, as it cannot read it.
        connection.set_trace_callback(lambda statement: note(re.sub(r"\bInf\b", "9e999", statement)))

    def before(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        note(statement, parameters[0] if many else parameters)

    with served.engine.begin() as connection:
        mark_all(connection)
    assert count_marked(served.engine) > 0, "pages read what is counted by day"
    engines = [open_engine(database_url, access) for access in ("read", "write")]
    for engine in engines:
        event.listen(engine, "connect", listen)
        event.listen(engine, "before_cursor_execute", before)
    app = create_app(serve(), *engines, served.clock)
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {served.tokens['admin']}"
    for method, asked, body, _ in requests():
        client.open(asked, method=method, json=body)
    people = make.person(app, served.engine, served.clock())
    for rule, _ in rules(app, "GET"):
        for query in QUERIES:
            asked = address(rule, "ada", "77.server", query)
            assert people.get(asked).status_code != 500, asked
    yield found
    for engine in engines:
        engine.dispose()


def test_no_route_reads_a_whole_table(statements: dict[str, Statement], database_url: str) -> None:
    assert len(statements) > 200
    connection = sqlite3.connect(database_url.removeprefix("sqlite:///"))
    connection.execute("ANALYZE")
    connection.execute("DELETE FROM sqlite_stat1")
    connection.executemany("INSERT INTO sqlite_stat1 VALUES (?, ?, ?)", STATISTICS)
    connection.commit()
    connection.close()
    connection = sqlite3.connect(database_url.removeprefix("sqlite:///"))
    reads_all = []
    for statement, (parameters, routes) in statements.items():
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        # The first rows in the order of an index are few, whatever the table has.
        is_ordered = sum("SCAN" in line for line in plan) == 1 and "TEMP B-TREE" not in str(plan)
        are_first = is_ordered and re.search(r"FROM jobs ORDER BY [^()]*\s+LIMIT \S+ OFFSET \S+$", statement)
        if not are_first and (any(scanned(line, statement) for line in plan) or sorts_cluster(plan)):
            reads_all.append("\n".join([", ".join(sorted(routes)[:3]), statement, *plan]))
    connection.close()
    assert reads_all == [], "\n\n".join(reads_all)


def scanned(line: str, statement: str) -> bool:
    """Return whether this line of a plan reads all rows of a large table."""
    found = re.match(r"SCAN (\w+)", line)
    if not found:
        return "ix_jobs_state (state=?)" in line and "state = 'ended'" in statement  # nearly all jobs have ended
    alias = re.search(rf'"?(\w+)"?(?: AS)? {found[1]}\b', statement)
    return found[1] in LARGE or (alias is not None and alias[1] in LARGE)


def sorts_cluster(plan: list[str]) -> bool:
    """Return whether this plan puts all jobs of a cluster in order: most sites have one cluster."""
    return "USE TEMP B-TREE FOR ORDER BY" in plan and any(
        re.match(r"SEARCH jobs .*\(cluster=\?\)$", line) for line in plan
    )
