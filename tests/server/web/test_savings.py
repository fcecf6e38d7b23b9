"""Savings: node-hours freed by week against plain SQL, with intervals, failures and adoption, before and since."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, insert, text, update
from tests.server.web.planted import DAY_S, FIRST, GIB

from jobsight_server.savings.sums.add import count_marked, mark_all
from jobsight_server.storage import schema

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

BEGAN = FIRST + 37 * DAY_S  # a Wednesday
HELD = (
    'SELECT cast((j."end" - :first) / 604800 AS integer) AS week, j."user", count(*) AS jobs, '
    'sum(j.requested_memory_bytes / 1073741824.0 * (j."end" - j.start) / 3600.0 / 64) AS held, '
    'sum(m.bound * j.processors / 1073741824.0 * (j."end" - j.start) / 3600.0 / 64) AS reserved '
    "FROM jobs j JOIN profiles m ON m.run_id = j.id AND m.metric = 'memory' GROUP BY 1, 2"
)
FREED = (
    'SELECT cast((j."end" - :first) / 604800 AS integer) AS week, count(*), '
    "count(CASE WHEN j.failure = 'memory' THEN 1 END), "
    'sum((a.old - a.new) / 1073741824.0 * (j."end" - j.start) / 3600.0 / 64) FROM adjustments a JOIN jobs j '
    "ON j.job_id = a.job_id AND j.cluster = a.cluster WHERE a.state = 'done' AND a.resource = 'memory' GROUP BY 1"
)


def adjust(engine: Engine) -> None:
    """Lower the jobs of memo and slow from a day on: one runs out; one change was refused, one was undone. A third of
    memo's jobs ran on another cluster."""
    with engine.begin() as connection:
        connection.execute(
            update(schema.jobs).where(schema.jobs.c.user == "memo", schema.jobs.c.id % 3 == 0).values(cluster="beta")
        )
        mark_all(connection)
    count_marked(engine)
    with engine.begin() as connection:
        query = "SELECT * FROM jobs WHERE \"user\" IN ('memo', 'slow') AND start > :began ORDER BY id"
        for number, run in enumerate(connection.execute(text(query), {"began": BEGAN}).all()):
            state = {3: "failed", 4: "undone"}.get(number, "done")
            row = {"cluster": run.cluster, "job_id": run.job_id, "user": run.user, "submitted": run.submitted}
            row |= {"resource": "memory", "parameter": "mem", "old": run.requested_memory_bytes, "new": 5 * GIB}
            row |= {"times": 1, "reason": "similar jobs", "state": state, "begun": run.start - 60}
            connection.execute(insert(schema.adjustments).values(row))
            if number == 5:
                row |= {"resource": "runtime", "old": 7200, "new": 3600}
                connection.execute(insert(schema.adjustments).values(row))
            if number == 6:
                failed = update(schema.jobs).where(schema.jobs.c.id == run.id).values(failure="memory")
                connection.execute(failed)


def follows(row: Any) -> bool:
    return 0.9 * row.reserved <= row.held <= 1.1 * row.reserved


def test_its_numbers_are_those_of_sql_with_intervals_over_users(planted: FlaskClient, engine: Engine) -> None:
    adjust(engine)
    found: Any = planted.get("/api/v1/savings?node_hour=0.5").json
    first = {"first": FIRST}
    with engine.connect() as connection:
        held = connection.execute(text(HELD), first).all()
        freed = {row[0]: row[1:] for row in connection.execute(text(FREED), first)}
    weeks = found["weeks"]
    assert [week["first_day"] for week in weeks][::7] == ["2023-11-20", "2024-01-08"]
    assert [week["since"] for week in weeks] == [False] * 4 + [True] * 4
    advised: set[str] = set()
    for number, week in enumerate((each["figures"] for each in weeks), 1):
        rows = [row for row in held if row.week == number]
        advised |= {row.user for row in rows if not follows(row)}
        of_week = [row for row in rows if row.user in advised]
        followed = {row.user for row in of_week if follows(row)}
        assert (week["users"], week["adopters"]) == (len(of_week), len(followed))
        assert followed == ({"imp"} if number > 4 else set()), "others never had anything to follow"
        assert week["held"] == pytest.approx(sum(row.held for row in rows), rel=1e-6)
        lowered, ran_out, amount = freed.get(number, (0, 0, 0.0))
        assert (week["lowered"], week["lowered_ran_out"]) == (lowered, ran_out)
        assert week["freed"]["amount"] == pytest.approx(amount)
        assert week["money"]["amount"] == pytest.approx(amount / 2)
    since = found["since"]
    assert (found["began_by"], found["began"] > BEGAN, since["lowered_ran_out"]) == ("adjust", True, 1)
    assert (since["shortened"], since["shortened_ran_out"]) == (1, 0)
    assert since["freed"]["amount"] == pytest.approx(sum(row[2] for row in freed.values()))
    # Bounds held in all of the jobs of these users: what they free is the difference.
    possible = {row.user: 0.0 for row in held} | {"ann": 0.0}
    waste = planted.get("/api/v1/waste?since=2023-12-18&until=2024-01-14&sort=name&limit=100").json
    for row in waste["rows"]:
        possible[row["name"]] += (row["memory"]["freed_hours"] or 0.0) / 64
    amounts = np.array([*possible.values()])
    assert since["possible"]["amount"] == pytest.approx(amounts.sum())
    drawn = np.random.default_rng(5).choice(amounts, (20_000, len(amounts)))
    with np.errstate(divide="ignore"):  # where only users without anything to free are drawn
        apart = (drawn.mean(axis=1) - amounts.mean()) / drawn.std(axis=1)
    ends = [since["possible"]["low"], since["possible"]["high"]]
    expected = amounts.sum() - len(amounts) * amounts.std() * np.quantile(apart, (0.95, 0.05))
    assert ends == pytest.approx(expected, rel=0.06, abs=0.1)
    assert since["possible"]["users"] == len(amounts)
    assert {row["user"] for row in found["adoption"]} == advised
    asked = {row["user"]: (row["asked_before"], row["asked_since"]) for row in found["adoption"]}
    assert asked["imp"] == pytest.approx(((23 * 20 + 5 * 5) / 28 / 4.8, 5 / 4.8)), "from day 30 on as recommended"
    page = " ".join(re.sub("<[^>]+>", " ", planted.get("/savings?node_hour=0.5").text).split())
    assert f"{since['lowered']} jobs with less memory freed" in page
    assert f"{since['lowered_ran_out']} of these jobs ran out of memory" in page
    assert planted.get("/savings?node_hour=0").status_code == 400
