"""The accounting log that a TORQUE server would have written.

Two kinds of server take turns: an older one (local time, ``cput`` as HH:MM:SS, memory used) and a newer one (UTC,
``cput`` in bare seconds, no memory, so that it must come from the samples).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from jobsight_emulator.placement import DELETED_EXIT, EmulatedRun
from jobsight_emulator.plan import EmulatorError
from jobsight_emulator.readings import MEMORY_NOISE
from jobsight_emulator.site import Cluster
from jobsight_emulator.workload import EmulatedJob

_QUEUES = {True: "parallel", False: "serial"}


@dataclass(frozen=True, slots=True, order=True)
class LogLine:
    """One line of the log, without its stamp; ``rank`` orders the lines of one second."""

    time: int
    rank: int
    kind: str
    job_id: str
    message: str


def make_entries(cluster: Cluster, jobs: Sequence[EmulatedJob], runs: Iterable[EmulatedRun]) -> list[LogLine]:
    """Make every line of the cluster's log, in the order of writing."""
    entries = [LogLine(job.submitted, 5, "Q", job.id, f"queue={_QUEUES[job.user.whole_nodes]}") for job in jobs]
    entries += [
        LogLine(job.deleted_queued, 0, "D", job.id, _requestor(cluster, job))
        for job in jobs
        if job.deleted_queued is not None
    ]
    for run in runs:
        entries += _run_entries(cluster, run)
    return sorted(entries)


def _run_entries(cluster: Cluster, run: EmulatedRun) -> list[LogLine]:
    job = run.job
    again = [f"start_count={run.start_count}"] if run.start_count > 1 else []
    # Real servers end this line with a space.
    entries = [LogLine(run.start, 6, "S", job.id, " ".join([*_running(cluster, run), *again, ""]))]
    if run.end is None:
        return entries
    if run.requeued:
        return [*entries, LogLine(run.end, 1, "R", job.id, "")]
    if run.exit_status == DELETED_EXIT:
        entries.append(LogLine(run.end, 1, "D", job.id, _requestor(cluster, job)))
    return [*entries, LogLine(run.end, 2, "E", job.id, _end_message(cluster, run))]


def _end_message(cluster: Cluster, run: EmulatedRun) -> str:
    assert run.end is not None
    runtime_s = run.end - run.start
    cpu_s = int(used_cpu_s(run))
    parts = _running(cluster, run)
    if cluster.position % 2 == 0:
        memory_kb = int(sum(place.memory_bytes for place in run.places) * (1 + MEMORY_NOISE) / 1024)
        used = [f"cput={duration(cpu_s)}", f"mem={memory_kb}kb", f"vmem={int(memory_kb * 1.3)}kb"]
    else:
        parts += [
            f"total_execution_slots={run.job.processors}",
            f"unique_node_count={len(run.places)}",
        ]
        used = [f"cput={cpu_s}", "energy_used=0"]
    used.append(f"walltime={duration(runtime_s)}")
    parts += [f"session={run.job.session}", f"end={run.end}", f"Exit_status={run.exit_status}"]
    return " ".join([*parts, *(f"resources_used.{one}" for one in used)])


def _running(cluster: Cluster, run: EmulatedRun) -> list[str]:
    job, user = run.job, run.job.user
    places = [(cluster.nodes[place.node].name, place.slots) for place in run.places]
    return [
        f"user={user.name} group={user.group}",
        *([] if user.account is None else [f"account={user.account}"]),
        f"jobname={job.name} queue={_QUEUES[user.whole_nodes]}",
        f"ctime={job.submitted} qtime={job.submitted} etime={job.submitted}",
        f"start={run.start}",
        f"owner={user.name}@login.{cluster.name}.example",
        f"exec_host={exec_host(places, cluster.position % 2 == 1)}",
        *_requested(cluster, job),
    ]


def _requested(cluster: Cluster, job: EmulatedJob) -> list[str]:
    nodes = f"{job.demand.nodes}:ppn={job.demand.processors_per_node}"
    if job.demand.application.gigabit:
        nodes += ":gigabit"
    # Users request one and a half times a past need, rounded up.
    megabytes = -(-int(job.demand.application.memory_bytes * 1.5 / 2**20) // 100) * 100
    if cluster.position % 2 == 0:
        memory = f"Resource_List.pmem={megabytes}mb"
    else:
        memory = f"Resource_List.mem={megabytes * job.processors}mb"
    return [
        memory,
        f"Resource_List.neednodes={nodes}",
        f"Resource_List.nodect={job.demand.nodes}",
        f"Resource_List.nodes={nodes}",
        f"Resource_List.walltime={duration(job.walltime_s)}",
    ]


def _requestor(cluster: Cluster, job: EmulatedJob) -> str:
    return f"requestor={job.user.name}@login.{cluster.name}.example"


def used_cpu_s(run: EmulatedRun) -> float:
    """CPU seconds of a run that has ended, over all its processors."""
    assert run.end is not None
    return run.job.demand.cpu_utilisation * run.job.processors * (run.end - run.start)


def duration(seconds: int) -> str:
    """Write ``seconds`` as HH:MM:SS.

    >>> duration(360_061)
    '100:01:01'
    """
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def make_empty(directory: Path) -> None:
    """Create an empty directory. EmulatorError if it has files: their lines would be duplicated."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        held = next(directory.iterdir(), None)
    except OSError as error:
        raise EmulatorError(f"{directory}: {error.strerror}: give a directory that can be written") from error
    if held is not None:
        raise EmulatorError(f"{directory} already contains {held.name}: give an empty directory or remove it")


def append(directory: Path, utc_offset_s: int, entries: Iterable[LogLine]) -> None:
    """Write lines to a file for each day of the server's local time, ``YYYYMMDD``."""
    stamped = ((datetime.fromtimestamp(one.time + utc_offset_s, UTC), one) for one in entries)
    for day, lines in groupby(stamped, key=lambda pair: f"{pair[0]:%Y%m%d}"):
        with (directory / day).open("a", encoding="utf-8") as file:
            for local, one in lines:
                file.write(f"{local:%m/%d/%Y %H:%M:%S};{one.kind};{one.job_id};{one.message}\n")


def exec_host(places: Iterable[tuple[str, tuple[int, ...]]], in_ranges: bool) -> str:
    """Write the ``exec_host`` of (node name, rising slots): every slot, as older servers list them, or ranges.

    >>> places = [("n1", (0, 1, 3)), ("n2", (0, 1))]
    >>> exec_host(places, False), exec_host(places, True)
    ('n1/3+n1/1+n1/0+n2/1+n2/0', 'n1/0-1+n1/3+n2/0-1')
    """
    parts: list[str] = []
    for name, slots in places:
        if in_ranges:
            parts += [f"{name}/{low}-{high}" if low < high else f"{name}/{low}" for low, high in _ranges(slots)]
        else:
            parts += [f"{name}/{slot}" for slot in reversed(slots)]
    return "+".join(parts)


def _ranges(slots: tuple[int, ...]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for slot in slots:
        if ranges and ranges[-1][1] == slot - 1:
            ranges[-1] = (ranges[-1][0], slot)
        else:
            ranges.append((slot, slot))
    return ranges
