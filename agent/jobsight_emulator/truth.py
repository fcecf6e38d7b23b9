"""What each job really used: the reference for everything downstream."""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from typing import TextIO

from jobsight_emulator.accounting import used_cpu_s
from jobsight_emulator.placement import EmulatedRun, exclusive_runs
from jobsight_emulator.plan import SitePlan
from jobsight_emulator.readings import MEMORY_NOISE
from jobsight_emulator.segments import reading_number
from jobsight_emulator.site import Cluster


@dataclass(frozen=True, slots=True)
class Truth:
    """A run that has ended, without the background of its nodes. Bandwidth, memory and CPU are per processor.

    ``readings_expected`` counts regular readings and marks on all its nodes during its life, ``lost_readings``
    those of them that were dropped on purpose, of which ``lost_marks`` were marks.
    """

    cluster: str
    job_id: str
    start: int
    end: int
    user: str
    kind: str
    application: str
    nodes: str
    processors: int
    exclusive: int
    runtime_s: int
    bandwidth_bps_per_processor: float
    memory_bytes_per_processor: float
    memory_peak_bytes_per_processor: float
    cpu_utilisation: float
    traffic_in_bytes: int
    traffic_out_bytes: int
    readings_expected: int
    lost_readings: int
    lost_marks: int
    killed_by_outage: int
    exit_status: int
    start_count: int


COLUMNS = tuple(one.name for one in fields(Truth))


def make_truth(plan: SitePlan, cluster: Cluster, runs: list[EmulatedRun]) -> list[Truth]:
    """A row for every run that ended with an E record, in order of end."""
    exclusive = exclusive_runs(runs)
    ended = sorted((run for run in runs if run.ended), key=lambda run: (run.end, run.job.id))
    return [_truth(plan, cluster, run, (run.job.id, run.start) in exclusive) for run in ended]


def _truth(plan: SitePlan, cluster: Cluster, run: EmulatedRun, exclusive: bool) -> Truth:
    assert run.end is not None
    runtime_s, processors = run.end - run.start, run.job.processors
    regular = lost = marks = 0
    for place in run.places:
        node = cluster.nodes[place.node]
        first, last = (reading_number(node, plan, time) for time in (run.start, run.end))
        regular += last - first
        lost += bisect_left(node.lost, last) - bisect_left(node.lost, first)
        marks += 1 if run.killed_on == place.node else 2
    # The mark that the outage prevented cannot be lost a second time.
    lost_marks = len(run.lost_marks - {(run.killed_on, "end")})
    memory = sum(place.memory_bytes for place in run.places) / processors
    return Truth(
        cluster=cluster.name,
        job_id=run.job.id,
        start=run.start,
        end=run.end,
        user=run.job.user.name,
        kind=run.job.user.kind,
        application=run.job.demand.application.name,
        nodes="+".join(cluster.nodes[place.node].name for place in run.places),
        processors=processors,
        exclusive=int(exclusive),
        runtime_s=runtime_s,
        bandwidth_bps_per_processor=round(
            sum(max(place.in_bytes_s, place.out_bytes_s) for place in run.places) * 8 / processors, 3
        ),
        memory_bytes_per_processor=round(memory, 1),
        memory_peak_bytes_per_processor=round(memory * (1 + MEMORY_NOISE), 1),
        cpu_utilisation=round(used_cpu_s(run) / (processors * runtime_s), 6),
        traffic_in_bytes=round(sum(place.in_bytes_s for place in run.places) * runtime_s),
        traffic_out_bytes=round(sum(place.out_bytes_s for place in run.places) * runtime_s),
        readings_expected=regular + marks,
        lost_readings=lost + lost_marks,
        lost_marks=lost_marks,
        killed_by_outage=int(run.killed_on is not None),
        exit_status=run.exit_status,
        start_count=run.start_count,
    )


class TruthFile:
    """The truth as CSV, with a header, rows as the jobs end."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(COLUMNS)

    def append(self, rows: Iterable[Truth]) -> None:
        """Writes the rows and makes them visible."""
        self._writer.writerows(astuple(row) for row in rows)
        self._file.flush()
