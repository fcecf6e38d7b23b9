"""The jobs to simulate, of a trace or of a database; in canonical form for a machine of a given size."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from jobsight_scheduler.workload.canonical import Workload, canonical, scaled_to
from jobsight_scheduler.workload.swf import Trace, read_swf
from jobsight_server.command_line.trace_argument import cluster_of, open_trace, part_of
from jobsight_server.commands.simulate.site import NONE_COUNTED, at_beginning, counted_since, recent, stated
from jobsight_server.ground.errors import UserError
from jobsight_server.queries.site_machines import Machine, site_machines
from jobsight_server.queries.site_trace import site_trace


@dataclass(frozen=True, slots=True)
class MachineWorkload:
    """A trace and its jobs in canonical form, for a machine of ``capacity`` processors; ``machines``: of a database.

    The first ``early`` jobs of the trace only fill the machine.
    """

    name: str
    trace: Trace
    workload: Workload
    capacity: int
    machines: Sequence[Machine] = ()
    early: int = 0


def read_workload(args: argparse.Namespace, processors: int | None) -> MachineWorkload:
    """Return the workload that the arguments describe, at ``--load``, by default its own, for a machine of
    ``processors``, by default those of the trace's header or of the site.

    Raises:
        UserError: no such trace, none of its jobs can run, or an impossible load.
    """
    machines: Sequence[Machine] = ()
    early = 0
    part = part_of(args)
    with open_trace(args.trace, part) as connection:
        if connection is None:
            trace, name = read_swf(Path(args.trace)), Path(args.trace).name
        else:
            part = recent(connection, part._replace(cluster=cluster_of(connection, part)))
            machines, name = stated(site_machines(connection, part), args), f"finished jobs of {part.cluster}"
            trace, early = _of_machines(site_trace(connection, part), machines, part.since or 0.0)
            processors = sum(int(machine.nodes.processors.sum()) for machine in machines)
    capacity = trace.max_processors if processors is None else processors
    if capacity is None:
        raise UserError(f"{name} has no MaxProcs in its header: give --processors")
    try:
        workload = canonical(trace, capacity)
        if not len(workload):
            why = (f"{n} {reason} (first: {workload.places[reason]})" for reason, n in workload.dropped.items())
            raise UserError(f"none of its {len(trace)} jobs can run: {', '.join(why)}; a larger machine may help")
        if args.load is not None:
            workload = scaled_to(workload, capacity, args.load)
    except ValueError as error:
        raise UserError(f"{name}: {error}") from error
    if machines and not (workload.row >= early).any():
        raise UserError(NONE_COUNTED)
    return MachineWorkload(name, trace, workload, capacity, machines, early)


def _of_machines(trace: Trace, machines: Sequence[Machine], since: float) -> tuple[Trace, int]:
    """Return the trace as its machines were at the beginning of what is counted, and the number of earlier jobs."""
    jobs = sorted((job for machine in machines for job in machine.jobs), key=lambda job: (job.submitted, job.id))
    since, row_of = counted_since(jobs, since), {job.id: row for row, job in enumerate(jobs)}
    begun = at_beginning(jobs, since)
    columns = {name: column[[row_of[job.id] for job in begun]] for name, column in trace.columns.items()}
    submitted = np.array([job.submitted for job in begun])
    columns["submit_s"], columns["wait_s"] = (
        submitted - submitted[0],
        np.array([job.start for job in begun]) - submitted,
    )
    return replace(trace, columns=columns), int((submitted < since).sum())


def counted(trace: Trace, workload: Workload) -> dict[str, Any]:
    """Return the reader's repairs and the jobs that cannot be simulated, by reason, with the place of the first of
    each.
    """
    return {
        "repairs": dict(trace.repairs),
        **{name: workload.counts[name] for name in ("dropped", "clamped", "reordered")},
        "dropped_because": dict(workload.dropped),
        "first_places": trace.places | workload.places,
    }
