"""Numbers as the pages of placing systems and of the search display them, each beside plain SQL."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine
from tests import make
from tests.server.web.planted import NOW
from tests.server.web.test_displayed import compare

from jobsight_server.auth.tokens import create_token

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

API = "/api/v1"
SLOTS = {"c1": 8, "c2": 16, "c3": 96}


@pytest.fixture
def placed(planted: FlaskClient, engine: Engine) -> FlaskClient:
    """The browser of ``planted``, after resources, matches and offers came by the API."""
    with engine.begin() as connection:
        tokens = {role: create_token(connection, role, "", NOW)[1] for role in ("admin", "scheduler")}
    client = planted.application.test_client()

    def send(role: str, method: str, path: str, body: dict[str, object]) -> dict[str, object]:
        headers = {"Authorization": f"Bearer {tokens[role]}"}
        found: dict[str, object] = make.answered(
            client.open(f"{API}/{path}", method=method, json=body, headers=headers)
        )
        return found

    for name, slots in SLOTS.items():
        capacities = {"slots": {"total": slots}, "memory_gib": {"total": slots * 4}}
        resource = {"type": "compute", "attributes": {"rack": slots}, "capacities": capacities, "static": True}
        send("admin", "PUT", f"resources/{name}", resource)
    jobs = [make.to_match(f"fit{n}", 3 + n, user="ann", priority=n) for n in range(9)]
    send("scheduler", "POST", "matches", {"jobs": jobs})
    send("scheduler", "POST", "matches/release", {"ids": [2, 5]})
    send(
        "scheduler",
        "POST",
        "matches/queue",
        {"jobs": [make.to_match("large", 500, user="bob"), make.to_match("one", 1)]},
    )
    for n in range(6):
        job = {"cluster": "alpha", "user": "memo", "nodes": 1 + n % 2, "walltime_s": 14_400, "deadline": NOW + 9e5}
        send("scheduler", "POST", "offers", job | {"release": NOW + 1800 * n})
        if n != 5:
            send("scheduler", "POST", f"offers/{n + 1}/confirm", {"job_id": f"{n}.s"})
    for number, outcome in enumerate(("finished", "killed"), 1):
        send("scheduler", "POST", f"offers/{number}/started", {})
        send("scheduler", "POST", f"offers/{number}/ended", {"outcome": outcome})
    return planted


HELD = """coalesce((SELECT sum(json_extract(h.amounts, '$.slots')) FROM holds h JOIN matches m ON m.id = h.match_id
    WHERE h.resource_id = r.id AND m.state = 'held'), 0)"""
TOTAL = "json_extract(r.capacities, '$.slots[0]')"
MATCHED = (
    "(SELECT count(*) FROM holds h JOIN matches m ON m.id = h.match_id WHERE h.resource_id = r.id AND state = 'held')"
)
STANDING = "state IN ('offered', 'confirmed', 'running')"
ENDED = "state IN ('finished', 'killed', 'failed')"

SHOWN: list[tuple[str, str, str, str]] = [
    ("/resources", "main", "count", "SELECT count(*) FROM resources"),
    ("/resources", "main", "text text count count count count",
     f"SELECT name, type || ' static rack', {TOTAL}, {TOTAL} - {HELD}, {TOTAL}, {MATCHED} FROM resources r"),
    ("/matches", "main", "count count", "SELECT sum(state = 'held'), sum(state = 'queued') FROM matches"),
    ("/matches", "main", "count text text count text count",
     "SELECT id, name, coalesce(\"user\", '–'), priority, state, rounds FROM matches"),
    ("/matches?state=held", "main", "count text count text",
     "SELECT id, name, priority, state FROM matches WHERE state = 'held'"),
    ("/plan?cluster=alpha", "main", "count", "SELECT count(*) FROM nodes WHERE cluster = 'alpha'"),
    ("/plan?cluster=alpha", "main", "count decimal decimal",
     f"SELECT count(*), sum(pos * charge), sum((1 - pos) * penalty) FROM offers WHERE {STANDING}"),
    ("/plan?cluster=alpha", "planned", "count text count seconds day day share decimal decimal",
     f"""SELECT id, 'memo ' || state, nodes, requested_s, planned_start, planned_end, pos, pos * charge,
        (1 - pos) * penalty FROM offers WHERE {STANDING}"""),
    ("/plan?cluster=alpha", "main", "text count count share share share",
     f"""SELECT 'All', count(*), sum(state != 'finished'), 1 - avg(pos), avg(state != 'finished'), avg(predicted)
        FROM offers WHERE {ENDED}"""),
    ("/plan?cluster=alpha", "main", "text count",
     "SELECT label || ':', value FROM event_counts WHERE name = 'offer_outcomes'"),
    *((f"/find?text={asked}", "main", "text text text",
       f"SELECT DISTINCT {name}, '{kind}', {cluster} FROM {table} WHERE {name} LIKE '{asked}%'")
      for asked, name, kind, cluster, table in (
          ("i", '"user"', "user", "cluster", "jobs"), ("app-i", "application", "application", "'–'", "jobs"),
          ("n", "name", "node", "cluster", "nodes"))),
]  # fmt: skip
"""As in ``test_displayed``."""


@pytest.mark.parametrize("path", sorted({path for path, *_ in SHOWN}))
def test_displayed_numbers_are_those_of_sql(placed: FlaskClient, engine: Engine, path: str) -> None:
    compare(placed.get(path).text, engine, [each[1:] for each in SHOWN if each[0] == path])
