"""Running jobs: their forecasts, their use so far, and a mark if it is above the bound."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import to_builtins
from sqlalchemy import update
from tests import make
from tests.make import not_none

from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.learning.finished import profile_finished
from jobsight_server.profiler.so_far import watch_running
from jobsight_server.queries.job_detail import job_detail
from jobsight_server.queries.jobs import JOBS, job_list
from jobsight_server.storage.schema import jobs, nodes, running_use

MIB = 2**20


def rows(memory: list[int | None], start: float = 0.0, step: float = 10.0) -> list[Any]:
    """Readings of memory in MiB."""
    return [(start + i * step, 0, 0, 0.0, None if m is None else m * MIB, 0.0) for i, m in enumerate(memory)]


def used(site: Any) -> dict[int, Any]:
    """Run -> (MiB per processor so far, reason)."""
    return {
        run: (None if memory is None else memory / MIB, reason)
        for run, _, memory, _, reason, _ in site.dump(running_use)
    }


def detail(site: Any, job_id: str, now: float) -> dict[str, Any]:
    with site.engine.connect() as connection:
        found = job_detail(connection, AnswerReader(ForecastConfig()), "alpha", job_id, now)
    run = to_builtins(not_none(found).runs[0])
    return {**run, "profile": {entry["metric"]: entry for entry in run["profile"]}}


def listed(site: Any, now: float) -> dict[str, list[str]]:
    with site.engine.connect() as connection:
        found = job_list(connection, AnswerReader(ForecastConfig()), now, JOBS.asked())
    return {job.job_id: job.over_bound for job in found.jobs}


def history(site: Any, count: int = 20, seconds: float = 100.0) -> None:
    """Jobs of the same user that used 100 MiB a processor, and were learned."""
    for i in range(count):
        site.run(f"old{i}", 1000 + i, 1000 + i + seconds, {"n9": 2}, used_memory_bytes=200 * MIB, submitted=999.0 + i)
    profile_finished(site.engine, 0.0, lambda: 1e9)


def test_memory_so_far_is_the_peak_of_the_sum_over_the_nodes_less_what_they_had_idle(site: Any) -> None:
    # Before the job 100 and 50 MiB; then the nodes peak at different times: 900 + 150 is the most at one time.
    site.node("n1", rows([100, 100, 900, 200, 200, 200], 80.0))
    site.node("n2", rows([50, 50, 150, 150, 600, 150], 83.0))
    run = site.run("1.s", 95.0, None, {"n1": 2, "n2": 2})
    assert watch_running(site.engine, lambda: 200.0) == 1
    assert used(site) == {run: (pytest.approx((900 + 150 - 150) / 4), None)}
    assert watch_running(site.engine, lambda: 200.0) == 0, "nothing new, nothing written"


@pytest.mark.storage
def test_jobs_on_shared_nodes_are_followed_by_their_own_cgroups(site: Any) -> None:
    first = site.node("n1", rows([5000] * 12, 80.0))
    second = site.node("n2", rows([5000] * 12, 80.0))
    run = site.run("1.head.example.org", 95.0, None, {"n1": 2, "n2": 2})
    other = site.run("2.s", 50.0, None, {"n1": 4})
    held = {first: [None, 300, 900, 200, 200, 200], second: [100, 100, 150, 150, 600, 150]}
    for node, memory in held.items():
        earlier = [(90.0, 1.0, 4000 * MIB, 0)]  # before it was requeued
        now = [(100.0 + 10 * i, float(i), m and m * MIB, 9000 * MIB) for i, m in enumerate(memory)]
        site.job_samples(node, "1.head", [*earlier, *now])
    watch_running(site.engine, lambda: 200.0)
    assert used(site) == {
        run: (pytest.approx((900 + 150) / 4), None),
        other: (None, "other jobs were on n1 and their share is unknown"),
    }
    assert watch_running(site.engine, lambda: 200.0) == 0
    for node in held:
        site.job_samples(node, "1.head", [(170.0, 9.0, 1000 * MIB, 0)])
    watch_running(site.engine, lambda: 200.0)
    assert used(site)[run] == (500, None)


def test_only_new_samples_are_taken_in_and_a_peak_stays(site: Any) -> None:
    node = site.node("n1", rows([100, 700, *[300] * 20], 90.0))
    run = site.run("1.s", 95.0, None, {"n1": 1})
    watch_running(site.engine, lambda: 310.0)
    assert used(site)[run] == (600, None)
    assert site.dump(running_use)[0][5] is None, "the first readings show no growth"
    with site.engine.begin() as connection:
        make.readings(connection, node, rows([400, 1100, 200], 8000.0))
        connection.execute(update(nodes).values(last_time=8020.0))
        # What was taken in some minutes ago is not read again.
        make.readings(connection, node, rows([9999], 101.0))
    watch_running(site.engine, lambda: 9000.0)
    assert used(site)[run] == (1000, None)
    assert site.dump(running_use)[0][5] == pytest.approx(400 * MIB / (8020.0 - 300.0), rel=0.01)
    make.execute(site.engine, update(jobs).values(state="ended", end=9000.0))
    watch_running(site.engine, lambda: 9100.0)
    assert used(site) == {}


def test_samples_that_a_node_sends_later_than_another_are_taken_in(site: Any) -> None:
    site.node("n1", rows([100] * 30, 0.0))
    late = site.node("n2", rows([100] * 12, 0.0))
    run = site.run("1.s", 95.0, None, {"n1": 1, "n2": 1})
    watch_running(site.engine, lambda: 300.0)
    assert used(site)[run] == (0, None)
    with site.engine.begin() as connection:
        make.readings(connection, late, rows([500, 100], 120.0))
    watch_running(site.engine, lambda: 300.0)
    assert used(site)[run] == (pytest.approx(200), None)


def test_a_backlog_that_arrives_after_hours_of_silence_is_taken_in_and_the_silence_is_not_searched(
    sqlite_site: Any,
) -> None:
    node = sqlite_site.node("n1", rows([100, 300, 300], 90.0))
    run = sqlite_site.run("1.s", 95.0, None, {"n1": 1})
    asked = make.queries_sent(sqlite_site.engine)
    watch_running(sqlite_site.engine, lambda: 1e6)
    assert used(sqlite_site)[run] == (200, None)
    assert 0 < len([statement for statement in asked if "FROM readings" in statement]) < 5
    with sqlite_site.engine.begin() as connection:
        make.readings(connection, node, rows([300, 700], 120.0))
        connection.execute(update(nodes).values(last_time=130.0))
    watch_running(sqlite_site.engine, lambda: 1e6 + 60)
    assert used(sqlite_site)[run] == (600, None)


def test_what_is_not_known_has_a_reason_and_no_mark(site: Any) -> None:
    history(site)
    site.node("n1", rows([100, 100, 9000], 1980.0))
    site.node("n2", rows([9000], 2020.0))
    shared = [site.run(f"{i}.s", 1995.0, None, {"n1": 1}) for i in range(2)]
    unknown = site.run("u.s", 2010.0, None, {"n2": 1})
    silent = site.run("q.s", 2010.0, None, {"n3": 1})
    nowhere = site.run("w.s", 2010.0, None)
    watch_running(site.engine, lambda: 2050.0)
    reasons = {run: reason for run, (memory, reason) in used(site).items() if memory is None}
    assert reasons == {
        **dict.fromkeys(shared, "other jobs were on n1 and their share is unknown"),
        unknown: "the idle level of n2 is not known",
        silent: "no samples of n3",
        nowhere: "the accounting log gives no nodes or no processors for it",
    }
    assert {job: over for job, over in listed(site, 2050.0).items() if over} == {}
    assert detail(site, "u.s", 2050.0)["profile"]["memory"]["reason"] == "so far: the idle level of n2 is not known"


def test_a_running_job_shows_its_forecast_from_its_submission_on(site: Any) -> None:
    """Nothing has ended since, so that no round of learning has come by."""
    history(site)
    site.run("new", 2000.0, None, {"n9": 2}, submitted=1990.0)
    now = detail(site, "new", 2010.0)["profile"]
    assert (now["memory"]["forecast"], now["memory"]["provisional"]) == (100 * MIB, True)
    assert now["memory"]["bound"] >= 100 * MIB
    assert 0 < now["runtime"]["probability"] <= 1
    assert now["bandwidth"]["forecast"] is None
    # A job that ends later fixes it, and what that job used does not change it.
    site.run("other", 2000.0, 2500.0, {"n9": 2}, used_memory_bytes=9000 * MIB, submitted=1990.5)
    profile_finished(site.engine, 0.0, lambda: 1e9)
    then = detail(site, "new", 2600.0)["profile"]
    assert not then["memory"]["provisional"]
    for metric in ("memory", "runtime"):
        for field in ("forecast", "bound", "probability"):
            assert then[metric][field] == now[metric][field]


@pytest.mark.storage
def test_a_job_that_uses_more_than_its_bound_is_marked_while_it_runs(site: Any) -> None:
    history(site)
    node = site.node("n1", rows([50, 50, 100], 1980.0))
    site.run("1.s", 1995.0, None, {"n1": 2}, submitted=1994.0)
    watch_running(site.engine, lambda: 2010.0)
    bounds = {metric: entry["bound"] for metric, entry in detail(site, "1.s", 2010.0)["profile"].items()}
    assert (listed(site, 2010.0)["1.s"], bounds["runtime"] < 1000, bounds["memory"] < 400 * MIB) == ([], True, True)
    with site.engine.begin() as connection:
        make.readings(connection, node, [(2010.0, None, None, None, 850 * MIB, 0.0)])
        connection.execute(update(nodes).values(last_time=2010.0))
    watch_running(site.engine, lambda: 2020.0)
    found = detail(site, "1.s", 2020.0)
    assert found["over_bound"] == listed(site, 2020.0)["1.s"] == ["memory"]
    assert found["profile"]["memory"]["so_far"] == 400 * MIB
    assert found["profile"]["runtime"]["so_far"] == 25
    assert listed(site, 1995.0 + bounds["runtime"] + 1)["1.s"] == ["memory", "runtime"]
    assert listed(site, 2020.0)["old0"] == []
