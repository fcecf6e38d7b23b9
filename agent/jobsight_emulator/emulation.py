"""The whole site of a plan, ready to be played: its jobs placed, its log written out, its nodes at their start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from jobsight_emulator.accounting import LogLine, make_entries
from jobsight_emulator.batches import Packer
from jobsight_emulator.campaign import campaign_users, make_published_jobs, three_users
from jobsight_emulator.placement import DELETED_EXIT, WALLTIME_EXIT, EmulatedRun, place_jobs
from jobsight_emulator.plan import SitePlan
from jobsight_emulator.readings import EmulatedReader
from jobsight_emulator.segments import make_segments, wraps
from jobsight_emulator.site import Cluster, make_site
from jobsight_emulator.truth import Truth, make_truth
from jobsight_emulator.workload import EmulatedJob, make_jobs


@dataclass(slots=True)
class Station:
    """A node and what reads it and packs its readings."""

    reader: EmulatedReader
    packer: Packer


@dataclass(frozen=True, slots=True)
class Emulation:
    """``entries`` and ``truths`` per cluster in order of time; ``facts`` are counts for the summary."""

    plan: SitePlan
    clusters: tuple[Cluster, ...]
    stations: list[Station]
    entries: dict[str, list[LogLine]]
    truths: dict[str, list[Truth]]
    facts: dict[str, int]


def make_emulation(plan: SitePlan, batch_readings: int) -> Emulation:
    """The emulation of ``plan``."""
    clusters = make_site(plan)
    facts: Counter[str] = Counter()
    stations: list[Station] = []
    entries: dict[str, list[LogLine]] = {}
    truths: dict[str, list[Truth]] = {}
    for cluster in clusters:
        jobs = _jobs(plan, cluster)
        runs = place_jobs(plan, cluster, jobs)
        entries[cluster.name] = make_entries(cluster, jobs, runs)
        truths[cluster.name] = make_truth(plan, cluster, runs)
        on_node: list[list[EmulatedRun]] = [[] for _ in cluster.nodes]
        for run in runs:
            for place in run.places:
                on_node[place.node].append(run)
        for position, node in enumerate(cluster.nodes):
            segments = make_segments(node, position, on_node[position], plan)
            stations.append(Station(EmulatedReader(node, segments, plan), Packer(node, plan, batch_readings)))
            facts["wraps"] += wraps(node, segments)
            facts["reboots"] += len(node.outages)
        facts.update(_job_facts(jobs, runs, truths[cluster.name]))
    return Emulation(plan, clusters, stations, entries, truths, dict(facts))


def _jobs(plan: SitePlan, cluster: Cluster) -> list[EmulatedJob]:
    if plan.users == "site":
        return make_jobs(plan, cluster)
    users = three_users(plan) if plan.users == "published" else campaign_users(plan)
    return make_published_jobs(plan, cluster, users)


def _job_facts(jobs: list[EmulatedJob], runs: list[EmulatedRun], truths: list[Truth]) -> Counter[str]:
    return Counter(
        {
            "users": len({job.user.name for job in jobs}),
            "jobs_submitted": len(jobs),
            "jobs_ended": len(truths),
            "jobs_exclusive": sum(truth.exclusive for truth in truths),
            "jobs_running_at_end": sum(run.end is None for run in runs),
            "jobs_deleted_queued": sum(job.deleted_queued is not None for job in jobs),
            "jobs_deleted_running": sum(truth.exit_status == DELETED_EXIT for truth in truths),
            "jobs_over_walltime": sum(truth.exit_status == WALLTIME_EXIT for truth in truths),
            "jobs_killed_by_outage": sum(truth.killed_by_outage for truth in truths),
            "jobs_requeued": sum(run.requeued for run in runs),
            "marks_lost_on_purpose": sum(truth.lost_marks for truth in truths),
        }
    )
