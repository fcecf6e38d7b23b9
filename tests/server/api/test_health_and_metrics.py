"""``/health``, ``/ready`` and ``/metrics``."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import text

LINE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?[0-9.]+(?:e[+-]?[0-9]+)?)$')


def parsed(body: str) -> dict[tuple[str, str], float]:
    """The exposition format, read strictly: a type before each name's samples, no sample twice."""
    found: dict[tuple[str, str], float] = {}
    typed: set[str] = set()
    for line in body.splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in typed
            typed.add(name)
        elif not line.startswith("# HELP "):
            match = LINE.match(line)
            assert match, line
            assert match[1] in typed
            assert (match[1], match[2]) not in found
            found[match[1], match[2]] = float(match[3])
    assert body.endswith("\n")
    return found


def test_metrics_are_prometheus_text(served: Any) -> None:
    answer = served.client("scheduler").get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = parsed(answer.text)
    assert found["jobsight_batches_received_total", 'label=""'] == 10
    assert found["jobsight_batches_rejected_total", r'label="too \"large\"\n"'] == 1
    assert found["jobsight_nodes", 'cluster="alpha",state="up"'] == 1
    assert found["jobsight_nodes", 'cluster="beta",state="late"'] == 1
    assert found["jobsight_oldest_node_age_seconds", 'cluster="beta"'] == 600
    assert found["jobsight_jobs", 'cluster="alpha",state="running"'] == 1
    assert found["jobsight_series", 'cluster="alpha"'] == 4


def test_ready_knows_a_database_of_another_version(served: Any) -> None:
    with served.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    answer = served.client().get("/ready")
    assert answer.status_code == 503
    assert answer.json["reason"] == "the database has other tables than this program needs"
    assert served.client().get("/health").json == {"status": "ok"}
