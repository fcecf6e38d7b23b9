"""An emulated site's readings, with wraps, reboots and losses, against the true use of its jobs."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import func, select

from jobsight_emulator.emulation import make_emulation
from jobsight_emulator.plan import Faults, SitePlan
from jobsight_server.forecasts import ForecastConfig
from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.wire import Submission, decode, unpack
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.storage.schema import jobs, nodes, profiles, series

INTERVAL_S = 60
REQUESTED = 4 * 2**30
END = 1_790_000_040


def _profiled(site: Any, plan: SitePlan) -> tuple[Any, dict[tuple[str, float], Any]]:
    """The emulation, stored and profiled, and the truth about each run."""
    emulation = make_emulation(plan, batch_readings=100)
    store = SampleStore(site.engine, assumed_speed_bps=1e10, quarantine_bytes=10**6)
    for until in range(plan.start + 6000, plan.end + 6000, 6000):
        group = []
        for station in emulation.stations:
            for columns in station.reader.advance(min(until, plan.end)):
                for batch in station.pack(columns):
                    payload = unpack(batch.body, "gzip", 2**25)
                    group.append(Submission(decode(payload), zlib.crc32(payload), float(until)))
        store.apply(group)

    truths = {(t.job_id, float(t.start)): t for cluster in emulation.truths.values() for t in cluster}
    for truth in truths.values():
        names = truth.nodes.split("+")
        on = {name: truth.processors // len(names) for name in names}
        given = {"cluster": truth.cluster, "user": truth.user, "name": truth.application}
        site.run(truth.job_id, truth.start, truth.end, on, requested_memory_bytes=REQUESTED * truth.processors, **given)
    both = ForecastConfig(fabric="sum")  # an emulated job's traffic passes both networks of its nodes
    done = profile_finished(site.engine, 600.0, lambda: 0.0, LearningOptions(config=both))
    done += profile_finished(site.engine, 0.0, lambda: 1.0, LearningOptions(config=both))
    assert done == len(truths)
    return emulation, truths


@pytest.mark.slow
def test_profiles_are_within_one_percent_of_the_truth(sqlite_site: Any) -> None:
    site = sqlite_site
    faults = Faults(outage_every_s=1.5 * 86_400, lost_marks=0.05, skewed_nodes=0.5)
    plan = SitePlan(nodes=12, clusters=2, start=END - 6 * 86_400, end=END, interval_s=INTERVAL_S, faults=faults)
    emulation, truths = _profiled(site, plan)
    assert len(truths) > 100

    query = select(jobs.c.job_id, jobs.c.start, profiles).join(profiles, profiles.c.run_id == jobs.c.id)
    seen: Counter[str] = Counter()
    wrong = []
    with site.engine.connect() as connection:
        rows = connection.execute(query).all()
        wraps = connection.scalar(select(func.sum(nodes.c.wraps)))
    for row in rows:
        truth = truths[row.job_id, row.start]
        assert (row.value is None) <= bool(row.reason)
        if row.attribution == "apportioned":
            assert row.shown_only == (row.value is not None)
            seen["shown only"] += row.shown_only
        if row.metric not in {"bandwidth", "memory"} or not truth.exclusive or truth.runtime_s < 10 * INTERVAL_S:
            continue
        assert row.attribution == "exclusive"
        seen["judged"] += 1
        seen["killed"] += truth.killed_by_outage
        if row.value is None:
            seen["missing"] += 1
            continue
        true = truth.bandwidth_bps_per_processor if row.metric == "bandwidth" else truth.memory_peak_bytes_per_processor
        if abs(row.value - true) > 0.01 * true:
            wrong.append((row.job_id, row.metric, row.value, true))
    assert wraps > 10, "as the server noticed them"
    assert sum(len(node.outages) for cluster in emulation.clusters for node in cluster.nodes) > 10
    assert seen["killed"] > 0
    assert seen["shown only"] > 0
    n = {row[:3]: row[3] for row in site.dump(series)}
    assert sum(n.values()) == sum(row.value is not None and not row.shown_only for row in rows)
    assert len(wrong) <= 0.01 * seen["judged"], wrong
    assert seen["missing"] <= 0.05 * seen["judged"]


def test_jobs_on_shared_nodes_are_measured_and_learned_by_their_cgroups(sqlite_site: Any) -> None:
    """Without cgroups, nothing that shared a node is learned but its run time."""
    site = sqlite_site
    plan = SitePlan(
        nodes=8, clusters=1, start=END - 3 * 86_400, end=END, interval_s=INTERVAL_S, faults=Faults(skewed_nodes=0.5),
        cgroups=True,
    )  # fmt: skip
    _, truths = _profiled(site, plan)
    with site.engine.connect() as connection:
        rows = connection.execute(
            select(jobs.c.job_id, jobs.c.start, profiles).join(profiles, profiles.c.run_id == jobs.c.id)
        ).all()
    measured: Counter[str] = Counter()
    for row in rows:
        truth = truths[row.job_id, row.start]
        if row.metric not in {"memory", "cpu"} or truth.exclusive or truth.runtime_s < 20 * INTERVAL_S:
            continue
        measured[f"{row.metric} {row.source}"] += 1
        if row.source == "cgroup":
            memory = row.metric == "memory"
            true = truth.memory_peak_bytes_per_processor if memory else truth.cpu_utilisation
            assert row.value == pytest.approx(true, rel=0.01)
            assert not row.shown_only
            assert not memory or row.cache == pytest.approx(0.5 * truth.memory_bytes_per_processor, rel=0.01)
    for metric in ("memory", "cpu"):
        assert measured[f"{metric} cgroup"] > 20
        assert measured[f"{metric} cgroup"] > 0.95 * sum(n for key, n in measured.items() if key.startswith(metric))
