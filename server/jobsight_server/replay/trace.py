"""The jobs of a site as a trace, to try policies on its real jobs."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from jobsight_scheduler.workload.swf import COUNTED_FROM, FIELDS, PARTIAL, UNKNOWN, Trace, user_line
from jobsight_server.forecasts.request import job_question
from jobsight_server.replay.counted import counted_since, submitted_as_of
from jobsight_server.replay.machines import Machine
from jobsight_server.replay.record import SUBMITTED, Floats, HeldRun, held_runs, record_ends
from jobsight_server.storage.clusters import Part
from jobsight_server.storage.schema import jobs

_COMPLETED, _FAILED = 1, 0


def site_trace(connection: Connection, part: Part, machines: Sequence[Machine]) -> Trace:
    """Return the jobs of this part's machines as these were at the beginning of what counts, by submission.

    Names of users, applications and queues become numbers, in the order of their first starts; the header names the
    users. Clusters are partitions, numbered by name. MaxProcs is the size of all machines.
    """
    since = counted_since([job for machine in machines for job in machine.jobs], part.since or 0.0)
    found, _, users = runs_of_part(connection, part)
    start = found["submit_s"] + found["wait_s"]
    submitted = submitted_as_of(found["submit_s"], start, since)
    found["wait_s"] = start - submitted
    found["submit_s"] = submitted - submitted.min()
    by_submission = np.argsort(submitted, kind="stable")
    columns = {name: column[by_submission] for name, column in found.items()}
    columns["job"] = np.arange(1.0, len(start) + 1.0)
    most = [machine.assumed.most for machine in machines if machine.assumed is not None]
    header = [
        f"UnixStartTime: {submitted.min():.0f}",
        f"MaxProcs: {sum(int(machine.nodes.processors.sum()) for machine in machines)}",
        *([f"Note: MaxProcs is assumed; {sum(most)} were in use at most"] if most else []),
        f"{COUNTED_FROM}: {max(0.0, since - submitted.min()) // 1.0:.0f}",
    ]
    return Trace(columns, [*header, *users])


def runs_of_part(connection: Connection, part: Part) -> tuple[dict[str, Floats], list[int], list[str]]:
    """Return the runs that held processors as columns of a trace in UTC epoch seconds, by submission, their ids, and
    the lines of a header that name their users."""
    query = select(
        jobs.c.id, jobs.c.cluster, jobs.c.job_id, jobs.c.state, SUBMITTED.label("submitted"), jobs.c.start, jobs.c.end,
        jobs.c.processors, jobs.c.user, jobs.c.name, jobs.c.queue, jobs.c.used_cpu_s, jobs.c.used_memory_bytes,
        jobs.c.requested_memory_bytes, jobs.c.requested_walltime_s, jobs.c.group, jobs.c.exit_status, jobs.c.failure,
        jobs.c.ended_abnormally,
    )  # fmt: skip
    clusters = {name: number for number, name in enumerate(sorted(record_ends(connection, part)), 1)}
    numbers: dict[str, dict[tuple[str, str], int]] = {}
    cells, ids = array("d"), array("q")
    for row, held in held_runs(connection, query, part):
        fields = _fields(row, held, numbers) | {"partition": clusters[row.cluster]}
        cells.extend(UNKNOWN if (value := fields.get(field)) is None else value for field in FIELDS)
        ids.append(row.id)
    table, runs = np.frombuffer(cells).reshape(-1, len(FIELDS)), np.array(ids)
    order = np.lexsort((runs, table[:, FIELDS.index("submit_s")]))
    users = [user_line(number, name) for (_, name), number in numbers.get("user", {}).items()]
    return dict(zip(FIELDS, table[order].T.copy(), strict=True)), runs[order].tolist(), users


def _fields(row: Any, held: HeldRun, numbers: dict[str, dict[tuple[str, str], int]]) -> dict[str, float | None]:
    """Return the fields of a run by their names in the format; None is unknown."""
    asked = (row.processors, row.requested_memory_bytes, row.requested_walltime_s)
    question = job_question(row.user, row.name, row.queue, *asked, row.group)
    has_failed = bool(row.failure or row.ended_abnormally or row.exit_status)

    def number(kind: str, name: str | None) -> int | None:
        known = numbers.setdefault(kind, {})
        return None if name is None else known.setdefault((row.cluster, name), len(known) + 1)

    return {
        "submit_s": held.submitted,
        "wait_s": max(row.start - held.submitted, 0.0),
        "run_s": held.end - row.start,
        "processors": row.processors,
        "cpu_s": row.used_cpu_s and row.used_cpu_s / row.processors,
        "memory_kb": row.used_memory_bytes and row.used_memory_bytes / row.processors / 1024.0,
        "requested_processors": row.processors,
        "requested_s": question.requested_time_s,
        "requested_memory_kb": question.requested_memory_bytes and question.requested_memory_bytes / 1024.0,
        "status": PARTIAL if not held.counts else _FAILED if has_failed else _COMPLETED,
        **{kind: number(kind, getattr(question, kind)) for kind in ("user", "group", "application", "queue")},
    }
