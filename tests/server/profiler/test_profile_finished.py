"""From samples and accounting in the tables to profiles, series and event counts."""

from __future__ import annotations

import random
from typing import Any

import pytest
from sqlalchemy import Engine, event, text, update
from tests import make

from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.profiler.runs import ON_NODES
from jobsight_server.storage.schema import jobs, profiles, series

GIB = 2**30
Row = tuple[float, int | None, int | None, float | None, int | None, float]


def readings(until: int, in_rate: int, out_rate: int, cpu_rate: float = 2.0, memory: int = GIB) -> list[Row]:
    """One a minute, from -60 on."""
    return [(float(t), in_rate * t, out_rate * t, cpu_rate * t, memory, 0.0) for t in range(-60, until + 1, 60)]


def go(engine: Engine, now: float = 0.0, grace_s: float = 600.0, limit: int = 200) -> int:
    return profile_finished(engine, grace_s, lambda: now, LearningOptions(limit=limit))


@pytest.mark.storage
def test_the_larger_direction_of_each_node_is_summed_and_divided(site: Any) -> None:
    site.node("n1", readings(1200, 1000, 200))
    site.node("n2", readings(1200, 300, 500))
    run = site.run("1.s", 60, 960, {"n1": 4, "n2.site.example": 2}, used_memory_bytes=12 * GIB, used_cpu_s=2700.0)
    assert go(site.engine) == 1
    found = site.profile(run)
    assert found["bandwidth"].value == pytest.approx((1000 + 500) * 8 / 6)
    assert found["bandwidth"].peak == pytest.approx((1000 + 500) * 8 / 6)
    assert (found["bandwidth"].source, found["bandwidth"].attribution) == ("samples", "exclusive")
    # The accounting log's own figures win over the nodes'.
    assert (found["memory"].value, found["memory"].source, found["memory"].attribution) == (
        2 * GIB,
        "accounting",
        "cgroup",
    )
    assert found["cpu"].value == pytest.approx(2700 / 900 / 6)
    assert found["runtime"].value == 900
    assert {row.reason for row in found.values()} == {None}
    assert go(site.engine) == 0


def test_shared_nodes_are_apportioned_between_runs_even_running_ones(site: Any) -> None:
    site.node("n1", readings(1200, 1000, 0))
    first = site.run("1.s", 0, 600, {"n1": 1})
    second = site.run("2.s", 300, 900, {"n1": 3})
    site.run("3.s", 600, None, {"n1": 4})
    next_door = site.run("4.s", 0, 600, {"n1": 1}, cluster="beta")
    assert go(site.engine) == 2
    assert go(site.engine, now=600.0) == 1
    assert site.profile(first)["bandwidth"].value == pytest.approx((300 * 1000 + 300 * 250) / 600 * 8)
    assert site.profile(first)["bandwidth"].attribution == "apportioned"
    assert site.profile(second)["bandwidth"].value == pytest.approx((300 * 750 + 300 * 3000 / 7) / 600 * 8 / 3)
    assert site.profile(next_door)["bandwidth"].reason == "no samples of n1"


def test_a_share_that_cannot_be_told_is_unknown_and_not_learned(site: Any) -> None:
    site.node("n1", readings(1200, 1000, 0))
    run = site.run("1.s", 0, 600, {"n1": 1})
    site.run("2.s", 0, 700, {"n1": 0}, processors=None, state="running")
    assert go(site.engine) == 1
    found = site.profile(run)["bandwidth"]
    assert (found.value, found.attribution) == (None, "unknown")
    assert found.reason == "other jobs were on n1 and their share is unknown"
    assert [row[2] for row in site.dump(series)] == ["runtime"]


def test_runs_wait_for_their_samples_but_not_for_ever(site: Any) -> None:
    node = site.node("n1", readings(600, 1000, 0))
    site.run("1.s", 0, 599.5, {"n1": 1}, recorded_at=1000.0)
    site.run("2.s", 0, 500, {"never": 1}, recorded_at=1000.0)
    site.run("3.s", 0, 500, {"n1": 1}, recorded_at=1000.0)
    assert go(site.engine, now=1599.0) == 1
    assert go(site.engine, now=1600.0) == 2
    # A batch about the end is still under way: its number is missing.
    rows = readings(600, 1000, 0)
    node = site.node("n2", [])
    site.arrive(node, 1, rows[:6])
    site.arrive(node, 3, rows[9:])
    site.run("4.s", 0, 420, {"n2": 1}, recorded_at=2000.0)
    assert go(site.engine, now=2100.0) == 0
    site.arrive(node, 2, rows[6:9])
    assert go(site.engine, now=2100.0) == 1


def test_an_old_log_of_a_cluster_without_agents_waits_for_nothing(site: Any) -> None:
    site.run("1.s", 0, 500, {"n1": 1}, recorded_at=1000.0)
    site.run("2.s", 0, 900, {"n1": 1}, recorded_at=1000.0)  # an agent that is started now may have seen it
    site.run("3.s", 0, 500, {"n1": 1}, cluster="beta", recorded_at=1000.0)
    site.node("n9", readings(600, 1000, 0), cluster="beta")
    assert go(site.engine, now=1101.0) == 1
    assert go(site.engine, now=1499.0) == 0
    assert go(site.engine, now=1501.0) == 1
    assert go(site.engine, now=1601.0) == 1


def test_only_ended_runs_are_profiled(site: Any) -> None:
    for position, state in enumerate(("requeued", "deleted", "lost")):
        site.run(f"{position}.s", 0, 100, state=state)
    site.run("9.s", 0, None)
    assert go(site.engine, now=1e9) == 0
    assert site.dump(profiles) == []


@pytest.mark.storage
def test_reasons_are_counted_without_node_names(site: Any) -> None:
    site.run("1.s", 0, 100, {"a": 1})
    site.run("2.s", 0, 100, {"b": 1}, used_cpu_s=120.0)
    site.run("3.s", 0, 100)
    site.run("4.s", 100, 100, {"a": 1})
    site.run("5.s", 100, 90, {"a": 1})
    assert go(site.engine, now=1e9) == 5
    counted = make.counts(site.engine)
    assert counted == {
        ("profiles", "bandwidth"): 5,
        ("profiles", "memory"): 5,
        ("profiles", "cpu"): 5,
        ("profiles", "runtime"): 5,
        ("profiles_missing", "bandwidth: no samples of a node"): 2,
        ("profiles_missing", "bandwidth: it ran for less than a second"): 2,
        ("profiles_missing", "bandwidth: the accounting log gives no processors"): 1,
        ("profiles_missing", "memory: no samples of a node"): 2,
        ("profiles_missing", "memory: it ran for less than a second"): 2,
        ("profiles_missing", "memory: the accounting log gives no processors"): 1,
        ("profiles_missing", "cpu: no samples of a node"): 1,
        ("profiles_missing", "cpu: its CPU time is more than its nodes' processors have"): 1,
        ("profiles_missing", "cpu: it ran for less than a second"): 2,
        ("profiles_missing", "cpu: the accounting log gives no processors"): 1,
        ("profiles_missing", "runtime: its value is negative"): 1,
        ("profiles_refused", "negative"): 1,
    }


def test_learning_one_by_one_equals_a_rebuild(site: Any) -> None:
    rng = random.Random(7)
    for position in range(300):
        memory = int(rng.lognormvariate(20, 2))
        user = rng.choice(["a", "b", "' \"<c>\u00fc"])
        run_s = rng.choice([1, 60, 3600.25, 1e-3])
        end = float(rng.randrange(10_000, 20_000))
        site.run(f"{position}.s", end - run_s, end, {"n": 3}, user=user, used_memory_bytes=memory, recorded_at=end)
    # In uneven portions, as time goes on, some in transactions of a few runs.
    for now, limit in ((12_000, 7), (12_500, 200), (17_777, 30), (20_000, 1)):
        go(site.engine, now=now, grace_s=0.0, limit=limit)
    learned = site.dump(series)
    assert sum(row[3] for row in learned) == 600
    assert [row[1:3] for row in learned if row[3] == 0] == []
    assert rebuild(site.engine) == 6
    assert site.dump(series) == learned


def test_a_failure_leaves_nothing_half_done(sqlite_site: Any) -> None:
    site = sqlite_site
    for position in range(5):
        site.run(f"{position}.s", 0, 100 + position, user="a")

    def fail(_connection: Any) -> None:
        raise RuntimeError("the disk is full")

    event.listen(site.engine, "commit", fail)
    with pytest.raises(RuntimeError, match="disk is full"):
        go(site.engine, now=1e9)
    event.remove(site.engine, "commit", fail)
    assert site.dump(profiles) == site.dump(series) == []
    assert go(site.engine, now=1e9) == 5
    assert [row[3] for row in site.dump(series)] == [5]


def test_reading_holds_no_writer_up(sqlite_site: Any) -> None:
    """While the profiler reads, another connection can begin to write at once."""
    site = sqlite_site
    with site.engine.connect().execution_options(reading=True) as reader:
        reader.execute(text("SELECT count(*) FROM jobs"))
        with site.engine.connect() as writer:
            writer.exec_driver_sql("PRAGMA busy_timeout=0")
            writer.execute(update(jobs).values(user="x"))
            writer.commit()


def test_a_backlog_takes_the_same_few_statements_however_many_runs_it_has(sqlite_site: Any) -> None:
    node = sqlite_site.node("n1", readings(60_000, 1000, 200))
    asked, sent = make.queries_sent(sqlite_site.engine), []
    for number, count in enumerate((10, 150)):
        for i in range(count):
            start = 120.0 * i + 60 * number
            run = f"{number}.{i}.s"
            sqlite_site.run(run, start, start + 90, {"n1": 1, "silent": 1})
            sqlite_site.mark(node, run, "start", start)
        before = len(asked)
        go(sqlite_site.engine, now=1e9)
        sent.append(len(asked) - before)
    assert 0 < sent[1] <= sent[0] + 5


def test_nodes_are_read_only_where_a_run_has_ended(sqlite_site: Any) -> None:
    """The nodes of a large site are many, and the profiler looks every two seconds."""
    sqlite_site.node("n1", readings(600, 1000, 200))
    asked = make.queries_sent(sqlite_site.engine)
    go(sqlite_site.engine, now=1e9)
    without = [query for query in asked if "FROM nodes" in query]
    sqlite_site.run("1.s", 120.0, 300.0, {"n1": 1})
    go(sqlite_site.engine, now=1e9)
    assert not without
    assert [query for query in asked if "FROM nodes" in query]


def test_neighbours_are_looked_for_among_recent_runs_not_all_that_ever_ran_there(sqlite_site: Any) -> None:
    with sqlite_site.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {ON_NODES}", (0.0, 1.0, 1.0)).all()
    first_of_each_half = [row[3] for row in plan if " j " in row[3]]
    assert len(first_of_each_half) == 2
    assert all("INDEX ix_jobs_end" in step for step in first_of_each_half)


def test_runs_read_together_are_profiled_as_if_each_were_read_alone(site: Any) -> None:
    """Overlapping lives, holes, and counters beyond a double's digits: rounds of one run give the same values."""
    rng = random.Random(3)
    rows: list[Row] = []
    time, total = 0.0, 2**61
    for _ in range(800):
        time += rng.choice([10.0, 10.0, 10.0, 200.0])
        total += rng.randrange(10**6)
        rows.append((time, None if rng.random() < 0.05 else total, total // 3, time / 7, rng.randrange(GIB), 0.0))
    node = site.node("n1", rows)
    for number in range(60):
        start = rng.uniform(0, time)
        run = f"{number}.s"
        site.run(run, start, start + rng.choice([5.0, 60.0, 3000.0]), {"n1": rng.randrange(1, 4)})
        if rng.random() < 0.5:
            site.mark(node, run, "start", start + 3.0)
    assert go(site.engine, now=1e9) == 60
    together = [entry[3:8] for entry in site.dump(profiles)]
    with site.engine.begin() as connection:
        connection.execute(text("DELETE FROM profiles"))
        connection.execute(update(jobs).values(profiled=False))
    assert go(site.engine, now=1e9, limit=1) == 60
    assert [entry[3:8] for entry in site.dump(profiles)] == together
    assert sum(entry[0] is not None for entry in together) > 90
