"""The emulated site itself: placement, accounting log and truth, against independent checks."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from jobsight_emulator.accounting import make_empty, make_entries
from jobsight_emulator.placement import EmulatedRun, exclusive_runs, place_jobs
from jobsight_emulator.plan import WEEK_S, EmulatorError, Faults, SitePlan
from jobsight_emulator.site import Cluster, make_site
from jobsight_emulator.truth import make_truth
from jobsight_emulator.workload import PARALLEL, EmulatedJob, EmulatedUser, make_jobs

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


@pytest.mark.parametrize(
    ("nodes", "clusters", "interval_s", "length_s"),
    [(1, 2, 60, WEEK_S), (4, 0, 60, WEEK_S), (4, 1, 0, WEEK_S), (4, 1, 301, WEEK_S), (4, 1, 60, 500)],
)
def test_an_impossible_plan_is_refused(nodes: int, clusters: int, interval_s: int, length_s: int) -> None:
    with pytest.raises(EmulatorError):
        SitePlan(nodes, clusters, END - length_s, END, interval_s)


def test_a_log_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alpha" / "20231113").write_text("here before\n")
    with pytest.raises(EmulatorError, match="already contains 20231113"):
        make_empty(tmp_path / "alpha")


@pytest.mark.parametrize(("kind", "spread"), [("steady", 0.15), ("drifting", 0.4), ("switching", 0.4)])
def test_run_times_of_steady_users_vary_least(kind: str, spread: float) -> None:
    """By the middle half of the logarithms: 4 % of jobs fail soon after their start."""
    application = replace(PARALLEL[0], runtime_s=10_000.0)
    user, rng = EmulatedUser("u", "g", None, kind, (application,) * 2), random.Random(1)
    logs = sorted(math.log(user.draw(rng, 0.0).runtime_s) for _ in range(4000))
    assert (logs[3000] - logs[1000]) / 1.349 == pytest.approx(spread, rel=0.1)
