"""The true use of each job, the reference for all checks."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_emulator.accounting import used_cpu_s
from jobsight_emulator.placement import EmulatedRun, exclusive_runs
from jobsight_emulator.readings import MEMORY_NOISE
from jobsight_emulator.site import Cluster


@dataclass(frozen=True, slots=True)
class Truth:
    """True use of an ended run, without the background of its nodes. Bandwidth, memory and CPU are per processor."""

    cluster: str
    job_id: str
    start: int
    end: int
    user: str
    application: str
    nodes: str
    processors: int
    exclusive: int
    runtime_s: int
    bandwidth_bps_per_processor: float
    memory_bytes_per_processor: float
    memory_peak_bytes_per_processor: float
    cpu_utilisation: float
    killed_by_outage: int


def make_truth(cluster: Cluster, runs: list[EmulatedRun]) -> list[Truth]:
    """Make a row for every run that ended with an E record, in order of end."""
    exclusive = exclusive_runs(runs)
    rows = []
    for run in runs:
        if run.end is None or run.requeued:
            continue
        runtime_s, processors = run.end - run.start, run.job.processors
        traffic = sum(max(place.in_bytes_s, place.out_bytes_s) for place in run.places)
        memory = sum(place.memory_bytes for place in run.places) / processors
        rows.append(
            Truth(
                cluster=cluster.name,
                job_id=run.job.id,
                start=run.start,
                end=run.end,
                user=run.job.user.name,
                application=run.job.demand.application.name,
                nodes="+".join(cluster.nodes[place.node].name for place in run.places),
                processors=processors,
                exclusive=int((run.job.id, run.start) in exclusive),
                runtime_s=runtime_s,
                bandwidth_bps_per_processor=round(traffic * 8 / processors, 3),
                memory_bytes_per_processor=round(memory, 1),
                memory_peak_bytes_per_processor=round(memory * (1 + MEMORY_NOISE), 1),
                cpu_utilisation=round(used_cpu_s(run) / (processors * runtime_s), 6),
                killed_by_outage=int(run.killed_on is not None),
            )
        )
    return sorted(rows, key=lambda row: (row.end, row.job_id))
