"""The jobs to simulate, of a trace or of a database; in canonical form for a machine of a given size."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_scheduler.workload.canonical import LARGEST_MACHINE, Workload, canonical, scaled_to
from jobsight_scheduler.workload.swf import Trace, read_swf
from jobsight_server.command_line.trace_argument import cluster_of, open_trace, part_of
from jobsight_server.ground.errors import UserError
from jobsight_server.replay.counted import NONE_COUNTED, recent
from jobsight_server.replay.machines import Machine, counted_nodes, nodes_of_classes, site_machines
from jobsight_server.replay.record import assumed_size
from jobsight_server.replay.trace import site_trace


@dataclass(frozen=True, slots=True)
class MachineWorkload:
    """A trace and its jobs in canonical form, for a machine of ``capacity`` processors; ``machines``: of a database."""

    name: str
    trace: Trace
    workload: Workload
    capacity: int
    machines: Sequence[Machine] = ()

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Which jobs count; the others only fill the machine."""
        return self.trace.counts[self.workload.row]


def stated(machines: Sequence[Machine], args: argparse.Namespace) -> Sequence[Machine]:
    """Return one machine of the nodes of ``--classes`` or ``--processors`` for all jobs; without these, the machines.

    Raises:
        UserError: the nodes are malformed or stated twice, the jobs are of several clusters, or none fits.
    """
    classes, processors = args.classes, args.processors
    if not classes and processors is None:
        return machines
    jobs = sorted((job for machine in machines for job in machine.jobs), key=lambda job: job.submitted)
    option = "--processors" if classes is None else "--classes"
    if len(clusters := {job.cluster for job in jobs}) > 1:
        raise UserError(f"{option} states one machine: choose its --cluster, of {', '.join(sorted(clusters))}")
    try:
        if classes is not None and processors is not None:
            raise ValueError("it states the processors too; leave out --processors")
        if processors is not None and not 0 < processors <= LARGEST_MACHINE:
            raise ValueError(f"{processors:,} is not from 1 to {LARGEST_MACHINE:,}")
        nodes = nodes_of_classes(classes) if classes is not None else counted_nodes(processors or 0)
        total = int(nodes.processors.sum())
        if (least := min(job.processors for job in jobs)) > total:
            raise ValueError(f"no job fits, the smallest needs {least:,} processors; state more")
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error
    used = assumed_size(*np.array([(job.start, job.end, job.processors) for job in jobs]).T).most
    if total < used:
        why = f"the record had {used:,} processors in use at once; state at least these, unless its times are inexact"
        print(f"jobsight simulate: {option} states {total:,}, but {why}", file=sys.stderr)
    name, forecast = classes or f"{processors:,} processors", machines[0].forecast
    return [Machine(name, nodes, jobs, has_known_nodes=classes is not None, forecast=forecast)]


def read_workload(args: argparse.Namespace, processors: int | None) -> MachineWorkload:
    """Return the workload that the arguments describe, at ``--load``, by default its own, for a machine of
    ``processors``, by default those of the trace's header or of the site.

    Raises:
        UserError: no such trace, none of its jobs can run, or an impossible load.
    """
    machines: Sequence[Machine] = ()
    part = part_of(args)
    with open_trace(args.trace, part) as connection:
        if connection is None:
            trace, name = read_swf(Path(args.trace)), Path(args.trace).name
        else:
            part = recent(connection, part._replace(cluster=cluster_of(connection, part)))
            machines, name = stated(site_machines(connection, part), args), f"finished jobs of {part.cluster}"
            trace, processors = site_trace(connection, part, machines), None
    if trace.is_record:
        # As of a machine: a job that ran longer than it requested was not cut off there.
        asked, ran = trace["requested_s"], trace["run_s"]
        trace.columns["requested_s"] = np.maximum(np.where(asked > 0.0, asked, np.maximum(asked, ran).max()), ran)
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
    given = MachineWorkload(name, trace, workload, capacity, machines)
    if not given.counts.any():
        raise UserError(NONE_COUNTED)
    return given


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
