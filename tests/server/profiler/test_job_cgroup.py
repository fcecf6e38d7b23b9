"""Memory and CPU time from jobs' cgroups: the arithmetic against an independent form, and its precedence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import not_none

from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.request import ForecastConfig, forecast_config
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.profiler.exactness import Missing
from jobsight_server.profiler.runs import Boundaries
from jobsight_server.profiler.sampled import StoredRow, cgroup_cpu, has_cgroup, job_cgroup, read_job_memory
from jobsight_server.queries.job_detail import job_detail
from jobsight_server.settings.declared import AccountingSource, Settings
from jobsight_server.storage.job_columns import JobColumns, dump_columns

GB = 10**9


def node_rows(start: float = 900.0, end: float = 1300.0) -> list[tuple[float, int, int, float, int, float]]:
    """Readings every 10 s of a node that is busy and full with other things."""
    return [(t, int(t) * 1000, 0, t * 8.0, 30 * GB, 0.0) for t in np.arange(start, end, 10.0).tolist()]


def shared(site: Any) -> tuple[int, int, int]:
    """Two jobs that share a node the whole time; node and run ids."""
    node_id = site.node("n1", node_rows())
    runs = [site.run(f"{number}.s", 1000.0, 1200.0, {"n1": 4}) for number in (1, 2)]
    return node_id, runs[0], runs[1]


def finish(site: Any) -> None:
    profile_finished(site.engine, 0.0, lambda: 5000.0)


def used_by(times: range, base: int, cpu_rate: float, start: float = 1000.0) -> list[tuple[float, float, int, int]]:
    """A job whose memory rises to twice ``base`` in the middle, and falls again."""
    middle = (times[0] + times[-1]) / 2
    return [
        (float(t), (t - start) * cpu_rate, round(base * (2 - abs(t - middle) / (times[-1] - middle))), 5 * base)
        for t in times
    ]


def test_a_cgroup_named_by_a_sluid_is_that_of_its_job(site: Any) -> None:
    """Slurm 26.05: of jobs with a SLUID in the log, some nodes may still name groups by the job's id."""
    node_id = site.node("n1", node_rows())
    named = [("1", "s5K1KKYAYG5D00", "s5K1KKYAYG5D00"), ("2", "s5K1KKYAYG5D01", "2"), ("3", None, "s5K1KKYAYG5D03")]
    runs = [site.run(job, 1000.0, 1200.0, {"n1": 4}, sluid=sluid) for job, sluid, _ in named]
    for base, (_, _, name) in enumerate(named, 1):
        site.job_samples(node_id, name, used_by(range(1005, 1200, 10), base * GB, 3.5), None)
    with site.engine.connect() as connection:
        assert has_cgroup(connection, node_id, "1", 1000.0)
        assert len(read_job_memory(connection, node_id, "1", 1000.0, 1200.0)) == 20
        assert not has_cgroup(connection, node_id, "3", 1000.0)
    finish(site)
    found = [site.profile(run)["memory"] for run in runs]
    assert [one.source for one in found[:2]] == ["cgroup", "cgroup"]
    assert [one.value for one in found[:2]] == pytest.approx([2 * GB / 4, 4 * GB / 4], rel=0.03)
    assert found[2].source != "cgroup"


def test_jobs_that_share_a_node_are_each_measured(site: Any) -> None:
    node_id, first, second = shared(site)
    site.job_samples(node_id, "1.s", used_by(range(1005, 1200, 10), 2 * GB, 3.5), 13 * GB)
    site.job_samples(node_id, "2.s", used_by(range(1005, 1200, 10), GB, 0.4), None)
    finish(site)
    for run, base, rate in ((first, 2 * GB, 3.5), (second, GB, 0.4)):
        found = site.profile(run)
        peak = max(used for _, _, used, _ in used_by(range(1005, 1200, 10), base, rate))
        assert (found["memory"].source, found["memory"].attribution) == ("cgroup", "cgroup")
        assert found["memory"].value == peak / 4
        assert found["memory"].mean == pytest.approx(1.5 * base / 4, rel=0.02)
        assert not found["memory"].shown_only
        assert found["memory"].cache == 5 * base / 4
        assert (found["cpu"].source, found["cpu"].attribution) == ("cgroup", "cgroup")
        assert found["cpu"].value == pytest.approx(rate / 4, rel=0.001)
        assert found["bandwidth"].attribution == "apportioned"
        assert found["bandwidth"].shown_only
    assert site.profile(first)["memory"].charged_peak == 13 * GB / 4
    assert site.profile(second)["memory"].charged_peak is None
    with site.engine.connect() as connection:
        job = job_detail(connection, AnswerReader(ForecastConfig()), "alpha", "1.s", 5000.0)
    (run_detail,) = not_none(job).runs
    assert (run_detail.memory_cache, run_detail.memory_charged_peak) == (10 * GB / 4, 13 * GB / 4)


@pytest.mark.storage
def test_the_larger_of_cgroup_and_log_counts(site: Any) -> None:
    node_id = site.node("n1", node_rows())
    missed_by_the_log = site.run("1.s", 1000.0, 1200.0, {"n1": 4}, used_memory_bytes=GB // 2)
    missed_by_the_readings = site.run("2.s", 1000.0, 1200.0, {"n1": 4}, used_memory_bytes=2 * GB)
    of_some_steps = site.run("3.s", 1000.0, 1200.0, {"n1": 4}, used_memory_bytes=GB // 2, memory_incomplete=True)
    without_readings = site.run("4.s", 1000.0, 1200.0, {"n1": 4}, used_memory_bytes=GB // 2, memory_incomplete=True)
    with_cache = site.run("5.s", 1000.0, 1200.0, {"n1": 4}, used_memory_bytes=9 * GB, memory_with_cache=True)
    seen_by_the_kernel = site.run("6.s", 1000.0, 1200.0, {"n1": 4}, used_memory_bytes=GB // 2, memory_incomplete=True)
    not_read = site.run("7.s", 1000.0, 1200.0, {"n1": 4}, used_memory_bytes=GB // 2)
    for job, peak in (
        ("1.s", None),
        ("2.s", None),
        ("3.s", None),
        ("5.s", None),
        ("6.s", 6960000000),
        ("7.s", 13 * GB),
    ):
        site.job_samples(node_id, job, used_by(range(1005, 1200, 10), GB, 2.0), *([] if peak is None else [peak]))
    finish(site)

    def memory(run: int) -> tuple[Any, ...]:
        found = site.profile(run)["memory"]
        return found.source, found.value, found.lower_bound, found.shown_only

    read = site.profile(missed_by_the_log)["memory"]
    assert GB / 8 < read.value < 2 * GB / 4
    assert memory(missed_by_the_log) == ("cgroup", read.value, False, False)
    assert memory(missed_by_the_readings) == ("accounting", 2 * GB / 4, False, False)
    assert site.profile(missed_by_the_readings)["memory"].mean == read.mean
    assert memory(of_some_steps) == ("cgroup", read.value, True, True), "nothing says that a reading saw the peak"
    assert memory(seen_by_the_kernel) == ("cgroup", read.value, False, False)
    assert memory(not_read) == ("cgroup", read.value, True, True), "the kernel saw more than any reading"
    assert memory(with_cache) == ("cgroup", read.value, False, False), "page cache is not memory that a job needs"
    assert memory(without_readings) == ("accounting", GB / 8, True, True)


@pytest.mark.parametrize(("clusters", "quantity"), [((), "with_cache"), (("alpha",), "resident")])
def test_a_site_says_that_its_logs_have_no_page_cache(
    sqlite_site: Any, clusters: tuple[str, ...], quantity: str
) -> None:
    logs = [AccountingSource(cluster=name, sacct=("sacct",), page_cache=False) for name in clusters]
    run = sqlite_site.run("1", 1000.0, 1200.0, {"n1": 4}, used_memory_bytes=9 * GB, memory_with_cache=True)
    config = forecast_config(Settings(accounting=tuple(logs)))
    profile_finished(sqlite_site.engine, 0.0, lambda: 5000.0, LearningOptions(config=config))
    found = sqlite_site.profile(run)["memory"]
    assert (found.value, found.quantity, found.lower_bound) == (9 * GB / 4, quantity, False)


@pytest.mark.storage
@pytest.mark.parametrize(("unknown_s", "expected"), [(5, (40.2, False)), (60, (28.0, True))])
def test_a_log_that_lacks_killed_processes_does_not_hide_what_the_kernel_counted(
    site: Any, unknown_s: int, expected: tuple[float, bool]
) -> None:
    """No parent waits for them, so the log counts none of their time; the kernel did until the last reading."""
    node_id = site.node("n1", node_rows(end=1300.0 if unknown_s < 20 else 1140.0))
    run = site.run("1", 1000.0, 1200.0, {"n1": 4}, used_cpu_s=0.001, failure="time")
    site.job_samples(node_id, "1", used_by(range(1005, 1201 - unknown_s, 5), GB, 0.2))
    finish(site)
    found = site.profile(run)["cpu"]
    assert (found.value * 200 * 4, found.lower_bound) == (pytest.approx(expected[0], rel=0.02), expected[1])


@pytest.mark.parametrize(("cache", "is_marked"), [([0, 3 * GB, 0], True), ([0, GB, 3 * GB], False)])
def test_page_cache_explains_a_peak_only_where_it_was_read_with_the_memory(
    site: Any, cache: list[int], is_marked: bool
) -> None:
    """5 GB were charged at once: 2 of memory and 3 of cache, or more memory between two readings."""
    node_id = site.node("n1", node_rows())
    run = site.run("1", 1000.0, 1200.0, {"n1": 4})
    used = [GB, GB, 2 * GB]
    times = np.array_split(np.arange(1005.0, 1200.0, 5.0), 3)
    rows = [
        (t, t - 1000, one, other) for part, one, other in zip(times, used, cache, strict=True) for t in part.tolist()
    ]
    site.job_samples(node_id, "1", rows, 5 * GB)
    finish(site)
    found = site.profile(run)["memory"]
    assert (found.value * 4, found.lower_bound) == (2 * GB, is_marked)


@pytest.mark.parametrize("added_s", [None, 0.5])
def test_a_reading_that_another_jobs_hook_adds_does_not_hide_growth(site: Any, added_s: float | None) -> None:
    node_id = site.node("n1", node_rows())
    run = site.run("1", 1000.0, 1200.0, {"n1": 4})
    times = [*np.arange(1005.0, 1200.0, 10.0).tolist(), *([] if added_s is None else [1195.0 + added_s])]
    site.job_samples(node_id, "1", [(t, t - 1000, GB if t < 1190 else 2 * GB, 0) for t in times])
    finish(site)
    found = site.profile(run)["memory"]
    assert (found.value * 4, found.lower_bound, "growing" in found.reason) == (2 * GB, True, True)


def test_values_are_per_processor_that_was_asked_for(site: Any) -> None:
    site.node("n1", node_rows())
    logged = {"used_memory_bytes": 8 * GB, "used_cpu_s": 400.0}
    run = site.run("1.s", 1000.0, 1200.0, {"n1": 4}, processors=4, asked_processors=1, **logged)
    finish(site)
    assert site.profile(run)["memory"].value == 8 * GB
    assert site.profile(run)["cpu"].value == 400.0 / 200 / 4, "a share of what it was given"


def test_the_log_wins_over_what_was_seen_of_the_node(site: Any) -> None:
    node_id = site.node("n1", node_rows())
    logged = {"used_memory_bytes": 9 * GB, "used_cpu_s": 100.0}
    with_group = site.run("1.s", 1000.0, 1200.0, {"n1": 4}, **logged)
    without = site.run("2.s", 1000.0, 1200.0, {"n1": 4}, **logged)
    seldom = site.run("3.s", 1000.0, 1200.0, {"n1": 4}, **logged)
    site.job_samples(node_id, "1.s", used_by(range(1005, 1200, 10), GB, 2.0))
    site.job_samples(node_id, "3.s", [(1100.0, 90.0, GB, 0)], 7 * GB)
    finish(site)
    assert site.profile(with_group)["memory"].source == "accounting", "it is the larger of the two"
    assert (site.profile(without)["memory"].source, site.profile(without)["memory"].value) == ("accounting", 9 * GB / 4)
    one = site.profile(seldom)
    assert (one["memory"].source, one["memory"].value, one["memory"].charged_peak) == (
        "accounting",
        9 * GB / 4,
        7 * GB / 4,
    )
    # The ten seconds until the node's next reading, which no longer found it, are unknown: the log has them.
    assert (one["cpu"].source, one["cpu"].value) == ("accounting", 100.0 / 200 / 4)


def test_cpu_time_is_not_stretched_to_the_whole_seconds_of_the_log(site: Any) -> None:
    """Hooks mark a life of 8.6 s, of which the log makes 10."""
    node_id = site.node("n1", node_rows())
    run = site.run("1.s", 1000.0, 1010.0, {"n1": 4})
    for event, time in (("start", 1000.7), ("end", 1009.3)):
        site.mark(node_id, "1.s", event, time)
    site.job_samples(node_id, "1.s", [(1005.0, 4.0, GB, 0), (1009.3, 8.0, GB, 0)])
    finish(site)
    found = site.profile(run)["cpu"]
    assert (found.source, found.value) == ("cgroup", pytest.approx(8.0 / 10 / 4))


def test_a_job_that_runs_again_has_the_readings_of_each_run(site: Any) -> None:
    node_id = site.node("n1", node_rows(900.0, 1700.0))
    first = site.run("1.s", 1000.0, 1200.0, {"n1": 4}, state="ended")
    second = site.run("1.s", 1210.0, 1400.0, {"n1": 4})
    site.job_samples(node_id, "1.s", used_by(range(1005, 1200, 10), 4 * GB, 1.0))
    site.job_samples(node_id, "1.s", used_by(range(1211, 1400, 10), GB, 2.0, 1210.0))
    finish(site)
    assert site.profile(first)["cpu"].value == pytest.approx(1.0 / 4, rel=0.001)
    assert site.profile(second)["cpu"].value == pytest.approx(2.0 / 4, rel=0.001)
    assert site.profile(first)["memory"].value > 1.5 * GB > 0.6 * GB > site.profile(second)["memory"].value


def test_names_of_the_job_differ_by_the_servers_domain_only(site: Any) -> None:
    node_id = site.node("n1", node_rows())
    run = site.run("1[3].head.example.org", 1000.0, 1200.0, {"n1": 4})
    other = site.run("13.head.example.org", 1000.0, 1200.0, {"n1": 4})
    site.job_samples(node_id, "1[3].head", used_by(range(1005, 1200, 10), GB, 1.0))
    finish(site)
    assert site.profile(run)["memory"].source == "cgroup"
    assert site.profile(other)["memory"].source != "cgroup"


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(st.tuples(st.floats(0.5, 30), st.floats(0, 100), st.booleans()), min_size=1, max_size=12),
    tail_s=st.floats(0, 20),
)
def test_cpu_time_is_what_was_used_whenever_the_cgroup_was_made_again(
    steps: list[tuple[float, float, bool]], tail_s: float
) -> None:
    """Against a count by hand: the cgroup is made again before some readings, and what it counted is not lost."""
    time, total, counter, rows = 0.0, 0.0, 0.0, []
    for seconds, spent, again in steps:
        time += seconds
        before = counter
        counter = spent if again else counter + spent
        if again and counter >= before:  # looks like one that went on
            total += counter - before
        else:
            total += spent
        rows.append(StoredRow(time, time, None, dump_columns(JobColumns([time], [counter], [None], [None]))))
    at = Boundaries(0.0, time + tail_s)
    group = not_none(job_cgroup(rows, at, None))
    assert (np.diff(group.cpu_s) >= 0).all()
    found = cgroup_cpu(group, at, np.empty(0))
    if tail_s > 0.1 * at.end:
        assert isinstance(found, Missing)
    else:
        assert found == pytest.approx(total * at.end / time)
