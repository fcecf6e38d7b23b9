"""``/health``, ``/ready`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine, text
from tests import make
from tests.server.web.conftest import Clock

from jobsight_server.accounting.last_read import LastRead
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.serve.app import create_app
from jobsight_server.settings.declared import AccountingSource, Settings
from jobsight_server.storage.engine import open_engine


def parsed(body: str) -> dict[tuple[str, str], float]:
    """Each sample by its name and labels."""
    samples = [sample for family in text_string_to_metric_families(body) for sample in family.samples]
    found = {
        (one.name, ",".join(f'{name}="{one.labels[name]}"' for name in sorted(one.labels))): one for one in samples
    }
    assert len(found) == len(samples), "none twice"
    return {key: one.value for key, one in found.items()}


def test_metrics_are_prometheus_text(served: Any) -> None:
    answer = served.client("scheduler").get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = parsed(answer.text)
    assert found["jobsight_batches_received_total", ""] == 10
    assert found["jobsight_batches_rejected_total", 'reason="too "large"\n"'] == 1
    assert found["jobsight_nodes", 'cluster="alpha",state="up"'] == 1
    assert found["jobsight_nodes", 'cluster="beta",state="late"'] == 1
    assert found["jobsight_oldest_node_age_seconds", 'cluster="beta"'] == 600
    assert found["jobsight_jobs", 'cluster="alpha",state="running"'] == 1
    assert found["jobsight_series", 'cluster="alpha"'] == 4


def test_counts_have_a_label_for_each_thing_that_they_are_told_apart_by(served: Any) -> None:
    with served.engine.begin() as connection:
        counts = {
            ("profiles_missing", "memory: no samples of a node: n1"): 3,
            ("accounting_outcomes", "E already ended otherwise"): 2,
            ("connections_dropped", "query: idle"): 5,
            ("not in the table", "x: y"): 7,
        }
        add_event_counts(connection, counts)
    found = parsed(served.client("scheduler").get("/metrics").text)
    assert found["jobsight_profiles_missing_total", 'metric="memory",reason="no samples of a node: n1"'] == 3
    assert found["jobsight_accounting_outcomes_total", 'kind="E",outcome="already ended otherwise"'] == 2
    assert found["jobsight_connections_dropped_total", 'reason="idle",role="query"'] == 5
    assert found["jobsight_not_in_the_table_total", 'reason="x: y"'] == 7


@pytest.mark.storage
def test_accuracy_is_that_of_the_last_jobs(served: Any) -> None:
    with served.engine.begin() as connection:
        for value, forecast, bound in ((200, 200, 400), (300, 900, 150)):
            connection.execute(
                text("UPDATE profiles SET forecast = :f, bound = :b WHERE metric = 'memory' AND value = :v"),
                {"f": forecast, "b": bound, "v": value},
            )
    found = parsed(served.client("scheduler").get("/metrics").text)
    assert found["jobsight_forecast_jobs", 'metric="memory"'] == 2
    assert found["jobsight_forecast_within_20_percent_ratio", 'metric="memory"'] == 0.5
    assert found["jobsight_reservation_coverage_ratio", 'metric="memory"'] == 0.5
    assert found["jobsight_forecast_accuracy_ratio", 'metric="memory"'] == 0.5
    assert ("jobsight_forecast_accuracy_ratio", 'metric="runtime"') not in found


@pytest.mark.storage
def test_ready_knows_a_database_of_another_version(served: Any) -> None:
    make.execute(served.engine, "UPDATE alembic_version SET version_num = '0000'")
    answer = served.client().get("/ready")
    assert answer.status_code == 503
    assert answer.json["reason"] == "the database schema version does not match this program"
    assert served.client().get("/health").json == {"status": "ok"}


@pytest.mark.storage
def test_ready_knows_a_log_that_is_not_read(engine: Engine, database_url: str, serve: Callable[..., Settings]) -> None:
    source = AccountingSource(cluster="alpha", directory=Path("/var/spool/accounting"))
    sacct = AccountingSource(cluster="alpha", sacct=("sacct",))
    settings = replace(serve(ingest_listen=""), accounting=(source, sacct))
    clock = Clock()
    reading = open_engine(database_url, "read")
    client = create_app(settings, reading, engine, clock).test_client()
    assert client.get("/ready").json == {"status": "unavailable", "reason": "an accounting log is not being read"}
    last = LastRead(engine, source, clock)
    for passed, status in ((0.0, 200), (60.0, 200), (67.0, 503), (1.0, 200)):
        clock.now += passed
        if status == 200:
            last.note()
        assert client.get("/ready").status_code == status, passed
    reading.dispose()
