"""The shipped alerts: accepted by promtool, on time, and on existing metrics."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import Engine, insert
from tests import make

from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.queries.prometheus import exposition
from jobsight_server.storage.job_counts import count_all
from jobsight_server.storage.schema import forecast_scores, savings_groups

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "jobsight.rules.yml"
NOW = 1_700_000_000.0
DAY = int(NOW // 86400)


def promtool(*arguments: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_alert_begins_when_it_should(tmp_path: Path) -> None:
    cases = Path(__file__).with_name("jobsight.rules.test.yml").read_text()
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    assert alerts == set(re.findall(r"alertname: (\w+)", cases)), "each has a case"
    file = tmp_path / "test.yml"
    file.write_text(cases.replace("RULES", str(RULES)))
    assert "SUCCESS" in promtool("test", "rules", str(file))


def test_what_the_rules_ask_for_is_in_the_metrics(sqlite_engine: Engine) -> None:
    with sqlite_engine.begin() as connection:
        make.node(connection, last_time=NOW - 9999, received_at=NOW - 9999, clock_skew_s=0.0)
        make.job(connection, start=NOW - 3000, requested_walltime_s=3600.0, processors=1)
        connection.execute(
            insert(savings_groups).values(id=1, cluster="alpha", application="", user="", queue="", account="")
        )
        add_event_counts(connection, {("batches_rejected", "not JSON"): 2, ("accounting_unreadable", "gone"): 1})
        for period, first_day in (("week", DAY - (DAY - 4) % 7), ("day", DAY)):
            score = {"level": "cluster", "period": period, "group_id": 1, "metric": "memory", "first_day": first_day}
            sums = {"jobs": 20, "accuracy": 10, "within20": 5, "bounds": 20, "held": 19}
            connection.execute(insert(forecast_scores).values(**score, **sums))
        count_all(connection)
    with sqlite_engine.connect() as connection:
        lines = exposition(connection, NOW).decode().splitlines()
    samples = {re.split(r"[{ ]", line)[0] for line in lines if not line.startswith("#")}
    expressions = re.findall(r"expr: (.+)", RULES.read_text())
    assert len(expressions) == 6
    assert {name for each in expressions for name in re.findall(r"jobsight_\w+", each)} <= samples
    assert 'jobsight_nodes{cluster="alpha",state="silent"} 1.0' in lines
    assert "jobsight_rejected_total 3.0" in lines
    assert 'jobsight_forecasts_broken{cluster="alpha",metric="memory"} 0.0' in lines
    assert 'jobsight_jobs_running_out{cluster="alpha",resource="time"} 1.0' in lines


def test_an_empty_database_has_the_metrics_that_count_from_nothing(sqlite_engine: Engine) -> None:
    """A counter that begins with its first rejection would have no increase."""
    with sqlite_engine.connect() as connection:
        assert "jobsight_rejected_total 0.0" in exposition(connection, NOW).decode()
