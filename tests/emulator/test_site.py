"""The emulated site itself: placement, accounting log and truth, against independent checks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from jobsight_emulator.accounting import DayFiles, LogLine, make_entries
from jobsight_emulator.placement import EmulatedRun, exclusive_runs, place_jobs
from jobsight_emulator.plan import CHANGED, WEEK_S, EmulatorError, Faults, SitePlan
from jobsight_emulator.site import Cluster, make_site
from jobsight_emulator.truth import make_truth
from jobsight_emulator.workload import EmulatedJob, make_jobs

END = 1_700_000_040
# Outages often enough that jobs are killed and requeued.
PLAN = SitePlan(16, 2, END - WEEK_S, END, seed=3, faults=Faults(lost_marks=0.02, outage_every_s=86_400))

Site = list[tuple[Cluster, list[EmulatedJob], list[EmulatedRun]]]


def _site(plan: SitePlan) -> Site:
    placed = []
    for cluster in make_site(plan):
        jobs = make_jobs(plan, cluster)
        placed.append((cluster, jobs, place_jobs(plan, cluster, jobs)))
    return placed


@pytest.fixture(scope="module")
def site() -> Site:
    return _site(PLAN)


def test_no_processor_is_held_twice_nor_while_its_node_is_down(site: Site) -> None:
    for cluster, _, runs in site:
        held: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for run in runs:
            end = PLAN.end if run.end is None else run.end
            assert run.start < end
            for place in run.places:
                assert len(place.slots) == run.job.demand.processors_per_node
                for slot in place.slots:
                    held.setdefault((place.node, slot), []).append((run.start, end))
                for outage in cluster.nodes[place.node].outages:
                    assert end <= outage.down or run.start > outage.up, (run, outage)
        for stays in held.values():
            stays.sort()
            assert all(earlier[1] <= later[0] for earlier, later in pairwise(stays))


def test_a_node_is_never_faster_than_its_link_nor_fuller_than_its_memory(site: Site) -> None:
    for cluster, _, runs in site:
        for run in runs:
            for place in run.places:
                node = cluster.nodes[place.node]
                mates = [
                    other_place
                    for other in runs
                    for other_place in other.places
                    if other_place.node == place.node
                    and other.start <= run.start
                    and (other.end is None or other.end > run.start)
                ]
                for interface, share in zip(node.interfaces, node.traffic_shares, strict=True):
                    for column in ("in_bytes_s", "out_bytes_s"):
                        bps = sum(getattr(mate, column) for mate in mates) * 8 * share
                        assert bps < 0.95 * interface.speed_bps
                used = node.idle_memory_bytes + sum(mate.memory_bytes for mate in mates)
                assert used < 0.95 * 64 * 2**30


def test_exclusive_agrees_with_comparing_each_pair(site: Site) -> None:
    for _, _, runs in site:
        nodes = [{place.node for place in run.places} for run in runs]
        expected = set()
        for run, mine in zip(runs, nodes, strict=True):
            overlaps = any(
                other is not run
                and mine & others
                and other.start < (run.end or PLAN.end + 1)
                and run.start < (other.end or PLAN.end + 1)
                for other, others in zip(runs, nodes, strict=True)
            )
            if not overlaps:
                expected.add((run.job.id, run.start))
        assert exclusive_runs(runs) == expected
        assert 0 < len(expected) < len(runs)


def test_every_job_is_accounted_for(site: Site) -> None:
    for _, jobs, runs in site:
        by_job: dict[str, list[EmulatedRun]] = {}
        for run in runs:
            by_job.setdefault(run.job.id, []).append(run)
        assert len({job.id for job in jobs}) == len(jobs)
        waiting = 0
        for job in jobs:
            of_job = by_job.pop(job.id, [])
            if job.deleted_queued is not None:
                assert not of_job
            elif not of_job:
                waiting += 1
            else:
                # All runs but the last were requeued, and only the last may have an E record.
                assert all(run.requeued for run in of_job[:-1])
                assert [run.start_count for run in of_job] == list(range(1, len(of_job) + 1))
        assert not by_job
        assert waiting < 0.1 * len(jobs)
    kinds = Counter(
        "requeued" if run.requeued else "outage" if run.killed_on is not None else str(run.exit_status)
        for _, _, runs in site
        for run in runs
    )
    assert {"requeued", "outage", "0", "-11", "271"} <= set(kinds), kinds


def test_the_same_plan_gives_the_same_site_and_another_seed_another(site: Site) -> None:
    again = _site(PLAN)
    for (cluster, jobs, runs), (other_cluster, other_jobs, other_runs) in zip(site, again, strict=True):
        assert cluster == other_cluster
        assert runs == other_runs
        assert make_entries(cluster, jobs, runs) == make_entries(other_cluster, other_jobs, other_runs)
        assert make_truth(cluster, runs) == make_truth(other_cluster, other_runs)
    other = _site(SitePlan(16, 2, END - WEEK_S, END, seed=4, faults=PLAN.faults))
    assert [run.start for run in other[0][2]] != [run.start for run in site[0][2]]


def test_the_site_has_every_kind_of_node() -> None:
    nodes = [node for cluster in make_site(SitePlan(64, 2, END - WEEK_S, END)) for node in cluster.nodes]
    assert len(nodes) == 64
    assert sum(node.interfaces[0].width_bits == 64 for node in nodes) == 32
    assert sum(len(node.interfaces) == 2 for node in nodes) == 16
    assert any(node.first_counters[0][0] > 2**32 - 2**16 and not node.gigabit for node in nodes)
    skews = [node.skew_s for node in nodes if node.skew_s]
    assert 1 <= len(skews) <= 10
    assert all(abs(skew) <= 3 for skew in skews)
    lost = sum(len(node.lost) for node in nodes) / (64 * WEEK_S / 60)
    assert lost == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize(
    ("nodes", "clusters", "interval_s", "length_s"),
    [(1, 2, 60, WEEK_S), (4, 0, 60, WEEK_S), (4, 1, 0, WEEK_S), (4, 1, 301, WEEK_S), (4, 1, 60, 500)],
)
def test_an_impossible_plan_is_refused(nodes: int, clusters: int, interval_s: int, length_s: int) -> None:
    with pytest.raises(EmulatorError):
        SitePlan(nodes, clusters, END - length_s, END, interval_s)


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_a_tiny_cluster_runs_jobs(nodes: int) -> None:
    plan = SitePlan(nodes, 1, END - 86_400, END)
    ((cluster, _, runs),) = _site(plan)
    assert make_truth(cluster, runs)


_STAMP = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d")


def test_users_are_steady_drifting_and_switching(site: Site) -> None:
    truths = [truth for cluster, _, runs in site for truth in make_truth(cluster, runs)]
    series: dict[tuple[str, str], list[float]] = {}
    applications: dict[tuple[str, str], set[str]] = {}
    for truth in truths:
        key = (truth.cluster, truth.user)
        series.setdefault(key, []).append(truth.bandwidth_bps_per_processor)
        applications.setdefault(key, set()).add(truth.application)
    kinds = {(cluster.name, job.user.name): job.user.kind for cluster, jobs, _ in site for job in jobs}
    for user, values in series.items():
        if kinds[user] == "steady":
            middle = sorted(values)[len(values) // 2]
            assert all(abs(value / middle - 1) < 0.2 for value in values)
    assert all(len(names) == 1 for user, names in applications.items() if kinds[user] != "switching")
    assert any(len(names) > 1 for user, names in applications.items() if kinds[user] == "switching")


def test_a_user_changes_when_planned_and_names_are_plain_where_wanted() -> None:
    changed = END - WEEK_S / 2
    plain = Faults(odd_names=False, changed_from=changed)
    clusters = _site(replace(PLAN, faults=plain))
    memory: dict[tuple[str, str, bool], list[float]] = {}
    for cluster, jobs, _ in clusters:
        for job in jobs:
            memory.setdefault((cluster.name, job.user.name, job.submitted >= changed), []).append(
                job.demand.memory_bytes / job.demand.application.memory_bytes
            )
        assert not any(character in job.name for job in jobs for character in "=;,")
    for (cluster_name, user, later), shares in memory.items():
        if (cluster_name, user) == ("alpha", CHANGED):
            assert (max(shares) / min(shares) > 2.5) == later
    assert max(memory["beta", CHANGED, True]) / min(memory["beta", CHANGED, True]) < 1.5


def test_the_log_is_rotated_by_the_day_of_local_time(tmp_path: Path) -> None:
    midnight = int(datetime(2023, 11, 14, tzinfo=UTC).timestamp())
    log = DayFiles.create(tmp_path / "alpha", -5 * 3600)
    for time in (midnight, midnight + 5 * 3600 - 1, midnight + 5 * 3600):
        log.append(LogLine(time, 0, "Q", "1.alpha", "queue=serial"))
    log.close()
    assert sorted(path.name for path in (tmp_path / "alpha").iterdir()) == ["20231113", "20231114"]
    lines = (tmp_path / "alpha" / "20231113").read_text().splitlines()
    assert lines == ["11/13/2023 19:00:00;Q;1.alpha;queue=serial", "11/13/2023 23:59:59;Q;1.alpha;queue=serial"]
    assert all(_STAMP.match(line) for line in lines)


def test_a_log_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alpha" / "20231113").write_text("here before\n")
    with pytest.raises(EmulatorError, match="already contains 20231113"):
        DayFiles.create(tmp_path / "alpha", 0)
