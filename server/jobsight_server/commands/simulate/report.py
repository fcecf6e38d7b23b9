"""Runs a simulation with progress, and gives out its results: on a terminal of 80 columns, as JSON, files and plots."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from jobsight_scheduler.coallocation.cosimulation import CoSimulation
from jobsight_scheduler.figures import by_size, by_user
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.table import SCHEDULE, JobTable, write_table
from jobsight_server.command_line.answers import print_account
from jobsight_server.command_line.tables import table_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.ground.amounts import percent
from jobsight_server.ground.errors import UserError
from jobsight_server.replay.compared import MachineSummary
from jobsight_server.replay.queue import EVENTS_AT_ONCE
from jobsight_server.storage.named_files import check_output, whole_file


def carry_out(simulation: Simulation | CoSimulation, name: str, jobs: int) -> float:
    """Run the simulation of ``jobs`` jobs to its end; return the CPU seconds used, progress excluded."""
    spent, done = 0.0, False
    with Progress(console=Terminal(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=jobs)
        while not done:
            began = time.process_time()
            done = simulation.advance(EVENTS_AT_ONCE)
            spent += time.process_time() - began
            progress.update(task, completed=simulation.ended)
    return spent


def check_outputs(args: argparse.Namespace) -> None:
    """Check now what would otherwise fail after minutes.

    Raises:
        UserError: a requested output cannot be written.
    """
    for flag in ("schedule_out", "jobs_out"):
        file = getattr(args, flag)
        if file is not None:
            check_output(file, f"--{flag.replace('_', '-')}")
    if args.plot is not None and args.plot.exists() and not args.plot.is_dir():
        raise UserError(f"--plot {args.plot} is a file; name a directory")


def of_groups(table: JobTable, spent_s: float, counts: NDArray[np.bool_] | None = None) -> dict[str, Any]:
    """Return the figures by size and by user, and the speed of a simulation that took ``spent_s`` of CPU time.

    ``counts``: as of ``schedule_figures``.
    """
    speed = len(table) / spent_s if spent_s else None
    table = table if counts is None else table.only(counts)
    return {"cpu_s": spent_s, "jobs_per_cpu_s": speed, "by_size": by_size(table), "by_user": by_user(table)}


def draw_to(args: argparse.Namespace, table: JobTable, capacity: int, title: str) -> bool:
    """Draw the schedule to ``--plot``; return whether that was given."""
    if args.plot is None:
        return False
    from jobsight_server.commands.simulate.plot import draw_simulation

    draw_simulation(table, capacity, title, args.plot)
    print(f"jobsight simulate: plots written to {args.plot}", file=sys.stderr)
    return True


def give_out(args: argparse.Namespace, account: Mapping[str, Any], table: JobTable, more: Iterable[str] = ()) -> None:
    """Write ``--schedule-out`` and ``--jobs-out``, and print the account, with ``more`` lines.

    Raises:
        UserError: a file cannot be written.
    """
    for file, columns in ((args.schedule_out, SCHEDULE), (args.jobs_out, None)):
        if file is not None:
            with whole_file(file) as place:
                write_table(table, place, columns)
    print_account(args, account, show)
    for line in () if args.json else more:
        print(line)


SHOWN_USERS = 10


def assumed_sizes(machines: Iterable[MachineSummary]) -> list[str]:
    """Return a sentence for each machine whose size is assumed."""
    return [
        f"State the size of {machine.name} by --processors: its log names no nodes. Assumed are "
        f"{size.processors:,} processors: more were in use for {percent(size.share_above, 1)} of the time, "
        f"{size.most:,} at most."
        for machine in machines
        if (size := machine.assumed_size)
    ]


def show(account: Mapping[str, Any], console: Console) -> None:
    """Show the figures of one simulation, by size and by user."""
    predictor = f" with run times by {account['predictor']}" if account["predictor"] else ""
    console.print(
        Text(f"{account['trace']}: {account['policy']}{predictor} on {account['processors']:,} processors", "bold")
    )
    console.print(
        f"{account['jobs']:,} job{'' if account['jobs'] == 1 else 's'}; "
        f"{account['dropped']:,} dropped, {account['clamped']:,} cut at their estimate, "
        f"{account['reordered']:,} out of order."
    )
    machines = account.get("machines", ())  # of a database
    if len(machines) > 1:
        console.print(f"Its {len(machines)} groups of queues that share no nodes are simulated as one machine.")
    for line in (*assumed_sizes(machines), *(f"{n:,} jobs {why}." for why, n in account.get("assumed", {}).items())):
        console.print(Text(line))
    for counts, what in (("dropped_because", "dropped: "), ("repairs", "")):
        for reason, count in account[counts].items():
            console.print(Text(f"{count:>9,}  {what}{reason} (first: {account['first_places'][reason]})"))
    console.print(
        f"Makespan {account['makespan_s']:,.0f} s, utilisation {percent(account['useful_utilisation'], 1)}, "
        f"longest wait {account['max_wait_s']:,.0f} s."
    )
    console.print(
        f"Mean wait {account['mean_wait_s']:,.0f} s, mean bounded slowdown {account['mean_bounded_slowdown']:,.1f}."
    )
    rate = account["jobs_per_cpu_s"]
    console.print(f"Simulated in {account['cpu_s']:.2f} s of CPU{'' if rate is None else f', {rate:,.0f} jobs/s'}.")
    users = list(account["by_user"].items())
    console.print(_groups("processors", account["by_size"]))
    console.print(_groups("user", dict(users[:SHOWN_USERS])))
    if len(users) > SHOWN_USERS:
        console.print(f"The {SHOWN_USERS} users with most jobs, of {len(users):,}; --json has all.")


def _groups(name: str, groups: Mapping[str, Mapping[str, Any]]) -> Table:
    table = table_of([name], ("jobs", "mean wait, s", "longest, s", "slowdown", "median"))
    for group, of in groups.items():
        waits = (f"{of[measure]:,.0f}" for measure in ("jobs", "mean_wait_s", "max_wait_s"))
        slowdowns = (f"{of[measure]:,.1f}" for measure in ("mean_bounded_slowdown", "median_bounded_slowdown"))
        table.add_row(Text(group), *waits, *slowdowns)
    return table
