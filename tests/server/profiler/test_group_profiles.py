"""Profiles of Unix groups and accounts, and these two as fields of job groups."""

from __future__ import annotations

import random
from typing import Any

import pytest

from jobsight_predictor.series import pqm
from jobsight_server.forecasts import AnswerReader, ForecastConfig, ForecastRequest, rebuild, rebuild_if_outdated
from jobsight_server.forecasts.request import job_question
from jobsight_server.profiler.run import profile_finished
from jobsight_server.queries.groups import user_group_list
from jobsight_server.storage.schema import group_series, model_state, series

ACCOUNTS = ForecastConfig(job_groups=(("user", "account"), ("account",), ("user",), ()))
HOSTILE = "<script>'; DROP TABLE jobs; -- \u00fc"


def jobs(count: int = 60) -> list[dict[str, Any]]:
    """Run times depend on the account alone; users charge several."""
    rng = random.Random(4)
    planned = []
    for number in range(count):
        account = rng.choice(["slow", "fast", HOSTILE, None, "l" * 300])
        length = {"slow": 900.0, "fast": 30.0}.get(account or "", 300.0)
        start = 1000.0 * number
        planned.append(
            {
                "job_id": f"{number}.s",
                "submitted": start,
                "start": start,
                "end": start + length * rng.uniform(0.95, 1.05),
                "user": rng.choice(["a", "b", "c"]),
                "account": account,
                "group": rng.choice(["g1", "g2"]),
                "processors": 1,
            }
        )
    return planned


def learn(site: Any, planned: list[dict[str, Any]], config: ForecastConfig, rounds: int = 3) -> None:
    for part in range(rounds):
        for job in planned[part::rounds]:
            site.run(**job)
        profile_finished(site.engine, 0.0, lambda: 1e9, config=config)


def lists(site: Any, config: ForecastConfig, by: str, **more: Any) -> Any:
    with site.engine.connect() as connection:
        return user_group_list(connection, config, by, **more)


def test_a_group_s_profile_is_that_of_all_its_users_jobs(site: Any) -> None:
    planned = jobs()
    learn(site, planned, ACCOUNTS, rounds=1)
    found = lists(site, ACCOUNTS, "account")
    assert found.profiled
    assert [group.name for group in found.groups] == sorted(
        {job["account"] for job in planned if job["account"] is not None}
    )
    for group in found.groups:
        of = [job for job in planned if job["account"] == group.name]
        values = [job["end"] - job["start"] for job in of]
        assert (group.jobs, group.users) == (len(of), len({job["user"] for job in of}))
        profile = group.metrics["runtime"]
        if len(group.name) > 255:  # no index takes it
            assert profile is None
            continue
        assert profile is not None
        assert (profile.n, profile.updated) == (len(of), of[-1]["end"])
        assert profile.pqm == pytest.approx(pqm(values))
        assert profile.forecasts["history"] == pytest.approx(sum(values) / len(values))
        assert profile.forecasts["sliding-window"] == pytest.approx(sum(values[-5:]) / 5)
        assert group.metrics["memory"] is None


def test_only_the_fields_of_job_groups_have_profiles(site: Any) -> None:
    learn(site, jobs(), ForecastConfig())
    assert site.dump(group_series) == []
    found = lists(site, ForecastConfig(), "group")
    assert not found.profiled
    assert [(group.name, set(group.metrics.values())) for group in found.groups] == [("g1", {None}), ("g2", {None})]
    assert rebuild_if_outdated(site.engine, ACCOUNTS) is True
    assert {row[1] for row in site.dump(group_series)} == {"account"}
    assert rebuild_if_outdated(site.engine, ACCOUNTS) is False


@pytest.mark.storage
def test_learned_in_rounds_or_rebuilt_the_rows_are_the_same(site: Any) -> None:
    learn(site, jobs(), ACCOUNTS)
    tables = (group_series, series, model_state)
    before = [site.dump(table) for table in tables]
    assert len(before[0]) == 3
    rebuild(site.engine, ACCOUNTS)
    assert [site.dump(table) for table in tables] == before


def test_a_new_user_s_job_is_forecast_from_its_account(site: Any) -> None:
    learn(site, jobs(), ACCOUNTS)
    requests = [
        ForecastRequest("alpha", job_question("new", account=account), "runtime") for account in ("slow", "fast")
    ]
    with site.engine.connect() as connection:
        slow, fast = AnswerReader(site.engine, ACCOUNTS).answers(connection, requests)
    assert (slow.level, fast.level) == ("account", "account")
    assert slow.value == pytest.approx(900.0, rel=0.06)
    assert fast.value == pytest.approx(30.0, rel=0.06)


@pytest.mark.storage
def test_lists_are_searched_paged_and_of_one_cluster(site: Any) -> None:
    for number in range(60):
        site.run(f"{number}.s", 0.0, 10.0, account=f"p%{number:02d}", cluster="beta" if number % 2 else "alpha")
    assert (lists(site, ACCOUNTS, "account").pages, len(lists(site, ACCOUNTS, "account", page=2).groups)) == (2, 10)
    assert lists(site, ACCOUNTS, "account", search="P%0").total == 10
    assert lists(site, ACCOUNTS, "account", search="P_0").total == 0
    assert lists(site, ACCOUNTS, "account", cluster="beta").total == 30
    assert lists(site, ACCOUNTS, "group").total == 0
