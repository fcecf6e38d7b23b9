"""``jobsight simulate DATABASE``: a page of text that says what to do, then has the figures."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from jobsight_scheduler.workload.swf import read_swf
from jobsight_server.command_line.answers import print_account
from jobsight_server.command_line.tables import table_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.command_line.trace_argument import open_trace, part_of
from jobsight_server.commands.simulate.report import assumed_sizes, check_outputs
from jobsight_server.commands.simulate.workload import stated
from jobsight_server.ground.amounts import DAY_S, percent, size_text
from jobsight_server.replay.agreement import ALIKE, APART, LEAST_PERIODS, QueueAgreement
from jobsight_server.replay.compared import (
    BACKFILLED,
    LEAST_WEEKS,
    LIMITS,
    OURS,
    RECORD,
    REPLAY,
    SIMPLEST,
    Comparison,
    RuleFigures,
    simulated,
)
from jobsight_server.replay.counted import DAYS, recent
from jobsight_server.replay.machine_of_trace import trace_machine
from jobsight_server.replay.machines import site_machines

YEAR_S = 365 * DAY_S
UNITS = {"hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}
KINDS = ("run times", "memory", "both")
SOURCES = {OURS: "Jobsight", SIMPLEST: "the user's last two jobs"}
NO_ADVICE = "Do not base decisions on this page:"
HOLDING = "partitions, limits, dependencies, reservations, too little memory, nodes down, fewer processors than below"
NOTE = (
    "Each line but the first replays the jobs. They reserve processors and memory of nodes, as requested or as "
    "forecast at their submission. EASY backfills by requested run times, or EASY++ by forecast ones. 95th: 95 of "
    "100 jobs are below. Change: of the mean wait, from the replay as requested, or backfilled where that has a line. "
    "95 % sure: by resampling weeks. Slowdown: (wait + run) / run, counting runs as 10 s at least. In use: share of "
    "the processors' time. Killed: had too little memory or time, and ran again with more."
)
CRITERION = (
    f"A replay explains a queue if its mean waits by week (by day, below {LEAST_PERIODS} weeks) are {percent(APART)} "
    f"apart from the recorded ones at most, and waits have a rank correlation of {ALIKE:g} at least. Tried are EASY, "
    "first come, first served, and the order of the recorded starts; limits of users; processors out of use."
)
LEAST_GAIN = 0.1
"""Gain from which on it is taken to be one with too few weeks for intervals, if waits are shorter in each of them."""


def run(args: argparse.Namespace) -> int:
    check_outputs(args)
    part = part_of(args)
    with open_trace(args.trace, part) as connection:
        if connection is None:
            machine = trace_machine(read_swf(Path(args.trace)), Path(args.trace).name)
            name, since = machine.name, max(job.end for job in machine.jobs) - DAYS * DAY_S
            machines = stated([replace(machine, jobs=[job for job in machine.jobs if job.end >= since])], args)
        else:
            name, part = f"finished jobs of {part.cluster or 'all clusters'}", recent(connection, part)
            machines, since = stated(site_machines(connection, part), args), part.since or 0.0
    with Progress(console=Terminal(stderr=True), transient=True) as progress:
        task = progress.add_task("replaying")
        found, waits = simulated(
            name, machines, since, lambda done, total: progress.update(task, completed=done, total=total)
        )
    if args.plot is not None:
        from jobsight_server.commands.simulate.plot import draw_waits

        draw_waits(found.rules, waits, *unit_of(found.rules), args.plot)
    print_account(args, found, show)
    return 0


def show(found: Comparison, console: Console) -> None:
    """Show the comparison in one page."""
    put = partial(console.print, highlight=False)
    first, last = _day(found.since), _day(found.until)
    put(Text(f"{found.trace}: {found.jobs:,} jobs submitted from {first} to {last}", "bold"))
    # Of a replay that does not explain the record, only what it is held against.
    explains = found.replay.explains
    rules = found.rules if explains else {name: found.rules[name] for name in (RECORD, REPLAY)}
    unit, scale = unit_of(rules)

    def in_unit(seconds: float) -> str:
        return f"{seconds / scale:,.{2 if unit == 'hours' else 1}f}"

    def in_percent(ratio: float) -> str:
        return f"{100.0 * ratio - 100.0:+z.0f}"

    assumed = assumed_sizes(found.machines)
    if explains:
        agreement = found.replay
        left = "" if agreement.answered == found.jobs else " Jobs of other queues fill the machines, and are left out."
        scope = f"Answered for {agreement.answered:,} of {found.jobs:,} jobs, whose waits the replay explains.{left}"
        lines = [*_conclusions(found), scope, *assumed]
        if found.memory_reserved is not None and found.memory_used is not None:
            shares = percent(found.memory_reserved), percent(found.memory_used)
            lines.append(f"Requests reserve {shares[0]} of the nodes' memory, and jobs use {shares[1]}.")
    else:
        lines = [*assumed, *_reasons(found, lambda wait: f"{in_unit(wait)} {unit}")]
    for place, line in enumerate(lines):
        put(Text(line, "" if place else "bold"))
    if found.weeks < LEAST_WEEKS:
        put(f"The record has fewer than {LEAST_WEEKS} weeks. That is too few for intervals: changes may be chance.")
    put(_queues(found.replay.queues))
    put(CRITERION)
    waits = table_of([f"waiting, {unit}"], ("mean", "95 % sure", "95th", "change, %", "95 % sure"))
    others = table_of(["other figures"], ("slowdown", "95th", "in use", "killed"))
    for name, row in rules.items():
        is_compared = name not in (RECORD, REPLAY)
        mean, sure = _with_ends(row.mean_wait_s, in_unit)
        change = _with_ends(row.wait_of_baseline, in_percent) if is_compared else ("", "")
        waits.add_row(name, mean, sure, in_unit(row.p95_wait_s), *change)
        slowdown = f"{row.mean_bounded_slowdown:,.1f}", f"{row.p95_bounded_slowdown:,.1f}"
        used = "" if row.utilisation is None else percent(row.utilisation)
        others.add_row(name, *slowdown, used, "" if name == RECORD else f"{row.killed:,}")
    put(waits, others)
    put(NOTE)
    machines = table_of(["machine"], ("nodes", "processors", "memory", "jobs"))
    for machine in found.machines:
        nodes, memory = machine.nodes, machine.memory_bytes
        known = f"{nodes:,}" if nodes else "unknown", size_text(memory) if memory else "unknown"
        machines.add_row(Text(machine.name), known[0], f"{machine.processors:,}", known[1], f"{machine.jobs:,}")
    put(machines)
    if any("+" in machine.name for machine in found.machines):
        put("Queues with + share nodes and are replayed as one machine.")
    if f"memory by {OURS}" not in found.rules:
        put("The memory of nodes is unknown, so it limits nothing. State it by processor: --classes 512x32M,512x24M.")
    for reason, count in found.assumed.items():
        put(f"{count:,} jobs {reason}.")


def unit_of(rules: Mapping[str, RuleFigures]) -> tuple[str, float]:
    """Return the largest unit of time of which all mean waits are a third at least, and its seconds."""
    return _unit(wait for row in rules.values() if (wait := row.mean_wait_s[0]))


def _unit(waits: Iterable[float]) -> tuple[str, float]:
    least = min(waits, default=UNITS["hours"])
    return next(((name, seconds) for name, seconds in UNITS.items() if least >= seconds / 3.0), ("seconds", 1.0))


def _day(seconds: float) -> str:
    """Return a date, or the day of a trace without dates."""
    return f"{datetime.fromtimestamp(seconds, UTC).date()}" if seconds > YEAR_S else f"day {seconds // DAY_S + 1:.0f}"


def _with_ends(interval: Sequence[float | None], shown: Callable[[float], str]) -> tuple[str, str]:
    """Return the value and its interval in words, empty where there is none."""
    value, low, high = interval
    ends = "" if low is None or high is None else f"{shown(low)} to {shown(high)}"
    return "" if value is None else shown(value), ends


def _queues(queues: Sequence[QueueAgreement]) -> Table:
    """Return how near the nearest replay of each queue is; waits in a unit of their own."""
    unit, scale = _unit(wait for of in queues for wait in (of.recorded_wait_s, of.replayed_wait_s) if wait)
    table = table_of([f"queue (waits in {unit})"], ("jobs", "recorded", "replayed", "apart", "rank", "explained by"))
    for of in queues:
        waits = (f"{wait / scale:,.1f}" for wait in (of.recorded_wait_s, of.replayed_wait_s))
        by = "nothing" if of.explains is False else "no waits" if of.explains is None else of.way
        apart = "" if of.apart is None else percent(of.apart)
        alike = "" if of.rank_correlation is None else f"{of.rank_correlation:.2f}"
        table.add_row(Text(f"{of.machine.split(' ')[0]} {of.queue}".strip()), f"{of.jobs:,}", *waits, apart, alike, by)
    return table


def _reasons(found: Comparison, shown: Callable[[float], str]) -> Sequence[str]:
    """Return what may be the reason why no replay explains the record."""
    agreement, rules = found.replay, found.rules
    recorded, replayed = (shown(rules[name].mean_wait_s[0]) for name in (RECORD, REPLAY))
    facts = f"mean wait {replayed} in the replay by EASY, {recorded} in the record"
    if agreement.explains is None:
        return [f"{NO_ADVICE} jobs hardly wait in the record and the replay, which shows nothing; {facts}."]
    days = (
        []
        if any(of.apart is not None for of in agreement.queues)
        else [f"It has jobs of fewer than {LEAST_PERIODS} days."]
    )
    overtaken, idle = percent(agreement.overtaken), percent(agreement.room_while_waiting)
    return [
        f"{NO_ADVICE} NO REPLAY EXPLAINS THE RECORD of any queue: {facts}.",
        *days,
        f"Jobs of other users, as large and long, overtook {overtaken} of those that waited: priorities, fair share?",
        f"For {idle} of the waiting time enough processors were free: {HOLDING}?",
        "A replay may explain a part of the time: try --since, --until.",
    ]


def _conclusions(found: Comparison) -> list[str]:
    """Return what to do about backfilling, time limits, run times and memory."""
    rules, weeks = found.rules, found.weeks_begun

    def helps(row: RuleFigures) -> bool:
        ratio, _, high = row.wait_of_baseline
        if found.weeks >= LEAST_WEEKS:
            return high is not None and high < 1.0
        is_clear = LEAST_PERIODS <= weeks == row.weeks_shorter
        return ratio is not None and is_clear and ratio <= 1.0 - LEAST_GAIN

    def words(row: RuleFigures) -> str:
        ratio, low, high = row.wait_of_baseline
        assert ratio is not None
        change = abs(round(100.0 * (ratio - 1.0)))
        less = f"{change} % {'less' if ratio < 1.0 else 'more'}" if change else "as long"
        sure = f"shorter in {row.weeks_shorter} of {weeks} weeks" if change else ""
        if change and low is not None and high is not None:
            sure = "95 % sure" if high < 1.0 or low > 1.0 else "uncertain"
        notes = ", ".join(filter(None, (sure, f"{row.killed:,} killed" if row.killed else "")))
        return less + (f" ({notes})" if notes else "")

    def conclusion(kind: str) -> str:
        rows = {name: rules[f"{kind} by {by}"] for by, name in SOURCES.items()}
        ends = {name: row.wait_of_baseline[0] for name, row in rows.items()}
        better = [name for name, row in rows.items() if helps(row)]
        best = (
            f"go by {min(better, key=lambda name: ends[name] or 0.0)}"
            if better
            else "keep the requests; no gain is certain"
        )
        waits = "; ".join(f"{words(row)} with {name}" for name, row in rows.items())
        return (
            f"{kind.capitalize()}: {best}. Compared with the replay {rows[SOURCES[OURS]].baseline}, jobs wait {waits}."
        )

    if rules[REPLAY].mean_wait_s[0] == 0.0 or any(row.wait_of_baseline[0] is None for row in rules.values()):
        return ["No job waits in the replay, so nothing can shorten a wait there."]
    lines = [conclusion(kind) for kind in KINDS if f"{kind} by {OURS}" in rules]
    lowered, planned = rules[LIMITS], rules[f"{KINDS[0]} by {OURS}"]
    best = "lower them" if helps(lowered) and lowered.mean_wait_s[0] < planned.mean_wait_s[0] else "keep them"
    lines.append(
        f"Time limits: {best}. With limits lowered to the bounds of forecasts, jobs wait {words(lowered)}; with "
        f"limits kept and forecasts used only to plan, {words(planned)}."
    )
    if BACKFILLED in rules:
        row = rules[BACKFILLED]
        turn = "turn it on" if helps(row) else "no gain is certain"
        first = "Jobs on record start first come, first served. With EASY by the users' requests they would wait"
        lines.insert(0, f"Backfilling: {turn}. {first} {words(row)}.")
    return lines
