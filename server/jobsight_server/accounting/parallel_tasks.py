"""Parallel jobs whose log has a record for each task: a run's use is the sum over its tasks.

A task's record may be before or after that of its job, in another chunk or file, perhaps twice. So tasks are rows
of their own, and after each read, the run's use is summed again over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from sqlalchemy import Connection, bindparam, delete, select

from jobsight_server.accounting.runs import JobEvent, JobRuns, ParallelTask, StoredRun
from jobsight_server.storage.engine import insert_into
from jobsight_server.storage.schema import jobs, parallel_tasks

# A task may start this long before its job, or end this long after it: the clocks of its nodes differ.
_SLACK_S = 60.0

_READ = select(parallel_tasks).where(
    parallel_tasks.c.cluster == bindparam("of_cluster"), parallel_tasks.c.job_id.in_(bindparam("ids", expanding=True))
)


def add_up_tasks(connection: Connection, cluster: str, events: Iterable[JobEvent], known: dict[str, JobRuns]) -> None:
    """Store the tasks among ``events``, and set the sums in the runs of their jobs, all of which are ``known``."""
    new = [{"cluster": cluster, "job_id": event.job_id, **asdict(event.task)} for event in events if event.task]
    if not new:
        return
    connection.execute(insert_into(connection, parallel_tasks).on_conflict_do_nothing(), new)
    found: dict[str, list[ParallelTask]] = {}
    for row in connection.execute(_READ, {"of_cluster": cluster, "ids": sorted({str(row["job_id"]) for row in new})}):
        task = ParallelTask(row.task, row.start, row.end, row.host, row.cpu_s, row.memory_bytes)
        found.setdefault(row.job_id, []).append(task)
    for job_id, tasks in found.items():
        for run in known[job_id].runs:
            _add_up(run, tasks)


def _add_up(run: StoredRun, tasks: Sequence[ParallelTask]) -> None:
    record = run.record
    if record.end is None:
        return
    begin, end = record.start - _SLACK_S, record.end + _SLACK_S
    own = [task for task in tasks if begin <= task.start and task.end <= end]
    cpu_s = [task.cpu_s for task in own if task.cpu_s is not None]
    memory = [task.memory_bytes for task in own if task.memory_bytes is not None]
    hosts = tuple(sorted({task.host for task in own if task.host is not None}))
    exec_host = "+".join(hosts) or None
    summed = replace(
        record,
        used_cpu_s=sum(cpu_s) if cpu_s else None,
        used_memory_bytes=sum(memory) if memory else None,
        other_used_bytes=None,
        exec_host=exec_host,
    )
    if own and summed != record:
        moved = exec_host != record.exec_host
        # The records lack the number of processors on each host.
        run.record = replace(summed, nodes=tuple((host, 0) for host in hosts)) if moved else summed
        run.changed, run.nodes_changed = True, run.nodes_changed or moved


def forget_tasks(connection: Connection, cluster: str, job_ids: Sequence[str]) -> None:
    """Delete the tasks of those jobs that have no run left."""
    has_run = select(jobs.c.id).where(jobs.c.cluster == cluster, jobs.c.job_id == parallel_tasks.c.job_id)
    of_jobs = (parallel_tasks.c.cluster == cluster, parallel_tasks.c.job_id.in_(job_ids))
    connection.execute(delete(parallel_tasks).where(*of_jobs, ~has_run.exists()))
